/**
 * Encodes one source of rules, or one override, as a `ratelimit.config.ratelimit.v3.RateLimitConfig`, and decodes it. The same rules always give
 * the same bytes, because versions are hashes of them: fields are in the order of their numbers, and keys of metadata are sorted.
 * This is the dialect of xDS: most rows have a field of their name in the message of their table, and its value follows from the
 * row's kind. Rows without such a field, or with several, are removed by name and mapped with their message.
 */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import {
  type RateLimitCalendar,
  RateLimitCalendarSchema,
  type RateLimitConfig,
  RateLimitConfigSchema,
  type RateLimitDescriptor,
  RateLimitDescriptorSchema,
  RateLimitExpiry,
  type RateLimitOverride,
  RateLimitOverrideEntrySchema,
  RateLimitOverrideLimitSchema,
  RateLimitOverrideSchema,
  type RateLimitPolicy,
  RateLimitPolicySchema,
  type RateLimitReplace,
  RateLimitReplaceSchema,
  type RateLimitReserve,
  RateLimitReserveSchema,
  RateLimitUnit,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { algorithmNames, isAlgorithm } from '../algorithms/registry.ts';
import { readCalendar } from '../calendar.ts';
import { type FieldRow, limitFields, ruleFields } from '../language/fields.ts';
import { namesOf, ruleFileName } from '../language/tables.ts';
import { leaseFromText, leaseText, unknownLease } from '../lease.ts';
import {
  type Calendar,
  type FieldValues,
  hitsUnits,
  type JsonObject,
  type Limit,
  makeLimit,
  makeRule,
  maxRequests,
  maxUint32,
  noLimits,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  sortedKeys,
  Unit,
  unitName,
  type Written,
} from '../model.ts';
import type { Override } from '../override.ts';
import { expiries, readReserve } from '../reserve.ts';
import { type FieldProblem, formatManifestError, unknownWord } from '../rule-error.ts';
import { listProblem, unknownAlgorithm } from '../validate-limits.ts';
import { type OverrideReading, readOverride } from './read-override.ts';

export const rateLimitConfigTypeUrl = 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig';

/** The maximum nesting of messages. Chosen: YAML files may nest 400 levels, and one level of metadata is three messages. */
const maxDepth = 1_500;

/** Encodes a source that passed the validator. A number that is not a unit is lost. */
export function encodeResource(source: RuleSource): Uint8Array {
  return toBinary(RateLimitConfigSchema, toMessage(source));
}

function reject(problem: FieldProblem): never {
  throw new Error(formatManifestError(problem));
}

/**
 * Decodes a resource without checking the meaning of the rules. Throws if the bytes are not such a message. Also throws on
 * problems, unless it can report them: values that the message can hold, and that no rule can have.
 */
export function decodeResource(
  bytes: Uint8Array,
  report: (problem: FieldProblem) => void = reject,
): RuleSource {
  const options = { readUnknownFields: false, recursionLimit: maxDepth };
  resourceHead(bytes);
  return fromMessage(fromBinary(RateLimitConfigSchema, bytes, options), report);
}

/**
 * Returns the domain of a resource, without reading the rules, and whether it is an override, which has its field first. Throws
 * if the message's own fields are damaged; the library accepts some of these.
 */
export function resourceHead(bytes: Uint8Array): { domain: string; isOverride: boolean } {
  const { name, domain, descriptors, override } = RateLimitConfigSchema.field;
  const known = [name.number, domain.number, descriptors.number];
  const reader = new BinaryReader(bytes);
  const head = { domain: '', isOverride: false };
  let hasRules = false;
  while (reader.pos < reader.len) {
    const [number, wireType] = reader.tag();
    if (known.includes(number) && wireType !== WireType.LengthDelimited) {
      throw new Error(`field ${number} has wire type ${wireType}`);
    }
    if (number === descriptors.number) hasRules = true;
    if (number === override.number && !hasRules) head.isOverride = true;
    if (number === domain.number) head.domain = reader.string();
    else reader.skip(wireType, number);
  }
  return head;
}

/** The message itself, for encodings other than bytes. */
export function toMessage({ name, domain, descriptors }: RuleSource): RateLimitConfig {
  const config = create(RateLimitConfigSchema);
  config.name = name;
  config.domain = domain;
  config.descriptors = descriptors.map(toDescriptor);
  return config;
}

export function fromMessage({ name, domain, descriptors }: RateLimitConfig, report: Report): RuleSource {
  return { name, domain, descriptors: new MessageReader(report).rules(descriptors) };
}

/** The values in messages for field kinds that need only their row. Enums are numbers. */
interface SentValues {
  text: string;
  boolean: boolean;
  uint32: number;
  algorithm: number;
  unitOfHits: number;
  percents: number[];
  share: string;
  reserve: RateLimitReserve | undefined;
  metadata: JsonObject | undefined;
  names: RateLimitReplace[];
  rules: RateLimitDescriptor[];
}

type SentKind = keyof SentValues;
type SentRows = Readonly<Record<string, FieldRow & { readonly kind: SentKind }>>;
/** The fields of a message that these rows are mapped to. */
type Sent<Rows extends SentRows> = {
  -readonly [Name in keyof Rows]?: SentValues[Rows[Name]['kind']] | undefined;
};

/** Converts a value of one kind to a message and back. */
interface KindMapping<Kind extends SentKind> {
  readonly to: (value: FieldValues[Kind]) => SentValues[Kind];
  /** Reads a field that was sent. Undefined means that it counts as not sent. */
  readonly from: (
    sent: SentValues[Kind],
    reader: MessageReader,
    field: string,
  ) => FieldValues[Kind] | undefined;
}

const same = <Value>(value: Value): Value => value;
const unchanged = { to: same, from: same };

const kinds: { readonly [Kind in SentKind]: KindMapping<Kind> } = {
  text: unchanged,
  boolean: unchanged,
  uint32: unchanged,
  algorithm: {
    to: same,
    from: (number, reader, field) =>
      isAlgorithm(number)
        ? number
        : reader.problem('invalid-algorithm', unknownAlgorithm(String(number), algorithmNames), field),
  },
  unitOfHits: {
    to: (word) => hitsUnits.indexOf(word),
    from: (number, reader, field) =>
      hitsUnits[number] ??
      reader.problem('invalid-hits-unit', unknownWord(field, hitsUnits, String(number)), field),
  },
  percents: { to: (marks) => [...marks], from: nonempty },
  share: {
    to: (lease) => (lease === undefined ? '' : leaseText(lease)),
    from: (text, reader, field) =>
      leaseFromText(text) ?? reader.problem('invalid-lease', unknownLease(text), field),
  },
  reserve: {
    to: (terms) => terms && toReserve(terms),
    from: (reserve, reader, field) => reserve && reader.reserve(reserve, field),
  },
  metadata: { to: (object) => object && sortedKeys(object), from: same },
  names: {
    to: (names) => names.map((name) => create(RateLimitReplaceSchema, { name })),
    from: (replaced) => nonempty(replaced)?.map(({ name }) => name),
  },
  rules: {
    to: (rules) => rules.map(toDescriptor),
    from: (descriptors, reader) => nonempty(descriptors) && reader.rules(descriptors),
  },
};

/** Rules without elements share one empty list, because there may be 100,000 rules. */
function nonempty<Element>(list: Element[]): Element[] | undefined {
  return list.length === 0 ? undefined : list;
}

/** Converts a row's field, which has a field of the same name in the message. */
interface FieldMapping<Values, Message> {
  /** Sends the value unless it is the default, which is zero in messages. */
  readonly send: (values: Values, message: Message) => void;
  readonly receive: (message: Message, values: Values, reader: MessageReader) => void;
}

function mappingsOf<Rows extends SentRows>(
  rows: Rows,
  defaults: Written<Rows>,
): FieldMapping<Written<Rows>, Sent<Rows>>[] {
  return namesOf(rows).map((name) => mappingOf(rows, name, defaults[name]));
}

function mappingOf<Rows extends SentRows, Name extends keyof Rows & string>(
  rows: Rows,
  name: Name,
  byDefault: Written<Rows>[Name],
): FieldMapping<Written<Rows>, Sent<Rows>> {
  const { to, from } = mappingOfKind<Rows[Name]['kind']>(rows[name]!.kind);
  const fileName = ruleFileName(name);
  return {
    send: (values, message) => {
      const value = values[name];
      if (value !== undefined && value !== byDefault) message[name] = to(value);
    },
    receive: (message, values, reader) => {
      const sent = message[name];
      const value = sent ? from(sent, reader, fileName) : undefined;
      if (value !== undefined) values[name] = value;
    },
  };
}

function mappingOfKind<Kind extends SentKind>(kind: Kind): KindMapping<Kind> {
  return kinds[kind];
}

// Rows with several fields, or without a field of their name and kind, are mapped with their message.
const { rateLimit: _one, rateLimits: _several, ...rowsOfRules } = ruleFields;
const { unit: _unit, window: _window, calendar: _calendar, ...others } = limitFields;
const { requestsPerUnit: _requests, burst: _burst, ...rowsOfLimits } = others;
/** A type that does not compile if the message lacks a field for a row. */
type RowsIn<Message, Rows> = keyof Rows extends keyof Message ? Rows : never;
const ofRules = mappingsOf<RowsIn<RateLimitDescriptor, typeof rowsOfRules>>(
  rowsOfRules,
  makeRule({}, noLimits),
);
const ofLimits = mappingsOf<RowsIn<RateLimitPolicy, typeof rowsOfLimits>>(rowsOfLimits, makeLimit({}));

/**
 * A template that is copied for each rule, together with its lists, which are only ever replaced. This is several times as fast as
 * creating a message.
 */
const emptyDescriptor = create(RateLimitDescriptorSchema);
const emptyPolicy = create(RateLimitPolicySchema);

function toDescriptor(rule: Rule): RateLimitDescriptor {
  const descriptor = { ...emptyDescriptor };
  for (const { send } of ofRules) send(rule, descriptor);
  const { limits } = rule;
  if (limits.length > 1) descriptor.rateLimits = limits.map(toPolicy);
  else if (limits.length > 0) descriptor.rateLimit = toPolicy(limits[0]!);
  return descriptor;
}

function toReserve({ ttlSeconds, estimate, onExpiry }: ReserveTerms): RateLimitReserve {
  const reserve = create(RateLimitReserveSchema, {
    ttlSeconds,
    onExpiry: onExpiry === 'charge' ? RateLimitExpiry.CHARGE : RateLimitExpiry.RELEASE,
  });
  if (estimate !== undefined) reserve.estimate = BigInt(estimate);
  return reserve;
}

function toPolicy(limit: Limit): RateLimitPolicy {
  const policy = { ...emptyPolicy };
  for (const { send } of ofLimits) send(limit, policy);
  const { requestsPerUnit, burst, calendar } = limit;
  policy.unit = limit.unit;
  policy.requestsPerUnit = Math.min(requestsPerUnit, maxUint32);
  policy.largeRequestsPerUnit = largePart(requestsPerUnit);
  if (burst !== undefined) policy.burst = Math.min(burst, maxUint32);
  policy.largeBurst = largePart(burst ?? 0);
  if (calendar !== undefined) {
    const { timezone, startsOn } = calendar;
    policy.calendar = create(RateLimitCalendarSchema, { unit: policy.unit, timezone, startsOn });
  }
  return policy;
}

/** Returns a number that exceeds 32 bits; otherwise 0. */
function largePart(number: number): bigint {
  return number > maxUint32 ? BigInt(number) : 0n;
}

type Report = (problem: FieldProblem) => void;

/** Creates rules from messages. */
class MessageReader {
  readonly #report: Report;
  /** The current path. */
  readonly #path: (string | number)[] = [];

  constructor(report: Report) {
    this.#report = report;
  }

  problem(code: FieldProblem['code'], text: string, field: string): undefined {
    this.#report({ code, text, path: [...this.#path, field] });
  }

  rules(descriptors: readonly RateLimitDescriptor[]): Rule[] {
    return this.#each('descriptors', descriptors, (descriptor) => this.#rule(descriptor));
  }

  reserve({ ttlSeconds, estimate, onExpiry }: RateLimitReserve, field: string): ReserveTerms {
    return this.#in(field, () => {
      const written = {
        ttl: `${ttlSeconds}s`,
        estimate: estimate === undefined ? undefined : this.#whole('estimate', estimate),
        onExpiry: expiries[onExpiry] ?? String(onExpiry),
      };
      return readReserve(written, (below, text) => this.problem('invalid-reserve', text, below));
    });
  }

  #rule(descriptor: RateLimitDescriptor): Rule {
    const rule = makeRule({}, this.#limits(descriptor));
    for (const { receive } of ofRules) receive(descriptor, rule, this);
    return rule;
  }

  /** An invalid list is dropped as a whole. */
  #limits({ rateLimit, rateLimits }: RateLimitDescriptor): readonly Limit[] {
    if (rateLimits.length === 0)
      return rateLimit === undefined ? noLimits : [this.#in('rate_limit', () => this.#limit(rateLimit))];
    const text = listProblem(rateLimits.length, rateLimit !== undefined);
    if (text === undefined) return this.#each('rate_limits', rateLimits, (one) => this.#limit(one));
    this.problem('invalid-limits', text, 'rate_limits');
    return noLimits;
  }

  #limit(policy: RateLimitPolicy): Limit {
    const { unit, unlimited, requestsPerUnit, largeRequestsPerUnit, burst, largeBurst, calendar } = policy;
    const isNone = unlimited && unit === Unit.UNKNOWN;
    const limit = makeLimit(isNone ? {} : { unit: unitName(unit) ?? String(unit) });
    if (calendar !== undefined) limit.calendar = this.#in('calendar', () => this.#calendar(calendar, unit));
    limit.requestsPerUnit = this.#whole('requests_per_unit', largeRequestsPerUnit, requestsPerUnit);
    for (const { receive } of ofLimits) receive(policy, limit, this);
    if (burst !== undefined) limit.burst = this.#whole('burst', largeBurst, burst);
    return limit;
  }

  /** Reads a calendar. Its unit must be that of the limit, because limiters that do not support calendars use the limit's unit. */
  #calendar({ unit, timezone, startsOn }: RateLimitCalendar, limitUnit: RateLimitUnit): Calendar | undefined {
    const problem = (field: string, text: string): void => this.problem('invalid-calendar', text, field);
    if (unit !== limitUnit) problem('unit', 'the unit of a calendar must be that of its limit');
    return readCalendar({ unit: unitName(unit), timezone, startsOn }, problem);
  }

  /** Returns `small`, or `large` if that is set. Reports a number that is too large and returns 0. */
  #whole(field: string, large: bigint, small = 0): number {
    if (large === 0n) return small;
    if (large <= maxRequests) return Number(large);
    const text = `${field} can be at most ${maxRequests} (2^53 - 1), found ${large}`;
    this.problem('wrong-type', text, field);
    return 0;
  }

  #in<Value>(field: string, read: () => Value): Value {
    this.#path.push(field);
    const value = read();
    this.#path.pop();
    return value;
  }

  #each<Message, Value>(field: string, list: readonly Message[], read: (one: Message) => Value): Value[] {
    const path = this.#path;
    path.push(field, 0);
    const values = list.map((one, index) => {
      path[path.length - 1] = index;
      return read(one);
    });
    path.length -= 2;
    return values;
  }
}

