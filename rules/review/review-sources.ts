import type { RuleSource } from '../model.ts';
import { idleRules } from './idle-rules.ts';
import { limitWarnings } from './limit-warnings.ts';
import { literalTexts } from './literal-texts.ts';
import { type PlacedRule, placedRules } from './placed-rule.ts';
import { compositeOf } from './rule-level.ts';
import type { RuleWarning } from './rule-warning.ts';
import { unreachableRules } from './unreachable-rules.ts';

/**
 * Reviews sources that are loaded together, those of one domain in this order. `beside`: others of which only the names
 * of limits are known to count, because their order is not.
 */
export function reviewSources(
  sources: readonly RuleSource[],
  beside: readonly RuleSource[] = [],
): RuleWarning[] {
  const byDomain = new Map<string, PlacedRule[]>();
  for (const [index, { domain, descriptors }] of sources.entries()) {
    const level = byDomain.get(domain) ?? [];
    level.push(...placedRules(descriptors, index, []));
    byDomain.set(domain, level);
  }
  const reviewed = [...byDomain].flatMap(([domain, level]) => {
    const others = beside.filter((source) => source.domain === domain);
    return new DomainReview(domain, level, others).warnings();
  });
  return [...sources.flatMap(withoutRules), ...reviewed];
}

function withoutRules({ domain, descriptors }: RuleSource, source: number): RuleWarning[] {
  if (descriptors.length > 0) return [];
  const text = `'${domain}' has no descriptors: nothing is limited`;
  const hint = 'rules stand in a list below "descriptors:"';
  return [{ code: 'no-rules', source, path: ['domain'], text, hint }];
}

class DomainReview {
  readonly #warnings: RuleWarning[] = [];
  readonly #domain: string;
  readonly #top: readonly PlacedRule[];
  readonly #beside: readonly RuleSource[];
  readonly #all: PlacedRule[] = [];

  constructor(domain: string, top: readonly PlacedRule[], beside: readonly RuleSource[]) {
    this.#domain = domain;
    this.#top = top;
    this.#beside = beside;
  }

  warnings(): RuleWarning[] {
    this.#level(this.#top);
    this.#warnings.push(...limitWarnings(this.#domain, this.#all, this.#beside), ...literalTexts(this.#all));
    return this.#warnings;
  }

  #level(level: readonly PlacedRule[]): void {
    const rules = level.map(({ rule }) => rule);
    const taken = new Set<number>();
    for (const { index, takenBy, kind } of unreachableRules(rules)) {
      taken.add(index);
      this.#warnings.push(unreachable(level[index]!, level[takenBy]!, kind));
    }
    for (const index of idleRules(rules)) if (!taken.has(index)) this.#warnings.push(idle(level[index]!));
    for (const one of level) {
      this.#all.push(one);
      if (one.rule.descriptors.length > 0)
        this.#level(placedRules(one.rule.descriptors, one.source, one.path));
    }
  }
}

function unreachable(rule: PlacedRule, taker: PlacedRule, kind: 'key' | 'wildcard'): RuleWarning {
  const composite = compositeOf(rule.rule);
  const pattern = compositeOf(taker.rule);
  const { source, path } = rule;
  const other = { source: taker.source, path: taker.path };
  if (kind === 'key') {
    return {
      code: 'never-matches',
      source,
      path: [...path, 'key'],
      text: `no entry with the key '${composite}' finds this rule: '${pattern}' takes all of its values`,
      hint: 'patterns are tried before rules without a value, wherever they stand; one of the two is too many',
      other,
    };
  }
  return {
    code: 'shadowed-wildcard',
    source,
    path: [...path, rule.rule.value === '' ? 'key' : 'value'],
    text: `'${composite}' never takes effect: '${pattern}' stands before it and matches all that it matches`,
    hint: 'of several patterns the first one counts: put the narrower one first',
    other,
  };
}

function idle({ source, path }: PlacedRule): RuleWarning {
  return {
    code: 'no-effect',
    source,
    path: [...path, 'key'],
    text: 'has no limit and no rules below, and no other rule would take its requests: it changes nothing',
    hint: 'give it a rate_limit or descriptors, or leave it out',
  };
}
