/** One override as the bytes of a `RateLimitConfig` that has field 1000 and no rules, and back. */
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type RateLimitConfig,
  RateLimitConfigSchema,
  type RateLimitOverride,
  RateLimitOverrideEntrySchema,
  RateLimitOverrideLimitSchema,
  RateLimitOverrideSchema,
  RateLimitUnit,
} from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { maxUint32, Unit, unitName } from '../model.ts';
import { type Override, type OverrideProblem, readOverride } from '../override.ts';
import { largePart } from './resource.ts';

const overrideField = RateLimitConfigSchema.field.override.number;

/** The same override always gives the same bytes. Its name becomes that of the resource: `namespace/name`. */
export function encodeOverride(override: Override): Uint8Array {
  return toBinary(RateLimitConfigSchema, overrideMessage(override));
}

/** The message itself, for encodings other than bytes. */
export function overrideMessage(override: Override): RateLimitConfig {
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
    unit: (unit ?? Unit.UNKNOWN) as number as RateLimitUnit,
  });
  return { case: 'changedLimit', value };
}

/** Throws on bytes that are no such message. What is wrong with the override itself are problems, with their fields as objects have them. */
export function decodeOverride(
  bytes: Uint8Array,
): { override: Override } | { override?: undefined; problems: readonly OverrideProblem[] } {
  const { name, domain, override, descriptors } = fromBinary(RateLimitConfigSchema, bytes, {
    readUnknownFields: false,
  });
  if (override === undefined) throw new Error(`field ${overrideField} is missing`);
  if (descriptors.length > 0)
    return { problems: [{ path: ['descriptors'], text: 'an override has no rules beside it' }] };
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
  };
  const created = Number(createdMs);
  return readOverride(value, {
    ...{ source: 'object', id: uid, name, createdMs: created, by, fromMs: created, refusesPast: false },
    // The server of the override has its own bound.
    maxSeconds: Number.POSITIVE_INFINITY,
  });
}

/** Numbers that 32 bits have no room for as texts, so that their reader reports those that are too large. */
function effectValue({ effect, largeGrant }: RateLimitOverride): Record<string, unknown> {
  if (effect.case === undefined) return {};
  if (effect.case === 'grant' && largeGrant !== 0n) return { grant: String(largeGrant) };
  if (effect.case !== 'changedLimit') return { [effect.case]: effect.value };
  const { unit, largeRequestsPerUnit: large } = effect.value;
  const requestsPerUnit = large === 0n ? effect.value.requestsPerUnit : String(large);
  return { requestsPerUnit, ...(unit !== RateLimitUnit.UNKNOWN && { unit: unitName(unit) ?? String(unit) }) };
}

/** A value that is no date becomes a text that the reader rejects. */
function dateText(ms: bigint): string {
  const date = new Date(Number(ms));
  return Number.isNaN(date.getTime()) ? `${ms} ms` : date.toISOString();
}
