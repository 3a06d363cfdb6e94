/** A memcached that takes nothing more and throws nothing away (`-M`): it rejects, and requests pass. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import { counterOp, submit, totalOf } from '../support/counter-ops.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { MemcacheNews, openMemcacheStore } from '../support/memcache-stores.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const refusal = 'memcached answered: SERVER_ERROR out of memory storing object';
/** Of one length, so that they need places of one size. */
const longKey = (number: number) => String(number).padStart(200, 'k');

describeWithServer('a memcached that is full', memcachedProgram, (path) => {
  const folder = suiteFolder();
  let server: MemcachedServer;
  beforeAll(async () => {
    server = await startMemcached({ path, args: ['-m', '2', '-M'] });
    await server.set(longKey(2), '9');
    let answer = '';
    for (let next = 1000; !answer.includes('SERVER_ERROR'); next += 1000) {
      const keys = Array.from({ length: 1000 }, (_, i) => longKey(next + i));
      const lines = keys.map((key) => `add ${key} 0 0 1\r\n1\r\n`).join('');
      answer = await server.talk(`${lines}version\r\n`, /VERSION .*\r\n$/);
    }
  });
  afterAll(() => server?.stop());

  it('lets new keys of that size pass and says so, and counts others', async () => {
    const news = new MemcacheNews();
    const store = openMemcacheStore(server.address, { events: news });
    onTestFinished(() => store.close());
    const fresh = longKey(3);
    for (let i = 0; i < 3; i += 1) {
      const ops = await submit(
        store,
        [fresh, 'short'].map((key) => counterOp({ key, ttlSeconds: 3600 })),
      );
      expect(ops.map(({ after, error }) => [after, error])).toEqual([
        [1, undefined],
        [1 + i, undefined],
      ]);
      await store.ping();
    }
    expect(news.lines).toEqual(Array(3).fill(`Failed to add ${fresh}: ${refusal}`));
    expect(news.commands.filter((command) => command.endsWith(' error'))).toEqual(Array(3).fill('add error'));
    expect(store.figures).toEqual({ nodes: 1, down: 0, connections: 1 });
    expect(await Promise.all([fresh, 'short'].map((key) => server.valueOf(key)))).toEqual([undefined, '3']);
  });

  it('lets keys pass whose counter would need one digit more', async () => {
    const news = new MemcacheNews();
    const store = openMemcacheStore(server.address, { events: news });
    onTestFinished(() => store.close());
    expect(await totalOf(store, { key: longKey(2) })).toBe(10);
    await store.ping();
    expect(news.lines).toEqual([
      `Failed to increment ${longKey(2)}: memcached answered: SERVER_ERROR out of memory`,
    ]);
    expect(await server.valueOf(longKey(2))).toBe('9');
  });

  it('is reported by a limiter in its statistics and its log', async () => {
    writeFileSync(
      join(folder, 'rules.yaml'),
      'domain: full\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 1 } }]\n',
    );
    const limiter = await InProcessLimiter.start({
      env: {
        BACKEND_TYPE: 'memcache',
        MEMCACHE_HOST_PORT: server.address,
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
        RUNTIME_WATCH_ROOT: 'false',
      },
    });
    onTestFinished(async () => void (await limiter.stop()));
    const user = 'u'.repeat(175);
    for (let i = 0; i < 3; i += 1)
      expect((await limiter.ask('full', [{ user }])).body.overallCode).toBe('OK');
    await eventually(async () =>
      expect((await limiter.stats()).get('ratelimit.memcache.add.__code=error')).toBe(3),
    );
    expect((await limiter.stats()).get('ratelimit.memcache.nodes_down')).toBe(0);
    const reported = limiter.lines.filter((line) => line.includes('Failed to add'));
    expect(reported).toHaveLength(1);
    expect(reported[0]).toContain(refusal);
  });
});