// Overrides are messages with field 1000 and without rules.

const overrideField = RateLimitConfigSchema.field.override.number;

/** The same override always results in the same bytes. Its name is that of the resource: `namespace/name`. */
export function encodeOverride(override: Override): Uint8Array {
  return toBinary(RateLimitConfigSchema, overrideMessage(override));
}

function overrideMessage(override: Override): RateLimitConfig {
  const { id, name, domain, match, limit, createdMs, endsMs, reason, by } = override;
  return create(RateLimitConfigSchema, {
    name,
    domain,
    override: create(RateLimitOverrideSchema, {
      match: match.map((entry) => create(RateLimitOverrideEntrySchema, entry)),
      limit,
      effect: effectMessage(override.effect),
      largeGrant: override.effect.kind === 'grant' ? largePart(override.effect.hits) : 0n,
      createdMs: BigInt(createdMs),
      ...(endsMs !== undefined && { endsMs: BigInt(endsMs) }),
      reason,
      uid: id,
      by,
    }),
  });
}

function effectMessage(effect: Override['effect']): RateLimitOverride['effect'] {
  if (effect.kind === 'grant') return { case: 'grant', value: Math.min(effect.hits, maxUint32) };
  if (effect.kind !== 'limit') return { case: effect.kind, value: true };
  const { requestsPerUnit, unit } = effect;
  const value = create(RateLimitOverrideLimitSchema, {
    requestsPerUnit: Math.min(requestsPerUnit, maxUint32),
    largeRequestsPerUnit: largePart(requestsPerUnit),
    unit: unit ?? Unit.UNKNOWN,
  });
  return { case: 'changedLimit', value };
}

