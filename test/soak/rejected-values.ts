/** Many values, each rejected once: when their windows are over Redis holds as many keys as before. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { LimiterClient } from '../support/limiter-client.ts';
import { startLimiter } from '../support/limiter-process.ts';
import { startRedis } from '../support/redis-server.ts';

export interface RejectedValuesReport {
  /** Values that were rejected, each once. */
  refused: number;
  /** Keys in Redis before the first request, and once all windows are over. */
  keysBefore: number;
  keysAfter: number;
}

export interface RejectedValuesOptions {
  redisPath: string;
  values: number;
}

/** Requests under way. */
const atATime = 100;
const windowMs = 2_000;
/** Longer than a window, and than Redis takes to remove a hundred thousand keys that have expired. */
const maxWaitMs = 30_000;

const rules = `domain: soak
descriptors:
  - { key: ip, rate_limit: { window: ${windowMs / 1000}s, requests_per_unit: 1 } }
`;

export async function rejectValues({
  redisPath,
  values,
}: RejectedValuesOptions): Promise<RejectedValuesReport> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-soak-'));
  writeFileSync(join(folder, 'soak.yaml'), rules);
  const redis = await startRedis({ path: redisPath });
  const direct = new Redis(redis.port, '127.0.0.1');
  try {
    const limiter = await startLimiter({
      env: {
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        EXPIRATION_JITTER_MAX_SECONDS: '0',
      },
    });
    try {
      const keysBefore = await countersIn(direct);
      const refused = await rejectEach(limiter.ports.grpc, values);
      return { refused, keysBefore, keysAfter: await keysOnceOver(direct, keysBefore) };
    } finally {
      await limiter.stop();
    }
  } finally {
    direct.disconnect();
    // Anyone who asked judges the keys that are left: there may be many.
    await redis.kill('SIGKILL');
    await redis.stop();
    rmSync(folder, { recursive: true, force: true });
  }
}

async function rejectEach(port: number, values: number): Promise<number> {
  const client = new LimiterClient(port);
  let next = 0;
  let refused = 0;
  const ask = async (): Promise<void> => {
    while (next < values) {
      const value = `192.0.2.${next++}`;
      const descriptors = [{ entries: [{ key: 'ip', value }], hitsAddend: 2n }];
      const { statuses } = await client.ask({ domain: 'soak', descriptors });
      // OVER_LIMIT.
      if (statuses[0]?.code === 2) refused += 1;
    }
  };
  try {
    await Promise.all(Array.from({ length: atATime }, ask));
  } finally {
    client.close();
  }
  return refused;
}

/** Without the one key of limiters' records, which comes a moment after a limiter has started. */
async function countersIn(direct: Redis): Promise<number> {
  return (await direct.dbsize()) - (await direct.exists('weir:{}:limiters'));
}

async function keysOnceOver(direct: Redis, keysBefore: number): Promise<number> {
  const endMs = performance.now() + maxWaitMs;
  for (;;) {
    await sleep(windowMs / 4);
    const keys = await countersIn(direct);
    if (keys <= keysBefore || performance.now() > endMs) return keys;
  }
}

/** What is wrong, in words; empty when nothing is. */
export function rejectedValueProblems(
  { refused, keysBefore, keysAfter }: RejectedValuesReport,
  values: number,
): string[] {
  const problems: string[] = [];
  if (refused !== values) problems.push(`${values - refused} of ${values} values were not refused`);
  if (keysAfter !== keysBefore)
    problems.push(`${keysAfter - keysBefore} keys were left in Redis by ${values} refused values`);
  return problems;
}
