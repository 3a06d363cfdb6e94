import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  type RateLimitRequest as GeneratedRequest,
  RateLimitRequestSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import type { RateLimitRequest } from '../../limiter/decide/messages.ts';
import { DecodeError, decodeRateLimitRequest } from '../../limiter/decide/wire-codec.ts';
import { knownEntriesSlots } from '../../limiter/decide/wire-reader.ts';
import { fromBinaryRepaired } from '../support/grpc-message.ts';
import { type FuzzTarget, must, withoutNumbers } from './fuzz-target.ts';

function byHand(input: Uint8Array): RateLimitRequest | string {
  try {
    return decodeRateLimitRequest(input);
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return error.message;
  }
}

function generated(input: Uint8Array, decode: typeof fromBinary): GeneratedRequest | undefined {
  try {
    return decode(RateLimitRequestSchema, input);
  } catch {
    return undefined;
  }
}

function words(request: RateLimitRequest | GeneratedRequest): string {
  return JSON.stringify([
    request.domain,
    request.hitsAddend,
    request.descriptors.map((descriptor) => [
      descriptor.entries.map(({ key, value }) => [key, value]),
      descriptor.limit && [descriptor.limit.requestsPerUnit, descriptor.limit.unit],
      // Beyond 2^53 the two represent it differently.
      descriptor.hitsAddend !== undefined &&
        (Number(descriptor.hitsAddend) < 2 ** 53 - 1 ? Number(descriptor.hitsAddend) : 'many'),
      descriptor.isNegativeHits,
    ]),
  ]);
}

/** Entries that came before are kept, in bounds: they are full before growth is looked for. */
function fillKnownEntries(): void {
  for (let i = 0; i < 4 * knownEntriesSlots; i += 1) {
    const value = String(i).padStart(60, 'v');
    decodeRateLimitRequest(
      toBinary(
        RateLimitRequestSchema,
        create(RateLimitRequestSchema, { descriptors: [{ entries: [{ key: 'k', value }] }] }),
      ),
    );
  }
}

fillKnownEntries();

/** The hand-written codec of requests, held equal to the generated one. */
export const requestTarget: FuzzTarget = {
  name: 'rate-limit-request',
  run(input) {
    const actual = byHand(input);
    const isRepaired = typeof actual !== 'string' && actual.invalidUtf8Values !== undefined;
    const expected = generated(input, isRepaired ? fromBinaryRepaired : fromBinary);
    must(
      (typeof actual === 'string') === (expected === undefined),
      `the generated codec disagrees: ${String(actual)}`,
    );
    if (typeof actual === 'string' || expected === undefined) return withoutNumbers(String(actual));
    must(words(actual) === words(expected), `${words(actual)} is not ${words(expected)}`);
    const entries = actual.descriptors.reduce((sum, descriptor) => sum + descriptor.entries.length, 0);
    return `${Math.min(3, actual.descriptors.length)} descriptors, ${Math.min(3, entries)} entries`;
  },
};
