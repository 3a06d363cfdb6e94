/** Real processes of every kind that dashboards and alerts are about, after traffic: what they serve to Prometheus. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createAuthority } from '../support/certificates.ts';
import { startControlPlane } from '../support/control-plane-process.ts';
import { eventually } from '../support/eventually.ts';
import { ServedNames } from '../support/exposition-names.ts';
import { httpAsk } from '../support/http-ask.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { QuotaClient } from '../support/quota-client.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';

export interface ObservedPrograms {
  redis: string;
  memcached: string;
  openssl: string;
}

const manifest = `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: shop }
spec:
  domain: shop
  descriptors:
    - key: user
      shadowMode: true
      rateLimit: { unit: hour, requestsPerUnit: 5 }
    - key: route
      descriptors:
        - key: user
          shadowMode: true
          rateLimit: { unit: hour, requestsPerUnit: 5 }
`;
const rules = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: hour, requests_per_unit: 5 }
`;

/** Everything that was started is ended before this settles. */
export async function observedNames(folder: string, programs: ObservedPrograms): Promise<ServedNames> {
  const names = new ServedNames();
  const stops: (() => Promise<unknown>)[] = [];
  try {
    await observeFleet(folder, programs, names, stops);
  } finally {
    for (const stop of stops.reverse()) await stop();
  }
  return names;
}

async function observeFleet(
  folder: string,
  programs: ObservedPrograms,
  names: ServedNames,
  stops: (() => Promise<unknown>)[],
): Promise<void> {
  const config = join(folder, 'rules/config');
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, 'shop.yaml'), rules);
  const manifests = join(folder, 'manifests');
  mkdirSync(manifests);
  writeFileSync(join(manifests, 'shop.yaml'), manifest);

  const controlPlane = await startControlPlane({
    env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: manifests },
  });
  stops.push(() => controlPlane.stop());
  const redis = await startRedis({ path: programs.redis });
  stops.push(() => redis.stop());
  const cluster = await startRedisCluster({ path: programs.redis });
  stops.push(() => cluster.stop());
  const memcached = await startMemcached({ path: programs.memcached });
  stops.push(() => memcached.stop());

  const redisUrl = `127.0.0.1:${redis.port}`;
  const limiters = [
    {
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${controlPlane.ports.xds}`,
      LIMITER_WORKERS: '2',
      LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: redisUrl,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_SOCKET_TYPE: 'tcp',
      REDIS_PERSECOND_URL: redisUrl,
      STORE_FAILURE_MODE: 'local',
      LEASES: 'on',
    },
    {
      BACKEND_TYPE: 'memory',
      RUNTIME_ROOT: join(folder, 'rules'),
      RLQS: 'true',
      TRACING_ENABLED: 'true',
      // Nobody is there: spans are lost.
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1',
    },
    {
      RUNTIME_ROOT: join(folder, 'rules'),
      REDIS_TYPE: 'cluster',
      REDIS_URL: cluster.url,
      REDIS_PERSECOND: 'true',
      REDIS_PERSECOND_TYPE: 'cluster',
      REDIS_PERSECOND_URL: cluster.url,
    },
    {
      BACKEND_TYPE: 'memcache',
      MEMCACHE_HOST_PORT: memcached.address,
      RUNTIME_ROOT: join(folder, 'rules'),
    },
  ];
  for (const env of limiters) names.add(await served(env, stops));
  names.add(await servedWithTls(folder, programs.openssl, stops));
  names.add((await httpAsk(controlPlane.ports.http, '/metrics')).body);
}

async function startServing(
  env: Record<string, string>,
  stops: (() => Promise<unknown>)[],
): Promise<{ limiter: LimiterProcess; scrape(): Promise<string> }> {
  const prometheus = { USE_STATSD: 'false', USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0' };
  const limiter = await startLimiter({ env: { ...prometheus, ...env } });
  stops.push(() => limiter.stop());
  const [, port] = await limiter.program.printed(/Listening for Prometheus on '[^']*:(\d+)'/);
  return { limiter, scrape: async () => (await httpAsk(Number(port), '/metrics')).body };
}

/** What a limiter serves once requests were within, near and over the limit, in shadow mode where the rules say so. */
async function served(env: Record<string, string>, stops: (() => Promise<unknown>)[]): Promise<string> {
  const { limiter, scrape } = await startServing(env, stops);
  const client = new LimiterClient(limiter.ports.grpc);
  try {
    const user = { key: 'user', value: 'alice' };
    const descriptors = [{ entries: [user] }, { entries: [{ key: 'route', value: 'a' }, user] }];
    for (let asked = 0; asked < 8; asked++) await client.ask({ domain: 'shop', descriptors });
    await client.ask({ domain: 'nowhere', descriptors });
    if (env['RLQS'] === 'true') await askForQuota(limiter);
  } finally {
    client.close();
  }
  let text = '';
  // Durations of worker threads come within a second.
  await eventually(async () => {
    text = await scrape();
    if (!text.includes('response_time_seconds_count')) throw new Error('no duration was served yet');
  });
  return text;
}

/** Until the limiter counts what a quota client reported. */
async function askForQuota(limiter: LimiterProcess): Promise<void> {
  const client = new QuotaClient(limiter.ports.grpc);
  client.report('shop', { 'user=robot': { allowed: 1, denied: 1 } });
  await eventually(async () => {
    const { body } = await httpAsk(limiter.ports.debug, '/stats');
    if (!/^ratelimit\.quota\.hits.*: [1-9]/m.test(body)) throw new Error('no report was counted');
  });
  client.close();
}

async function servedWithTls(
  folder: string,
  openssl: string,
  stops: (() => Promise<unknown>)[],
): Promise<string> {
  const { certFile, keyFile } = createAuthority(openssl, folder, 'authority').issue({ name: 'limiter' });
  const callers = join(folder, 'callers.yaml');
  writeFileSync(callers, 'callers: [{ anonymous: true, domains: [shop] }]\n');
  const { scrape } = await startServing(
    {
      BACKEND_TYPE: 'memory',
      RUNTIME_ROOT: join(folder, 'rules'),
      CALLERS_FILE: callers,
      HTTP_SERVER_USE_TLS: 'true',
      HTTP_SERVER_TLS_CERT: certFile,
      HTTP_SERVER_TLS_KEY: keyFile,
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: certFile,
      GRPC_SERVER_TLS_KEY: keyFile,
    },
    stops,
  );
  return scrape();
}
