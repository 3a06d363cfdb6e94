/**
 * The matching rules written down sentence by sentence, without an index: an object tree, scanned from the front.
 * Tests hold `RuleTable` equal to it.
 */
import { expect } from 'vitest';
import { countedEntry, EntryMark, unambiguousStem } from '../../rules/counter-keys.ts';
import { countedEntries, countedText, shownEntries, shownText } from '../../rules/long-text.ts';
import {
  defaultNames,
  type MatchedRule,
  type NameForm,
  type RuleMatch,
  type RuleMatcher,
} from '../../rules/match-result.ts';
import { arePlainLimits, type Entry, type Rule, type RuleSource } from '../../rules/model.ts';

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

  match(
    domain: string,
    entries: readonly Entry[],
    { sanitizeDescriptorMetricDots, maxTextBytes }: NameForm = defaultNames,
  ): RuleMatch | undefined {
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
      metricKey: [
        shownText(domain, maxTextBytes),
        ...metricSegments(entries, steps, shownEntries(entries, maxTextBytes)).map((segment) =>
          sanitizeDescriptorMetricDots ? segment.replaceAll('.', '_') : segment,
        ),
      ].join('.'),
      metricPerValue: entries.some((entry, i) => isPerValue(entry, steps, i)),
      counterStem: arePlainLimits(limits)
        ? compatibleStem(
            countedText(domain, maxTextBytes),
            entries,
            steps,
            countedEntries(entries, maxTextBytes),
          )
        : this.unambiguousStem(domain, entries, maxTextBytes),
    };
  }

  /** All values that share a threshold, be it the pattern itself, count as the pattern. */
  unambiguousStem(
    domain: string,
    entries: readonly Entry[],
    maxTextBytes = defaultNames.maxTextBytes,
  ): string {
    const steps = this.#steps(domain, entries) ?? [];
    const counted = countedEntries(entries, maxTextBytes).map(({ key, value }, i) => {
      const { rule, how } = steps[i]!;
      if (how === 'key' || !rule.shareThreshold) return countedEntry(key, EntryMark.value, value);
      const whole = composite(rule);
      const { key: own } = entries[i]!;
      return whole.startsWith(`${own}_`)
        ? countedEntry(key, EntryMark.pattern, whole.slice(own.length + 1))
        : countedEntry(key, EntryMark.wholePattern, whole);
    });
    return unambiguousStem(countedText(domain, maxTextBytes), counted.join(''));
  }

  /** What `RuleTable.walk` says of the rules on the way of these entries, as far as they go. */
  walked(domain: string, entries: readonly Entry[]): object[] {
    return this.#stepsAlong(domain, entries).map(({ rule, how }) => ({
      ...{ how, composite: composite(rule), shares: rule.shareThreshold },
      limits: rule.limits.length === 0 ? undefined : matchedRule(rule).limits,
    }));
  }

  #steps(domain: string, entries: readonly Entry[]): Step[] | undefined {
    const steps = this.#stepsAlong(domain, entries);
    return steps.length === entries.length ? steps : undefined;
  }

  #stepsAlong(domain: string, entries: readonly Entry[]): Step[] {
    let level: readonly Rule[] = this.#sources
      .filter((source) => source.domain === domain)
      .flatMap((source) => source.descriptors);
    const steps: Step[] = [];
    for (const entry of entries) {
      const step = firstHit(level, entry);
      if (step === undefined) break;
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
  /** Whether the beginning of the pattern matches the first so many characters of the text. */
  let reached = new Uint8Array(text.length + 1);
  reached[0] = 1;
  for (let i = 0; i < pattern.length; i++) {
    const next = new Uint8Array(text.length + 1);
    if (pattern[i] === '*') next.fill(1, reached.indexOf(1));
    else
      for (let at = 1; at <= text.length; at++) if (text[at - 1] === pattern[i]) next[at] = reached[at - 1]!;
    if (!next.includes(1)) return false;
    reached = next;
  }
  return reached[text.length] === 1;
}

/** `shown`: what is written of the entries. */
function metricSegments(
  entries: readonly Entry[],
  steps: readonly Step[],
  shown: readonly Entry[],
): string[] {
  const detailed = steps.at(-1)!.rule.detailedMetric;
  const sharesAny = steps.some(isShared);
  return entries.map((entry, i) => {
    const step = steps[i]!;
    const { key, value } = shown[i]!;
    if (detailed && !sharesAny) return `${key}_${value}`;
    if (detailed) return joined(key, isShared(step) ? beforeStar(entry, step) : value);
    if (step.how === 'exact') return joined(key, value);
    if (step.how === 'key') return joined(key, step.rule.valueToMetric ? value : '');
    if (!step.rule.valueToMetric) return `${key}_${pattern(entry, step)}`;
    return joined(key, isShared(step) ? beforeStar(entry, step) : value);
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

/** `counted`: what the entries count as. */
function compatibleStem(
  domain: string,
  entries: readonly Entry[],
  steps: readonly Step[],
  counted: readonly Entry[],
): string {
  const parts = entries.map((entry, i) => {
    const { key, value } = counted[i]!;
    return `${key}_${isShared(steps[i]!) ? pattern(entry, steps[i]!) : value}_`;
  });
  return `${domain}_${parts.join('')}`;
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
    limits: unlimited ? [] : limits,
    unlimited,
    replaces: limits.flatMap(({ replaces }) => replaces),
  };
}
