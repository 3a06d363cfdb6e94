import type { RuleSource } from '../model.ts';
import { DomainComparison } from './compare-domain.ts';
import { DomainSide } from './comparison-domain-side.ts';
import type { RuleChange } from './rule-change.ts';

/** Compares what limiters of one fleet load. Sources of one domain add up; how they are split into files says nothing. */
export function compareSources(
  before: readonly RuleSource[],
  after: readonly RuleSource[],
  fleet: string,
): RuleChange[] {
  const domains = new Set([...before, ...after].map(({ domain }) => domain));
  return [...domains].flatMap((domain) => {
    const sides = { before: new DomainSide(domain, before), after: new DomainSide(domain, after) };
    return new DomainComparison(sides, { fleet, domain }).changes;
  });
}
