import { algorithmOf, algorithmTitle } from '../algorithms/registry.ts';
import { wantedForm, whyUnassignable } from '../bucket-id.ts';
import { countsRequests, limitLabel, limitWords, unitOfHits } from '../describe.ts';
import { leaseText, maxLease, wholeLimit } from '../lease.ts';
import { sanitizeMetricKey } from '../match-result.ts';
import { compositeOf, type Limit, type Rule, type RuleSource, rulesOfAllLevels } from '../model.ts';
import { sharingField, sharingOddity } from '../sharing.ts';
import { covers, maxAtOnce } from './limit-order.ts';
import { type PlacedRule, placedRules, type RuleWarning, warningAt } from './rule-level.ts';

/** A limit and where it stands. */
interface PlacedLimit {
  one: PlacedRule;
  limit: Limit;
  /** The path below its rule. */
  path: (string | number)[];
}

/** Finds odd limits and names in all rules of a domain. `beside`: other limits that have names. */
export function limitWarnings(
  domain: string,
  rules: readonly PlacedRule[],
  beside: readonly RuleSource[],
): RuleWarning[] {
  const names = limitNames([
    ...rules.map(({ rule }) => rule),
    ...beside.flatMap(({ descriptors }) => [...rulesOfAllLevels(descriptors)].map(([rule]) => rule)),
  ]);
  const limits = rules.flatMap(placedLimits);
  const replaced = replacedNames(limits);
  const warnings: RuleWarning[] = [];
  for (const placed of limits) {
    const { one, limit, path } = placed;
    const odd = limitOfNone(one.rule, limit) ?? neverTighter(one.rule, limit);
    if (odd !== undefined) warnings.push(warningAt(one, [...path, ...odd.below], odd));
    for (const [index, name] of limit.replaces.entries()) {
      const isMutual = !limit.unlimited && replaced.get(name)?.has(limit.name) === true;
      const found = replacingTrouble({ name, domain, isCounted: names.get(name), isMutual });
      if (found !== undefined) warnings.push(warningAt(one, replacedPath(placed, index), found));
    }
  }
  return [
    ...[...warnings, ...ringWarnings(limits, replaced), ...neverLeased(rules)],
    ...[...neverAssigned(rules), ...largeEstimates(rules)],
    ...[...mixedUnitsOfRule(limits), ...mixedUnitsOfDomain(limits)],
    ...[...dottedWarnings(domain, rules), ...sharedMetrics(rules), ...innerSharedWildcards(rules)],
  ];
}

function placedLimits(one: PlacedRule): PlacedLimit[] {
  const { limits } = one.rule;
  return limits.map((limit, index) => {
    return { one, limit, path: limits.length === 1 ? ['rate_limit'] : ['rate_limits', index] };
  });
}

type OddLimit = Pick<RuleWarning, 'code' | 'text' | 'hint'> & { below: string[] };

function limitOfNone({ shadowMode }: Rule, limit: Limit): OddLimit | undefined {
  if (limit.unlimited || maxAtOnce(limit) > 0) return undefined;
  const effect = shadowMode ? 'reports every request as over limit' : 'makes every request over limit';
  if (limit.requestsPerUnit === 0 && !limit.burst) {
    const hint = 'without requests_per_unit a limit is 0: write it, even to block all requests';
    return { code: 'limit-of-zero', text: `a limit of 0 ${effect}`, hint, below: ['requests_per_unit'] };
  }
  const [words, hint] =
    limit.burst === 0
      ? [
          '0',
          'burst is the number of requests that may pass at once: remove it for as many as requests_per_unit',
        ]
      : [
          `${limit.burst} at 0 requests_per_unit`,
          'nothing fills it: write requests_per_unit, or remove burst',
        ];
  return { code: 'burst-of-zero', text: `a burst of ${words} ${effect}`, hint, below: ['burst'] };
}

/**
 * Returns a limit that is never tighter than another. Of two limits that cover each other, it reports the later one. It reports a
 * limit that allows nothing only by itself.
 */
