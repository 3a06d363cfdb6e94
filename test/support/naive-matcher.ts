/**
 * The matching rules written down sentence by sentence, without an index: an object tree, scanned from the front.
 * Tests hold `RuleTable` equal to it.
 */
import { expect } from 'vitest';
import { countedEntry, EntryMark, unambiguousStem } from '../../rules/counter-keys.ts';
import type { MatchedRule, RuleMatch, RuleMatcher } from '../../rules/match-result.ts';
import { arePlainLimits, type Entry, type Limit, type Rule, type RuleSource } from '../../rules/model.ts';

/** "A rule with key and value is tried before a rule with the same key and no value." */
interface Step {
  rule: Rule;
  how: 'exact' | 'wildcard' | 'key';
}

export class NaiveMatcher implements RuleMatcher {
  readonly #sources: readonly RuleSource[];

  constructor(sources: readonly RuleSource[]) {
    this.#sources = sources;
  }

  get domainCount(): number {
    return new Set(this.#sources.map(({ domain }) => domain)).size;
  }

  hasDomain(domain: string): boolean {
    return this.#sources.some((source) => source.domain === domain);
  }

  hasLevel(domain: string, level: number): boolean {
    const depth = (rules: readonly Rule[]): number =>
      Math.max(0, ...rules.map(({ descriptors }) => 1 + depth(descriptors)));
    return level <= depth(this.#sources.flatMap((one) => (one.domain === domain ? one.descriptors : [])));
  }

  match(domain: string, entries: readonly Entry[]): RuleMatch | undefined {
    const steps = this.#steps(domain, entries);
    const limits = steps?.at(-1)?.rule.limits ?? [];
    if (steps === undefined || limits.length === 0) return undefined;
    return {
      rule: {
        ...matchedRule(steps.at(-1)!.rule),
        domain,
        path: [domain, ...steps.map(({ rule }) => composite(rule))].join('.'),
        // Of which only the order counts.
        order: expect.any(Number) as number,
      },
      metricKey: [domain, ...metricSegments(entries, steps)].join('.'),
      metricPerValue: entries.some((entry, i) => isPerValue(entry, steps, i)),
      counterStem: arePlainLimits(limits)
        ? `${domain}_${entries.map((entry, i) => `${entry.key}_${counterValue(entry, steps[i]!)}_`).join('')}`
        : this.unambiguousStem(domain, entries),
    };
  }

  /** All values that share a threshold, be it the pattern itself, count as the pattern. */
  unambiguousStem(domain: string, entries: readonly Entry[]): string {
    const steps = this.#steps(domain, entries) ?? [];
    const counted = entries.map(({ key, value }, i) => {
      const { rule, how } = steps[i]!;
      if (how === 'key' || !rule.shareThreshold) return countedEntry(key, EntryMark.value, value);
      const whole = composite(rule);
      return whole.startsWith(`${key}_`)
        ? countedEntry(key, EntryMark.pattern, whole.slice(key.length + 1))
        : countedEntry(key, EntryMark.wholePattern, whole);
    });
    return unambiguousStem(domain, counted.join(''));
  }

  #steps(domain: string, entries: readonly Entry[]): Step[] | undefined {
    let level: readonly Rule[] = this.#sources
      .filter((source) => source.domain === domain)
      .flatMap((source) => source.descriptors);
    const steps: Step[] = [];
    for (const entry of entries) {
      const step = firstHit(level, entry);
      if (step === undefined) return undefined;
      steps.push(step);
      level = step.rule.descriptors;
    }
    return steps;
  }
}

function firstHit(level: readonly Rule[], { key, value }: Entry): Step | undefined {
  const text = `${key}_${value}`;
  const exact = level.find((rule) => composite(rule) === text);
  if (exact !== undefined) return { rule: exact, how: 'exact' };
  const wildcard = level.find(
    (rule) => composite(rule).includes('*') && matchesPattern(composite(rule), text),
  );
  if (wildcard !== undefined) return { rule: wildcard, how: 'wildcard' };
  const keyOnly = level.find((rule) => composite(rule) === key);
  return keyOnly === undefined ? undefined : { rule: keyOnly, how: 'key' };
}

export function composite(rule: { key: string; value: string }): string {
  return rule.value === '' ? rule.key : `${rule.key}_${rule.value}`;
}

/** Each `*` matches zero or more characters: any split of the text will do. */
function matchesPattern(pattern: string, text: string): boolean {
  if (pattern === '') return text === '';
  if (pattern[0] !== '*') return pattern[0] === text[0] && matchesPattern(pattern.slice(1), text.slice(1));
  for (let skipped = 0; skipped <= text.length; skipped++) {
    if (matchesPattern(pattern.slice(1), text.slice(skipped))) return true;
  }
  return false;
}

function metricSegments(entries: readonly Entry[], steps: readonly Step[]): string[] {
  const detailed = steps.at(-1)!.rule.detailedMetric;
  const sharesAny = steps.some(isShared);
  return entries.map((entry, i) => {
    const step = steps[i]!;
    if (detailed && !sharesAny) return `${entry.key}_${entry.value}`;
    if (detailed) return joined(entry.key, isShared(step) ? beforeStar(entry, step) : entry.value);
    if (step.how === 'exact') return joined(entry.key, entry.value);
    if (step.how === 'key') return joined(entry.key, step.rule.valueToMetric ? entry.value : '');
    if (!step.rule.valueToMetric) return `${entry.key}_${pattern(entry, step)}`;
    return joined(entry.key, isShared(step) ? beforeStar(entry, step) : entry.value);
  });
}

/** Whether anything that the rule does not say itself is in the metric key's segment. */
function isPerValue(entry: Entry, steps: readonly Step[], i: number): boolean {
  const step = steps[i]!;
  if (step.how === 'exact') return false;
  const hasValue = steps.at(-1)!.rule.detailedMetric || step.rule.valueToMetric;
  const hasRulesKey = step.how === 'key' || composite(step.rule).startsWith(`${entry.key}_`);
  return !hasRulesKey || (hasValue && !isShared(step));
}

function counterValue(entry: Entry, step: Step): string {
  return isShared(step) ? pattern(entry, step) : entry.value;
}

function isShared(step: Step): boolean {
  return step.how === 'wildcard' && step.rule.shareThreshold;
}

function pattern({ key }: Entry, { rule }: Step): string {
  const whole = composite(rule);
  return whole.startsWith(`${key}_`) ? whole.slice(key.length + 1) : whole;
}

function beforeStar(entry: Entry, step: Step): string {
  return pattern(entry, step).split('*')[0]!;
}

function joined(key: string, value: string): string {
  return value === '' ? key : `${key}_${value}`;
}

function matchedRule(rule: Rule): Omit<MatchedRule, 'domain' | 'path' | 'order'> {
  const { key: _key, value: _value, descriptors: _, limits, ...traits } = rule;
  const unlimited = limits[0]!.unlimited;
  return {
    ...traits,
    limits: unlimited ? [] : limits.map(matchedLimit),
    unlimited,
    replaces: limits.flatMap(({ replaces }) => replaces),
  };
}

/** A burst of as many hits as the limit allows says nothing. */
function matchedLimit(limit: Limit): Limit {
  return limit.burst === limit.requestsPerUnit ? { ...limit, burst: undefined } : limit;
}
