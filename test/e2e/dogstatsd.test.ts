/** Limiters whose statistics go to a dogstatsd receiver. */
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { spawnLimiter } from '../support/limiter-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const folder = mkdtempSync(join(tmpdir(), 'weir-dogstatsd-'));
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/d.yaml'),
  'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 1000 }\n',
);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const mogrified = {
  USE_DOG_STATSD: 'true',
  DOG_STATSD_MOGRIFIERS: 'rule',
  DOG_STATSD_MOGRIFIER_RULE_PATTERN: '^ratelimit\\.service\\.rate_limit\\.([^.]+)\\.(.+)\\.([^.]+)$',
  DOG_STATSD_MOGRIFIER_RULE_NAME: 'rule.$3',
  DOG_STATSD_MOGRIFIER_RULE_TAGS: 'domain:$1,descriptor:$2',
};

let socket: Socket;
let lines: string[];
const cleanups: (() => Promise<void> | void)[] = [];
beforeEach(async () => {
  lines = [];
  socket = createSocket('udp4');
  socket.on('message', (packet) => lines.push(...packet.toString().split('\n')));
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
  socket.close();
});

/** What counters of this name and these tags add up to. */
function sumOf(start: string, end: string): number {
  return lines
    .filter((line) => line.startsWith(`${start}:`) && line.endsWith(end))
    .reduce((sum, line) => sum + Number(line.slice(start.length + 1, line.indexOf('|'))), 0);
}

describeWithServer('the process', redisProgram, (path) => {
  let redis: RedisServer;
  beforeAll(async () => {
    redis = await startRedis({ path });
  });
  afterAll(() => redis.stop());

  it.each(['1', '2'])('says what all of its %s threads counted and timed', async (workers) => {
    const limiter = await startLimiterHere({
      env: {
        ...mogrified,
        RUNTIME_ROOT: folder,
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        LIMITER_WORKERS: workers,
        STATSD_HOST: '127.0.0.1',
        STATSD_PORT: String(socket.address().port),
        STATS_FLUSH_INTERVAL: '100ms',
        EXTRA_TAGS: 'env:test',
      },
    });
    cleanups.push(async () => void (await limiter.stop()));
    // Statistics that came before the first connection wait for it; timers do not.
    await eventually(() => expect(lines.length).toBeGreaterThan(0));
    const clients = Array.from({ length: 8 }, () => new LimiterClient(limiter.ports.grpc));
    cleanups.push(() => clients.forEach((client) => void client.close()));
    for (let round = 0; round < 5; round += 1) {
      await Promise.all(clients.map((client) => client.allowed('d', 'k', 'v')));
    }
    await eventually(() => {
      expect(sumOf('rule.total_hits', '|c|#env:test,domain:d,descriptor:k')).toBe(40);
      const times = lines.filter((line) =>
        line.startsWith('ratelimit_server.ShouldRateLimit.response_time:'),
      );
      expect(times).toHaveLength(40);
      for (const line of times) expect(line).toMatch(/:\d+\.0{6}\|ms\|#env:test$/);
    });
  });
});

describe('a mogrifier that is none', () => {
  it('ends the start with its variable and the reason', async () => {
    const program = spawnLimiter({
      env: { ...mogrified, RUNTIME_ROOT: folder, DOG_STATSD_MOGRIFIER_RULE_PATTERN: '(' },
    });
    const [status] = await once(program.process, 'close');
    expect(status).toBe(1);
    expect(program.output).toContain(
      'DOG_STATSD_MOGRIFIER_RULE_PATTERN: failed to compile pattern for rule: error parsing regexp: missing closing )',
    );
  });
});
