import type { z } from 'zod';
import { type Algorithm, defaultAlgorithm } from '../algorithms/registry.ts';
import { readCalendar, readReserve } from '../budget-fields.ts';
import type { FieldKind, FieldRows } from '../language/fields.ts';
import { Place, placesInWords } from '../language/places.ts';
import {
  calendarTable,
  type FieldTable,
  fields,
  limitTable,
  ownLimitFields,
  reserveTable,
  ruleTable,
} from '../language/tables.ts';
import { leaseFromText } from '../lease.ts';
import {
  type Calendar,
  type FieldValues,
  hitsUnits,
  type JsonObject,
  makeLimit,
  makeRule,
  type RateLimit,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  unitFromText,
  type Written,
  type WrittenLimit,
  type WrittenRule,
  wholeFrom,
} from '../model.ts';
import { fieldPath, type RuleError, type RuleErrorCode, RuleErrorList } from '../rule-error.ts';
import { fieldName, manifestWords } from '../spelling.ts';
import { listProblem, type RuleSupport, settleLimit } from '../validate-limits.ts';
import { checkSources } from '../validate-sources.ts';
import { algorithmEnum, hitsUnitEnum } from './enum-words.ts';
import { bounds, defaultClass, defaultFleet } from './manifest-bounds.ts';
import { jsonProblem } from './model-values.ts';
import { specModel } from './spec-model.ts';

/**
 * Stands for a key or a value that cannot be read: found to be no duplicate of a readable one, and to be no reason why
 * a shared threshold is refused.
 */
const unreadable = '\uFFFD*';

/** Reads a value of each kind; undefined for what is not of its type. */
type Readers = { readonly [Kind in FieldKind]: (value: unknown) => FieldValues[Kind] | undefined };

/** Makes rules of `spec.descriptors`. Leaves out what is not of its type: the model reports it. */
class SpecRules {
  /** What is wrong with their meaning, with its path from `spec` on. */
  readonly problems: Pick<RuleError, 'code' | 'text' | 'path'>[] = [];
  /** Rules of all levels. */
  count = 0;
  readonly #ownFields = new Set<string>();
  readonly #path: (string | number)[] = [];
  readonly #readers: Readers = {
    text: textOf,
    boolean: (value) => value === true,
    uint32: numberOf,
    requests: (value) => wholeFrom(value) ?? 0,
    metadata: metadataOf,
    percents: (value) => (Array.isArray(value) ? value.filter((mark) => typeof mark === 'number') : []),
    day: (value) => (typeof value === 'number' ? value : textOf(value)),
    algorithm: algorithmOf,
    hitsUnit: (value) => hitsUnits[hitsUnitEnum.indexOf(textOf(value) ?? '')],
    calendar: (value) => this.#calendar(value),
    share: (value) => leaseFromText(String(value)),
    reserve: (value) => this.#reserve(value),
    names: namesOfReplaced,
    limit: (value) => (isObject(value) ? this.#fields(limitTable, value) : undefined),
    limits: (value) =>
      this.#elements(value, (limit) => this.#fields(limitTable, isObject(limit) ? limit : {})),
    rules: (value) => this.#rules(value),
  };

  /** Fields in use that limiters of other makers ignore. What these would misunderstand they are not sent: see `rulesVersionNeeded`. */
  get ownFields(): string[] {
    return [...this.#ownFields].sort();
  }

  read(descriptors: unknown): Rule[] {
    this.#path.push('descriptors');
    const rules = this.#rules(descriptors);
    this.#path.pop();
    return rules;
  }

  /** The rules of one level; a rule that is no object leaves a hole, which the validator passes over. */
  #rules(value: unknown): Rule[] {
    if (this.#path.length >= 2 * bounds.descriptorLevels + 1) return [];
    const rules = this.#elements(value, (rule) => (isObject(rule) ? this.#rule(rule) : undefined));
    return rules as Rule[];
  }

  #elements<Element>(value: unknown, read: (element: unknown) => Element): Element[] {
    if (!Array.isArray(value)) return [];
    this.#path.push(0);
    const elements = value.map((element, index) => {
      this.#path[this.#path.length - 1] = index;
      return read(element);
    });
    this.#path.pop();
    return elements;
  }

