import type { z } from 'zod';
import { readCalendar, readReserve } from '../budget-fields.ts';
import { leaseFromText } from '../lease.ts';
import {
  Algorithm,
  algorithmNames,
  type Calendar,
  emptyLimit,
  hitsUnits,
  type JsonObject,
  type RateLimit,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  ruleFlags,
  unitFromText,
  wholeFrom,
} from '../model.ts';
import { fields, Place, placesInWords } from '../reader/value-reader.ts';
import { fieldPath, type RuleError, type RuleErrorCode, RuleErrorList } from '../rule-error.ts';
import {
  listProblem,
  type OwnLimitField,
  ownLimitFields,
  type RuleSupport,
  settleLimit,
} from '../validate-limits.ts';
import { checkSources } from '../validate-sources.ts';
import { bounds, defaultClass, defaultFleet } from './manifest-bounds.ts';
import { jsonProblem } from './model-values.ts';
import { algorithmEnum, enumName, hitsUnitEnum, specModel } from './spec-model.ts';

/**
 * Stands for a key or a value that cannot be read: found to be no duplicate of a readable one, and to be no reason why
 * a shared threshold is refused.
 */
const unreadable = '\uFFFD*';

/** Makes rules of `spec.descriptors`. Leaves out what is not of its type: the model reports it. */
class SpecRules {
  /** What is wrong with their meaning, with its path from `spec` on. */
  readonly problems: Pick<RuleError, 'code' | 'text' | 'path'>[] = [];
  /** Rules of all levels. */
  count = 0;
  readonly #ownFields = new Set<string>();
  readonly #path: (string | number)[] = [];

  /** Fields in use that limiters of other makers ignore. What these would misunderstand they are not sent: see `rulesVersionNeeded`. */
  get ownFields(): string[] {
    return [...this.#ownFields].sort();
  }

  /** The rules of one level; a rule that is no object leaves a hole, which the validator passes over. */
  read(descriptors: unknown): Rule[] {
    if (!Array.isArray(descriptors) || this.#path.length >= 2 * bounds.descriptorLevels) return [];
    this.#path.push('descriptors', 0);
    const rules = descriptors.map((descriptor, index) => {
      this.#path[this.#path.length - 1] = index;
      return isObject(descriptor) ? this.#rule(descriptor) : undefined;
    });
    this.#path.length -= 2;
    return rules as Rule[];
  }

  #rule(given: Record<string, unknown>): Rule {
    this.count++;
    const valueToMetric = given['valueToMetric'] === true;
    const shareThreshold = given['shareThreshold'] === true;
    const hideIdentity = given['hideIdentity'] === true;
    if (valueToMetric) this.#ownFields.add('valueToMetric');
    if (shareThreshold) this.#ownFields.add('shareThreshold');
    if (hideIdentity) this.#ownFields.add('hideIdentity');
    if (given['lease'] !== undefined) this.#ownFields.add('lease');
    const { reserve } = given;
    return {
      key: textOf(given['key'], unreadable),
      value: textOf(given['value'] ?? '', unreadable),
      limits: this.#limits(given),
      shadowMode: given['shadowMode'] === true,
      quotaMode: given['quotaMode'] === true,
      detailedMetric: given['detailedMetric'] === true,
      valueToMetric,
      shareThreshold,
      hideIdentity,
      lease: leaseFromText(String(given['lease'])),
      reserve: isObject(reserve) ? this.#reserve(reserve) : undefined,
      metadata: metadataOf(given['metadata']),
      descriptors: this.read(given['descriptors']),
    };
  }

  #reserve({ ttl, estimate, onExpiry }: Record<string, unknown>): ReserveTerms {
    const written = { ttl: textOf(ttl), estimate: wholeFrom(estimate), onExpiry: textOf(onExpiry) };
    return readReserve(written, (field, text) => {
      this.#report('invalid-reserve', text, 'reserve', fieldName(field));
    });
  }

  #limits({ rateLimit, rateLimits }: Record<string, unknown>): RateLimit[] {
    if (Array.isArray(rateLimits)) {
      const problem = listProblem(rateLimits.length, isObject(rateLimit));
      if (problem !== undefined) this.#report('invalid-limits', problem, 'rateLimits');
      const limits = rateLimits.map((one, index) =>
        this.#rateLimit(isObject(one) ? one : {}, 'rateLimits', index),
      );
      return problem === undefined ? limits : [];
    }
    return isObject(rateLimit) ? [this.#rateLimit(rateLimit, 'rateLimit')] : [];
  }

