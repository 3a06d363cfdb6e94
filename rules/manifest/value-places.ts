import { EVENT_ID, type Event, getScalarValue, parseEvents } from 'js-yaml';
import type { RuleError } from '../rule-error.ts';
import { LineIndex, type TextPlace } from '../yaml/line-index.ts';
import type { DocumentText } from './read-manifests.ts';

/** Finds line and column of values in one document of YAML by their paths. Does not follow aliases. */
export class ValuePlaces {
  readonly #text: string;
  readonly #firstLine: number;
  readonly #events: Event[];
  readonly #lines: LineIndex;
  /** The elements of lists that were asked for, so that many paths into one list cost one walk. */
  readonly #elements = new Map<number, number[]>();

  /** The document has to be one that js-yaml reads. */
  constructor({ text, firstLine }: DocumentText) {
    this.#text = text;
    this.#firstLine = firstLine;
    this.#events = parseEvents(text, {});
    this.#lines = new LineIndex(text);
  }

  /** Of the value at a path; of the last map or list on the way where there is no such value. */
  placeOf(path: readonly (string | number)[]): TextPlace {
    let index = 1;
    for (const step of path) {
      const child = typeof step === 'number' ? this.#element(index, step) : this.#value(index, step);
      if (child === undefined) break;
      index = child;
    }
    const { line, column } = this.#lines.placeOf(startOf(this.#events[index]));
    return { line: line + this.#firstLine - 1, column };
  }

  #element(list: number, position: number): number | undefined {
    if (this.#events[list]?.type !== EVENT_ID.SEQUENCE) return undefined;
    let elements = this.#elements.get(list);
    if (elements === undefined) {
      elements = [];
      for (let child = list + 1; !this.#isEnd(child); child = this.#after(child)) elements.push(child);
      this.#elements.set(list, elements);
    }
    return elements[position];
  }

  #value(map: number, key: string): number | undefined {
    if (this.#events[map]?.type !== EVENT_ID.MAPPING) return undefined;
    for (let child = map + 1; !this.#isEnd(child); ) {
      const value = this.#after(child);
      const event = this.#events[child];
      if (event?.type === EVENT_ID.SCALAR && getScalarValue(this.#text, event) === key) return value;
      child = this.#after(value);
    }
    return undefined;
  }

  #isEnd(index: number): boolean {
    const type = this.#events[index]?.type;
    return type === undefined || type === EVENT_ID.POP;
  }

  /** The index behind the value at `index`. */
  #after(index: number): number {
    let open = 0;
    let next = index;
    do {
      const type = this.#events[next++]?.type;
      if (type === EVENT_ID.SEQUENCE || type === EVENT_ID.MAPPING) open++;
      else if (type === EVENT_ID.POP || type === undefined) open--;
    } while (open > 0);
    return next;
  }
}

function startOf(event: Event | undefined): number {
  switch (event?.type) {
    case EVENT_ID.SEQUENCE:
    case EVENT_ID.MAPPING:
      return Math.max(event.start, 0);
    case EVENT_ID.SCALAR:
      return Math.max(event.valueStart, 0);
    case EVENT_ID.ALIAS:
      return Math.max(event.anchorStart, 0);
    default:
      return 0;
  }
}

/** `spec.descriptors[0].key: descriptor has empty key`; the text alone for an error of the whole. */
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

/** What one object may hold. Chosen: far above what rules in use need, low enough that nothing gets out of hand. */
export const bounds = {
  /** Levels of `descriptors` below `spec`. Each adds to the CRD, because its schema knows no recursion. */
  descriptorLevels: 8,
  /** Rules of one level. An object of such size is near what etcd takes (1.5 MiB). */
  descriptorsPerLevel: 10_000,
  /** Of a DNS label. */
  fleetLength: 63,
  domainLength: 253,
  keyLength: 1024,
  valueLength: 4096,
  limitNameLength: 253,
  replaces: 64,
  /** Nested objects and lists of `metadata`. Limiters read at most 100 nested messages, and each takes up to three. */
  metadataLevels: 16,
} as const;

/** The fleet of limiters that name none. */
export const defaultFleet = 'default';

/** Lower case letters, digits and inner hyphens, as in a DNS label. */
export const dnsLabelPattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?$';
/** Labels joined by dots: what the API server takes as the name of a custom object. */
export const dnsNamePattern = '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$';
/** Of a name of an object. */
export const objectNameLength = 253;

/** Why a value cannot be the metadata of a rule: it is no JSON, or nested too deeply. Undefined when it can. */
export function jsonProblem(value: unknown, levelsLeft: number = bounds.metadataLevels): string | undefined {
  switch (typeof value) {
    case 'string':
    case 'number':
    case 'boolean':
      return undefined;
    case 'object':
      break;
    default:
      return `must hold JSON values only, found a ${typeof value}`;
  }
  if (value === null) return undefined;
  if (levelsLeft === 0) return `must nest objects and lists at most ${bounds.metadataLevels} levels deep`;
  for (const member of Object.values(value)) {
    const problem = jsonProblem(member, levelsLeft - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}
