import type { KeyCount } from './counter-batch.ts';

/** Keys whose questions are on their way: those of later turns may be asked again before the first answer. */
export class AskedKeys {
  readonly #asked = new Map<string, KeyCount[]>();

  add(count: KeyCount): void {
    const others = this.#asked.get(count.key);
    if (others === undefined) this.#asked.set(count.key, [count]);
    else others.push(count);
  }

  remove(count: KeyCount): void {
    const others = this.#asked.get(count.key) ?? [];
    if (others.length <= 1) this.#asked.delete(count.key);
    else others.splice(others.indexOf(count), 1);
  }

  /** A change that goes out now comes behind the questions under way: their answers will not show it. */
  overlook(key: string, change: number): void {
    for (const count of this.#asked.get(key) ?? []) count.overlook(change);
  }
}
