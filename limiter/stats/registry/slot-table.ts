/** The meaning of each slot of the registry (a name with tags, or one statistic of a metric key), and the order of slots by name. */
import { Heap } from '../../../process/queues/heap.ts';
import { sanitizeMetricKey } from '../../../rules/match-result.ts';
import { NameBudget } from './name-budget.ts';
import { overflowKey } from './rule-metrics.ts';
import { leasedHitsName, ruleStatNames } from './rule-stats.ts';
import { orderedTags, type Tags, tagsSuffix } from './tags.ts';

export type SlotKind = 'counter' | 'gauge';

/** How gauges of several threads become one of the process: their sum, or the largest or smallest value. */
export type GaugeJoin = 'sum' | 'max' | 'min';

/** The meaning of a slot, so that another registry can have it too. `name` is already sanitized. */
export interface SlotName {
  /** A rule has `ruleStatCount` adjacent slots, all others have one. `detailed`: the metric of a rule that may leave. */
  kind: 'rule' | 'detailed' | 'domain' | SlotKind;
  name: string;
  tags?: Tags | undefined;
  /** Only for gauges. Defaults to the sum. */
  join?: GaugeJoin | undefined;
}

export const rulePrefix = 'ratelimit.service.rate_limit.';

/** The role of a slot: the offset of a statistic in its metric key, or one of these. */
export const Role = {
  counter: 255,
  gauge: 254,
  /** A counter whose name came with a request. */
  domain: 253,
} as const;

export class SlotTable {
  /** EXTRA_TAGS, the tags of all names and timers. */
  readonly extraTags: Tags;
  /** The same as the suffix of a name: `.__a=1.__b=2`, or nothing. */
  readonly extraTagsSuffix: string;
  /** Names by slot; those of metric keys at the first of their slots. */
  readonly #names: string[] = [];
  #roles = new Uint8Array(1024);
  #generations = new Uint32Array(1024);
  readonly #ownTags = new Map<number, Tags>();
  /** The joins of gauges that are not sums. */
  protected readonly joins = new Map<number, GaugeJoin>();

  constructor(extraTags: Tags) {
    this.extraTags = orderedTags(extraTags);
    this.extraTagsSuffix = tagsSuffix(this.extraTags);
  }

  /** The number of slots, which only grows. Slots are numbered from 0. */
  get slotCount(): number {
    return this.#names.length;
  }

