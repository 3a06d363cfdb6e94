/** What each slot of the registry stands for: a name with tags, or one statistic of a metric key. */
import { NameBudget, orderedTags, sanitizeMetricKey, type Tags, tagsSuffix } from './metric-name.ts';
import { overflowKey } from './rule-metrics.ts';
import { ruleStatNames } from './rule-stats.ts';

export type SlotKind = 'counter' | 'gauge';

/** What a gauge of the process is that several threads have: the sum of theirs, or the one that says more. */
export type GaugeJoin = 'sum' | 'max' | 'min';

/** What a slot stands for, so that another registry can have it too. `name` is already sanitised. */
export interface SlotName {
  /** A rule has as many slots side by side as `ruleStatNames` says, the others one. `detailed`: a rule's that may leave. */
  kind: 'rule' | 'detailed' | 'domain' | SlotKind;
  name: string;
  tags?: Tags | undefined;
  /** Of a gauge. Defaults to the sum. */
  join?: GaugeJoin | undefined;
}

export const rulePrefix = 'ratelimit.service.rate_limit.';

/** What a slot is: 0..6 a statistic of a metric key, otherwise one of these. */
export const Role = {
  counter: 255,
  gauge: 254,
  /** A counter whose name came with a request. */
  domain: 253,
} as const;

export class SlotTable {
  readonly extraTags: Tags;
  readonly extraTagsSuffix: string;
  /** By slot; of a metric key at the first of its slots. */
  readonly #names: string[] = [];
  #roles = new Uint8Array(1024);
  #generations = new Uint32Array(1024);
  readonly #ownTags = new Map<number, Tags>();
  /** Of gauges that do not add up. */
  readonly joins = new Map<number, GaugeJoin>();

  constructor(extraTags: Tags) {
    this.extraTags = orderedTags(extraTags);
    this.extraTagsSuffix = tagsSuffix(this.extraTags);
  }

  /** Slots are numbered from 0 to here; the number only grows. */
  get count(): number {
    return this.#names.length;
  }

  push(name: string, role: number, tags: Tags): number {
    const slot = this.#names.length;
    if (slot === this.#roles.length) this.#grow();
    this.#names.push(name);
    this.#roles[slot] = role;
    this.#generations[slot] = 1;
    if (tags.length > 0) this.#ownTags.set(slot, tags);
    return slot;
  }

  roleOf(slot: number): number {
    return this.#roles[slot] as number;
  }

  kindOf(slot: number): SlotKind {
    return this.#roles[slot] === Role.gauge ? 'gauge' : 'counter';
  }

  generationOf(slot: number): number {
    const generation = this.#generations[slot] as number;
    return generation % 2 === 0 ? 0 : generation;
  }

  /** Odd generations are those of names, the even ones between them those of nothing. */
  leave(slot: number): void {
    this.#generations[slot]! += 1;
  }

  /** A slot that stood for nothing. */
  enter(slot: number, name: string, tags?: Tags): void {
    this.#names[slot] = name;
    if (tags !== undefined) this.#ownTags.set(slot, tags);
    this.#generations[slot]! += 1;
  }

  /** The name as it was given: a metric key is a part of it only. */
  givenNameOf(slot: number): string {
    return this.#names[slot] as string;
  }

  ownTagsOf(slot: number): Tags | undefined {
    return this.#ownTags.get(slot);
  }

  plainNameOf(slot: number): string {
    const role = this.roleOf(slot);
    if (role >= Role.domain) return this.#names[slot] as string;
    return `${rulePrefix}${this.#names[slot - role]}.${ruleStatNames[role]}`;
  }

  nameOf(slot: number): string {
    return this.plainNameOf(slot) + this.#suffixOf(slot);
  }

  tagsOf(slot: number): Tags {
    const own = this.#ownTags.get(slot);
    return own === undefined ? this.extraTags : orderedTags(this.extraTags, own);
  }

  #suffixOf(slot: number): string {
    return this.#ownTags.has(slot) ? tagsSuffix(this.tagsOf(slot)) : this.extraTagsSuffix;
  }

  #grow(): void {
    const { buffer: roles } = this.#roles;
    const { buffer: generations } = this.#generations;
    this.#roles = new Uint8Array(roles.transfer(roles.byteLength * 2));
    this.#generations = new Uint32Array(generations.transfer(generations.byteLength * 2));
  }
}

/** The counters of unknown domains, whose names come with requests: bounded in memory, the rest is counted together. */
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
