import type { RuleSource } from '../model.ts';
import type { SourceProblem } from '../validate-sources.ts';
import type { DocumentProblem } from './read-fields.ts';

/**
 * Knows which parts of a file could not be read, to tell mistakes of their own from mere consequences:
 * a misspelt `kye:` is an unknown key, and not a descriptor without key as well.
 */
export class FollowUps {
  /** Paths, as JSON, of the maps in which something is wrong. */
  readonly #maps = new Set<string>();
  /** Paths of what could not be read. */
  readonly #paths = new Set<string>();
  /** Paths of the lists with an element whose key or value could not be read. */
  readonly #lists = new Set<string>();

  constructor(problems: readonly DocumentProblem[]) {
    for (const { path } of problems) {
      this.#paths.add(JSON.stringify(path));
      this.#maps.add(JSON.stringify(path.slice(0, -1)));
      const last = path.at(-1);
      if (last === 'key' || last === 'value') this.#lists.add(JSON.stringify(path.slice(0, -2)));
    }
  }

  /**
   * Whether mending what could not be read may well mend this too. `isWritten` tells whether the document has a value
   * at the problem's path: one that is there, was read and is empty is a mistake of its own.
   */
  includes({ code, path, source }: SourceProblem, isWritten: () => boolean): boolean {
    if (this.#maps.size === 0) return false;
    switch (code) {
      case 'empty-domain':
      case 'empty-key':
      case 'empty-replaces':
        if (this.#paths.has(JSON.stringify(path))) return true;
        return this.#maps.has(JSON.stringify(path.slice(0, -1))) && !isWritten();
      case 'share-threshold-without-wildcard':
        return this.#maps.has(JSON.stringify(path.slice(0, -1)));
      case 'invalid-unit':
        return this.#maps.has(JSON.stringify(path.slice(0, -1))) && unitAt(source, path) === '';
      case 'duplicate-descriptor':
        return this.#lists.has(JSON.stringify(path.slice(0, -2)));
      default:
        return false;
    }
  }
}

function unitAt(source: RuleSource, path: readonly (string | number)[]): string | undefined {
  let rules = source.descriptors;
  for (const step of path.slice(0, -4)) {
    if (typeof step === 'number') rules = rules[step]?.descriptors ?? [];
  }
  const index = path.at(-3);
  return typeof index === 'number' ? rules[index]?.rateLimit?.unit : undefined;
}
