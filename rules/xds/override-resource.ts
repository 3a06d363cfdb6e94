/** Encodes one override as a `RateLimitConfig` that has field 1000 and no rules, and decodes it. */
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
import type { Override, OverrideOrigin } from '../override.ts';
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

/** The facts of every override that was sent. The server of the override has its own bound. */
const sentOrigin = { source: 'object', rejectsPast: false, maxSeconds: Number.POSITIVE_INFINITY } as const;

/** Passes the fields of an override, as objects have them, to `read` (`readOverride`). Throws if the bytes are not such a message. */
export function decodeOverride<Reading>(
  bytes: Uint8Array,
  read: (value: unknown, origin: OverrideOrigin) => Reading,
): Reading {
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
  return read(value, { ...sentOrigin, id: uid, name, createdMs: created, by, fromMs: created });
}

/** Returns numbers of more than 32 bits as texts, so that their reader reports those that are too large. */
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