/** The facts of every override that was sent. The server of the override has its own bound. */
const sentOrigin = { source: 'object', rejectsPast: false, maxSeconds: Number.POSITIVE_INFINITY } as const;

/** Throws if the bytes are not such a message. */
export function decodeOverride(bytes: Uint8Array): OverrideReading {
  const { name, domain, override, descriptors } = fromBinary(RateLimitConfigSchema, bytes, {
    readUnknownFields: false,
  });
  if (override === undefined) throw new Error(`field ${overrideField} is missing`);
  const { match, limit, createdMs, endsMs, reason, uid, by } = override;
  const isGrant = override.effect.case === 'grant';
  const value = {
    domain,
    match: match.map(({ key, value: text }) => ({ key, value: text })),
    limit,
    ...effectValue(override),
    ...(endsMs === undefined ? !isGrant && { permanent: true } : { expiresAt: dateText(endsMs) }),
    reason: reason === '' ? 'none is given' : reason,
    id: uid,
    ...(descriptors.length > 0 && { descriptors }),
  };
  const created = Number(createdMs);
  return readOverride(value, { ...sentOrigin, id: uid, name, createdMs: created, by, fromMs: created });
}

/** Returns numbers of more than 32 bits as texts, so that their reader reports numbers that are too large. */
function effectValue({ effect, largeGrant }: RateLimitOverride): Record<string, unknown> {
  if (effect.case === undefined) return {};
  if (effect.case === 'grant' && largeGrant !== 0n) return { grant: String(largeGrant) };
  if (effect.case !== 'changedLimit') return { [effect.case]: effect.value };
  const { unit, largeRequestsPerUnit: large } = effect.value;
  const requestsPerUnit = large === 0n ? effect.value.requestsPerUnit : String(large);
  return { requestsPerUnit, ...(unit !== RateLimitUnit.UNKNOWN && { unit: unitName(unit) ?? String(unit) }) };
}

/** A value that is not a date becomes a text that the reader rejects. */
function dateText(ms: bigint): string {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}
