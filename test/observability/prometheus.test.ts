/** A real Prometheus scrapes a limiter and answers queries; its own tool looks at what is served. */
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { prometheusProgram, promtoolProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { startRedis } from '../support/redis-server.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
const rules = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 3 }
    descriptors:
      - key: path
        value: /buy
        rate_limit: { unit: year, requests_per_unit: 1000 }
`;
mkdirSync(join(folder, 'config'), { recursive: true });
writeFileSync(join(folder, 'config/shop.yaml'), rules);

async function start(
  env: Record<string, string> = {},
): Promise<{ limiter: InProcessLimiter; address: string }> {
  const limiter = await startLimiterHere({
    env: {
      BACKEND_TYPE: 'memory',
      USE_STATSD: 'false',
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: '127.0.0.1:0',
      EXTRA_TAGS: 'zone:eu',
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: '',
      ...env,
    },
  });
  const [, address] = await limiter.program.printed(/Listening for Prometheus on '([^']*)'/);
  return { limiter, address: address as string };
}

async function ask(limiter: InProcessLimiter, times: number): Promise<void> {
  for (let i = 0; i < times; i += 1) {
    const client = new LimiterClient(limiter.ports.grpc);
    const user = { key: 'user', value: '' };
    const path = { key: 'path', value: '/buy' };
    await client.ask({ domain: 'shop', descriptors: [{ entries: [user] }, { entries: [user, path] }] });
    client.close();
  }
}

async function served(address: string): Promise<string> {
  return (await fetch(`http://${address}/metrics`)).text();
}

describeWithServer('Prometheus and a limiter', prometheusProgram, (path) => {
  let limiter: InProcessLimiter;
  let prometheus: ChildProgram;
  let api: string;

  beforeAll(async () => {
    const started = await start();
    limiter = started.limiter;
    const port = await freePort();
    api = `http://127.0.0.1:${port}/api/v1`;
    const config = `global: { scrape_interval: 250ms }
scrape_configs:
  - job_name: weir
    static_configs: [{ targets: ['${started.address}'] }]
`;
    writeFileSync(join(folder, 'prometheus.yml'), config);
    prometheus = new ChildProgram({
      command: path,
      args: [
        `--config.file=${join(folder, 'prometheus.yml')}`,
        `--storage.tsdb.path=${join(folder, 'data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
    });
    await ask(limiter, 5);
  });

  afterAll(async () => {
    await prometheus?.stop();
    await limiter?.stop();
  });

  /** The values of a query, by their labels without those of the scrape. */
  async function query(expression: string): Promise<Record<string, string>> {
    const answer = await (await fetch(`${api}/query?query=${encodeURIComponent(expression)}`)).json();
    const { data } = answer as {
      data: { result: { metric: Record<string, string>; value: [number, string] }[] };
    };
    return Object.fromEntries(
      data.result.map(({ metric: { __name__, instance, job, ...labels }, value }) => [
        Object.values(labels).join(' '),
        value[1],
      ]),
    );
  }

  it('scrapes it and answers what was counted', async () => {
    await eventually(async () => {
      expect(await query('up')).toEqual({ '': '1' });
      const hits = await query('ratelimit_service_rate_limit_total_hits');
      expect(hits).toEqual({ 'shop user eu': '5', 'shop user path_/buy eu': '5' });
    });
    const overLimit = 'sum by (domain) (ratelimit_service_rate_limit_over_limit{key1="user",key2=""})';
    expect(await query(overLimit)).toEqual({ shop: '2' });
    expect(await query('ratelimit_service_total_requests')).toEqual({
      'ShouldRateLimit eu': '5',
      'CheckRateLimit eu': '0',
      'Report eu': '0',
      'Reserve eu': '0',
      'Commit eu': '0',
      'Check eu': '0',
      'List eu': '0',
    });
    expect(await query('ratelimit_service_response_time_seconds_count')).toEqual({
      'ShouldRateLimit eu': '5',
    });
    const quantile = 'histogram_quantile(0.9, ratelimit_service_response_time_seconds_bucket)';
    expect(Object.keys(await query(quantile))).toEqual(['ShouldRateLimit eu']);
    expect(Object.keys(await query('process_resident_memory_bytes'))).toEqual(['eu']);
  });

  it('finds a help and a type for every metric', async () => {
    await eventually(async () => {
      const { data } = (await (await fetch(`${api}/metadata`)).json()) as {
        data: Record<string, { type: string }[]>;
      };
      expect(data['ratelimit_service_rate_limit_over_limit']?.[0]).toEqual({
        type: 'counter',
        help: expect.stringContaining('in the unit of its hits_unit'),
        unit: '',
      });
      expect(data['ratelimit_service_response_time_seconds']?.[0]?.type).toBe('histogram');
    });
  });
});

describeWithServer('promtool check metrics', promtoolProgram, (path) => {
  it('misses nothing but the _total of names that the specification fixes', async () => {
    const { limiter, address } = await start();
    try {
      await ask(limiter, 2);
      const checked = spawnSync(path, ['check', 'metrics'], {
        input: await served(address),
        encoding: 'utf8',
      });
      const complaints = checked.stderr.split('\n').filter((line) => line !== '');
      const isTotal = (line: string) =>
        /^(ratelimit|runtime)_\w+ counter metrics should have "_total" suffix$/.test(line);
      expect(complaints.filter((line) => !isTotal(line))).toEqual([]);
      expect(complaints.filter(isTotal).length).toBeGreaterThan(5);
    } finally {
      await limiter.stop();
    }
  });
});

describeWithServer('two worker threads', redisProgram, (path) => {
  it('are served as the sum of both', { timeout: 60_000 }, async () => {
    const redis = await startRedis({ path });
    const { limiter, address } = await start({
      LIMITER_WORKERS: '2',
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
    });
    try {
      await ask(limiter, 20);
      await eventually(async () => {
        const text = await served(address);
        expect(text).toContain(
          '\nratelimit_service_rate_limit_total_hits{domain="shop",key1="user",key2="path_/buy",zone="eu"} 20\n',
        );
        expect(text).toContain(
          '\nratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit",zone="eu"} 20\n',
        );
        expect(text).toContain('\nratelimit_workers_ready{zone="eu"} 2\n');
      });
    } finally {
      await limiter.stop();
      await redis.stop();
    }
  });
});
