/** Where the store is stays out of every answer to a caller while the store fails; the log says it. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: shop
descriptors:
  - { key: ip, rate_limit: { unit: hour, requests_per_unit: 100 } }
  - { key: team, rate_limit: { unit: hour, requests_per_unit: 100 }, reserve: { estimate: 10, ttl: 60s } }
`;

describeWithServer('a store that is gone', redisProgram, (path) => {
  const folder = suiteFolder();
  const startLimiter = limitersOfSuite(() => ({
    env: {
      RUNTIME_ROOT: folder,
      RUNTIME_APPDIRECTORY: 'config',
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
    },
  }));
  beforeAll(() => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config', 'shop.yaml'), rules);
  });

  it('is named to no caller by its address', async () => {
    const redis = await startRedis({ path });
    const limiter = await startLimiter({ REDIS_URL: `127.0.0.1:${redis.port}` });
    const { ports } = limiter;
    const client = new LimiterClient(ports.grpc);
    onTestFinished(() => client.close());
    await redis.stop();
    const json = { 'content-type': 'application/json' };
    const post = (port: number, route: string, body: string) =>
      httpAsk(port, route, { method: 'POST', headers: json, body });
    const ip = { domain: 'shop', descriptors: [{ entries: [{ key: 'ip', value: '1' }] }] };
    const answers: Record<string, () => Promise<string>> = {
      gRPC: () => client.ask(ip).then(JSON.stringify, (error) => `${error.message} ${error.details}`),
      '/json': async () => JSON.stringify(await post(ports.http, '/json', JSON.stringify(ip))),
      '/v1/check': async () =>
        JSON.stringify(await post(ports.http, '/v1/check', '{"domain":"shop","descriptors":[[{"ip":"1"}]]}')),
      '/v1/reserve': async () =>
        JSON.stringify(
          await post(
            ports.http,
            '/v1/reserve',
            '{"domain":"shop","descriptors":[[{"team":"1"}]],"amount":5}',
          ),
        ),
      '/v1/counters': async () =>
        JSON.stringify(await httpAsk(ports.debug, '/v1/counters?domain=shop&entry=ip%3D1')),
    };
    for (const [name, answer] of Object.entries(answers)) {
      let message = '';
      await eventually(async () => {
        message = await answer();
        expect([name, message]).toEqual([
          name,
          expect.stringMatching(/not connected|cannot be asked|ECONNREFUSED/),
        ]);
      });
      expect([name, message]).toEqual([name, expect.not.stringContaining('127.0.0.1:')]);
      expect([name, message]).toEqual([name, expect.not.stringContaining(`${redis.port}`)]);
    }
    expect(limiter.lines.join('\n')).toContain(`127.0.0.1:${redis.port}`);
  });
});