  protected push(name: string, role: number, tags: Tags): number {
    const slot = this.#names.length;
    if (slot === this.#roles.length) this.#grow();
    this.#names.push(name);
    this.#roles[slot] = role;
    this.#generations[slot] = 1;
    if (tags.length > 0) this.#ownTags.set(slot, tags);
    return slot;
  }

  protected roleOf(slot: number): number {
    return this.#roles[slot] as number;
  }

  kindOf(slot: number): SlotKind {
    return this.#roles[slot] === Role.gauge ? 'gauge' : 'counter';
  }

  /** Returns 0 while the slot has no name. The number changes when it gets another name. */
  generationOf(slot: number): number {
    const generation = this.#generations[slot] as number;
    return generation % 2 === 0 ? 0 : generation;
  }

  /** Ends a slot's name. Odd generations have a name, the even ones between them have none. */
  protected leave(slot: number): void {
    this.#generations[slot]! += 1;
  }

  /** Gives a name to a slot without one. */
  protected enter(slot: number, name: string, tags?: Tags): void {
    this.#names[slot] = name;
    if (tags !== undefined) this.#ownTags.set(slot, tags);
    this.#generations[slot]! += 1;
  }

  /** Returns the name as given, which for a metric key is only a part of the full name. */
  protected givenNameOf(slot: number): string {
    return this.#names[slot] as string;
  }

  protected ownTagsOf(slot: number): Tags | undefined {
    return this.#ownTags.get(slot);
  }

  /** Returns the name without tags. */
  plainNameOf(slot: number): string {
    const role = this.roleOf(slot);
    if (role >= Role.domain) return this.#names[slot] as string;
    return `${rulePrefix}${this.#names[slot - role]}.${ruleStatNames[role] ?? leasedHitsName}`;
  }

  /** Returns the name with all tags in it, in the form of statsd and /stats. */
  nameOf(slot: number): string {
    return this.plainNameOf(slot) + this.#suffixOf(slot);
  }

  /** Returns the slot's own tags and EXTRA_TAGS, by key. Values are as they were given. */
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

/** The counters of unknown domains, whose names come from requests. Their memory is bounded; further ones are counted together. */
export class DomainSlots {
  /** Slots by domain as given. */
  readonly #slots = new Map<string, number>();
  readonly #budget: NameBudget;
  readonly #slotOfName: (name: string) => number;

  /** `slotOfName` returns the slot of a whole name, which it adds if needed. */
  constructor(maxNameBytes: number, slotOfName: (name: string) => number) {
    this.#budget = new NameBudget(maxNameBytes);
    this.#slotOfName = slotOfName;
  }

  slotOf(domain: string): number {
    return this.#slots.get(domain) ?? this.#newSlot(domain);
  }

  /** Returns the slot for a whole name from another registry. The name must be new. */
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

/** A run of this length sorts in about a millisecond. */
const runLength = 1024;

/** The slots of a run, and the generations for which their order by name is right. */
interface Run {
  readonly slots: readonly number[];
  readonly generations: readonly number[];
}

interface Head {
  run: Run;
  position: number;
  name: string;
}

export interface NamedSlots {
  nameOf(slot: number): string;
  /** Changes when the slot gets another name; 0 if it has none. */
  generationOf(slot: number): number;
}

/**
 * Keeps slots in the order of their names, so that /stats with hundreds of thousands of lines never sorts them all at once. Each run of
 * at most 1,024 slots is sorted when it is full, and the runs are merged while they are read.
 */
export class SortedNames {
  readonly #named: NamedSlots;
  #runs: Run[] = [];
  /** The run that is not sorted yet. */
  #open: { slots: number[]; generations: number[] } = { slots: [], generations: [] };
  #size = 0;
  #gone = 0;

  constructor(named: NamedSlots) {
    this.#named = named;
  }

  /** Adds a slot that already has its name. */
  add(slot: number): void {
    this.#size += 1;
    this.#open.slots.push(slot);
    this.#open.generations.push(this.#named.generationOf(slot));
    if (this.#open.slots.length < runLength) return;
    const run = this.#sorted(this.#open);
    this.#runs.push(run);
    this.#forget(this.#open.slots.length - run.slots.length);
    this.#open = { slots: [], generations: [] };
  }

  /** Called after a slot lost its name, so that its generation has changed. */
  remove(): void {
    this.#gone += 1;
    if (this.#gone > this.#size / 2 && this.#gone > runLength) this.#compact();
  }

  /** Returns every slot added before the first step, by name. It may be read over many turns of the event loop. */
  *slots(): Generator<number> {
    const heads = new Heap<Head>((one, other) => one.name < other.name);
    for (const run of [...this.#runs, this.#sorted(this.#open)]) {
      const head: Head = { run, position: -1, name: '' };
      if (this.#advance(head)) heads.add(head);
    }
    for (let head = heads.first; head !== undefined; head = heads.first) {
      // The slot may have lost its name since it was put in order.
      if (this.#isCurrent(head)) yield head.run.slots[head.position] as number;
      if (this.#advance(head)) heads.moved();
      else heads.remove();
    }
  }

  /** Returns false at the end of the run. */
  #advance(head: Head): boolean {
    const { slots } = head.run;
    for (head.position += 1; head.position < slots.length; head.position += 1) {
      if (!this.#isCurrent(head)) continue;
      head.name = this.#named.nameOf(slots[head.position] as number);
      return true;
    }
    return false;
  }

  #isCurrent({ run, position }: Head): boolean {
    return this.#named.generationOf(run.slots[position] as number) === run.generations[position];
  }

  /** Joins runs that lost half of their slots with others. */
  #compact(): void {
    const runs = this.#runs;
    this.#runs = [];
    this.#gone = 0;
    this.#size = this.#open.slots.length;
    const few: number[] = [];
    for (const run of runs) {
      const kept = run.slots.filter((slot, at) => this.#named.generationOf(slot) === run.generations[at]);
      if (kept.length < runLength / 2) {
        few.push(...kept);
        continue;
      }
      this.#size += kept.length;
      this.#runs.push({ slots: kept, generations: kept.map((slot) => this.#named.generationOf(slot)) });
    }
    for (const slot of few) this.add(slot);
  }

  /** Counts slots that were left out of a run. */
  #forget(count: number): void {
    this.#size -= count;
    this.#gone = Math.max(0, this.#gone - count);
  }

  #sorted({ slots, generations }: Run): Run {
    const current = slots.filter((slot, at) => this.#named.generationOf(slot) === generations[at]);
    const named = current.map((slot) => ({ slot, name: this.#named.nameOf(slot) }));
    named.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    const inOrder = named.map(({ slot }) => slot);
    return { slots: inOrder, generations: inOrder.map((slot) => this.#named.generationOf(slot)) };
  }
}
