/** What an operator learns of a Redis that is in trouble, from the log, the statistics and the errors of requests. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

describeWithServer('a Redis in trouble', redisProgram, (path) => {
  const folder = suiteFolder();
  beforeAll(() => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(
      join(folder, 'config/d.yaml'),
      'domain: d\ndescriptors:\n  - key: one\n    rate_limit: { unit: year, requests_per_unit: 5000 }\n',
    );
  });

  async function startLimiter(url: string, env: Record<string, string> = {}): Promise<InProcessLimiter> {
    const limiter = await InProcessLimiter.start({
      env: { RUNTIME_ROOT: folder, BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: url, ...env },
    });
    onTestFinished(async () => void (await limiter.stop()));
    return limiter;
  }

  async function startServer(args: string[] = []) {
    const server = await startRedis({ path, args });
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    client.on('error', () => {});
    onTestFinished(async () => {
      client.disconnect();
      await server.stop();
    });
    return { server, client, url: `127.0.0.1:${server.port}` };
  }

  const ask = (limiter: InProcessLimiter, value = 'a') => limiter.ask('d', [{ one: value }]);
  const about = (limiter: InProcessLimiter, text: string) =>
    limiter.lines.filter((line) => line.includes(text));

  it.each(['50ms', '0s'])('that hangs opens the breaker when calls get no place within %s', async (wait) => {
    const { server, url } = await startServer();
    const limiter = await startLimiter(url, {
      REDIS_POOL_SIZE: '1',
      REDIS_POOL_ON_EMPTY_BEHAVIOR: 'ERROR',
      REDIS_POOL_ON_EMPTY_WAIT_DURATION: wait,
    });
    expect((await ask(limiter)).status).toBe(200);
    await server.kill('SIGSTOP');
    onTestFinished(() => server.kill('SIGCONT'));
    const errors = new Set<string | null>();
    const deadline = new LoadedDeadline(8_000);
    while (about(limiter, 'The store does not answer').length === 0) {
      const first = ask(limiter).then(({ error }) => errors.add(error));
      await Promise.race([first, new Promise((resolve) => setTimeout(resolve, 20))]);
      deadline.assertInTime();
    }
    const within = wait === '0s' ? '' : ' within 50 ms';
    expect(errors).toContain(`too many calls to Redis were open${within} (REDIS_POOL_SIZE)`);
    expect(errors).not.toContain('Redis store is closed');
    expect(about(limiter, 'The store does not answer')).toEqual([
      expect.stringContaining('reason="the store did not answer within 700 ms"'),
    ]);
    expect((await limiter.stats()).get('ratelimit.redis_pool.calls_refused')).toBeGreaterThan(0);
  });

  it('that changes its password says so in the log, once, and in errors', async () => {
    const { client, url } = await startServer();
    await client.config('SET', 'requirepass', 'first');
    const limiter = await startLimiter(url, { REDIS_AUTH: 'first' });
    expect((await ask(limiter)).status).toBe(200);
    await client.config('SET', 'requirepass', 'second');
    await client.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    const reason = 'Redis answered: WRONGPASS invalid username-password pair or user is disabled.';
    await eventually(async () => {
      expect((await ask(limiter)).error).toBe(
        `the limiter does not ask the store until it answers again: Redis is not connected: ${reason}`,
      );
    });
    expect(about(limiter, 'level=error msg="Redis cannot be reached')).toEqual([
      `level=error msg="Redis cannot be reached: trying again" url="${url}" reason="${reason}"`,
    ]);
    await client.config('SET', 'requirepass', 'first');
    await eventually(async () => expect((await ask(limiter)).status).toBe(200));
    expect(limiter.lines.join()).not.toMatch(/first|second/);
  });

  it('turns health bad, and the log names the component', async () => {
    const { server, url } = await startServer();
    const limiter = await startLimiter(url, { REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: 'true' });
    await server.kill('SIGKILL');
    const health = () => limiter.lines.filter((line) => /Unhealthy|Healthy/.test(line));
    await eventually(() => expect(health()).toEqual(['level=warning msg="Unhealthy" components=redis']));
    await server.start();
    await eventually(() => expect(health().slice(1)).toEqual(['level=warning msg="Healthy again"']));
  });

  it('that asks for no password, though one is set, is a line of the limiter', async () => {
    const { url } = await startServer();
    const limiter = await startLimiter(url, { REDIS_AUTH: 'hunter2' });
    expect(about(limiter, 'password')).toEqual([
      'level=warning msg="Redis does not ask for a password, but one is set (REDIS_AUTH or REDIS_URL)"',
    ]);
  });

  it('that is full says so in one line with what to do', async () => {
    const { client, url } = await startServer(['--maxmemory-policy', 'noeviction']);
    const limiter = await startLimiter(url);
    expect((await limiter.ask('d', [{ one: 'spent' }], 5000)).status).toBe(200);
    await client.config('SET', 'maxmemory', '1');
    for (const value of ['b', 'c', 'd']) {
      expect((await ask(limiter, value)).error).toMatch(/OOM /);
    }
    expect((await ask(limiter, 'spent')).status).toBe(429);
    expect(about(limiter, 'OOM')).toEqual([
      expect.stringMatching(
        /^level=warning msg="Redis answered with an error" .* hint="it has reached maxmemory: /,
      ),
    ]);
  });

  it('that is a node of a cluster says so in one line with what to set', async () => {
    const cluster = await startRedisCluster({ path });
    onTestFinished(() => cluster.stop());
    const limiter = await startLimiter(`127.0.0.1:${cluster.members[0]?.server.port}`);
    const errors: (string | null)[] = [];
    for (let i = 0; i < 50; i += 1) errors.push((await ask(limiter, String(i))).error);
    expect(errors.filter((error) => error?.startsWith('Redis answered: MOVED '))).not.toEqual([]);
    expect(about(limiter, 'MOVED')).toEqual([
      expect.stringContaining('hint="it is a node of a Redis Cluster: set REDIS_TYPE=cluster"'),
    ]);
  });

  it('that rejects a key for the user continues to run scripts', async () => {
    const { client, url } = await startServer();
    await client.acl('SETUSER', 'weir', 'on', '>hunter2', '~d_one_good*', '+@all');
    const limiter = await startLimiter(`redis://weir:hunter2@${url}`);
    expect((await ask(limiter, 'bad')).error).toMatch(/^Redis answered: NOPERM /);
    expect((await ask(limiter, 'good')).status).toBe(200);
    expect(about(limiter, 'scripts')).toEqual([]);
    expect(about(limiter, 'hint="the user\'s ACL denies it')).toHaveLength(1);
    expect(await client.info('commandstats')).toContain('cmdstat_evalsha');
  });

  it('of which one master is dead at the start is reported by name', { timeout: 60_000 }, async () => {
    const cluster = await startRedisCluster({ path });
    onTestFinished(() => cluster.stop());
    const [, dead] = cluster.members;
    const replica = cluster.members[4];
    await Promise.all([replica?.server.kill('SIGKILL'), dead?.server.kill('SIGKILL')]);
    const limiter = await startLimiter(cluster.url, { REDIS_TYPE: 'cluster' });
    const node = `127.0.0.1:${dead?.server.port}`;
    expect(about(limiter, 'Lost a node')).toEqual([
      `level=error msg="Lost a node of the Redis Cluster: trying again" node="${node}" reason="connect ECONNREFUSED ${node}"`,
    ]);
    const errors = new Set<string | null>();
    for (let i = 0; i < 50; i += 1) errors.add((await ask(limiter, String(i))).error);
    expect(errors).toContain('node (address) is not connected: connect ECONNREFUSED');
    const stats = await limiter.stats();
    const nodes = ['nodes', 'nodes_reached'].map((name) => stats.get(`ratelimit.redis_pool.${name}`));
    expect(nodes).toEqual([3, 2]);
    await dead?.server.start();
    await eventually(() => expect(about(limiter, 'answers again')).toHaveLength(1), { timeoutMs: 20_000 });
    await eventually(async () =>
      expect((await limiter.stats()).get('ratelimit.redis_pool.nodes_reached')).toBe(3),
    );
  });
});
