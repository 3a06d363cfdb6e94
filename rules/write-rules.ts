/** Writes rules as people write them in a rule file or a manifest. */
import { algorithmNames } from './algorithms/registry.ts';
import { writtenCalendar } from './calendar.ts';
import type { FieldKind, FieldRows } from './language/fields.ts';
import { apiVersion, defaultClass, defaultFleet, kind } from './language/kinds.ts';
import {
  calendarTable,
  enumName,
  type FieldTable,
  limitTable,
  reserveTable,
  ruleTable,
  type TableField,
} from './language/tables.ts';
import { leaseText } from './lease.ts';
import {
  type FieldValues,
  isDefault,
  type JsonObject,
  type JsonValue,
  type Limit,
  makeLimit,
  makeRule,
  type Rule,
  type RuleSource,
  type Written,
  type WrittenLimit,
  type WrittenRule,
} from './model.ts';
import { writtenReserve } from './reserve.ts';
import { unitWord } from './window.ts';

/** The spelling of a dialect: names of fields, and words of enums as rule files spell them. */
interface Spelling {
  readonly name: (field: TableField) => string;
  readonly word: (word: string) => string;
}

const ruleFiles: Spelling = { name: ({ fileName }) => fileName, word: (word) => word };
const manifests: Spelling = { name: ({ name }) => name, word: enumName };

type Writers = { readonly [Kind in FieldKind]: (value: FieldValues[Kind]) => JsonValue | undefined };

class RuleWriter {
  readonly #spelling: Spelling;
  readonly #writers: Writers;

  constructor(spelling: Spelling) {
    this.#spelling = spelling;
    const { word } = spelling;
    const asWritten = <Value>(value: Value): Value => value;
    this.#writers = {
      text: asWritten,
      unit: asWritten,
      boolean: asWritten,
      uint32: asWritten,
      requests: asWritten,
      metadata: asWritten,
      day: asWritten,
      percents: (marks) => [...marks],
      algorithm: (algorithm) => word(algorithmNames[algorithm]!),
      unitOfHits: word,
      calendar: (calendar) => calendar && this.#fields(calendarTable, writtenCalendar(calendar)),
      share: (lease) => (lease === 0 ? 0 : lease && leaseText(lease)),
      reserve: (reserve) => reserve && this.#fields(reserveTable, writtenReserve(reserve, word)),
      entries: (entries) => entries.map(({ key = '', value = '' }) => ({ key, value })),
      names: (names) => names.map((name) => ({ name })),
      limit: (limit) => limit && this.#fields(limitTable, limit),
      limits: (limits) => limits?.map((limit) => this.#fields(limitTable, limit ?? {})),
      rules: (rules) => rules.map((rule) => this.rule(rule)),
    };
  }

  rule(rule: Rule): JsonObject {
    return this.#fields(ruleTable, writtenRule(rule));
  }

  #fields<Rows extends FieldRows>({ rows, fields }: FieldTable<Rows>, written: Written<Rows>): JsonObject {
    const object: JsonObject = {};
    for (const field of fields) {
      const value = this.#value(rows, written, field.name);
      if (value !== undefined) object[this.#spelling.name(field)] = value;
    }
    return object;
  }

  #value<Rows extends FieldRows, Name extends keyof Rows>(
    rows: Rows,
    written: Written<Rows>,
    name: Name,
  ): JsonValue | undefined {
    const value = written[name];
    return value === undefined ? undefined : this.#valueOf<Rows[Name]['kind']>(rows[name]!.kind, value);
  }

  #valueOf<Kind extends FieldKind>(kind: Kind, value: FieldValues[Kind]): JsonValue | undefined {
    return this.#writers[kind](value);
  }
}

const ofRuleFiles = new RuleWriter(ruleFiles);
const ofManifests = new RuleWriter(manifests);

