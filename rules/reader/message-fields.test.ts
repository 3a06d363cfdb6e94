import { type DescField, type DescMessage, ScalarType } from '@bufbuild/protobuf';
import { describe, expect, it } from 'vitest';
import {
  file_ratelimit_config_ratelimit_v3_rls_conf as file,
  RateLimitAlgorithm,
  RateLimitCalendarSchema,
  RateLimitConfigSchema,
  RateLimitDescriptorSchema,
  RateLimitExpiry,
  RateLimitHitsUnit,
  RateLimitOverrideEntrySchema,
  RateLimitOverrideSchema,
  RateLimitPolicySchema,
  RateLimitReplaceSchema,
  RateLimitReserveSchema,
  RateLimitUnit,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { Algorithm } from '../algorithms/registry.ts';
import {
  calendarFields,
  domainFields,
  entryFields,
  type FieldKind,
  type FieldRows,
  limitFields,
  type OverrideRows,
  overrideFields,
  replacesFields,
  reserveFields,
  ruleFields,
} from '../language/fields.ts';
import { hitsUnits, Unit } from '../model.ts';
import { expiries } from '../reserve.ts';

/** Where the fields from this number on are ours. */
const ownFrom = 1000;

/** As a proto file has it: `repeated RateLimitReplace`, `optional uint32`. */
function typeOf(field: DescField): string {
  const type = field.message?.name ?? field.enum?.name ?? ScalarType[field.scalar!].toLowerCase();
  if (field.fieldKind === 'list') return `repeated ${type}`;
  return field.proto.proto3Optional ? `optional ${type}` : type;
}

const sentTypes: Record<FieldKind, readonly string[]> = {
  text: ['string'],
  unit: ['RateLimitUnit'],
  boolean: ['bool'],
  uint32: ['uint32'],
  requests: ['uint32', 'uint64'],
  algorithm: ['RateLimitAlgorithm'],
  unitOfHits: ['RateLimitHitsUnit'],
  percents: ['repeated uint32'],
  day: ['uint32'],
  calendar: ['RateLimitCalendar'],
  share: ['string'],
  reserve: ['RateLimitReserve'],
  metadata: ['Struct'],
  names: ['repeated RateLimitReplace'],
  entries: ['repeated RateLimitOverrideEntry'],
  limit: ['RateLimitPolicy'],
  limits: ['repeated RateLimitPolicy'],
  rules: ['repeated RateLimitDescriptor'],
};
/** Of rows whose values are sent as something else than their kind is. */
const typesOfNames: Readonly<Record<string, readonly string[]>> = {
  unit: ['RateLimitUnit'],
  window: [],
  burst: ['optional uint32', 'uint64'],
  ttl: ['uint32'],
  estimate: ['optional uint64'],
  onExpiry: ['RateLimitExpiry'],
};

const tables: [DescMessage, FieldRows, others?: Record<string, string>][] = [
  [RateLimitConfigSchema, domainFields, { name: 'string', override: 'RateLimitOverride' }],
  [RateLimitDescriptorSchema, ruleFields],
  [RateLimitPolicySchema, limitFields],
  [RateLimitCalendarSchema, calendarFields],
  [RateLimitReserveSchema, reserveFields],
  [RateLimitReplaceSchema, replacesFields],
];

describe('the fields of messages', () => {
  it.each(tables)('are those of the rows, with their types: $name', (message, rows, others = {}) => {
    const expected = Object.entries(rows).flatMap(([name, { kind, sentAs = [name] }]) =>
      sentAs.map((sent, index) => [sent, (typesOfNames[name] ?? sentTypes[kind])[index]] as const),
    );
    const found = message.fields.map((field) => [field.localName, typeOf(field)] as const);
    expect(Object.fromEntries(found)).toEqual({ ...Object.fromEntries(expected), ...others });
  });

  it('are those of the rows of overrides, and what is known of an object beside its spec', () => {
    const rows: OverrideRows = overrideFields;
    const sent = Object.entries(rows).flatMap(([name, { sentAs = [name] }]) => sentAs);
    const found = RateLimitOverrideSchema.fields.map(({ localName }) => localName);
    expect(new Set(found)).toEqual(new Set([...sent, 'createdMs', 'uid', 'by']));
    const entries = RateLimitOverrideEntrySchema.fields.map(({ localName }) => localName);
    expect(entries).toEqual(Object.keys(entryFields));
  });

  it('have the words of the rows in their enums', () => {
    const named = (words: readonly string[]) =>
      Object.fromEntries(words.map((word, index) => [word.toUpperCase().replaceAll('-', '_'), index]));
    expect(RateLimitUnit).toEqual(Unit);
    expect(RateLimitAlgorithm).toEqual(Algorithm);
    expect(RateLimitHitsUnit).toEqual(named(hitsUnits));
    expect(RateLimitExpiry).toEqual(named(expiries));
  });

  it('leave no number unused that another version may have had, unless it is reserved', () => {
    const gaps = file.messages.flatMap(({ name, fields, proto: { reservedRange } }) => {
      const used = new Set(fields.map(({ number }) => number));
      for (const { start, end } of reservedRange) for (let n = start; n < end; n++) used.add(n);
      const numbers = [...used];
      return [1, ownFrom].flatMap((first) => {
        const ours = numbers.filter((number) => number >= first && (first === ownFrom || number < ownFrom));
        const wanted = Array.from({ length: Math.max(first - 1, ...ours) - first + 1 }, (_, n) => first + n);
        return wanted.filter((number) => !used.has(number)).map((number) => `${name} ${number}`);
      });
    });
    expect(gaps).toEqual([]);
  });
});

/**
 * api/ratelimit/config/ratelimit/v3/rls_conf.proto of envoyproxy/ratelimit at f2fb15770f7fd1c88ca6c3a1b58ee513917ace96, which
 * github.com/envoyproxy/go-control-plane/ratelimit v0.1.1-0.20260629194254-5581fade6089 is generated from.
 */
const upstream: Record<string, Record<number, string>> = {
  RateLimitConfig: { 1: 'string name', 2: 'string domain', 3: 'repeated RateLimitDescriptor descriptors' },
  RateLimitDescriptor: {
    1: 'string key',
    2: 'string value',
    3: 'RateLimitPolicy rate_limit',
    4: 'repeated RateLimitDescriptor descriptors',
    5: 'bool shadow_mode',
    6: 'bool detailed_metric',
    7: 'bool quota_mode',
    8: 'Struct metadata',
  },
  RateLimitPolicy: {
    1: 'RateLimitUnit unit',
    2: 'uint32 requests_per_unit',
    3: 'bool unlimited',
    4: 'string name',
    5: 'repeated RateLimitReplace replaces',
  },
  RateLimitReplace: { 1: 'string name' },
};
const upstreamUnits = { UNKNOWN: 0, SECOND: 1, MINUTE: 2, HOUR: 3, DAY: 4, WEEK: 7, MONTH: 5, YEAR: 6 };

describe('the public definition', () => {
  it.each(Object.keys(upstream))('has the numbers and types of %s below 1000', (name) => {
    const fields = file.messages.find((message) => message.name === name)!.fields;
    const common = fields.filter(({ number }) => number < ownFrom);
    const found = common.map((field) => [field.number, `${typeOf(field)} ${field.name}`]);
    expect(Object.fromEntries(found)).toEqual(upstream[name]);
  });

  it('has the numbers of the units', () => {
    expect(file.proto.package).toBe('ratelimit.config.ratelimit.v3');
    expect(RateLimitUnit).toEqual(upstreamUnits);
  });
});
