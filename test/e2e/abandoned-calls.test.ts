import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { ServiceError } from '@grpc/grpc-js';
import { Redis } from 'ioredis';
import { expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: d
descriptors:
  - key: k
    rate_limit: { unit: year, requests_per_unit: 1000 }
`;
const request = { domain: 'd', descriptors: [{ entries: [{ key: 'k', value: 'v' }] }] };

describeWithServer('calls behind a Redis that hangs', redisProgram, (path) => {
  const folder = suiteFolder();

  it('end at their deadline, and are not counted when Redis is back', async () => {
    writeFileSync(join(folder, 'rules.yaml'), rules);
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const limiter = await InProcessLimiter.start({
      env: {
        BACKEND_TYPE: 'redis',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        REDIS_TIMEOUT: '20s',
        REDIS_POOL_SIZE: '1',
        REDIS_POOL_ON_EMPTY_BEHAVIOR: 'WAIT',
        STORE_BREAKER_SILENCE: '60s',
        RUNTIME_ROOT: folder,
        RUNTIME_APPDIRECTORY: '.',
      },
    });
    onTestFinished(async () => void (await limiter.stop()));
    const client = new LimiterClient(limiter.ports.grpc);
    onTestFinished(() => client.close());
    const admin = new Redis(redis.port, '127.0.0.1', { protocol: 2 });
    onTestFinished(() => admin.disconnect());

    await redis.kill('SIGSTOP');
    const sent = client.ask(request, { timeoutMs: 60_000 });
    await eventually(async () => {
      const stats = await limiter.stats();
      expect(stats.get('ratelimit.service.rate_limit.d.k.total_hits')).toBe(1);
    });
    const behind = Array.from({ length: 20 }, () =>
      client.ask(request, { timeoutMs: 1_000 }).then(
        () => 0,
        (error: ServiceError) => error.code,
      ),
    );
    expect(await Promise.all(behind)).toEqual(Array(20).fill(4));
    await redis.kill('SIGCONT');
    expect((await sent).statuses[0]?.limitRemaining).toBe(999);

    expect((await client.ask(request)).statuses[0]?.limitRemaining).toBe(998);
    const counters = (await admin.keys('*')).filter((key) => !key.startsWith('weir:'));
    expect(await Promise.all(counters.map((key) => admin.get(key)))).toEqual(['2']);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.call.should_rate_limit.abandoned')).toBe(20);
    expect(stats.get('ratelimit.service.call.should_rate_limit.redis_error')).toBe(0);
    expect(stats.get('ratelimit.service.rate_limit.d.k.total_hits')).toBe(22);
    expect(stats.get('ratelimit.service.rate_limit.d.k.within_limit')).toBe(2);
    expect(stats.get('ratelimit_server.ShouldRateLimit.total_requests')).toBe(22);
  });
});
