/** Every form of REDIS_URL and REDIS_PERSECOND_URL, through the settings of a limiter; sentinels: redis-settings.test.ts. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

interface UrlForm {
  type: 'single' | 'cluster';
  socketType: 'tcp' | 'unix';
  url: string;
  auth?: string;
  /** Where the counter is then. Defaults to 0. */
  db?: number;
}

const tcp = { type: 'single', socketType: 'tcp' } as const;
const cluster = { type: 'cluster', socketType: 'tcp' } as const;

/** PORT, SOCKET and CLUSTER stand for those of the servers. */
const forms: UrlForm[] = [
  { type: 'single', socketType: 'unix', url: 'SOCKET', auth: 'me:hunter2' },
  { type: 'single', socketType: 'unix', url: 'SOCKET', auth: 'hunter3' },
  { ...tcp, url: '127.0.0.1:PORT', auth: 'hunter3' },
  { ...tcp, url: 'localhost:PORT', auth: 'me:hunter2' },
  { ...tcp, url: 'redis://127.0.0.1:PORT', auth: 'me:hunter2' },
  { ...tcp, url: 'redis://:hunter3@127.0.0.1:PORT' },
  { ...tcp, url: 'redis://me:hunter2@127.0.0.1:PORT' },
  { ...tcp, url: 'redis://me:hunter2@127.0.0.1:PORT/4', db: 4 },
  { ...tcp, url: 'redis://127.0.0.1:PORT?username=me&password=hunter2&db=5', db: 5 },
  { ...tcp, url: 'redis://me:wrong@127.0.0.1:PORT/6', auth: 'me:hunter2', db: 6 },
  { ...cluster, url: '127.0.0.1:CLUSTER', auth: 'hunter3' },
  { ...cluster, url: '127.0.0.1:1,127.0.0.1:CLUSTER', auth: 'hunter3' },
  { ...cluster, url: 'redis://:hunter3@127.0.0.1:CLUSTER,127.0.0.1:1' },
];

describeWithServer('the address of a Redis', redisProgram, (path) => {
  const folder = suiteFolder();
  let server: RedisServer;
  let node: RedisServer;
  let clients: [Redis, Redis];

  beforeAll(async () => {
    mkdirSync(join(folder, 'config'));
    const rule = (unit: string) =>
      `  - key: ${unit}\n    rate_limit: { unit: ${unit}, requests_per_unit: 5 }\n`;
    writeFileSync(join(folder, 'config/d.yaml'), `domain: d\ndescriptors:\n${rule('year')}${rule('second')}`);
    server = await startRedis({ path, unixSocket: true, args: ['--requirepass', 'hunter3'] });
    const clustered = ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())];
    node = await startRedis({ path, args: [...clustered, '--requirepass', 'hunter3'] });
    const clientOf = ({ port }: RedisServer) =>
      new Redis(port, '127.0.0.1', { protocol: 2, password: 'hunter3' });
    clients = [clientOf(server), clientOf(node)];
    await clients[0].acl('SETUSER', 'me', 'on', '>hunter2', '~*', '&*', '+@all');
    await clients[1].call('CLUSTER', 'ADDSLOTSRANGE', 0, 16_383);
    await eventually(async () => expect(await clients[1].set('ready', 1)).toBe('OK'));
  });
  afterAll(async () => {
    for (const client of clients ?? []) client.disconnect();
    await Promise.all([server, node].map((one) => one?.stop()));
  });
  beforeEach(() => Promise.all(clients.map((client) => client.flushall())));

  const addressed = (url: string) =>
    url
      .replace('PORT', String(server.port))
      .replace('SOCKET', server.socketPath)
      .replace('CLUSTER', String(node.port));

  const settingsOf = (prefix: string, form: UrlForm): Record<string, string> => ({
    [`${prefix}TYPE`]: form.type,
    [`${prefix}SOCKET_TYPE`]: form.socketType,
    [`${prefix}URL`]: addressed(form.url),
    [`${prefix}AUTH`]: form.auth ?? '',
  });
  const plain: UrlForm = { ...tcp, url: 'redis://:hunter3@127.0.0.1:PORT/15' };

  /** Databases of one server that hold a counter: what limiters send each other is none. */
  async function databases(client: Redis): Promise<number[]> {
    const used = [...(await client.info('keyspace')).matchAll(/^db(\d+):/gm)].map(([, db]) => Number(db));
    const held: number[] = [];
    for (const db of used) {
      await client.select(db);
      if ((await client.keys('*')).some((key) => !key.startsWith('weir:'))) held.push(db);
    }
    return held;
  }

  describe.each([
    { prefix: 'REDIS_', unit: 'year' },
    { prefix: 'REDIS_PERSECOND_', unit: 'second' },
  ])('in $prefix*', ({ prefix, unit }) => {
    it.each(forms)('$type $socketType $url, AUTH "$auth"', async (form) => {
      const limiter = await InProcessLimiter.start({
        env: {
          RUNTIME_ROOT: folder,
          BACKEND_TYPE: 'redis',
          REDIS_STARTUP_INITIAL_INTERVAL: '10ms',
          REDIS_STARTUP_MAX_ELAPSED_TIME: '1ms',
          REDIS_PERSECOND: 'true',
          ...settingsOf('REDIS_', plain),
          ...settingsOf('REDIS_PERSECOND_', plain),
          ...settingsOf(prefix, form),
        },
      });
      try {
        const { body, error } = await limiter.ask('d', [{ [unit]: 'a' }]);
        expect(error ?? body.overallCode).toBe('OK');
        const held = await databases(clients[form.type === 'cluster' ? 1 : 0]);
        expect(held).toEqual([form.db ?? 0]);
      } finally {
        await limiter.stop();
      }
    });
  });
});