function neverTighter({ limits }: Rule, limit: Limit): OddLimit | undefined {
  const place = limits.indexOf(limit);
  const tighter = limits.find((other, index) => {
    if (other === limit || maxAtOnce(other) === 0 || !covers(other, limit)) return false;
    return index < place || !covers(limit, other);
  });
  if (tighter === undefined) return undefined;
  const text = `'${limitWords(limit)}' never limits anything: what '${limitWords(tighter)}' beside it allows is always within it`;
  return { code: 'never-tighter', text, hint: 'remove it, or make it stricter', below: [] };
}

function neverLeased(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap((one) => {
    const { lease = 0, limits, reserve } = one.rule;
    const [limit] = limits;
    if (lease > 0 && reserve !== undefined) {
      const text = `a lease of ${leaseText(lease)} beside reserve: limits with reservations are not leased`;
      return [warningAt(one, ['lease'], { code: 'never-leased', text, hint: 'remove it, or write 0' })];
    }
    if (lease === 0 || limit === undefined || maxLease(lease, limit.requestsPerUnit) > 0) return [];
    const text = `a lease of ${leaseText(lease)} of '${limitWords(limit)}' is less than 2 hits, so it is not leased`;
    const min = Math.ceil((2 * wholeLimit) / limit.requestsPerUnit);
    const hint =
      min <= wholeLimit ? `write ${leaseText(min)} or more, or remove it` : 'remove it, or write 0';
    return [warningAt(one, ['lease'], { code: 'never-leased', text, hint })];
  });
}

function neverAssigned(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap((one) => {
    const form = wantedForm(one.rule);
    if (form === undefined) return [];
    const bucket = one.rule.limits.find((limit) => algorithmOf(limit).hasBurst);
    const why =
      whyUnassignable(one.rule)?.why ??
      (form === 'exact' && bucket !== undefined ? `a ${algorithmTitle(bucket)} always refills` : undefined);
    if (why === undefined) return [];
    const text = `assign: ${form} has no effect: ${why}`;
    return [warningAt(one, ['assign'], { code: 'never-assigned', text, hint: 'remove assign' })];
  });
}

function largeEstimates(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap((one) => {
    const { limits, reserve, shadowMode, quotaMode } = one.rule;
    const estimate = reserve?.estimate ?? 0;
    const tight = shadowMode || quotaMode ? undefined : limits.find((limit) => estimate > maxAtOnce(limit));
    if (tight === undefined || maxAtOnce(tight) === 0) return [];
    const text = `an estimate of ${estimate} never fits '${limitWords(tight)}': a request without an amount is always rejected`;
    const hint = 'write an estimate that fits, or a larger limit';
    return [warningAt(one, ['reserve', 'estimate'], { code: 'large-estimate', text, hint })];
  });
}

/** Warns about different units in one rule, because its limits count the same hits. */
function mixedUnitsOfRule(limits: readonly PlacedLimit[]): RuleWarning[] {
  const first = new Map<Rule, Limit>();
  const reported = new Set<Rule>();
  return limits.flatMap(({ one, limit, path }) => {
    const other = first.get(one.rule) ?? limit;
    first.set(one.rule, other);
    const [unit, otherUnit] = [unitOfHits(limit), unitOfHits(other)];
    if (unit === otherUnit || reported.has(one.rule)) return [];
    reported.add(one.rule);
    const text = `counts ${unit} beside a limit that counts ${otherUnit}: a request charges the same number to both`;
    const hint = 'write a separate rule for each, and send a descriptor for each';
    return [warningAt(one, path, { code: 'mixed-hits-units', text, hint })];
  });
}

/**
 * Warns about rules of a domain with different units whose amounts one request can charge. Limits of requests beside them are
 * normal. It reports one rule.
 */
function mixedUnitsOfDomain(limits: readonly PlacedLimit[]): RuleWarning[] {
  const amounts = limits.filter(({ limit }) => !limit.unlimited && !countsRequests(limit));
  const [first] = amounts;
  const other = amounts.find(
    ({ one, limit }) => one.rule !== first!.one.rule && unitOfHits(limit) !== unitOfHits(first!.limit),
  );
  if (first === undefined || other === undefined) return [];
  const { source, path } = first.one;
  const text = `counts ${unitOfHits(other.limit)}, and '${compositeOf(first.one.rule)}' counts ${unitOfHits(first.limit)}: a request with descriptors for both adds the same number to both`;
  const hint =
    'give each descriptor its own amount, as hits_addend in Envoy, or as amount in /v1/reserve and /v1/commit';
  const where = { source, path: [...path, ...first.path] };
  return [
    warningAt(other.one, [...other.path], {
      code: 'mixed-hits-units',
      text,
      hint,
      other: where,
    }),
  ];
}

