import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { burstOf, compositeOf, type Entry, type Limit, type Rule } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { compareSources } from './compare-domain.ts';
import type { Effect } from './limit-effect.ts';

// No value begins with the end of a longer key: an entry says which key it means.
const keys = ['a', 'a', 'c', 'a*', '*', '*a', 'a_k'];
const values = ['', '', 'x', 'x*', '*', '*x', 'x*x', 'b_x', '_', 'y', '*_*', 'b*', 'yx', '*b*'];

const max = fc.integer({ min: 1, max: 4 });
const plainLimit = max.map((requestsPerUnit) => limit({ requestsPerUnit }));
const otherLimit = fc
  .record({
    requestsPerUnit: max,
    burst: max,
    isBucket: fc.boolean(),
    unitMultiplier: fc.constantFrom(1, 5),
  })
  .map(({ requestsPerUnit, burst, isBucket, unitMultiplier }) =>
    isBucket
      ? limit({ requestsPerUnit, unitMultiplier, algorithm: Algorithm.TOKEN_BUCKET, burst })
      : limit({ requestsPerUnit, unitMultiplier, algorithm: Algorithm.SLIDING_WINDOW }),
  );

const limits = fc.oneof<fc.MaybeWeightedArbitrary<Limit[]>[]>(
  { weight: 2, arbitrary: fc.constant([]) },
  { weight: 3, arbitrary: plainLimit.map((one) => [one]) },
  { weight: 1, arbitrary: otherLimit.map((one) => [one]) },
  { weight: 1, arbitrary: fc.tuple(plainLimit, otherLimit) },
  { weight: 1, arbitrary: fc.constant([limit({ unit: '', requestsPerUnit: 0, unlimited: true })]) },
);

function level(depth: number): fc.Arbitrary<Rule[]> {
  const none = fc.constant<Rule[]>([]);
  const one = fc.record({
    key: fc.constantFrom(...keys),
    value: fc.constantFrom(...values),
    limits,
    shadowMode: fc.integer({ min: 0, max: 4 }).map((number) => number === 0),
    shareThreshold: fc.boolean(),
    descriptors: depth === 1 ? none : fc.oneof(none, level(depth - 1)),
  });
  const valid = one.map((traits) =>
    rule({ ...traits, shareThreshold: traits.shareThreshold && compositeOf(traits).includes('*') }),
  );
  return fc.uniqueArray(valid, { minLength: 1, maxLength: 5, selector: compositeOf });
}

type Edit = { kind: number; places: number[]; rules: Rule[] };

const edit: fc.Arbitrary<Edit> = fc.record({
  kind: fc.nat(6),
  places: fc.array(fc.nat(4), { minLength: 1, maxLength: 3 }),
  rules: level(2),
});

/** One small change somewhere, as people make them. */
function edited(rules: readonly Rule[], { kind, places, rules: given }: Edit): Rule[] {
  const [place = 0, ...deeper] = places;
  const at = place % Math.max(1, rules.length);
  const one = rules[at];
  if (deeper.length > 0 && one !== undefined) {
    const below = edited(one.descriptors, { kind, places: deeper, rules: given });
    return rules.with(at, { ...one, descriptors: below });
  }
  const isNew = (added: Rule) => rules.every((other) => compositeOf(other) !== compositeOf(added));
  if (kind <= 1 || one === undefined) return rules.toSpliced(at, 0, ...given.filter(isNew));
  if (kind === 2) return rules.toSpliced(at, 1);
  if (kind === 3) return rules.with(at, { ...one, limits: given[0]?.limits ?? [] });
  if (kind === 4) return rules.toReversed();
  if (kind === 5) return rules.with(at, { ...one, descriptors: one.descriptors.length > 0 ? [] : given });
  const shareThreshold = compositeOf(one).includes('*') && !one.shareThreshold;
  return rules.with(at, { ...one, shareThreshold });
}

const requests = fc.array(
  fc.array(
    fc.record({
      key: fc.constantFrom('a', 'a', 'c', 'aa', 'ax', 'q', 'a_k'),
      value: fc.constantFrom('', 'x', 'xx', 'xyx', 'b', 'b_x', '_', 'y', 'q', 'yx', '_x', 'b_', 'x_x', 'yb'),
    }),
    { minLength: 1, maxLength: 3 },
  ),
  { minLength: 30, maxLength: 30 },
);

/** How strict a request is held; and by which counter, as far as two requests may share it. */
function held(table: RuleTable, entries: Entry[]): { max: number; isShared: boolean } {
  const match = table.match('d', entries);
  const isRefused = match !== undefined && !match.rule.unlimited && !match.rule.shadowMode;
  const atOnce = match?.rule.limits.map(burstOf) ?? [];
  const max = isRefused ? Math.min(...atOnce) : Number.POSITIVE_INFINITY;
  return { max, isShared: isRefused && match.counterStem.includes('*') };
}

const tightening = new Set<Effect>(['new', 'stricter', 'mixed']);
const loosening = new Set<Effect>(['gone', 'looser', 'mixed']);

describe('the effects of a comparison', () => {
  it('report every request that is held more strictly, or less', () => {
    let [stricter, looser, gone, shared] = [0, 0, 0, 0];
    const cases = fc.record({
      before: level(3),
      edits: fc.array(edit, { minLength: 1, maxLength: 2 }),
      requests,
    });
    fc.assert(
      fc.property(cases, ({ before, edits, requests: asked }) => {
        const after = edits.reduce(edited, before);
        const [was, is] = [before, after].map((rules) => new RuleTable(compileRules([source('d', rules)])));
        const effects = compareSources([source('d', before)], [source('d', after)], 'f').flatMap(
          (one) => one.effects,
        );
        const isReported = (wanted: ReadonlySet<Effect>) => effects.some((effect) => wanted.has(effect));
        for (const entries of asked) {
          const [old, now] = [held(was!, entries), held(is!, entries)];
          if (now.max < old.max) {
            stricter++;
            expect(isReported(tightening)).toBe(true);
          }
          if (now.max > old.max) {
            looser++;
            expect(isReported(loosening)).toBe(true);
            if (is!.match('d', entries) === undefined) {
              gone++;
              expect(effects).toContain('gone');
            }
          }
          if (now.max !== old.max || now.isShared === old.isShared) continue;
          shared++;
          expect(isReported(now.isShared ? tightening : loosening)).toBe(true);
        }
      }),
      { numRuns: caseCount(1_500) },
    );
    expect(Math.min(stricter, looser, gone, shared)).toBeGreaterThan(2);
  });
});
