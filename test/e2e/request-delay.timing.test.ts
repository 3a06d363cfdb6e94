/**
 * How long a caller waits because another one sends the largest request that is allowed, again and again, to a limiter
 * with a real Redis: over gRPC 10 ms more at most, over `/json` 20 ms.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { create, toBinary } from '@bufbuild/protobuf';
import { Client, credentials } from '@grpc/grpc-js';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { median } from '../../bench/bench-figures.ts';
import { RateLimitRequestSchema } from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { defaultRequestLimits } from '../../limiter/decide/request-bounds.ts';
import { shouldRateLimitPath } from '../../limiter/service/should-rate-limit.ts';
import { GeneratorStalls } from '../faults/generator-stalls.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { machineSlowness } from '../support/machine-slowness.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `domain: d
descriptors:
  - key: good
    rate_limit: { unit: day, requests_per_unit: 1000000 }
  - key: plain
    rate_limit: { unit: hour, requests_per_unit: 5 }
  - key: detailed
    detailed_metric: true
    rate_limit: { unit: hour, requests_per_unit: 5 }
${Array.from({ length: 1000 }, (_, i) => `  - { key: pattern, value: '*abc${i}*', rate_limit: { unit: hour, requests_per_unit: 5 } }\n`).join('')}`;

interface Sent {
  domain: string;
  descriptors: { entries: { key: string; value: string }[] }[];
}
const ofValues = (key: string, count: number, bytes: number, filler: string) => (salt: number) => ({
  domain: 'd',
  descriptors: Array.from({ length: count }, (_, i) => ({
    entries: [{ key, value: `${salt}_${i}_`.padEnd(bytes, filler) }],
  })),
});
/** By a number that makes each different: nothing is decided from memory. */
const largest: [string, (salt: number) => Sent][] = [
  ['256 counters of long keys', ofValues('plain', 256, 980, '10.0.0.')],
  ['15 counters of the longest keys', ofValues('plain', 15, 16_384, 'v')],
  ['256 metrics by value', ofValues('detailed', 256, 980, '10.0.0.')],
  ['1,000 patterns tried on all bytes', ofValues('pattern', 256, 980, 'xabc1')],
  [
    'as many entries as fit',
    () => ({
      domain: 'd',
      descriptors: Array.from({ length: 200 }, () => ({
        entries: Array.from({ length: 64 }, () => ({ key: 'k', value: '' })),
      })),
    }),
  ],
];

const rounds = 9;

/** Without the last descriptors, where JSON says the same in more bytes than a request may have. */
function jsonOf(request: Sent): string {
  for (let left = request.descriptors.length; ; left -= 4) {
    const text = JSON.stringify({ ...request, descriptors: request.descriptors.slice(0, left) });
    if (text.length <= defaultRequestLimits.maxBytes) return text;
  }
}

describeWithServer('a caller beside one that sends the largest requests', redisProgram, (path) => {
  const folder = suiteFolder();
  let limiter: LimiterProcess;
  let slownessBefore = 1;
  /** Chosen: the speed of a shared machine changes by as much within seconds, and the bounds are close to what is taken. */
  const patience = 2;
  /** Asked beside each measurement as well. */
  const slowness = (): number => patience * Math.max(slownessBefore, machineSlowness());
  let client: Client;
  const stalls = new GeneratorStalls();
  const toEnd: (() => unknown)[] = [];

  beforeAll(async () => {
    slownessBefore = machineSlowness();
    const redis = await startRedis({ path });
    toEnd.push(() => redis.stop());
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/d.yaml'), rules);
    limiter = await startLimiter({
      env: { RUNTIME_ROOT: folder, REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` },
    });
    toEnd.push(() => limiter.stop());
    client = newClient();
    stalls.start();
    toEnd.push(() => stalls.stop());
  });
  afterAll(async () => {
    for (const end of toEnd.reverse()) await end();
  });

  function newClient(): Client {
    const made = new Client(`127.0.0.1:${limiter.ports.grpc}`, credentials.createInsecure(), {
      'grpc.use_local_subchannel_pool': 1,
    });
    toEnd.push(() => made.close());
    return made;
  }

  const encoded = (request: Sent): Buffer =>
    Buffer.from(toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, request)));
  const same = (bytes: Buffer): Buffer => bytes;
  const ask = (by: Client, bytes: Buffer): Promise<void> =>
    new Promise((resolve, reject) => {
      by.makeUnaryRequest(shouldRateLimitPath, same, same, bytes, (error) =>
        error ? reject(error) : resolve(),
      );
    });
  const good = encoded({ domain: 'd', descriptors: [{ entries: [{ key: 'good', value: 'v' }] }] });

  /** Milliseconds of the slowest answer while something goes on, without those in which this process stood still. */
  async function worstDuring(other: Promise<unknown>): Promise<number> {
    let isOver = false;
    const over = other.finally(() => {
      isOver = true;
    });
    let worst = 0;
    while (!isOver) {
      const fromMs = performance.now();
      await ask(client, good);
      const toMs = performance.now();
      worst = Math.max(worst, toMs - fromMs - stalls.within(fromMs, toMs));
    }
    await over;
    return worst;
  }

  async function delays(send: (salt: number) => () => Promise<unknown>): Promise<number> {
    for (let i = 0; i < 50; i += 1) await ask(client, good);
    const undisturbed: number[] = [];
    const disturbed: number[] = [];
    for (let salt = 0; salt < rounds; salt += 1) {
      const { promise, resolve } = Promise.withResolvers<void>();
      setTimeout(resolve, 20);
      undisturbed.push(await worstDuring(promise));
      const sent = send(salt);
      disturbed.push(await worstDuring(sent()));
    }
    return median(disturbed) - median(undisturbed);
  }

  it.each(largest)('waits for 10 ms more at most if they come over gRPC, for %s', async (_, make) => {
    const attacker = newClient();
    const delay = await delays((salt) => {
      const bytes = encoded(make(salt));
      return () => ask(attacker, bytes);
    });
    expect(delay).toBeLessThan(10 * slowness());
  });

  it.each(largest)('waits for 20 ms more at most if they come over /json, for %s', async (_, make) => {
    const delay = await delays((salt) => {
      const body = jsonOf(make(salt));
      return async () => {
        const answer = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body });
        expect([200, 429]).toContain(answer.status);
        await answer.text();
      };
    });
    expect(delay).toBeLessThan(20 * slowness());
  });
});
