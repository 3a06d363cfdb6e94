import type { RuleError } from '../rule-error.ts';

type Problem = Pick<RuleError, 'code' | 'path'>;

/**
 * Records which parts of a text could not be read. This distinguishes separate mistakes from consequences: a misspelled `kye:` is
 * an unknown key, and not a descriptor without key as well.
 */
export class FollowUps {
  /** Paths, as JSON, of the maps that contain a mistake. */
  readonly #maps = new Set<string>();
  /** Paths of the values that could not be read. */
  readonly #paths = new Set<string>();
  /** Paths of the lists with an element whose key or value could not be read. */
  readonly #lists = new Set<string>();

  constructor(problems: readonly Problem[]) {
    for (const { path } of problems) {
      this.#paths.add(JSON.stringify(path));
      this.#maps.add(JSON.stringify(path.slice(0, -1)));
      const last = path.at(-1);
      if (last === 'key' || last === 'value') this.#lists.add(JSON.stringify(path.slice(0, -2)));
    }
  }

  /** Whether a value, or one that it is in, could not be read. */
  isUnread(path: RuleError['path']): boolean {
    return path.some((_, index) => this.#paths.has(JSON.stringify(path.slice(0, index + 1))));
  }

  /**
   * Returns whether correcting the unreadable parts may correct this problem, too. `isWritten` returns whether the document has a
   * value at the problem's path. A value that was read and is empty is a separate mistake.
   */
  includes({ code, path }: Problem, isWritten: () => boolean): boolean {
    if (this.#maps.size === 0) return false;
    if (this.isUnread(path)) return true;
    const isInDoubt = this.#maps.has(JSON.stringify(path.slice(0, -1)));
    switch (code) {
      case 'empty-domain':
      case 'empty-key':
      case 'empty-replaces':
      case 'invalid-unit':
        return isInDoubt && !isWritten();
      case 'burst-without-bucket':
      case 'duplicate-limit':
      case 'invalid-assign':
      case 'invalid-calendar':
      case 'invalid-lease':
      case 'invalid-marks':
      case 'invalid-reserve':
      case 'invalid-window':
      case 'share-threshold-without-wildcard':
      case 'uncountable':
        return isInDoubt;
      case 'duplicate-descriptor':
        return this.#lists.has(JSON.stringify(path.slice(0, -2)));
      default:
        return false;
    }
  }
}
