/**
 * The reader of manifests: rules, and errors with their places, from `spec` of an object. It goes by the rows of
 * `rules/language/fields.ts`. Null is refused as the API server refuses it, so that `rateLimit:` with nothing below is no rule
 * without a limit.
 */
import { type Algorithm, algorithmNames, algorithmNumber, defaultAlgorithm } from '../algorithms/registry.ts';
import { readCalendar } from '../calendar.ts';
import {
  descriptorLevels,
  type FieldKind,
  type FieldRow,
  type FieldRows,
  ruleFields,
} from '../language/fields.ts';
import { defaultClass, defaultFleet, specFields } from '../language/kinds.ts';
import {
  calendarTable,
  enumName,
  type FieldTable,
  fieldName,
  fields,
  fieldTable,
  limitTable,
  manifestWords,
  namesOf,
  ownLimitFields,
  Place,
  placesInWords,
  replacesTable,
  reserveTable,
  ruleTable,
} from '../language/tables.ts';
import { leaseForm, leaseFromText } from '../lease.ts';
import {
  type FieldValues,
  type HitsUnit,
  hitsUnits,
  isObject,
  type JsonObject,
  type Limit,
  makeLimit,
  makeRule,
  maxUint32,
  mostRequests,
  type Rule,
  type RuleSource,
  unitFromText,
  type Written,
  type WrittenLimit,
  type WrittenRule,
  wholeFrom,
} from '../model.ts';
import { readReserve } from '../reserve.ts';
import { fieldPath, type RuleError, type RuleErrorCode, RuleErrorList, unknownWord } from '../rule-error.ts';
import { listProblem, type RuleSupport, settleLimit, unknownAlgorithm } from '../validate-limits.ts';
import { checkSources } from '../validate-sources.ts';

/** Keys and list positions. */
type Path = readonly (string | number)[];

type Problem = Pick<RuleError, 'code' | 'text' | 'path'>;

const specTable = fieldTable(Place.FILE, specFields);

/** Fields of which one has to stand beside a field. */
const neededBeside = new Map<string | number | undefined, readonly string[]>(
  namesOf(ruleFields).map((name) => [name, ruleRow(name).needs ?? []]),
);

function ruleRow(name: keyof typeof ruleFields): FieldRow {
  return ruleFields[name];
}

/** Reads a value of each kind. What it cannot read it refuses, and gives something that nothing more is said of. */
type Readers = {
  readonly [Kind in FieldKind]: (value: unknown, row: FieldRow) => FieldValues[Kind] | undefined;
};

class SpecReader {
  /** Values that are not of their form, and unknown fields. */
  readonly form: Problem[] = [];
  /** What the values of single fields and limits cannot mean. */
  readonly meaning: Problem[] = [];
  /** Fields that are none, from the spec on. */
  readonly unknown: Path[] = [];
  /** Rules of all levels. */
  count = 0;
  /** Paths of values that are not of their form. */
  readonly #refused = new Set<string>();
  readonly #ownFields = new Set<string>();
  #unreadables = 0;
  readonly #path: (string | number)[] = ['spec'];
  readonly #readers: Readers = {
    text: (value, row) => this.#text(value, row),
    unit: (value, row) => this.#text(value, row),
    boolean: (value) => {
      if (typeof value !== 'boolean') this.#refuseType('true or false', value);
      return value === true;
    },
    uint32: (value, row) => this.#uint32(value, row),
    requests: (value) => this.#requests(value),
    algorithm: (value) => this.#algorithm(value),
    unitOfHits: (value, row) => this.#unitOfHits(value, row),
    percents: (value, row) => this.#percents(value, row),
    day: (value) => (isNumberOrText(value) ? value : this.#refuseType('a day', value)),
    calendar: (value) => this.#composite(value, 'invalid-calendar', calendarTable, readCalendar),
    share: (value) => this.#share(value),
    reserve: (value) => this.#composite(value, 'invalid-reserve', reserveTable, readReserve),
    metadata: (value, row) => this.#metadata(value, row),
    names: (value, row) => this.#names(value, row),
    limit: (value) => this.#fields(limitTable, value),
    limits: (value) => this.#limits(value),
    rules: (value, row) => this.#rules(value, row),
  };

