/** What each slot of the registry stands for, a name with tags or one statistic of a metric key, and their order by name. */
import { sanitizeMetricKey } from '../../../rules/match-result.ts';
import { NameBudget, orderedTags, type Tags, tagsSuffix } from './metric-name.ts';
import { overflowKey } from './rule-metrics.ts';
import { leasedHitsName, ruleStatNames } from './rule-stats.ts';

export type SlotKind = 'counter' | 'gauge';

/** What a gauge of the process is that several threads have: the sum of theirs, or the one that says more. */
export type GaugeJoin = 'sum' | 'max' | 'min';

/** What a slot stands for, so that another registry can have it too. `name` is already sanitised. */
export interface SlotName {
  /** A rule has as many slots side by side as `ruleStatCount` says, the others one. `detailed`: a rule's that may leave. */
  kind: 'rule' | 'detailed' | 'domain' | SlotKind;
  name: string;
  tags?: Tags | undefined;
  /** Of a gauge. Defaults to the sum. */
  join?: GaugeJoin | undefined;
}

export const rulePrefix = 'ratelimit.service.rate_limit.';

/** What a slot is: 0..7 a statistic of a metric key, otherwise one of these. */
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
    return `${rulePrefix}${this.#names[slot - role]}.${ruleStatNames[role] ?? leasedHitsName}`;
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

/** A run of this length sorts in about a millisecond. */
const runLength = 1024;

/** A run's slots with the generations in which they have the names that they are sorted by. */
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
  /** Another number when the slot has another name; 0 when it has none. */
  generationOf(slot: number): number;
}

/**
 * Keeps slots in the order of their names, so that /stats with hundreds of thousands of lines never sorts them in
 * one go: each run of at most 1,024 slots is sorted when it fills up, and the runs are merged while they are read.
 */
export class SortedNames {
  readonly #named: NamedSlots;
  #runs: Run[] = [];
  /** Not sorted yet. */
  #open: { slots: number[]; generations: number[] } = { slots: [], generations: [] };
  #size = 0;
  #gone = 0;

  constructor(named: NamedSlots) {
    this.#named = named;
  }

  /** The slot has its name by now. */
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

  /** A slot stands for nothing any more: its generation is another one by now. */
  remove(): void {
    this.#gone += 1;
    if (this.#gone > this.#size / 2 && this.#gone > runLength) this.#compact();
  }

  /** Every slot added before the first step, by name. May be read over many turns of the event loop. */
  *slots(): Generator<number> {
    const heap: Head[] = [];
    for (const run of [...this.#runs, this.#sorted(this.#open)]) {
      const head: Head = { run, position: -1, name: '' };
      if (!this.#advance(head)) continue;
      heap.push(head);
      siftUp(heap);
    }
    for (let head = heap[0]; head !== undefined; head = heap[0]) {
      // It may have gone since its turn was planned.
      if (this.#isCurrent(head)) yield head.run.slots[head.position] as number;
      if (!this.#advance(head)) {
        const last = heap.pop() as Head;
        if (heap.length === 0) return;
        heap[0] = last;
      }
      siftDown(heap);
    }
  }

  /** False at the end of the run. */
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

  /** Runs that lost half of their slots are joined with others. */
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

  /** So many were left out of what is kept. */
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

function siftUp(heap: Head[]): void {
  let at = heap.length - 1;
  const head = heap[at] as Head;
  while (at > 0) {
    const parent = (at - 1) >> 1;
    const above = heap[parent] as Head;
    if (above.name <= head.name) break;
    heap[at] = above;
    at = parent;
  }
  heap[at] = head;
}

function siftDown(heap: Head[]): void {
  const head = heap[0] as Head;
  let at = 0;
  for (;;) {
    let child = 2 * at + 1;
    if (child >= heap.length) break;
    if (child + 1 < heap.length && (heap[child + 1] as Head).name < (heap[child] as Head).name) child += 1;
    const below = heap[child] as Head;
    if (head.name <= below.name) break;
    heap[at] = below;
    at = child;
  }
  heap[at] = head;
}
