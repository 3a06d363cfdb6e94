/**
 * Keeps slots in the order of their names, so that /stats with hundreds of thousands of lines never sorts them in
 * one go: each run of at most 1,024 slots is sorted when it fills up, and the runs are merged while they are read.
 */

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
