/**
 * The dialect of manifests, and of overrides from any source: JSON values, and errors with their paths. It rejects null as the API server
 * does, so that `rateLimit:` without a value is not a rule without a limit.
 */

import { descriptorLevels, type FieldRow, type FieldRows } from '../language/fields.ts';
import { defaultClass, defaultFleet, specFields } from '../language/kinds.ts';
import {
  enumName,
  FieldPlace,
  type FieldTable,
  fieldName,
  fields,
  fieldTable,
  manifestWords,
  placesInWords,
} from '../language/tables.ts';
import {
  isObject,
  type JsonObject,
  maxRequests,
  maxUint32,
  type RuleSource,
  readWholeNumber,
  unitFromText,
  type Written,
} from '../model.ts';
import {
  type FieldProblem,
  FollowUps,
  type RuleError,
  type RuleErrorCode,
  RuleErrorList,
  unknownWord,
} from '../rule-error.ts';
import type { RuleSupport } from '../validate-limits.ts';
import { checkSources } from '../validate-sources.ts';
import type { DocumentPath } from '../yaml/places.ts';
import { RuleReader } from './rule-reader.ts';

export class ManifestReader extends RuleReader<unknown> {
  readonly problems: FieldProblem[] = [];
  /** The paths of unknown fields. */
  readonly unknown: DocumentPath[] = [];
  readonly #path: (string | number)[];
  readonly #ignoresNull: boolean;

  /** `ignoresNull`: whether null means that the field is not set. */
  constructor(path: DocumentPath, ignoresNull = false) {
    super();
    this.#path = [...path];
    this.#ignoresNull = ignoresNull;
  }

  read<Rows extends FieldRows>(table: FieldTable<Rows>, value: unknown): Written<Rows> {
    return this.isMap(value) ? this.fields(value, table) : {};
  }

  protected override get problemCount(): number {
    return this.problems.length;
  }

