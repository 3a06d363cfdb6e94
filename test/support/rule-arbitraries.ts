import fc from 'fast-check';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { type RuleFlag, ruleFlags } from '../../rules/language/tables.ts';
import { leaseProblem } from '../../rules/lease.ts';
import {
  compositeOf,
  type Entry,
  hitsUnits,
  type JsonObject,
  type JsonValue,
  type Limit,
  maxRequests,
  type ReserveTerms,
  type Rule,
  Unit,
  unitFromText,
} from '../../rules/model.ts';
import { reserveProblem } from '../../rules/reserve.ts';
import { limit, rule } from './rule-builder.ts';

/** Few letters, so that rules and requests often meet. */
const shortText = fc
  .array(fc.constantFrom('a', 'b', '_', '*', '*'), { minLength: 1, maxLength: 4 })
  .map((list) => list.join(''));

export const shortKey = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom('a', 'k', 'a_b') },
  { weight: 1, arbitrary: shortText },
);

const counted = fc
  .record({
    unit: fc.constantFrom('second', 'minute', 'hour', 'day', 'week', 'month', 'year'),
    requestsPerUnit: fc.constantFrom(0, 1, 5, 100, 2 ** 32 - 1),
    name: fc.constantFrom('', '', 'n', 'm'),
    replaces: fc.subarray(['x', 'y']),
  })
  .map(limit);

/** What the Go service does not know, too. */
const ownLimit: fc.Arbitrary<Limit> = fc
  .tuple(
    counted,
    fc.constantFrom(1, 2, 5, 10),
    fc.constantFrom<Algorithm>(...Object.values(Algorithm)),
    fc.constantFrom(undefined, 0, 1, 7),
  )
  .map(([one, unitMultiplier, algorithm, burst]) => {
    if (algorithm !== Algorithm.TOKEN_BUCKET) return { ...one, unitMultiplier, algorithm };
    const requestsPerUnit = Math.min(one.requestsPerUnit, 100);
    return {
      ...one,
      unitMultiplier,
      algorithm,
      requestsPerUnit,
      burst: burst === requestsPerUnit ? undefined : burst,
    };
  });

/** What only budgets have. */
const budget: fc.Arbitrary<Limit> = fc
  .record({
    one: counted,
    requestsPerUnit: fc.constantFrom(0, 100, 2 ** 32, maxRequests),
    hitsUnit: fc.constantFrom(...hitsUnits),
    warnAt: fc.subarray([1, 50, 80, 100]),
    calendar: fc.option(
      fc.oneof(
        fc.record({
          unit: fc.constant('month' as const),
          timezone: fc.constantFrom('UTC', 'Europe/Zurich', 'Asia/Kathmandu'),
          startsOn: fc.constantFrom(1, 15, 31),
        }),
        fc.record({
          unit: fc.constant('week' as const),
          timezone: fc.constant('America/New_York'),
          startsOn: fc.integer({ min: 1, max: 7 }),
        }),
        fc.record({
          unit: fc.constantFrom('day' as const, 'year' as const),
          timezone: fc.constant('UTC'),
          startsOn: fc.constant(1),
        }),
      ),
      { nil: undefined },
    ),
  })
  .map(({ one, calendar, ...own }) => ({
    ...{ ...one, ...own, calendar },
    unit: calendar === undefined ? one.unit : unitFromText(calendar.unit)!,
  }));

const reserve: fc.Arbitrary<ReserveTerms> = fc.record({
  ttlSeconds: fc.constantFrom(1, 60, 70_001, 86_400),
  estimate: fc.constantFrom(undefined, 0, 2000, maxRequests),
  onExpiry: fc.constantFrom('release', 'charge'),
});

const several = fc.array(ownLimit, { minLength: 2, maxLength: 8 }).map((limits) =>
  limits.map((one, n) => ({
    ...one,
    unit: Unit.SECOND,
    unitMultiplier: 7 + n,
    name: n === 0 ? '' : `n${n}`,
  })),
);

/** None, one, or several that may stand beside each other. */
const limits: fc.Arbitrary<Limit[]> = fc.oneof(
  { weight: 2, arbitrary: fc.constant<Limit[]>([]) },
  { weight: 4, arbitrary: counted.map((one): Limit[] => [one]) },
  {
    weight: 1,
    arbitrary: fc.constant<Limit[]>([limit({ unit: '', requestsPerUnit: 0, unlimited: true })]),
  },
  { weight: 1, arbitrary: ownLimit.map((one): Limit[] => [one]) },
  { weight: 1, arbitrary: budget.map((one): Limit[] => [one]) },
  { weight: 1, arbitrary: several },
);

