/** Mistakes in rules: what they are, how they are written, which follow from others, and which name was meant. */

import type { KindsOf } from './finding-kinds.ts';

/** A mistake in a source of rules. The text is as in the Go service (`<source>: <text>`). The place is as precise as possible. */
export interface RuleError {
  code: RuleErrorCode;
  /** The value of `RuleSource.name`, or the file's name. */
  source: string;
  /** The Go service's words without `<source>: `. */
  text: string;
  /** The place in the document: keys and list positions from its root. */
  path: readonly (string | number)[];
  /** The line, from 1. Undefined if the source has no lines (xDS). */
  line: number | undefined;
  column: number | undefined;
}

/** A mistake in a value. The path leads to the mistake from there. */
export type ValueProblem = Pick<RuleError, 'text' | 'path'>;
/** The same with its code. */
export type FieldProblem = Pick<RuleError, 'code' | 'text' | 'path'>;

export type RuleErrorCode = KindsOf<'reader'>;

/** Returns a line such as `config.basic.yaml:4:9: descriptor has empty key`, without the place if it is unknown. */
export function formatRuleError(error: RuleError): string {
  const place =
    error.line === undefined ? error.source : `${error.source}:${error.line}:${error.column ?? 1}`;
  return `${place}: ${error.text}`;
}

/** Writes an error of an object as `spec.descriptors[0].key: descriptor has empty key`. An error of the whole has only the text. */
export function formatManifestError({ path, text }: ValueProblem): string {
  return path.length === 0 ? text : `${fieldPath(path)}: ${text}`;
}

/** A path as the API server writes it: `spec.descriptors[0].key`. */
export function fieldPath(path: readonly (string | number)[]): string {
  let text = '';
  for (const step of path) {
    if (typeof step === 'number') text += `[${step}]`;
    else if (!/^[A-Za-z_][\w-]*$/.test(step)) text += `[${JSON.stringify(step)}]`;
    else text += text === '' ? step : `.${step}`;
  }
  return text;
}

/** Chosen: more than people read, and the list must fit into a log line and a status. */
const maxListed = 1000;

/** A list of errors: the first ones, and the number of all. */
export class RuleErrorList {
  readonly errors: RuleError[] = [];
  /** The number of errors, including those that are not listed. */
  count = 0;

  /** True if the next error is only counted. */
  get isFull(): boolean {
    return this.errors.length >= maxListed;
  }

  /** Counts errors that are not listed. */
  addUnlisted(count: number): void {
    this.count += count;
  }

  add(error: RuleError): void {
    this.count++;
    if (!this.isFull) this.errors.push(error);
  }
}

/** A value that was found, as JSON. Bounded: what is written in the wrong place may be long. */
export function quoted(value: unknown): string {
  const isLong = typeof value === 'string' && value.length > 80;
  const text = JSON.stringify(isLong ? `${value.slice(0, 80)}...` : value) ?? String(value);
  return text.length > 200 ? `${text.slice(0, 200)}...` : text;
}

/** Returns for example `a, b or c`. */
export function orWords(words: readonly string[]): string {
  return `${words.slice(0, -1).join(', ')} or ${words.at(-1)}`;
}

/** The message of an error: a text that is none of the words of a field. */
export function unknownWord(field: string, known: readonly string[], found: string): string {
  return `${field} must be ${orWords(known)}, found '${found}'`;
}

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
// Names of domains, keys and fields that are similar to an unknown name.

/** Returns the name without the characters that people omit or confuse. */
export function plainName(text: string): string {
  return text.toLowerCase().replace(/[-_. ]/g, '');
}

/** Returns whether they are equal except for up to two characters in one place: left out, doubled, wrong or swapped. */
export function isMistyped(a: string, b: string): boolean {
  const [min, max] = [Math.min(a.length, b.length), Math.max(a.length, b.length)];
  if (max - min > 2 || (a !== b && min < 3)) return false;
  const begin = commonLength(a, b);
  let end = 0;
  while (end < min - begin && a.at(-1 - end) === b.at(-1 - end)) end++;
  return max - begin - end <= 2;
}

export function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && length < 1000 && a[length] === b[length]) length++;
  return length;
}

/** The known name that a misspelled one is nearest to, if any is near. */
export function similarName(written: string, known: readonly string[]): string | undefined {
  const given = plainName(written.slice(0, 80));
  return (
    known.find((one) => plainName(one) === given) ?? known.find((one) => isMistyped(plainName(one), given))
  );
}

/** Returns a message such as `no rules have the domain "shpo"; did you mean "shop"?` */
export function unknownDomainWords(domain: string, known: readonly string[]): string {
  return `no rules have the domain ${JSON.stringify(domain.slice(0, 100))}${similarNameHint(domain, known)}`;
}

/** Returns `; did you mean "shop"?`, or an empty text. */
export function similarNameHint(written: string, known: readonly string[]): string {
  const meant = similarName(written, known);
  return meant === undefined ? '' : `; did you mean ${JSON.stringify(meant)}?`;
}