  protected override reject(
    _node: unknown,
    code: RuleErrorCode,
    text: string,
    ...below: (string | number)[]
  ): void {
    this.problems.push({ code, text: manifestWords(text), path: [...this.#path, ...below.map(fieldName)] });
  }

  protected override get fieldName(): string {
    return String(this.#path.at(-1));
  }

  protected override isMap(value: unknown): boolean {
    if (!isObject(value)) this.#rejectType('an object', value);
    return isObject(value);
  }

  protected override eachField<Rows extends FieldRows>(
    map: unknown,
    { fields: known, rows, place }: FieldTable<Rows>,
    take: (name: keyof Rows & string, value: unknown, key: unknown) => void,
  ): void {
    if (!isObject(map)) return;
    for (const { name } of known) {
      const { isRequired, mayBeNull, ifMissing } = rows[name]!;
      const isNone = map[name] === null && (mayBeNull || this.#ignoresNull);
      const value = isNone ? undefined : map[name];
      if (value === undefined) {
        if (isRequired) this.#reject('is required', name);
        if (ifMissing !== undefined && map[ifMissing.unless] !== true) this.#reject(ifMissing.text, name);
        continue;
      }
      this.#path.push(name);
      take(name, value, name);
      this.#path.pop();
    }
    for (const key of Object.keys(map)) {
      if (Object.hasOwn(rows, key)) continue;
      const path = [...this.#path, key];
      this.problems.push({ code: 'unknown-key', text: unknownField(key, place), path });
      this.unknown.push(path);
    }
  }

  /** Null is rejected, as in every other field. */
  protected override isIgnored(): boolean {
    return false;
  }

  protected override maps<Value>(
    node: unknown,
    { kind, max }: FieldRow,
    read: (map: unknown) => Value,
  ): Value[] | undefined {
    const isTooDeep = kind === 'rules' && this.#path.length > 2 * descriptorLevels;
    if (isTooDeep && Array.isArray(node)) {
      if (node.length > 0) this.#reject(`must be empty: rules nest at most ${descriptorLevels} levels deep`);
      return [];
    }
    const found: Value[] = [];
    // `listProblem` checks the number of limits.
    this.#elements(node, kind === 'limits' ? undefined : max, (element, index) => {
      found.length = index + 1;
      if (this.isMap(element)) found[index] = read(element);
    });
    return Array.isArray(node) ? found : undefined;
  }

  #elements(value: unknown, max: number | undefined, read: (element: unknown, index: number) => void): void {
    if (!Array.isArray(value)) {
      this.#rejectType('a list', value);
      return;
    }
    this.#path.push(0);
    for (const [index, element] of value.entries()) {
      this.#path[this.#path.length - 1] = index;
      read(element, index);
    }
    this.#path.pop();
    if (max !== undefined && value.length > max)
      this.#reject(`must have at most ${max} elements, found ${value.length}`);
  }

  protected override text(value: unknown, row: Partial<FieldRow> = {}): string | undefined {
    if (typeof value !== 'string') return this.#rejectType('a string', value);
    const { max = Number.POSITIVE_INFINITY, pattern = '', form, words } = row;
    // Characters are counted as the API server counts them, that is, in code points.
    const length = value.length <= max ? 0 : [...value].length;
    const known = words?.map(enumName) ?? [value];
    if (!known.includes(value)) this.#reject(unknownWord(this.fieldName, known, value));
    else if (!value.isWellFormed()) this.#reject('is not valid Unicode');
    else if (length > max) this.#reject(`must have at most ${max} characters, found ${length}`);
    else if (form !== undefined && !new RegExp(pattern, 'u').test(value))
      this.#reject(`must be ${form}, found '${value}'`);
    return value;
  }

  protected override unitText(value: unknown, row: FieldRow): string | undefined {
    const text = this.text(value, row);
    if (text !== undefined && unitFromText(text) === undefined)
      this.reject(value, 'invalid-unit', `invalid rate limit unit '${text}'`);
    return text;
  }

  protected override numberOrText(value: unknown, wanted: string): string | undefined {
    return isNumberOrText(value) ? String(value) : this.#rejectType(wanted, value);
  }

  protected override spelled(word: string): string {
    return enumName(word);
  }

  protected override asWord(text: string): string {
    return text;
  }

  protected override boolean(value: unknown): boolean | undefined {
    return typeof value === 'boolean' ? value : this.#rejectType('true or false', value);
  }

  protected override uint32(value: unknown, { min = 0, max = maxUint32 }: FieldRow): number | undefined {
    if (typeof value !== 'number' || !Number.isFinite(value))
      return this.#rejectType('a whole number', value);
    if (Number.isInteger(value) && value >= 0 && value <= maxUint32) return value;
    return this.#reject(`must be a whole number from ${min} to ${max}, found ${value}`);
  }

  protected override requests(value: unknown, { min = 0 }: FieldRow): number | undefined {
    const bounds = isNumberOrText(value) ? ` from ${min} to ${maxRequests}` : '';
    const number = readWholeNumber(value);
    if (number !== undefined && number >= min) return number;
    return this.#rejectType(`a whole number${bounds}`, value);
  }

  protected override numbers(value: unknown, { max }: FieldRow): number[] {
    const found: number[] = [];
    this.#elements(value, max, (one) => {
      if (typeof one === 'number' && Number.isFinite(one)) found.push(one);
      else this.#rejectType('a whole number', one);
    });
    return found;
  }

  protected override metadata(value: unknown, { max = 0 }: FieldRow): JsonObject | undefined {
    if (!isObject(value)) return this.#rejectType('an object', value);
    if (!isWithin(value, max)) return this.#reject(`must nest objects and lists at most ${max} levels deep`);
    return Object.keys(value).length > 0 ? value : undefined;
  }

  #rejectType(wanted: string, found: unknown): undefined {
    this.#reject(found === undefined ? 'is required' : `must be ${wanted}, found ${valueInWords(found)}`);
  }

