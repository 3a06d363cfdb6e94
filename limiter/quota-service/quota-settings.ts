/** The settings of quota clients, a row each. */
import { bool, choice, duration, integer, list } from '../../process/settings/settings-kinds.ts';
import { needing } from '../../process/settings/settings-needs.ts';
import type { SettingsOf } from '../../process/settings/settings-reader.ts';
import { weight } from './client-weights.ts';

const answers = choice({ values: ['allow', 'deny'] });

/** Envoy renews assignments with its reports, every 5 s, and reopens a stream up to 5 s after it ended. */
const ttlSeconds = integer({ min: 15, max: 3_600 });

export const rows = {
  rlqs: {
    name: 'RLQS',
    kind: bool(),
    summary:
      'Serve the rate limit quota service on the gRPC port. Envoys then get [assignments](quota-service.md) and decide by themselves. Not in the Go service.',
  },
  ...needing([{ name: 'RLQS', is: [true] }], {
    rlqsTtlSeconds: {
      name: 'RLQS_TTL',
      kind: ttlSeconds,
      default: 15,
      summary:
        'Seconds for which an assignment is valid without a renewal. After a limiter fails, what it assigned is lost to others for this time. Not in the Go service.',
    },
    rlqsNoRule: {
      name: 'RLQS_NO_RULE',
      kind: answers,
      default: 'allow',
      summary:
        'What a bucket without a matching rule gets: `allow` or `deny` for all its requests. Not in the Go service.',
    },
    rlqsUnassignable: {
      name: 'RLQS_UNASSIGNABLE',
      kind: answers,
      default: 'deny',
      summary:
        'What a bucket gets if its rule [cannot be assigned](quota-service.md#which-rules-can-be-assigned): `allow` or `deny` for all its requests. Not in the Go service.',
    },
    rlqsIdleReports: {
      name: 'RLQS_IDLE_REPORTS',
      kind: integer({ min: 1, max: 100_000 }),
      default: 24,
      summary:
        'Consecutive reports without a request after which the limiter abandons a bucket, so that its share goes to others. Envoy reports every 5 s. Not in the Go service.',
    },
    rlqsMaxStreams: {
      name: 'RLQS_MAX_STREAMS',
      kind: integer({ min: 1, max: 1_000_000 }),
      default: 10_000,
      summary:
        'Maximum number of streams of one thread. For one more, the limiter ends a stream of the address with most of them, or rejects the new one. Not in the Go service.',
    },
    rlqsMaxBucketsOfStream: {
      name: 'RLQS_MAX_BUCKETS_OF_STREAM',
      kind: integer({ min: 1, max: 1_000_000 }),
      default: 5_000,
      summary:
        'Maximum number of buckets of one stream. Requests for further buckets are denied. Not in the Go service.',
    },
    rlqsMaxBucketsOfCaller: {
      name: 'RLQS_MAX_BUCKETS_OF_CALLER',
      kind: integer({ min: 1, max: 10_000_000 }),
      default: 100_000,
      summary:
        'Maximum number of buckets of one caller in one thread, or of one address if callers have no names (CALLERS_FILE). Requests for further buckets are denied. Not in the Go service.',
    },
    rlqsMaxBuckets: {
      name: 'RLQS_MAX_BUCKETS',
      kind: integer({ min: 1, max: 10_000_000 }),
      default: 200_000,
      summary:
        'Maximum number of buckets of one thread. Requests for further buckets are denied. Not in the Go service.',
    },
    rlqsMaxBucketBytes: {
      name: 'RLQS_MAX_BUCKET_BYTES',
      kind: integer({ min: 400, max: 1_000_000_000 }),
      default: 16_000_000,
      summary:
        'Maximum bytes of the bucket IDs of one thread, each with 200 more. One caller or address may have half. Requests for further buckets are denied. Not in the Go service.',
    },
    rlqsSilenceMs: {
      name: 'RLQS_SILENCE',
      kind: duration({ min: 10_000, max: 3_600_000 }),
      default: 30_000,
      summary:
        'The limiter ends a stream without a report for this time. What its buckets hold is lost for their windows. Envoy reports every 5 s. Not in the Go service.',
    },
    rlqsWeights: {
      name: 'RLQS_WEIGHTS',
      kind: list(weight, { max: 100 }),
      default: [],
      summary:
        'Weights of clients that share a limit; all others have 1. The first match counts, in a list such as `caller:checkout=3,header:x-fleet:blue=2,entry:plan:gold=2`. Not in the Go service.',
    },
  }),
} as const;

export type QuotaSettings = SettingsOf<typeof rows>;

/** Returns the answer of quota clients to requests for unassignable rules; undefined: the limiter serves no quota clients. */
export function answerForUnassignable(
  settings: Pick<QuotaSettings, 'rlqs' | 'rlqsUnassignable'>,
): 'allowed' | 'denied' | undefined {
  if (!settings.rlqs) return undefined;
  return settings.rlqsUnassignable === 'allow' ? 'allowed' : 'denied';
}