/** Returns, by name, whether a limit of that name is counted. An unlimited one cannot be replaced. */
function limitNames(rules: readonly Rule[]): Map<string, boolean> {
  const names = new Map<string, boolean>();
  for (const limit of rules.flatMap(({ limits }) => limits)) {
    if (limit.name === '') continue;
    names.set(limit.name, names.get(limit.name) === true || !limit.unlimited);
  }
  return names;
}

/** The names that the counted limits of a name replace. */
function replacedNames(limits: readonly PlacedLimit[]): Map<string, Set<string>> {
  const replaced = new Map<string, Set<string>>();
  for (const { limit } of limits) {
    if (limit.unlimited || limit.name === '') continue;
    const names = replaced.get(limit.name) ?? new Set();
    for (const name of limit.replaces) names.add(name);
    replaced.set(limit.name, names);
  }
  return replaced;
}

/**
 * Returns one warning for each group of names that replace each other through others, at the first rule of the group. Two names
 * that replace each other directly are reported elsewhere.
 */
function ringWarnings(
  limits: readonly PlacedLimit[],
  replaced: ReadonlyMap<string, ReadonlySet<string>>,
): RuleWarning[] {
  const knots = knotsOf(replaced);
  const reported = new Set<number>();
  return limits.flatMap((placed) => {
    const { one, limit } = placed;
    const knot = limit.unlimited ? undefined : knots.get(limit.name);
    if (knot === undefined || reported.has(knot)) return [];
    const index = limit.replaces.findIndex(
      (name) => knots.get(name) === knot && name !== limit.name && !replaced.get(name)?.has(limit.name),
    );
    if (index === -1) return [];
    reported.add(knot);
    const name = limit.replaces[index]!;
    const others = wayFrom(name, limit.name, replaced).map((other) => `'${other}'`);
    const way = others.length <= 5 ? others : [...others.slice(0, 4), `${others.length - 4} more`];
    const text = `replaces '${name}', which replaces it through ${way.join(', ')}: none of them limits a request that matches all`;
    const hint = 'remove one of them';
    return [warningAt(one, replacedPath(placed, index), { code: 'replaces-each-other', text, hint })];
  });
}

/** Returns the number of the group by name. Each of two names in one group leads to the other. Tarjan's algorithm, without recursion. */
function knotsOf(next: ReadonlyMap<string, ReadonlySet<string>>): Map<string, number> {
  const order = new Map<string, number>();
  const lowest = new Map<string, number>();
  const knots = new Map<string, number>();
  const open: string[] = [];
  for (const start of next.keys()) {
    if (order.has(start)) continue;
    const walk: { name: string; rest: Iterator<string> }[] = [];
    const enter = (name: string): void => {
      order.set(name, order.size);
      lowest.set(name, order.get(name)!);
      open.push(name);
      walk.push({ name, rest: (next.get(name) ?? new Set<string>()).values() });
    };
    enter(start);
    for (let top = walk.at(-1); top !== undefined; top = walk.at(-1)) {
      const { name, rest } = top;
      const { value: other, done } = rest.next();
      if (done !== true) {
        if (!order.has(other)) enter(other);
        else if (!knots.has(other)) lowest.set(name, Math.min(lowest.get(name)!, order.get(other)!));
        continue;
      }
      walk.pop();
      const above = walk.at(-1)?.name;
      if (above !== undefined) lowest.set(above, Math.min(lowest.get(above)!, lowest.get(name)!));
      if (lowest.get(name) !== order.get(name)) continue;
      for (const member of open.splice(open.lastIndexOf(name))) knots.set(member, order.get(name)!);
    }
  }
  return knots;
}

