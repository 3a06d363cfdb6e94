/** REDIS_SCRIPTS=auto on servers that reject scripts, each for its own reason, through the settings of a limiter. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { counterStoreSuite } from './counter-store.suite.ts';

const rule = (key: string) => `  - key: ${key}\n    rate_limit: { unit: year, requests_per_unit: 5 }\n`;

const needingScripts = `
  - key: bucket
    rate_limit: { unit: year, requests_per_unit: 2, algorithm: token_bucket }
  - key: several
    rate_limits:
      - { unit: year, requests_per_unit: 2 }
      - { unit: year, requests_per_unit: 3, algorithm: sliding_window }
`;

interface ParseRejection {
  name: string;
  args: () => Promise<string[]>;
  prepare: (client: Redis) => Promise<unknown>;
  /** Before the address. */
  user: string;
  reason: string;
}

const refusals: ParseRejection[] = [
  {
    name: 'does not know EVAL',
    args: async () => ['--rename-command', 'EVAL', '', '--rename-command', 'EVALSHA', ''],
    prepare: async () => {},
    user: '',
    reason: "Redis answered: ERR unknown command 'evalsha'",
  },
  {
    name: 'forbids EVAL to the user',
    args: async () => [],
    prepare: (client) => client.acl('SETUSER', 'plain', 'on', '>hunter2', '~*', '+@all', '-eval', '-evalsha'),
    user: 'plain:hunter2@',
    reason: 'Redis answered: NOPERM ',
  },
  {
    name: 'is a node of a cluster',
    args: async () => ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())],
    prepare: (client) => client.call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383),
    user: '',
    reason: "Redis answered: CROSSSLOT Keys in request don't hash to the same slot",
  },
];

describeWithServer('REDIS_SCRIPTS=auto with a Redis that', redisProgram, (path) => {
  const folder = suiteFolder();
  beforeAll(() => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(
      join(folder, 'config/d.yaml'),
      `domain: d\ndescriptors:\n${rule('one')}${rule('two')}${needingScripts}`,
    );
  });

  describe.each(refusals)('$name', ({ args, prepare, user, reason }) => {
    let server: RedisServer;
    let client: Redis;
    let url: string;
    beforeAll(async () => {
      server = await startRedis({ path, args: await args() });
      client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
      await prepare(client);
      await eventually(async () => expect(await client.set('ready', 1)).toBe('OK'));
      url = `redis://${user}127.0.0.1:${server.port}`;
    });
    afterAll(async () => {
      client?.disconnect();
      await server?.stop();
    });

    it.each(['false', 'true'])('warns once and continues counting, stop when over %s', async (stop) => {
      await client.flushall();
      const limiter = await InProcessLimiter.start({
        env: {
          RUNTIME_ROOT: folder,
          BACKEND_TYPE: 'redis',
          REDIS_SOCKET_TYPE: 'tcp',
          REDIS_URL: url,
          STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: stop,
        },
      });
      onTestFinished(async () => void (await limiter.stop()));
      const codes: string[] = [];
      for (let i = 0; i < 6; i += 1) {
        const { body, error } = await limiter.ask('d', [{ one: 'a' }, { two: 'b' }]);
        codes.push(error ?? body.overallCode);
      }
      expect(codes).toEqual([...Array(5).fill('OK'), 'OVER_LIMIT']);
      const keys = await client.keys('d_*');
      expect(await Promise.all(keys.map((key) => client.get(key)))).toEqual(['6', '6']);
      for (const key of keys) expect(await client.ttl(key)).toBeGreaterThan(0);
      const shown = url.replace(user, user === '' ? '' : '*****@');
      expect(limiter.lines.filter((line) => line.includes('scripts'))).toEqual([
        expect.stringContaining(
          `level=warning msg="Redis rejects scripts: fixed windows still count, and STORE_FAILURE_MODE decides for other limits" url="${shown}" reason="${reason}`,
        ),
      ]);
    });

    it.each([
      { mode: 'deny', codes: ['OVER_LIMIT', 'OVER_LIMIT', 'OVER_LIMIT'] },
      { mode: 'local', codes: ['OK', 'OK', 'OVER_LIMIT'] },
      // Nothing comes back that would count them: they are counted here rather than let pass for good.
      { mode: 'allow', codes: ['OK', 'OK', 'OVER_LIMIT'] },
    ])('answers for limits that need scripts by STORE_FAILURE_MODE=$mode', async ({ mode, codes }) => {
      const limiter = await InProcessLimiter.start({
        env: {
          RUNTIME_ROOT: folder,
          BACKEND_TYPE: 'redis',
          REDIS_SOCKET_TYPE: 'tcp',
          REDIS_URL: url,
          STORE_FAILURE_MODE: mode,
        },
      });
      onTestFinished(async () => void (await limiter.stop()));
      // Two keys at once show what scripts are rejected for.
      await limiter.ask('d', [{ one: mode }, { two: mode }]);
      for (const key of ['bucket', 'several']) {
        const answers: string[] = [];
        for (const _ of codes) {
          const { body, error } = await limiter.ask('d', [{ [key]: mode }]);
          answers.push(error ?? body.overallCode);
        }
        expect(answers).toEqual(codes);
      }
      expect((await limiter.ask('d', [{ one: mode }])).body.overallCode).toBe('OK');
      expect(limiter.lines.filter((line) => line.includes('scripts'))).toHaveLength(1);
    });

    counterStoreSuite(() => openRedisStore({ url }), { bounds: 'refused' });
  });
});
