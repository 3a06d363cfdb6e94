import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const rules = `
domain: race
descriptors:
  - key: ticket
    rate_limit: { unit: year, requests_per_unit: 1000 }
`;

describeWithServer('two limiters that count in one Redis', redisProgram, (redisPath) => {
  let folder: string;
  let redis: RedisServer;
  let limiters: InProcessLimiter[];
  let clients: LimiterClient[];
  let direct: Redis;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-race-'));
    writeFileSync(join(folder, 'race.yaml'), rules);
    redis = await startRedis({ path: redisPath });
    const env = {
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      RUNTIME_ROOT: folder,
      RUNTIME_APPDIRECTORY: '.',
    };
    limiters = await Promise.all([startLimiterHere({ env }), startLimiterHere({ env })]);
    clients = Array.from(
      { length: 20 },
      (_, i) => new LimiterClient((limiters[i % 2] as InProcessLimiter).ports.grpc),
    );
    direct = new Redis(redis.port, '127.0.0.1');
  });

  afterAll(async () => {
    for (const client of clients ?? []) client.close();
    direct?.disconnect();
    await Promise.all((limiters ?? []).map((limiter) => limiter.stop()));
    await redis?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const yearStart = (): number => Math.floor(Date.now() / 1000 / 31_536_000) * 31_536_000;

  it.each([1, 2, 3, 4, 5])('allow exactly 1,000 of 1,500 racing requests, round %i', async (round) => {
    const answers = await Promise.all(
      clients.flatMap((client) =>
        Array.from({ length: 75 }, () => client.allowed('race', 'ticket', `round-${round}`)),
      ),
    );
    expect(answers).toHaveLength(1500);
    expect(answers.filter(Boolean)).toHaveLength(1000);
    expect(await direct.get(`race_ticket_round-${round}_${yearStart()}`)).toBe('1500');
  });

  it('answer a key of the wrong type with an error to its own callers alone', async () => {
    await direct.rpush(`race_ticket_broken_${yearStart()}`, 'not a number');
    const [first, second] = clients as [LimiterClient, LimiterClient];
    const outcomes = await Promise.allSettled(
      Array.from({ length: 50 }, (_, i) => [
        first.allowed('race', 'ticket', `well-${i}`),
        second.allowed('race', 'ticket', i % 5 === 0 ? 'broken' : `fine-${i}`),
      ]).flat(),
    );
    const failed = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(failed).toHaveLength(10);
    for (const { reason } of failed) {
      expect(reason.code).toBe(2);
      expect(reason.details).toContain('WRONGTYPE');
    }
    expect(outcomes.filter((outcome) => outcome.status === 'fulfilled' && outcome.value)).toHaveLength(90);
    await direct.del(`race_ticket_broken_${yearStart()}`);
  });
});