/** A source as a rule file has it; only what differs from the defaults. */
export function ruleFileValue({
  domain,
  descriptors,
}: Pick<RuleSource, 'domain' | 'descriptors'>): JsonObject {
  return descriptors.length === 0 ? { domain } : { domain, descriptors: descriptors.map(ruleValue) };
}

/** The fields of a manifest other than its rules. */
export interface ManifestIdentity {
  name: string;
  /** Undefined if none is written. Then the person who applies the object chooses it. */
  namespace: string | undefined;
  labels: Record<string, string>;
  fleet: string;
  /** Undefined for the default class. */
  className?: string | undefined;
}

/** A source as a RateLimitConfig has it. Whether it fits into one is for `readSpec` to say. */
export function manifestValue(
  source: Pick<RuleSource, 'domain' | 'descriptors'>,
  { name, namespace, labels, fleet, className = defaultClass }: ManifestIdentity,
): JsonObject {
  const { domain, descriptors } = source;
  const metadata: JsonObject = { name };
  if (namespace !== undefined) metadata['namespace'] = namespace;
  if (Object.keys(labels).length > 0) metadata['labels'] = labels;
  const spec: JsonObject = className === defaultClass ? {} : { className };
  if (fleet !== defaultFleet) spec['fleet'] = fleet;
  spec['domain'] = domain;
  if (descriptors.length > 0) spec['descriptors'] = descriptors.map((rule) => ofManifests.rule(rule));
  return { apiVersion, kind, metadata, spec };
}

/** A name that the API server takes, as near to the domain as can be. */
export function objectName(domain: string): string {
  const name = domain
    .toLowerCase()
    .replace(/[^a-z0-9.-]+/g, '-')
    .replace(/\.+/g, '.')
    .replace(/^[^a-z0-9]+|[^a-z0-9]+$/g, '')
    .replace(/-*\.-*/g, '.')
    .slice(0, 253)
    .replace(/[^a-z0-9]+$/, '');
  return name === '' ? 'rules' : name;
}

/** The same as `ruleFileValue`, for one rule. */
export function ruleValue(rule: Rule): JsonObject {
  return ofRuleFiles.rule(rule);
}

/**
 * Returns the path to a field of a rule that is not written, because it has no effect, and the reason in the terms of rule files.
 * Undefined if there is none.
 */
export function omittedField({
  limits: [limit],
}: Rule): { path: readonly string[]; why: string } | undefined {
  if (!limit?.unlimited || limit.requestsPerUnit === defaultLimit.requestsPerUnit) return undefined;
  const field = 'requests_per_unit';
  const why = `${field} has no effect beside unlimited, so the output omits it`;
  return { path: ['rate_limit', field], why };
}

const defaultRule = makeRule({}, []);
const defaultLimit = makeLimit({});

/** The fields of a rule that have to be written. */
function writtenRule(rule: Rule): WrittenRule {
  const { limits, ...written } = rule;
  const [limit, ...others] = limits.map(writtenLimit);
  return {
    ...withoutDefaults(written, defaultRule),
    key: rule.key,
    ...(others.length > 0 ? { rateLimits: [limit, ...others] } : { rateLimit: limit }),
  };
}

function writtenLimit(limit: Limit): WrittenLimit {
  const { unit, ...others } = limit;
  const { unlimited, name, replaces, calendar, requestsPerUnit } = others;
  const counted = { ...withoutDefaults(others, defaultLimit), requestsPerUnit };
  const written = calendar === undefined ? unitWord(unit) : undefined;
  return {
    ...(unlimited ? { unlimited, ...(name !== '' && { name }) } : { ...counted, unit: written }),
    replaces: replaces.length === 0 ? undefined : replaces,
  };
}

function withoutDefaults<Fields extends object>(fields: Fields, defaults: Fields): Partial<Fields> {
  const written: Partial<Fields> = {};
  for (const name in fields) {
    if (!isDefault(fields[name], defaults[name])) written[name] = fields[name];
  }
  return written;
}