  #rateLimit(given: Record<string, unknown>, ...above: (string | number)[]): RateLimit {
    const { unit, requestsPerUnit, unlimited, replaces, algorithm, burst, hitsUnit, warnAt } = given;
    for (const name of ['hitsUnit', 'warnAt']) if (name in given) this.#ownFields.add(name);
    if (unlimited === true && typeof unit === 'string' && unitFromText(unit) === undefined) {
      const text = 'should not specify rate limit unit when unlimited';
      this.#report('unit-when-unlimited', text, ...above, 'unit');
    }
    if (unlimited !== true && requestsPerUnit == null) {
      this.#report('wrong-type', 'is required (0 blocks everything)', ...above, 'requestsPerUnit');
    }
    const known = algorithmEnum.indexOf(textOf(algorithm, ''));
    const limit: RateLimit = {
      ...emptyLimit(),
      unit: textOf(unit, ''),
      unitMultiplier: numberOf(given['unitMultiplier'] ?? 1),
      requestsPerUnit: wholeFrom(requestsPerUnit) ?? 0,
      hitsUnit: hitsUnits[hitsUnitEnum.indexOf(textOf(hitsUnit, ''))] ?? 'requests',
      warnAt: Array.isArray(warnAt) ? warnAt.filter((mark) => typeof mark === 'number') : [],
      algorithm: known < 0 ? Algorithm.FIXED_WINDOW : (known as Algorithm),
      burst: burst === undefined ? undefined : (wholeFrom(burst) ?? 0),
      unlimited: unlimited === true,
      name: textOf(given['name'], ''),
      replaces: Array.isArray(replaces)
        ? replaces.map((one) => (isObject(one) ? textOf(one['name'], '') : ''))
        : [],
    };
    const own = ownLimitFields.filter((field) => fieldName(field) in given);
    if (own.length > 0) this.#settle(limit, given, own, above);
    return limit;
  }

  #settle(
    limit: RateLimit,
    given: Record<string, unknown>,
    own: readonly OwnLimitField[],
    above: readonly (string | number)[],
  ): void {
    const window = textOf(given['window']);
    const calendar = this.#calendar(given['calendar'], above);
    settleLimit(limit, { window, calendar, has: (field) => own.includes(field) }, (field, code, text) => {
      this.#report(code, text, ...above, fieldName(field));
    });
  }

  #calendar(given: unknown, above: readonly (string | number)[]): Calendar | undefined {
    if (!isObject(given)) return undefined;
    const { unit, timezone, startsOn } = given;
    const day = typeof startsOn === 'number' ? startsOn : textOf(startsOn);
    const written = { unit: textOf(unit), timezone: textOf(timezone), startsOn: day };
    return readCalendar(written, (field, text) => {
      this.#report('invalid-calendar', text, ...above, 'calendar', fieldName(field));
    });
  }

  #report(code: RuleErrorCode, text: string, ...below: (string | number)[]): void {
    this.problems.push({ code, text, path: [...this.#path, ...below] });
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function textOf(value: unknown): string | undefined;
function textOf(value: unknown, otherwise: string): string;
function textOf(value: unknown, otherwise?: string): string | undefined {
  return typeof value === 'string' ? value : otherwise;
}

/** 0 for what the model refuses. */
function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0;
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

/** Names of fields of which rule files have another spelling. */
const fieldNames = new Map(
  [
    ...['rateLimit', 'rateLimits', 'requestsPerUnit', 'unitMultiplier', 'hitsUnit', 'warnAt'],
    ...['startsOn', 'onExpiry', ...Object.values(ruleFlags)],
  ].map((name) => [name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), name]),
);

/** `rateLimit` for `rate_limit`, whose spelling the validator's paths have. */
export function fieldName<Step extends string | number>(step: Step): Step | string {
  return typeof step === 'number' ? step : (fieldNames.get(step) ?? step);
}

const manifestSpellings = new Map([
  ...fieldNames,
  ...algorithmNames.map((name) => [name, enumName(name)] as const),
]);

/** A message about rules in the words of manifests, `rateLimits` for `rate_limits`; what is in quotes stays. */
export function manifestWords(text: string): string {
  return text.replace(/'[^']*'|\b[a-z]+(?:_[a-z]+)+\b/g, (word) => manifestSpellings.get(word) ?? word);
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
  const meant = fieldNames.get(key);
  const place = placeOf(path);
  const field = [...fields.values()].find(({ name }) => name === key || fieldNames.get(name) === key);
  if (field !== undefined && place !== undefined && (field.places & place) === 0) {
    const where = manifestWords(placesInWords(field.places).replace('the top level', 'spec'));
    return `unknown field, '${meant ?? key}' belongs to ${where}`;
  }
  return meant === undefined ? 'unknown field' : `unknown field, did you mean '${meant}'?`;
}
