/** Attacks by quota clients. Another one, of another address, must get its share of the same limit meanwhile. */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import {
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import { Setting } from '../../limiter/http2/constants.ts';
import { quotaPath } from '../../limiter/quota-service/quota-messages.ts';
import { grpcMessage } from '../support/grpc-message.ts';
import { type Attack, type AttackTarget, callFields, H2Peer, openMany, Tally } from './attack.ts';

interface Report {
  readonly bucket: Readonly<Record<string, string>>;
  readonly allowed?: bigint;
  readonly denied?: bigint;
  readonly seconds?: bigint;
}

function reportsOf(domain: string, reports: readonly Report[]): Buffer {
  const bucketQuotaUsages = reports.map(({ bucket, allowed = 0n, denied = 0n, seconds = 5n }) => ({
    bucketId: { bucket },
    ...{ numRequestsAllowed: allowed, numRequestsDenied: denied, timeElapsed: { seconds } },
  }));
  const message = create(RateLimitQuotaUsageReportsSchema, { domain, bucketQuotaUsages });
  return grpcMessage(toBinary(RateLimitQuotaUsageReportsSchema, message));
}

const streamFields = callFields.with(callFields.indexOf(':path') + 1, quotaPath);

/** Says in its tally what its buckets are sent. */
class QuotaPeer extends H2Peer {
  readonly #unread = new Map<number, Buffer>();
  isEnded = false;

  async open(): Promise<number> {
    const id = this.nextId();
    await this.write(this.headers(id, 0, streamFields));
    return id;
  }

  async report(id: number, reports: readonly Report[], domain = 'attack'): Promise<void> {
    await this.body(id, reportsOf(domain, reports), 0);
  }

  protected override data(id: number, bytes: Buffer): void {
    let unread = Buffer.concat([this.#unread.get(id) ?? Buffer.alloc(0), bytes]);
    while (unread.length >= 5 && unread.length >= 5 + unread.readUInt32BE(1)) {
      const end = 5 + unread.readUInt32BE(1);
      const actions = fromBinary(RateLimitQuotaResponseSchema, unread.subarray(5, end)).bucketAction;
      for (const [n, { bucketId, bucketAction }] of actions.entries()) {
        // A fresh bucket of tokens comes behind a denial of the same id.
        const isReplaced = isDeepStrictEqual(actions[n + 1]?.bucketId?.bucket, bucketId?.bucket);
        if (bucketAction.case !== 'quotaAssignmentAction') this.got.add('buckets abandoned');
        else if (bucketAction.value.rateLimitStrategy?.strategy.case === 'tokenBucket')
          this.got.add('assignments');
        else if (!isReplaced) this.got.add('buckets denied');
      }
      unread = unread.subarray(end);
    }
    this.#unread.set(id, unread);
  }
}

const begun = async (target: AttackTarget, got = target.got, from?: string): Promise<QuotaPeer> => {
  const peer = new QuotaPeer(target.ports.grpc, got, from === undefined ? {} : { from });
  return peer.begin([Setting.INITIAL_WINDOW_SIZE, 2 ** 30]);
};

/** Reports a bucket that the attackers report, too. */
async function watchOther(target: AttackTarget, shared: Report['bucket']): Promise<void> {
  const { got } = target;
  got.reached = 'another quota client got no share';
  const own = new Tally();
  got.opens({ close: () => own.end() });
  const peer = await begun(target, own, '127.0.0.1');
  const id = await peer.open();
  for (; !own.isOver; await sleep(50)) {
    await peer.report(id, [{ bucket: shared, denied: 1n }]);
    if (own.has(/^assignments$/)) got.reached = undefined;
    const end = [...own.counts.keys()].find((what) => what !== 'assignments' && what !== 'buckets denied');
    if (end !== undefined) got.reached = `another quota client met ${end}`;
  }
}

/** With the other one beside it, which comes once the attack has begun. The limit of their bucket is for this attack alone. */
function attack(
  row: Pick<Attack, 'name' | 'what' | 'meets'> & {
    run(target: AttackTarget, shared: Report['bucket']): Promise<void>;
  },
): Attack {
  const shared = { known: row.name };
  return {
    ...row,
    quota: true,
    async run(target) {
      target.got.reached = 'the other quota client has not begun';
      const other = sleep(20).then(() => watchOther(target, shared));
      await Promise.all([row.run(target, shared), other]);
    },
  };
}

/** Ids that are in no other message. */
function* newBuckets(count: number): Generator<Report> {
  for (let n = 0; n < count; n++) yield { bucket: { known: `${Math.random()}` }, denied: 1n };
}

const max = 2n ** 64n - 1n;

export const quotaAttacks: readonly Attack[] = [
  attack({
    name: 'reports-extreme',
    what: 'Quota clients that report 2^64 - 1 requests for the bucket of another client every 10 ms, with durations from -10,000 to 10,000 years',
    meets: /^assignments$/,
    async run(target, shared) {
      const peer = await begun(target);
      const ids = await Promise.all(Array.from({ length: 10 }, () => peer.open()));
      for (let n = 0; ; n++) {
        const seconds = n % 2 === 0 ? -315_576_000_000n : 315_576_000_000n;
        for (const id of ids) await peer.report(id, [{ bucket: shared, allowed: max, denied: max, seconds }]);
        await sleep(10);
      }
    },
  }),
  attack({
    name: 'demand-invented',
    what: '50 streams of a quota client that report false demand: 4 billion denied requests every 50 ms, for the bucket of another client',
    meets: /^assignments$/,
    async run(target, shared) {
      const peer = await begun(target);
      const ids = await Promise.all(Array.from({ length: target.many(50) }, () => peer.open()));
      for (;;) {
        for (const id of ids) await peer.report(id, [{ bucket: shared, denied: 2n ** 32n - 1n }]);
        await sleep(50);
      }
    },
  }),
  attack({
    name: 'buckets-million',
    what: 'A million buckets: 100 streams that report 10,000 buckets each, 100 per message',
    meets: /^buckets denied$/,
    async run(target) {
      const { got, many } = target;
      const peer = await begun(target);
      got.isPart = true;
      for (let stream = 0; stream < many(100) && !got.isOver; stream++) {
        const id = await peer.open();
        for (let n = 0; n < 100; n++) await peer.report(id, [...newBuckets(100)]);
        // What was denied is known, and the rest is more of it.
        got.isPart = false;
      }
    },
  }),
  attack({
    name: 'domains-forbidden',
    what: 'Streams of quota clients for a domain that they may not use, endlessly, on four connections',
    meets: /^PERMISSION_DENIED$/,
    async run(target, shared) {
      const one = async (): Promise<never> => {
        for (;;) {
          const peer = await begun(target);
          while (!peer.isClosed) {
            await peer.report(await peer.open(), [{ bucket: shared, denied: 1n }], 'vault');
          }
          await sleep(10);
        }
      };
      await Promise.all([one(), one(), one(), one()]);
    },
  }),
  attack({
    name: 'streams-half-open',
    what: '2,000 streams of quota clients on 20 connections. Half of them send nothing, the others half a message. `RLQS_MAX_STREAMS` is 100',
    meets: /^RESOURCE_EXHAUSTED \(RLQS_MAX_STREAMS\)$/,
    async run(target, shared) {
      const half = reportsOf('attack', [{ bucket: shared, denied: 1n }]).subarray(0, 12);
      await openMany(
        // Fewer do not reach the bound.
        Math.max(2, target.many(20)),
        () => begun(target),
        async (peer) => {
          for (let n = 0; n < 100; n++) {
            const id = await (peer as QuotaPeer).open();
            if (n % 2 === 0) await (peer as QuotaPeer).body(id, half, 0);
          }
        },
      );
    },
  }),
];
