/** What memcache counts has a tag of its own: with EXTRA_TAGS, and as each sink writes it. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { memcachedProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type MemcachedServer, startMemcached } from '../support/memcached-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
writeFileSync(
  join(folder, 'config/m.yaml'),
  'domain: m\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 1000 }\n',
);

const cleanups: (() => Promise<void> | void)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

/** Everything that TCP connections bring. */
async function tcpReceiver(): Promise<{ port: number; text(): string }> {
  let text = '';
  const server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (data) => {
      text += data.toString();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => void server.close());
  return { port: (server.address() as AddressInfo).port, text: () => text };
}

async function udpReceiver(): Promise<{ port: number; text(): string }> {
  let text = '';
  const socket = createSocket('udp4', (packet) => {
    text += `${packet}\n`;
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  cleanups.push(() => void socket.close());
  return { port: socket.address().port, text: () => text };
}

describeWithServer('statistics of memcache', memcachedProgram, (path) => {
  let memcached: MemcachedServer;
  beforeAll(async () => {
    memcached = await startMemcached({ path });
  });
  afterAll(() => memcached.stop());

  /** After one request. */
  async function limiterWith(env: Record<string, string>): Promise<InProcessLimiter> {
    const limiter = await startLimiterHere({
      env: {
        RUNTIME_ROOT: folder,
        BACKEND_TYPE: 'memcache',
        MEMCACHE_HOST_PORT: memcached.address,
        EXTRA_TAGS: 'az:b.1,dc:eu',
        STATSD_HOST: '127.0.0.1',
        STATS_FLUSH_INTERVAL: '100ms',
        ...env,
      },
    });
    cleanups.push(async () => void (await limiter.stop()));
    const client = new LimiterClient(limiter.ports.grpc);
    cleanups.push(() => client.close());
    expect(await client.allowed('m', 'k', 'v')).toBe(true);
    return limiter;
  }

  it('go to statsd with all tags in their names, by name', async () => {
    const { port, text } = await tcpReceiver();
    await limiterWith({ USE_STATSD: 'true', STATSD_PORT: String(port) });
    await eventually(() =>
      expect(text().split('\n')).toContain('ratelimit.memcache.multiget.__az=b_1.__code=success.__dc=eu:1|c'),
    );
  });

  it('go to dogstatsd as tags', async () => {
    const { port, text } = await udpReceiver();
    await limiterWith({ USE_DOG_STATSD: 'true', STATSD_PORT: String(port) });
    await eventually(() =>
      expect(text().split('\n')).toContain('ratelimit.memcache.multiget:1|c|#az:b.1,code:success,dc:eu'),
    );
  });

  it('go to standard output as to statsd', async () => {
    const { output } = await limiterWith({ USE_STATSD: 'false' });
    await eventually(() =>
      expect(output.join('')).toContain(
        '"json":{"name":"ratelimit.memcache.multiget.__az=b_1.__code=success.__dc=eu","type":"counter","value":"1.000000"}',
      ),
    );
  });

  it('go to Prometheus as labels', async () => {
    const port = await freePort();
    await limiterWith({ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: `127.0.0.1:${port}` });
    await eventually(async () => {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      expect(text.split('\n')).toContain('ratelimit_memcache_multiget{az="b.1",code="success",dc="eu"} 1');
    });
  });
});
