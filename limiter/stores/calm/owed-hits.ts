/**
 * What is to be added to one counter of a store that could not be asked: a run of additions and of subtractions that
 * stop at 0, kept as x -> max(low, x + shift). Such a run is the same as one subtraction and then one addition. Pure.
 */
import { maxTotal } from '../folded-run.ts';

export class OwedHits {
  #shift = 0;
  #low = 0;

  add(hits: number): void {
    this.#shift = Math.min(maxTotal, this.#shift + hits);
    this.#low = Math.min(maxTotal, this.#low + hits);
  }

  takeBack(hits: number): void {
    this.#shift = Math.max(-maxTotal, this.#shift - hits);
    this.#low = Math.max(0, this.#low - hits);
  }

  /** Takes over what came after it. */
  follow(later: OwedHits): void {
    this.takeBack(later.toTakeBack);
    this.add(later.toAdd);
  }

  /** First subtract this ... */
  get toTakeBack(): number {
    return Math.min(maxTotal, this.#low - this.#shift);
  }

  /** ... then add this. */
  get toAdd(): number {
    return this.#low;
  }

  /** The total with what is owed. */
  appliedTo(total: number): number {
    return Math.min(maxTotal, Math.max(this.#low, total + this.#shift));
  }
}
