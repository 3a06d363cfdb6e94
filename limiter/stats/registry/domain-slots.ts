/** The counters of unknown domains, whose names come with requests: bounded in memory, the rest is counted together. */
import { sanitizeMetricKey } from './metric-name.ts';
import { NameBudget } from './name-budget.ts';
import { overflowKey } from './rule-metrics.ts';
import { rulePrefix } from './slot-table.ts';

export class DomainSlots {
  /** By domain as given. */
  readonly #slots = new Map<string, number>();
  readonly #budget: NameBudget;
  readonly #slotOfName: (name: string) => number;

  /** `slotOfName` gives the slot of a whole name, made if need be. */
  constructor(maxNameBytes: number, slotOfName: (name: string) => number) {
    this.#budget = new NameBudget(maxNameBytes);
    this.#slotOfName = slotOfName;
  }

  slotOf(domain: string): number {
    return this.#slots.get(domain) ?? this.#newSlot(domain);
  }

  /** For a whole name that another registry has; it must be new. */
  slotNamed(name: string): number {
    return this.#slotOfName(this.#budget.take(name) ? name : nameOf(overflowKey));
  }

  #newSlot(domain: string): number {
    const key = this.#budget.take(domain) ? domain : overflowKey;
    const slot = this.#slotOfName(nameOf(sanitizeMetricKey(key)));
    this.#slots.set(key, slot);
    return slot;
  }
}

function nameOf(domain: string): string {
  return `${rulePrefix}${domain}.domain_not_found`;
}
