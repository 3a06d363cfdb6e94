/** Mutates what is interesting and runs it: one target, in the thread of a worker. */
import { BlockCoverage } from './block-coverage.ts';
import type { FuzzTarget } from './fuzz-target.ts';
import type { InputSlot } from './input-slot.ts';
import { mutated } from './mutation.ts';
import { Random } from './random.ts';

export interface FuzzLoopOptions {
  target: FuzzTarget;
  corpus: readonly Uint8Array[];
  slot: InputSlot;
  seed: number;
  maxInputBytes: number;
  /** The heap after garbage collection, in bytes. */
  heapBytes: () => number;
  /** How far it may grow from the first second on, inputs apart. */
  maxGrowthBytes: number;
}

/** What an input did that it must not. */
export interface Finding {
  kind: 'crash' | 'hang' | 'growth';
  message: string;
  input: Uint8Array;
}

/** How many inputs share one look at the coverage, which is slow. */
const batchLength = 16;

/** The most inputs that are mutated; beyond it a new one takes an old one's place. */
const maxInteresting = 4000;

export class FuzzLoop {
  readonly #options: FuzzLoopOptions;
  readonly #random: Random;
  readonly #coverage = new BlockCoverage();
  readonly #outcomes = new Set<string>();
  readonly #interesting: Uint8Array[] = [];
  /** Inputs with an outcome that no other had, in the order found. */
  readonly novel: Uint8Array[] = [];
  runs = 0;
  #batch: Uint8Array[] = [];
  #firstHeapBytes: number | undefined;

  constructor(options: FuzzLoopOptions) {
    this.#options = options;
    this.#random = new Random(options.seed);
  }

  get outcomes(): number {
    return this.#outcomes.size;
  }

  get blocks(): number {
    return this.#coverage.blocks;
  }

  close(): void {
    this.#coverage.close();
  }

  /** Runs the corpus as it is. */
  replay(): Finding | undefined {
    for (const input of this.#options.corpus) {
      const finding = this.#run(input);
      if (finding !== undefined) return finding;
      this.#keep(input);
    }
    if (this.#interesting.length === 0) this.#keep(new Uint8Array(1));
    this.#coverage.hasGrown();
    this.novel.length = 0;
    return undefined;
  }

  /** Runs `count` batches of new inputs. */
  step(count: number): Finding | undefined {
    for (let batch = 0; batch < count; batch++) {
      for (let index = 0; index < batchLength; index++) {
        const finding = this.#run(this.#nextInput());
        if (finding !== undefined) return finding;
      }
      if (this.#coverage.hasGrown()) for (const input of this.#batch) this.#keep(input);
      this.#batch = [];
    }
    return undefined;
  }

  /** Whether memory stays when the inputs are gone. The first call sets what it is compared with. */
  checkGrowth(): Finding | undefined {
    const { heapBytes, maxGrowthBytes, slot } = this.#options;
    const held = this.#interesting.reduce((sum, input) => sum + input.length + 200, 0);
    const heap = heapBytes() - held;
    slot.touch();
    this.#firstHeapBytes ??= heap;
    const growth = heap - this.#firstHeapBytes;
    if (growth <= maxGrowthBytes) return undefined;
    const message = `the heap grew by ${growth} bytes, more than ${maxGrowthBytes}, in ${this.runs} inputs`;
    return { kind: 'growth', message, input: slot.input() };
  }

  #nextInput(): Uint8Array {
    const choose = (): Uint8Array => this.#interesting[this.#random.below(this.#interesting.length)]!;
    const { maxInputBytes } = this.#options;
    const input = mutated(choose(), { other: choose(), random: this.#random, maxBytes: maxInputBytes });
    this.#batch.push(input);
    return input;
  }

  #run(input: Uint8Array): Finding | undefined {
    this.#options.slot.put(input);
    this.runs++;
    try {
      const outcome = this.#options.target.run(input);
      if (this.#outcomes.has(outcome)) return undefined;
      this.#outcomes.add(outcome);
      this.novel.push(input);
      this.#keep(input);
      return undefined;
    } catch (error) {
      const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
      return { kind: 'crash', message, input };
    }
  }

  #keep(input: Uint8Array): void {
    if (this.#interesting.length < maxInteresting) this.#interesting.push(input);
    else this.#interesting[this.#random.below(maxInteresting)] = input;
  }
}