/** Texts that YAML may take for something else. */
const anyText = fc.oneof(
  fc.constantFrom(
    'y',
    'No',
    'true',
    'null',
    '~',
    '010',
    '1e3',
    '0x1f',
    '.inf',
    '<<',
    '-',
    '- a',
    '?',
    'a: b',
    ' x',
  ),
  fc.constantFrom(
    '#',
    'a #b',
    '&a',
    '*a',
    '!a',
    '%',
    '@',
    '`',
    '|',
    '>',
    '[',
    '{a',
    ',',
    "it's",
    '"',
    '\\',
    'a\nb',
  ),
  fc.constantFrom(
    '\t',
    '\u2028',
    '\u0085',
    '\ufeff',
    '\u007f',
    'é',
    '😀',
    '__proto__',
    'constructor',
    '2001-01-01',
  ),
  fc.string({ unit: 'grapheme', maxLength: 8 }),
);

const { metadata } = fc.letrec<{ value: JsonValue; metadata: JsonObject }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.oneof(anyText, fc.boolean(), fc.constant(null), fc.constantFrom(0, -1, 2.5, 1e21, 4294967296)),
    fc.array(tie('value'), { maxLength: 3 }),
    tie('metadata'),
  ),
  metadata: fc
    .array(fc.tuple(anyText, tie('value')), { minLength: 1, maxLength: 3 })
    .map((entries) => Object.fromEntries(entries)),
}));

/** Of each boolean of a rule. */
export const anyFlags = Object.fromEntries(ruleFlags.map((flag) => [flag, fc.boolean()])) as Record<
  RuleFlag,
  fc.Arbitrary<boolean>
>;

function level(key: fc.Arbitrary<string>, value: fc.Arbitrary<string>, depth: number): fc.Arbitrary<Rule[]> {
  const one = fc.record({
    key,
    value,
    limits,
    ...anyFlags,
    lease: fc.constantFrom(undefined, undefined, 0, 1, 5_000, 1_000_000),
    reserve: fc.option(reserve, { nil: undefined, freq: 5 }),
    assign: fc.constantFrom(undefined, undefined, 'refilling'),
    metadata: fc.option(metadata, { nil: undefined, freq: 1 }),
    descriptors:
      depth === 1 ? fc.constant<Rule[]>([]) : fc.oneof(fc.constant<Rule[]>([]), level(key, value, depth - 1)),
  });
  return fc.uniqueArray(one.map(valid), { minLength: 1, maxLength: 6, selector: compositeOf });
}

/** As the validator wants it. */
function valid(traits: Rule): Rule {
  const shareThreshold = traits.shareThreshold && compositeOf(traits).includes('*');
  const lease = leaseProblem(traits) === undefined ? traits.lease : undefined;
  const reserved = reserveProblem(traits) === undefined ? traits.reserve : undefined;
  return rule({ ...traits, shareThreshold, lease, reserve: reserved });
}

/** Rules that often meet `entriesFor` them; up to three levels. */
export const overlappingRules: fc.Arbitrary<Rule[]> = level(
  shortKey,
  fc.oneof({ weight: 1, arbitrary: fc.constant('') }, { weight: 2, arbitrary: shortText }),
  3,
);

/** Rules with any text in them. */
export const anyRules: fc.Arbitrary<Rule[]> = level(
  anyText.filter((text) => text !== ''),
  fc.oneof(fc.constant(''), anyText),
  3,
);

/** Entries down the rules, stars filled in, with a mistake here and there. */
export function entriesFor(rules: readonly Rule[]): fc.Arbitrary<Entry[]> {
  const fill = fc.array(fc.constantFrom('a', 'b', '_'), { maxLength: 2 }).map((list) => list.join(''));
  const choice = fc.record({
    pick: fc.nat(20),
    fill,
    other: fc.option(shortKey, { nil: undefined, freq: 5 }),
  });
  return fc.array(choice, { minLength: 1, maxLength: 4 }).map((choices) => {
    const entries: Entry[] = [];
    let current = rules;
    for (const { pick, fill: filling, other } of choices) {
      const chosen = current[pick % Math.max(1, current.length)];
      if (other !== undefined || chosen === undefined) entries.push({ key: other ?? 'a', value: filling });
      else entries.push({ key: chosen.key, value: (chosen.value || '*').replaceAll('*', filling) });
      current = chosen?.descriptors ?? [];
    }
    return entries;
  });
}
