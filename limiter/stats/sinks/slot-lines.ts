/** What the sink keeps of each slot: its name on the wire, which costs regular expressions, and what it sent last. */
import type { StatsSource } from '../registry/stats-source.ts';
import { type LineParts, lineParts } from './metric-lines.ts';
import type { Mogrifiers } from './mogrifier.ts';

export class SlotLines {
  readonly #source: StatsSource;
  readonly #mogrifiers: Mogrifiers;
  #sent = new Float64Array(0);
  #generations = new Float64Array(0);
  readonly #parts: (LineParts | undefined)[] = [];

  constructor(source: StatsSource, mogrifiers: Mogrifiers) {
    this.#source = source;
    this.#mogrifiers = mogrifiers;
  }

  /** The line to send for a slot now; undefined where there is nothing to tell. */
  lineOf(slot: number): string | undefined {
    const generation = this.#source.generationOf(slot);
    if (generation === 0) return undefined;
    this.#grow(slot);
    if (generation !== this.#generations[slot]) this.#begin(slot, generation);
    const value = this.#source.valueOf(slot);
    if (this.#source.kindOf(slot) === 'gauge') return this.#line(slot, value);
    const difference = value - (this.#sent[slot] as number);
    return difference > 0 ? this.#line(slot, difference) : undefined;
  }

  /** What `lineOf` gave is on its way. */
  noteSent(slot: number): void {
    this.#grow(slot);
    this.#sent[slot] = this.#source.valueOf(slot);
  }

  #line(slot: number, value: number): string {
    this.#parts[slot] ??= this.#partsOf(slot);
    const { before, after } = this.#parts[slot];
    return `${before}${value}${after}`;
  }

  #partsOf(slot: number): LineParts {
    const source = this.#source;
    const type = source.kindOf(slot) === 'gauge' ? 'g' : 'c';
    return lineParts(source.plainNameOf(slot), source.tagsOf(slot), type, this.#mogrifiers);
  }

  #begin(slot: number, generation: number): void {
    this.#generations[slot] = generation;
    this.#sent[slot] = 0;
    this.#parts[slot] = undefined;
  }

  #grow(slot: number): void {
    if (slot < this.#sent.length) return;
    const length = Math.max(1024, 2 * (slot + 1));
    const sent = new Float64Array(length);
    sent.set(this.#sent);
    this.#sent = sent;
    const generations = new Float64Array(length);
    generations.set(this.#generations);
    this.#generations = generations;
  }
}
