import type { Rule, RuleSource } from '../model.ts';

/** All top-level rules of one domain, whichever sources they come from. */
export interface DomainRules {
  domain: string;
  descriptors: Rule[];
}

/** Joins sources of the same domain, domains and rules in the order in which they first appear. */
export function mergeDomains(sources: readonly RuleSource[]): DomainRules[] {
  const byDomain = new Map<string, DomainRules>();
  for (const { domain, descriptors } of sources) {
    const earlier = byDomain.get(domain);
    byDomain.set(domain, {
      domain,
      descriptors: earlier === undefined ? descriptors : earlier.descriptors.concat(descriptors),
    });
  }
  return [...byDomain.values()];
}
