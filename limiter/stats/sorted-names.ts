/**
 * Keeps slots in the order of their names, so that /stats with hundreds of thousands of lines never sorts them in
 * one go: each run of at most 1,024 slots is sorted when it fills up, and the runs are merged while they are read.
 */

/** A run of this length sorts in about a millisecond. */
const runLength = 1024;

interface Head {
  run: readonly number[];
  position: number;
  name: string;
}

export class SortedNames {
  readonly #nameOf: (slot: number) => string;
  readonly #runs: (readonly number[])[] = [];
  #open: number[] = [];

  constructor(nameOf: (slot: number) => string) {
    this.#nameOf = nameOf;
  }

  add(slot: number): void {
    this.#open.push(slot);
    if (this.#open.length < runLength) return;
    this.#runs.push(this.#sorted(this.#open));
    this.#open = [];
  }

  /** Every slot added before the first step, by name. May be read over many turns of the event loop. */
  *slots(): Generator<number> {
    const heap: Head[] = [];
    for (const run of [...this.#runs, this.#sorted(this.#open)]) {
      const first = run[0];
      if (first === undefined) continue;
      heap.push({ run, position: 0, name: this.#nameOf(first) });
      siftUp(heap);
    }
    for (let head = heap[0]; head !== undefined; head = heap[0]) {
      yield head.run[head.position] as number;
      head.position += 1;
      const next = head.run[head.position];
      if (next !== undefined) {
        head.name = this.#nameOf(next);
      } else {
        const last = heap.pop() as Head;
        if (heap.length === 0) return;
        heap[0] = last;
      }
      siftDown(heap);
    }
  }

  #sorted(slots: readonly number[]): number[] {
    const named = slots.map((slot) => ({ slot, name: this.#nameOf(slot) }));
    named.sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
    return named.map(({ slot }) => slot);
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
