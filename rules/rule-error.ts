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

export type RuleErrorCode =
  | 'syntax'
  | 'wrong-type'
  | 'key-not-a-string'
  | 'unknown-key'
  | 'misplaced-key'
  | 'duplicate-key'
  | 'list-element-not-a-map'
  | 'empty-domain'
  | 'duplicate-domain'
  | 'empty-key'
  | 'duplicate-descriptor'
  | 'invalid-unit'
  | 'unit-when-unlimited'
  | 'invalid-window'
  | 'invalid-algorithm'
  | 'burst-without-bucket'
  | 'invalid-limits'
  | 'duplicate-limit'
  | 'invalid-lease'
  | 'invalid-assign'
  | 'invalid-calendar'
  | 'invalid-hits-unit'
  | 'invalid-marks'
  | 'invalid-reserve'
  | 'uncountable'
  | 'empty-replaces'
  | 'replaces-itself'
  | 'share-threshold-without-wildcard'
  | 'invalid-metadata'
  | 'too-large'
  | 'unread-document'
  | 'passed-over'
  | 'unreadable';

/** Returns a line such as `config.basic.yaml:4:9: descriptor has empty key`, without the place if it is unknown. */
export function formatRuleError(error: RuleError): string {
  const place =
    error.line === undefined ? error.source : `${error.source}:${error.line}:${error.column ?? 1}`;
  return `${place}: ${error.text}`;
}

/** Writes an error of an object as `spec.descriptors[0].key: descriptor has empty key`. An error of the whole has only the text. */
export function formatManifestError({ path, text }: Pick<RuleError, 'path' | 'text'>): string {
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
const mostListed = 1000;

/** A list of errors: the first ones, and the number of all. */
export class RuleErrorList {
  readonly errors: RuleError[] = [];
  /** The number of errors, including those that are not listed. */
  count = 0;

  /** True if the next error is only counted. */
  get isFull(): boolean {
    return this.errors.length >= mostListed;
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

/** The message of an error: a text that is none of the words of a field. */
export function unknownWord(field: string, known: readonly string[], found: string): string {
  return `${field} must be ${known.slice(0, -1).join(', ')} or ${known.at(-1)}, found '${found}'`;
}