  /** Fields in use that limiters of other makers ignore. What these would misunderstand they are not sent: see `rulesVersionNeeded`. */
  get ownFields(): string[] {
    return [...this.#ownFields].sort();
  }

  read(spec: unknown): Written<typeof specFields> {
    return this.#fields(specTable, spec) ?? {};
  }

  /** Whether a problem may follow from another one: the value, what it stands in or what it needs beside it is not of its form. */
  follows({ code, path }: Pick<Problem, 'code' | 'path'>): boolean {
    if (this.#refused.size === 0) return false;
    // What limiters cannot count they cannot count beside anything.
    const beside = code === 'uncountable' ? [] : (neededBeside.get(path.at(-1)) ?? []);
    return (
      path.some((_, index) => this.#refused.has(fieldPath(path.slice(0, index + 1)))) ||
      beside.some((field) => this.#refused.has(fieldPath([...path.slice(0, -1), field])))
    );
  }

  /** What a map holds of these fields. */
  #fields<Rows extends FieldRows>(table: FieldTable<Rows>, value: unknown): Written<Rows> | undefined {
    if (!isObject(value)) return this.#refuseType('an object', value);
    const written: Written<Rows> = {};
    for (const { name } of table.fields) {
      const given = value[name];
      if (given === undefined && table.rows[name]!.isRequired !== true) continue;
      this.#path.push(name);
      this.#read(table.rows, written, name, given);
      this.#path.pop();
    }
    for (const key of Object.keys(value)) {
      if (Object.hasOwn(table.rows, key)) continue;
      const path = [...this.#path, key];
      this.form.push({ code: 'unknown-key', text: unknownField(key, table.place), path });
      this.unknown.push(path.slice(1));
    }
    return written;
  }

  #read<Rows extends FieldRows, Name extends keyof Rows & string>(
    rows: Rows,
    written: Written<Rows>,
    name: Name,
    value: unknown,
  ): void {
    const row = rows[name]!;
    if (value === undefined || (value === null && row.mayBeNull === true)) {
      if (value === undefined) this.#refuse('is required');
      return;
    }
    const kind: Rows[Name]['kind'] = row.kind;
    const read = this.#valueOf(kind, value, row);
    written[name] = read;
    if (row.ifUnknown === 'ignore' && read !== undefined && read !== false) this.#ownFields.add(name);
  }

  #valueOf<Kind extends FieldKind>(kind: Kind, value: unknown, row: FieldRow): FieldValues[Kind] | undefined {
    return this.#readers[kind](value, row);
  }

  #elements(
    value: unknown,
    read: (element: unknown, index: number) => void,
    most = Number.POSITIVE_INFINITY,
  ): void {
    if (!Array.isArray(value)) {
      this.#refuseType('a list', value);
      return;
    }
    this.#path.push(0);
    for (const [index, element] of value.entries()) {
      this.#path[this.#path.length - 1] = index;
      read(element, index);
    }
    this.#path.pop();
    if (value.length > most) this.#refuse(`must have at most ${most} elements, found ${value.length}`);
  }

  /** The rules of one level; a rule that is no object leaves a hole, which the validator passes over. */
  #rules(value: unknown, { most }: FieldRow): Rule[] {
    const rules: Rule[] = [];
    if (this.#path.length > 2 * descriptorLevels) {
      if (!Array.isArray(value)) this.#refuseType('a list', value);
      else if (value.length > 0)
        this.#refuse(`must be empty: rules nest at most ${descriptorLevels} levels deep`);
      return rules;
    }
    this.#elements(
      value,
      (given, index) => {
        const written = this.#fields(ruleTable, given);
        if (written !== undefined && isObject(given)) rules[index] = this.#rule(written, given);
      },
      most,
    );
    return rules;
  }

  #rule(written: WrittenRule, given: Record<string, unknown>): Rule {
    this.count++;
    if (this.#isRefused('key')) written.key = this.#unreadable();
    if (this.#isRefused('value')) written.value = this.#unreadable();
    return makeRule(written, this.#limitsOf(written, given));
  }

  /** Stands for a key or a value that cannot be read: no duplicate of another one, and with the * that a shared threshold needs. */
  #unreadable(): string {
    const text = `\uFFFD*${this.#unreadables || ''}`;
    this.#unreadables++;
    return text;
  }

  #limitsOf({ rateLimit, rateLimits }: WrittenRule, given: Record<string, unknown>): Limit[] {
    const list = given['rateLimits'];
    if (!Array.isArray(list))
      return rateLimit === undefined ? [] : [this.#limitOf(rateLimit, given['rateLimit'], 'rateLimit')];
    const problem = listProblem(list.length, rateLimit !== undefined);
    if (problem !== undefined) this.#report('invalid-limits', problem, 'rateLimits');
    const limits = list.map((one: unknown, index) =>
      this.#limitOf(rateLimits?.[index] ?? {}, one, 'rateLimits', index),
    );
    return problem === undefined ? limits : [];
  }

  /** `given`: what was written as `written`. */
  #limitOf(written: WrittenLimit, given: unknown, ...above: (string | number)[]): Limit {
    const { unit, unlimited, requestsPerUnit } = written;
    if (unlimited === true && unit !== undefined && unitFromText(unit) === undefined) {
      const text = 'should not specify rate limit unit when unlimited';
      this.#report('unit-when-unlimited', text, ...above, 'unit');
    }
    if (unlimited !== true && requestsPerUnit === undefined) {
      this.#report('wrong-type', 'is required (0 blocks everything)', ...above, 'requestsPerUnit');
    }
    const limit = makeLimit(written);
    const has = (field: string): boolean => isObject(given) && field in given;
    if (ownLimitFields.some(has)) {
      settleLimit(limit, { ...written, has }, (field, code, text) => {
        this.#report(code, text, ...above, field);
      });
    }
    return limit;
  }

  #limits(value: unknown): (WrittenLimit | undefined)[] {
    const limits: (WrittenLimit | undefined)[] = [];
    this.#elements(value, (limit) => limits.push(this.#fields(limitTable, limit)));
    return limits;
  }

  #text(value: unknown, { most = 0, pattern = '', form, words }: FieldRow): string | undefined {
    if (typeof value !== 'string') return this.#refuseType('a string', value);
    // Characters are counted as the API server counts them: code points.
    const length = value.length <= most ? 0 : [...value].length;
    if (words !== undefined) this.#word(value, words);
    else if (!value.isWellFormed()) this.#refuse('is not valid Unicode');
    else if (length > most) this.#refuse(`must have at most ${most} characters, found ${length}`);
    else if (form !== undefined && !new RegExp(pattern, 'u').test(value))
      this.#refuse(`must be ${form}, found '${value}'`);
    return value;
  }

  /** Gives the position of a word of an enum. */
  #word(value: string, words: readonly string[]): number {
    const known = words.map(enumName);
    const found = known.indexOf(value);
    if (found < 0) this.#refuse(unknownWord(String(this.#path.at(-1)), known, value));
    return found;
  }

  #unitOfHits(value: unknown, { words = [] }: FieldRow): HitsUnit | undefined {
    return typeof value === 'string'
      ? hitsUnits[this.#word(value, words)]
      : this.#refuseType('a string', value);
  }

  #algorithm(value: unknown): Algorithm {
    const known = algorithmNames.map(enumName);
    const found = typeof value === 'string' ? known.indexOf(value) : -1;
    if (found >= 0) return algorithmNumber(found);
    if (typeof value === 'string') this.#refuse(unknownAlgorithm(value, known));
    else this.#refuseType('a string', value);
    return defaultAlgorithm;
  }

  /** 0 for what is refused: what is made of it has to be whole. */
  #uint32(value: unknown, { least = 0, most = maxUint32 }: FieldRow): number {
    if (typeof value !== 'number' || !Number.isFinite(value)) this.#refuseType('a whole number', value);
    else if (Number.isInteger(value) && value >= 0 && value <= maxUint32) return value;
    else this.#refuse(`must be a whole number from ${least} to ${most}, found ${value}`);
    return 0;
  }

  #requests(value: unknown): number {
    const number = wholeFrom(value);
    if (number === undefined)
      this.#refuseType(
        isNumberOrText(value) ? `a whole number from 0 to ${mostRequests}` : 'a whole number',
        value,
      );
    return number ?? 0;
  }

  #percents(value: unknown, { most }: FieldRow): number[] {
    const marks: number[] = [];
    this.#elements(
      value,
      (mark) => {
        if (typeof mark === 'number' && Number.isFinite(mark)) marks.push(mark);
        else this.#refuseType('a whole number', mark);
      },
      most,
    );
    return marks;
  }

  #share(value: unknown): number | undefined {
    const lease = isNumberOrText(value) ? leaseFromText(String(value)) : undefined;
    return lease ?? this.#refuseType(leaseForm, value);
  }

  /** Makes a value of an object of fields. */
  #composite<Rows extends FieldRows, Value>(
    value: unknown,
    code: RuleErrorCode,
    table: FieldTable<Rows>,
    read: (written: Written<Rows>, report: (field: string, text: string) => void) => Value | undefined,
  ): Value | undefined {
    const written = this.#fields(table, value);
    return written && read(written, (field, text) => this.#report(code, text, fieldName(field)));
  }

  #names(value: unknown, { most }: FieldRow): string[] {
    const names: string[] = [];
    this.#elements(value, (one) => names.push(this.#fields(replacesTable, one)?.name ?? ''), most);
    return names;
  }

  /** Undefined when there is nothing in it, too. */
  #metadata(value: unknown, { most = 0 }: FieldRow): JsonObject | undefined {
    if (!isObject(value)) return this.#refuseType('an object', value);
    if (!isWithin(value, most))
      return this.#refuse(`must nest objects and lists at most ${most} levels deep`);
    return Object.keys(value).length > 0 ? value : undefined;
  }

  #isRefused(field: string): boolean {
    return this.#refused.size > 0 && this.#refused.has(fieldPath([...this.#path, field]));
  }

  #refuseType(wanted: string, found: unknown): undefined {
    this.#refuse(found === undefined ? 'is required' : `must be ${wanted}, found ${kindOf(found)}`);
  }

  #refuse(text: string): undefined {
    this.form.push({ code: 'wrong-type', text, path: [...this.#path] });
    this.#refused.add(fieldPath(this.#path));
  }

  #report(code: RuleErrorCode, text: string, ...below: (string | number)[]): void {
    this.meaning.push({ code, text, path: [...this.#path, ...below] });
  }
}

function isNumberOrText(value: unknown): value is number | string {
  return typeof value === 'string' || (typeof value === 'number' && Number.isFinite(value));
}

function kindOf(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'a list';
  if (typeof value === 'string')
    return `the text '${value.length > 40 ? `${value.slice(0, 40)}...` : value}'`;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return 'an object';
}

/** Whether objects and lists are at most so many levels deep. Manifests hold nothing but JSON values. */
function isWithin(value: object, levels: number): value is JsonObject {
  const isNested = (member: unknown) => typeof member === 'object' && member !== null;
  return levels > 0 && Object.values(value).every((one) => !isNested(one) || isWithin(one, levels - 1));
}

/** `place`: the kind of map that has the field. */
function unknownField(key: string, place: Place): string {
  const meant = fieldName(key);
  const field = [...fields.values()].find(({ name }) => name === key || fieldName(name) === key);
  if (field !== undefined && place !== Place.FILE && (field.places & place) === 0) {
    const where = manifestWords(placesInWords(field.places).replace('the top level', 'spec'));
    return `unknown field, '${meant}' belongs to ${where}`;
  }
  return meant === key ? 'unknown field' : `unknown field, did you mean '${meant}'?`;
}

export type SpecReading = AcceptedSpec | RefusedSpec;

export interface AcceptedSpec {
  ok: true;
  className: string;
  fleet: string;
  source: RuleSource;
  /** Rules of all levels. */
  rules: number;
  /** Fields in use that only this project's limiters know, as manifests spell them. */
  ownFields: string[];
}

export interface RefusedSpec {
  ok: false;
  /** The first 1,000; paths begin with `spec`. */
  errors: RuleError[];
  /** How many there are in all. */
  errorCount: number;
  /** Fields that this version does not know, from the spec on. */
  unknown: Path[];
  /** What could be read all the same. */
  fleet?: string;
  domain?: string;
}

/** `className` of an unchecked spec; undefined when it is no text, so that nobody's control plane may say so. */
export function classNameOf(spec: unknown): string | undefined {
  const className = isObject(spec) ? (spec['className'] ?? defaultClass) : defaultClass;
  return typeof className === 'string' ? className : undefined;
}

/** Reads `spec` of a RateLimitConfig whose source is to be called `name`. `support`: of the limiters that load it, all where it is left out. Never throws. */
export function readSpec(spec: unknown, name: string, support?: RuleSupport): SpecReading {
  const reader = new SpecReader();
  const { className = defaultClass, fleet = defaultFleet, domain = '', descriptors = [] } = reader.read(spec);
  const source = { name, domain, descriptors };
  const list = new RuleErrorList();
  const add = ({ code, text, path }: Problem): void => {
    list.add({ code, source: name, text, path, line: undefined, column: undefined });
  };
  const addMeaning = ({ code, text, path }: Problem): void => {
    if (!reader.follows({ code, path })) add({ code, text: manifestWords(text), path });
  };
  reader.form.forEach(add);
  reader.meaning.forEach(addMeaning);
  checkSources([source], { mergeDomains: false, support }, ({ code, text, path }) => {
    addMeaning({ code, text, path: ['spec', ...path.map(fieldName)] });
  });
  if (list.count === 0) {
    const { count, ownFields } = reader;
    return { ok: true, className, fleet, source, rules: count, ownFields };
  }
  const has = (field: string): boolean => !reader.follows({ code: 'wrong-type', path: ['spec', field] });
  return {
    ok: false,
    errors: list.errors,
    errorCount: list.count,
    unknown: reader.unknown,
    ...(has('fleet') && { fleet }),
    ...(has('domain') && domain !== '' && { domain }),
  };
}