  #reject(text: string, ...below: string[]): undefined {
    this.problems.push({ code: 'wrong-type', text, path: [...this.#path, ...below] });
  }
}

function isNumberOrText(value: unknown): value is number | string {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}

/** Describes a value of the wrong type. */
export function valueInWords(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string')
    return `the text '${value.length > 40 ? `${value.slice(0, 40)}...` : value}'`;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'an object';
}

/** Whether objects and lists have at most this number of levels. Manifests contain only JSON values. */
function isWithin(value: object, levels: number): value is JsonObject {
  const isNested = (member: unknown) => typeof member === 'object' && member !== null;
  return levels > 0 && Object.values(value).every((one) => !isNested(one) || isWithin(one, levels - 1));
}

/** `place`: the kind of map that has the field. */
function unknownField(key: string, place: FieldPlace): string {
  const meant = fieldName(key);
  const field = [...fields.values()].find(({ name }) => name === key || fieldName(name) === key);
  if (field !== undefined && place !== FieldPlace.FILE && (field.places & place) === 0) {
    const where = manifestWords(placesInWords(field.places).replace('the top level', 'spec'));
    return `unknown field, '${meant}' belongs to ${where}`;
  }
  return meant === key ? 'unknown field' : `unknown field, did you mean '${meant}'?`;
}

// Reads `spec` of a RateLimitConfig: rules, and errors with their places.

const specTable = fieldTable(FieldPlace.FILE, specFields);

export type SpecReading = AcceptedSpec | RejectedSpec;

export interface AcceptedSpec {
  ok: true;
  className: string;
  fleet: string;
  source: RuleSource;
  /** The number of rules on all levels. */
  rules: number;
  /** Fields in use that only this project's limiters support, as manifests spell them. */
  ownFields: string[];
}

export interface RejectedSpec {
  ok: false;
  /** The first 1,000 errors. Their paths begin with `spec`. */
  errors: RuleError[];
  /** The number of all errors. */
  errorCount: number;
  /** The paths of fields that this version does not know, relative to the spec. */
  unknown: DocumentPath[];
  /** The fleet and class, if they could be read despite the errors. */
  fleet?: string;
  domain?: string;
}

/** Returns `className` of an unchecked spec. Returns undefined if it is not a text; then no control plane reports on the object. */
export function classNameOf(spec: unknown): string | undefined {
  const className = isObject(spec) ? (spec['className'] ?? defaultClass) : defaultClass;
  return typeof className === 'string' ? className : undefined;
}

/**
 * Reads `spec` of a RateLimitConfig. Its source gets the name `name`. `support`: the capabilities of the limiters that load it. Defaults
 * to full support. Never throws.
 */
export function readSpec(spec: unknown, name: string, support?: RuleSupport): SpecReading {
  const reader = new ManifestReader(['spec']);
  const {
    className = defaultClass,
    fleet = defaultFleet,
    domain = '',
    descriptors = [],
  } = reader.read(specTable, spec);
  const source = { name, domain, descriptors };
  const list = new RuleErrorList();
  const add = (problem: FieldProblem): void => {
    list.add({ ...problem, source: name, line: undefined, column: undefined });
  };
  reader.problems.forEach(add);
  const followUps = new FollowUps(reader.problems);
  checkSources([source], { mergeDomains: false, support }, ({ code, text, path: below }) => {
    const path = ['spec', ...below.map(fieldName)];
    if (!followUps.includes({ code, path }, () => isWritten({ spec }, path)))
      add({ code, text: manifestWords(text), path });
  });
  if (list.count === 0) {
    const ownFields = [...reader.ownFields].sort();
    return { ok: true, className, fleet, source, rules: reader.count, ownFields };
  }
  const has = (field: string): boolean => !followUps.isUnread(['spec', field]);
  return {
    ok: false,
    errors: list.errors,
    errorCount: list.count,
    unknown: reader.unknown.map((path) => path.slice(1)),
    ...(has('fleet') && { fleet }),
    ...(has('domain') && domain !== '' && { domain }),
  };
}

/** Whether a path has a value. */
function isWritten(value: unknown, path: DocumentPath): boolean {
  const [step, ...below] = path;
  if (step === undefined) return value !== undefined;
  return typeof value === 'object' && value !== null && isWritten(Reflect.get(value, step), below);
}