  #rule(given: Record<string, unknown>): Rule {
    this.count++;
    const written = this.#fields(ruleTable, given);
    written.key ??= unreadable;
    if (given['value'] != null) written.value ??= unreadable;
    return makeRule(written, this.#limitsOf(written, given));
  }

  /** What is written of these fields. */
  #fields<Rows extends FieldRows>(
    { rows, fields: own }: FieldTable<Rows>,
    given: Record<string, unknown>,
  ): Written<Rows> {
    const written: Written<Rows> = {};
    for (const { name } of own) {
      if (given[name] === undefined) continue;
      this.#path.push(name);
      this.#read(rows, written, name, given[name]);
      this.#path.pop();
      const isUsed = written[name] !== undefined && written[name] !== false;
      if (isUsed && rows[name]!.ifUnknown === 'ignore') this.#ownFields.add(name);
    }
    return written;
  }

  #read<Rows extends FieldRows, Name extends keyof Rows>(
    rows: Rows,
    written: Written<Rows>,
    name: Name,
    value: unknown,
  ): void {
    const kind: Rows[Name]['kind'] = rows[name]!.kind;
    written[name] = this.#valueOf(kind, value);
  }

  #valueOf<Kind extends FieldKind>(kind: Kind, value: unknown): FieldValues[Kind] | undefined {
    return this.#readers[kind](value);
  }

  #reserve(value: unknown): ReserveTerms | undefined {
    if (!isObject(value)) return undefined;
    return readReserve(this.#fields(reserveTable, value), (field, text) => {
      this.#report('invalid-reserve', text, fieldName(field));
    });
  }

  #calendar(value: unknown): Calendar | undefined {
    if (!isObject(value)) return undefined;
    return readCalendar(this.#fields(calendarTable, value), (field, text) => {
      this.#report('invalid-calendar', text, fieldName(field));
    });
  }

  #limitsOf({ rateLimit, rateLimits }: WrittenRule, given: Record<string, unknown>): RateLimit[] {
    if (!Array.isArray(given['rateLimits']))
      return rateLimit === undefined ? [] : [this.#limitOf(rateLimit, given['rateLimit'], 'rateLimit')];
    const list = given['rateLimits'];
    const problem = listProblem(list.length, rateLimit !== undefined);
    if (problem !== undefined) this.#report('invalid-limits', problem, 'rateLimits');
    const limits = list.map((one: unknown, index) =>
      this.#limitOf(rateLimits?.[index] ?? {}, one, 'rateLimits', index),
    );
    return problem === undefined ? limits : [];
  }

  /** `given`: what was written as `written`. */
  #limitOf(written: WrittenLimit, given: unknown, ...above: (string | number)[]): RateLimit {
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

  #report(code: RuleErrorCode, text: string, ...below: (string | number)[]): void {
    this.problems.push({ code, text, path: [...this.#path, ...below] });
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

/** 0 for what the model refuses: what is made of it has to be whole. */
function numberOf(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) ? value : 0;
}

function algorithmOf(value: unknown): Algorithm {
  const known = algorithmEnum.indexOf(textOf(value) ?? '');
  return known < 0 ? defaultAlgorithm : (known as Algorithm);
}

function namesOfReplaced(value: unknown): string[] {
  if (!Array.isArray(value)) return [];
  return value.map((one) => (isObject(one) ? (textOf(one['name']) ?? '') : ''));
}

/** Undefined when there is nothing in it, or what the model refuses. */
function metadataOf(value: unknown): JsonObject | undefined {
  if (!isObject(value) || Object.keys(value).length === 0 || jsonProblem(value) !== undefined)
    return undefined;
  return value as JsonObject;
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
  const found = new SpecErrors(name);
  const parsed = specModel.safeParse(spec);
  if (!parsed.success) found.addIssues(parsed.error.issues);
  const given = isObject(spec) ? spec : {};
  const rules = new SpecRules();
  const descriptors = rules.read(given['descriptors']);
  const domain = typeof given['domain'] === 'string' ? given['domain'] : '';
  const fleet = given['fleet'] ?? defaultFleet;
  const source = { name, domain, descriptors };
  for (const { code, text, path } of rules.problems) found.addMeaning(code, text, path);
  checkSources([source], { mergeDomains: false, support }, ({ code, text, path }) => {
    found.addMeaning(code, text, path.map(fieldName));
  });
  if (found.list.count === 0) {
    const className = classNameOf(spec)!;
    const { count, ownFields } = rules;
    return { ok: true, className, fleet: fleet as string, source, rules: count, ownFields };
  }
  return {
    ok: false,
    errors: found.list.errors,
    errorCount: found.list.count,
    ...(found.isRefused('fleet') || spec !== given ? {} : { fleet: fleet as string }),
    ...(found.isRefused('domain') || domain === '' ? {} : { domain }),
  };
}

/** The errors of one spec: what is not of its form, and what means nothing, unless that follows from the former. */
class SpecErrors {
  readonly list = new RuleErrorList();
  readonly #name: string;
  /** Paths of values that are not of their form. */
  readonly #refused = new Set<string>();

  constructor(name: string) {
    this.#name = name;
  }

  /** Whether a field of `spec` is not of its form. */
  isRefused(field: string): boolean {
    return this.#refused.has('spec') || this.#refused.has(`spec.${field}`);
  }

  addIssues(issues: readonly z.core.$ZodIssue[]): void {
    for (const issue of issues) {
      const path = ['spec', ...(issue.path as (string | number)[])];
      if (issue.code === 'unrecognized_keys') {
        for (const key of issue.keys) this.#add('unknown-key', unknownField(key, path), [...path, key]);
      } else {
        this.#refused.add(fieldPath(path));
        this.#add('wrong-type', issue.message, path);
      }
    }
  }

  addMeaning(code: RuleErrorCode, text: string, below: readonly (string | number)[]): void {
    const path = ['spec', ...below];
    if (this.#refused.size === 0 || !this.#follows(code, path)) this.#add(code, manifestWords(text), path);
  }

  /** Whether the value, what it stands in, a key's value or a lease's limit is not of its form. */
  #follows(code: RuleErrorCode, path: readonly (string | number)[]): boolean {
    const isAbove = path.some((_, index) => this.#refused.has(fieldPath(path.slice(0, index + 1))));
    const beside =
      code === 'duplicate-descriptor'
        ? ['value']
        : code === 'invalid-lease' || code === 'invalid-reserve'
          ? ['rateLimit', 'rateLimits']
          : [];
    return isAbove || beside.some((field) => this.#refused.has(fieldPath([...path.slice(0, -1), field])));
  }

  #add(code: RuleErrorCode, text: string, path: readonly (string | number)[]): void {
    this.list.add({ code, source: this.#name, text, path, line: undefined, column: undefined });
  }
}

/** Whose fields those of the map at a path are. */
function placeOf(path: readonly (string | number)[]): number | undefined {
  const name = path.findLast((step) => typeof step === 'string');
  if (name === 'descriptors') return Place.DESCRIPTOR;
  if (name === 'replaces') return Place.REPLACES;
  if (name === 'calendar') return Place.CALENDAR;
  if (name === 'reserve') return Place.RESERVE;
  return name === 'rateLimit' || name === 'rateLimits' ? Place.RATE_LIMIT : undefined;
}

/** `path` leads to the map that has the field. */
function unknownField(key: string, path: readonly (string | number)[]): string {
  const meant = fieldName(key);
  const place = placeOf(path);
  const field = [...fields.values()].find(({ name }) => name === key || fieldName(name) === key);
  if (field !== undefined && place !== undefined && (field.places & place) === 0) {
    const where = manifestWords(placesInWords(field.places).replace('the top level', 'spec'));
    return `unknown field, '${meant}' belongs to ${where}`;
  }
  return meant === key ? 'unknown field' : `unknown field, did you mean '${meant}'?`;
}
