import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';

import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type RedisCluster, startRedisCluster } from '../support/redis-cluster.ts';

const rules = `
domain: race
descriptors:
  - key: ticket
    rate_limit: { unit: year, requests_per_unit: 100 }
`;

describeWithServer('limiters that count in a Redis Cluster', redisProgram, (path) => {
  let folder: string;
  let cluster: RedisCluster;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-cluster-'));
    writeFileSync(join(folder, 'race.yaml'), rules);
    cluster = await startRedisCluster({ path, password: 'tr0ub4dor' });
  });
  afterAll(async () => {
    await cluster?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  async function limiterClient(env: Record<string, string>): Promise<LimiterClient> {
    const limiter = await startLimiterHere({
      env: {
        REDIS_TYPE: 'cluster',
        REDIS_URL: cluster.url,
        REDIS_AUTH: 'tr0ub4dor',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        ...env,
      },
    });
    const client = new LimiterClient(limiter.ports.grpc);
    onTestFinished(async () => {
      client.close();
      await limiter.stop();
    });
    return client;
  }

  it('allow exactly 100 of 150 racing requests for each of ten tickets', async () => {
    const clients = await Promise.all([
      limiterClient({}),
      limiterClient({
        REDIS_SCRIPTS: 'never',
        REDIS_PIPELINE_WINDOW: '500us',
        REDIS_CLUSTER_PIPELINE_PARALLELISM: '0',
        REDIS_POOL_SIZE: '2',
      }),
    ]);
    const tickets = Array.from({ length: 10 }, (_, i) => `ticket-${i}`);
    const allowed = await Promise.all(
      tickets.map(async (ticket) => {
        const asked = Array.from({ length: 150 }, (_, i) =>
          clients[i % 2]?.allowed('race', 'ticket', ticket),
        );
        return (await Promise.all(asked)).filter(Boolean).length;
      }),
    );
    expect(allowed).toEqual(tickets.map(() => 100));
    const yearStart = Math.floor(Date.now() / 1000 / 31_536_000) * 31_536_000;
    const held = await cluster.valuesOf(tickets.map((ticket) => `race_ticket_${ticket}_${yearStart}`));
    expect(held).toEqual(tickets.map(() => '150'));
  });
});
