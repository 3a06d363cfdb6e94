/** Dynamic metadata of rules in quota_mode, whose backends are reserved: what a proxy reads to go on to the next. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { redisProgram } from '../support/find-server.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/l.yaml'),
  `domain: llm
descriptors:
  - key: backend
    value: large
    quota_mode: true
    reserve: { ttl: 10m, estimate: 40 }
    rate_limit: { unit: day, requests_per_unit: 100, hits_unit: tokens }
  - key: backend
    value: huge
    quota_mode: true
    reserve: { ttl: 10m, estimate: 40 }
    rate_limit: { unit: day, requests_per_unit: 9007199254740991, hits_unit: tokens }
  - key: backend
    value: plain
    quota_mode: true
    rate_limit: { unit: day, requests_per_unit: 3 }
`,
);

function fallbackSuite(env: () => Record<string, string>): void {
  const start = limitersOfSuite(() => ({
    env: { RUNTIME_ROOT: folder, RESPONSE_DYNAMIC_METADATA: 'true', ...env() },
  }));

  it('names what is left and held of each, until the next backend is first', async () => {
    const limiter = await start();
    const ask = async (...descriptors: Record<string, string>[]) => {
      const { body } = await limiter.ask('llm', descriptors, 0);
      const quotas: Record<string, unknown>[] = body.dynamicMetadata.quotas;
      return [
        body.overallCode,
        ...quotas.map(({ name, used, reserved, left }) => [name, used, reserved, left]),
      ];
    };
    const stream = (id: string) =>
      ask(
        { backend: 'plain' },
        { backend: 'huge', reservation_id: id },
        { backend: 'large', reservation_id: id },
      );
    const max = Number.MAX_SAFE_INTEGER;
    expect(await stream('s1')).toEqual([
      'OK',
      ['large', 40, 40, 60],
      ['huge', 40, 40, max - 40],
      ['plain', 1, undefined, 2],
    ]);
    expect(await stream('s2')).toEqual([
      'OK',
      ['large', 80, 80, 20],
      ['huge', 80, 80, max - 80],
      ['plain', 2, undefined, 1],
    ]);
    expect(await stream('s3')).toEqual(['OK', ['huge', 120, 120, max - 120], ['plain', 3, undefined, 0]]);
    // Plain hits are shown what others hold.
    expect(await ask({ backend: 'large' }, { backend: 'huge' })).toEqual([
      'OK',
      ['large', 81, 80, 19],
      ['huge', 121, 120, max - 121],
    ]);
    await ask({ backend: 'large', reservation_id: 's1', settle: '' });
    const [, large] = await ask({ backend: 'large' });
    expect(large?.[2]).toBe(40);
  });
}

describe('fallback groups in memory', () => fallbackSuite(() => ({})));

describeWithServer('fallback groups in Redis', redisProgram, (path) => {
  let server: RedisServer;
  beforeAll(async () => {
    server = await startRedis({ path });
  });
  afterAll(() => server?.stop());
  fallbackSuite(() => ({
    ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${server.port}` },
  }));
});