/** The shortest path without its two ends. There must be a path. */
function wayFrom(start: string, end: string, next: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const before = new Map<string, string>();
  const reached = [start];
  for (const name of reached) {
    for (const other of next.get(name) ?? []) {
      if (other === start || before.has(other)) continue;
      before.set(other, name);
      reached.push(other);
    }
    if (before.has(end)) break;
  }
  const way: string[] = [];
  for (let name = before.get(end)!; name !== start; name = before.get(name)!) way.push(name);
  return way.reverse();
}

function replacedPath({ path }: PlacedLimit, index: number): (string | number)[] {
  return [...path, 'replaces', index, 'name'];
}

/** `isCounted`: whether the limit of that name is counted. Undefined if there is none. */
function replacingTrouble({
  name,
  domain,
  isCounted,
  isMutual,
}: {
  name: string;
  domain: string;
  isCounted: boolean | undefined;
  isMutual: boolean;
}): Pick<RuleWarning, 'code' | 'text' | 'hint'> | undefined {
  if (isCounted === undefined) {
    return {
      code: 'replaces-nothing',
      text: `replaces '${name}', and no limit in the domain '${domain}' has that name`,
      hint: 'names of limits are unique within their domain, and case-sensitive',
    };
  }
  if (!isCounted) {
    return {
      code: 'replaces-unlimited',
      text: `replaces '${name}', which is unlimited, so there is no limit to replace`,
      hint: 'an unlimited rule never limits requests',
    };
  }
  if (!isMutual) return undefined;
  return {
    code: 'replaces-each-other',
    text: `replaces '${name}', which replaces it: neither limits a request that matches both`,
    hint: 'remove one of the two',
  };
}

function dottedWarnings(domain: string, rules: readonly PlacedRule[]): RuleWarning[] {
  const warnings: RuleWarning[] = [];
  const look = (one: PlacedRule, text: string, path: (string | number)[]): void => {
    const dots = sanitizeMetricKey(text).split('.').length - 1;
    if (dots === 0) return;
    const words = `'${text}' has dots: its statistics in '${domain}' get ${dots} more level${dots === 1 ? '' : 's'} of names`;
    const hint =
      'mappings that count levels miss them; SANITIZE_DESCRIPTOR_METRIC_DOTS=true writes _ instead';
    warnings.push(warningAt(one, path, { code: 'dotted-metric', text: words, hint }));
  };
  for (const one of rules) {
    const { rule } = one;
    if (!isCounted(rule)) continue;
    look(one, rule.key, ['key']);
    look(one, rule.value, ['value']);
    // Names are part of statistics only if a rule has several limits.
    if (rule.limits.length < 2) continue;
    for (const [index, { name }] of rule.limits.entries()) look(one, name, ['rate_limits', index, 'name']);
  }
  return warnings;
}

/**
 * Warns about rules below a rule with several limits whose name in statistics, `<its key>.<name>`, equals that of one of these
 * limits.
 */
function sharedMetrics(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap(({ rule: { limits, descriptors }, source, path }) => {
    if (limits.length < 2) return [];
    const labels = new Set(limits.map((limit) => sanitizeMetricKey(limitLabel(limits, limit))));
    const shared = placedRules(descriptors, source, path).filter(
      ({ rule }) => rule.limits.length === 1 && labels.has(sanitizeMetricKey(compositeOf(rule))),
    );
    return shared.map((one) => {
      const text = `'${compositeOf(one.rule)}' has the statistics of the limit of that name in the rule above it`;
      const hint = 'both count in one metric: give the limit another name';
      return warningAt(one, ['key'], {
        code: 'shared-metric',
        text,
        hint,
        other: { source, path: [...path, 'key'] },
      });
    });
  });
}

function innerSharedWildcards(rules: readonly PlacedRule[]): RuleWarning[] {
  return rules.flatMap((one) => {
    const { key, value } = one.rule;
    const odd = sharingOddity(one.rule, value === '' ? key : value);
    return odd === undefined
      ? []
      : [warningAt(one, [sharingField], { code: 'inner-shared-wildcard', ...odd })];
  });
}

function isCounted(rule: PlacedRule['rule']): boolean {
  if (rule.limits.length > 0 && !rule.limits[0]!.unlimited) return true;
  return rule.descriptors.some(isCounted);
}
