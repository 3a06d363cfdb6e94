/**
 * The environment in which Envoy Gateway starts its rate limit deployment, given to the image's /bin/ratelimit: all of its
 * variables and nothing else, with Prometheus switched on, as it is by default. Only where its values name folders, hosts
 * or ports of a cluster do others stand here.
 * https://github.com/envoyproxy/gateway/blob/0f0e417dfc346b5ec562be552456981d02d20940/internal/infrastructure/kubernetes/ratelimit/resource.go
 */
import { execFileSync } from 'node:child_process';
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ServerCredentials } from '@grpc/grpc-js';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type StartedProgram, startProgram } from '../../scripts/started-program.ts';
import { AdsServer } from '../support/ads-server.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, opensslProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type ImageFiles, makeImageFiles } from '../support/image-files.ts';
import { startRedis } from '../support/redis-server.ts';
import { limit, rule, source } from '../support/rule-builder.ts';

/** In the language of statsd_exporter, as its ConfigMap has it: what no mapping names is dropped. */
const mapping = `
mappings:
  - match: "ratelimit.service.rate_limit.*.*.over_limit"
    name: "ratelimit_service_rate_limit_over_limit"
    timer_type: "histogram"
    labels: { domain: "$1", key1: "$2" }
  - match: "."
    match_type: "regex"
    action: "drop"
    name: "dropped"
`;

describeWithServer('the image in the place of that of Envoy Gateway', redisProgram, (redisPath) => {
  let folder: string;
  let image: ImageFiles;
  let server: AdsServer;
  let redis: Awaited<ReturnType<typeof startRedis>>;
  let limiter: StartedProgram;
  let metricsPort: number;
  let ports: { grpc: number; http: number };

  beforeAll(async () => {
    const openssl = findServer(opensslProgram);
    if (!('path' in openssl)) throw new Error(openssl.missing);
    folder = mkdtempSync(join(tmpdir(), 'weir-gateway-'));
    const certs = join(folder, 'certs');
    const exporter = join(folder, 'statsd-exporter');
    mkdirSync(certs);
    mkdirSync(exporter);
    const authority = createAuthority(openssl.path, folder, 'authority');
    const pair = authority.issue({
      name: 'envoy-rate-limit',
      alternativeNames: 'DNS:localhost,IP:127.0.0.1',
    });
    copyFileSync(authority.caFile, join(certs, 'ca.crt'));
    copyFileSync(pair.certFile, join(certs, 'tls.crt'));
    copyFileSync(pair.keyFile, join(certs, 'tls.key'));
    writeFileSync(join(exporter, 'conf.yaml'), mapping);
    image = makeImageFiles({ isWarm: false });
    redis = await startRedis({ path: redisPath });
    const file = (name: string): Buffer => readFileSync(join(certs, name));
    // It asks for the limiter's certificate.
    const credentials = ServerCredentials.createSsl(
      file('ca.crt'),
      [{ cert_chain: file('tls.crt'), private_key: file('tls.key') }],
      true,
    );
    server = await AdsServer.start({ credentials });
    metricsPort = await freePort();
    limiter = await startProgram({
      command: join(image.root, 'bin', 'ratelimit'),
      args: [],
      env: {
        ...image.env,
        RUNTIME_ROOT: '/data',
        RUNTIME_SUBDIRECTORY: 'ratelimit',
        RUNTIME_IGNOREDOTFILES: 'true',
        RUNTIME_WATCH_ROOT: 'false',
        LOG_LEVEL: 'info',
        USE_STATSD: 'false',
        CONFIG_TYPE: 'GRPC_XDS_SOTW',
        CONFIG_GRPC_XDS_SERVER_URL: `localhost:${server.port}`,
        CONFIG_GRPC_XDS_NODE_ID: 'envoy-ratelimit',
        GRPC_SERVER_USE_TLS: 'true',
        GRPC_SERVER_TLS_CERT: join(certs, 'tls.crt'),
        GRPC_SERVER_TLS_KEY: join(certs, 'tls.key'),
        GRPC_SERVER_TLS_CA_CERT: join(certs, 'ca.crt'),
        CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
        CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(certs, 'tls.crt'),
        CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(certs, 'tls.key'),
        CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(certs, 'ca.crt'),
        FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
        USE_PROMETHEUS: 'true',
        PROMETHEUS_ADDR: `:${metricsPort}`,
        PROMETHEUS_MAPPER_YAML: join(exporter, 'conf.yaml'),
        // Not set there: the usual ports may be taken on the machine of a test.
        PORT: '0',
        GRPC_PORT: '0',
        DEBUG_PORT: '0',
      },
      until: /Listening for HTTP/,
    });
    const port = (name: string) =>
      Number(new RegExp(`Listening for ${name} on '[^']*:(\\d+)'`).exec(limiter.output())?.[1]);
    ports = { grpc: port('gRPC'), http: port('HTTP') };
  }, 300_000);

  afterAll(async () => {
    await limiter?.stop();
    await server?.stop();
    await redis?.stop();
    image?.remove();
    rmSync(folder, { recursive: true, force: true });
  });

  const get = (path: string) => fetch(`http://127.0.0.1:${ports.http}${path}`);

  it('is ready before it has rules, as its readiness probe asks', async () => {
    expect((await get('/healthcheck')).status).toBe(200);
  });

  it('decides over TLS by the rules of its server, and counts in Redis', async () => {
    const stream = await server.stream();
    const first = await stream.request();
    expect(first.node?.id).toBe('envoy-ratelimit');
    const rateLimit = limit({ unit: 'year', requestsPerUnit: 1 });
    stream.respond({
      version: '1',
      sources: [source('gateway', [rule({ key: 'user', rateLimit })], 'gateway')],
    });
    await eventually(() => expect(limiter.output()).toMatch(/oaded/));
    const ask = () =>
      String(
        execFileSync(
          join(image.root, 'bin', 'weir'),
          [
            'ask',
            `--dial-string=localhost:${ports.grpc}`,
            '--domain=gateway',
            '--descriptors=user=one',
            '--grpc-use-tls',
            `--grpc-server-ca-file=${join(folder, 'certs', 'ca.crt')}`,
          ],
          { env: image.env },
        ),
      );
    await eventually(() => expect(ask()).toMatch(/user=one: (OK|OVER_LIMIT), \d left, limit 1 per year/));
    expect(ask()).toMatch(/^OVER_LIMIT\n/);
    const counters = new Redis(redis.port, '127.0.0.1');
    try {
      expect((await counters.keys('*')).filter((key) => !key.startsWith('weir:'))).toEqual([
        expect.stringMatching(/^gateway_user_one_\d+$/),
      ]);
    } finally {
      counters.disconnect();
    }
  });

  it('shows its statistics if they are scraped, by the mapping that is mounted', async () => {
    await eventually(async () => {
      const text = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
      expect(text).toMatch(/ratelimit_service_rate_limit_over_limit\{.*domain="gateway".*\} [1-9]/);
    });
  });
});
