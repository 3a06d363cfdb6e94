import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parseLimiterSettings } from '../../limiter/settings/settings.ts';
import { prometheusGroup } from '../../limiter/settings/stats-settings.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();

const start = limitersOfSuite(() => ({
  env: { USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0', RUNTIME_ROOT: folder },
}));

function address(limiter: InProcessLimiter): string {
  const found = /Listening for Prometheus on '([^']*)'/.exec(limiter.lines.join('\n'));
  if (found === null) throw new Error(limiter.lines.join('\n'));
  return found[1] as string;
}

async function scraped(limiter: InProcessLimiter, path = '/metrics'): Promise<string> {
  const response = await fetch(`http://${address(limiter)}${path}`);
  return response.ok ? response.text() : `${response.status}`;
}

function written(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

describe('PROMETHEUS_ADDR', () => {
  const { kind } = prometheusGroup.settings.prometheusAddress;
  for (const [text, value] of [
    [':9090', { host: '', port: 9090 }],
    ['127.0.0.1:0', { host: '127.0.0.1', port: 0 }],
    ['[::1]:9090', { host: '::1', port: 9090 }],
    ['stats.internal:65535', { host: 'stats.internal', port: 65_535 }],
  ] as const) {
    it(`may be ${text}`, () => {
      expect(kind.schema.parse(text)).toEqual(value);
      expect(kind.format(value)).toBe(text);
    });
  }

  for (const text of ['9090', '', ':', 'host', '::1:9090', ':65536', 'http://a:1', ':9090/metrics']) {
    it(`may not be ${JSON.stringify(text)}`, () => {
      expect(parseLimiterSettings({ PROMETHEUS_ADDR: text }).errors?.map(({ message }) => message)).toEqual([
        expect.stringContaining('host:port or :port'),
      ]);
    });
  }

  it('is known as PULLSTATS_ADDR as well', () => {
    expect(parseLimiterSettings({ PULLSTATS_ADDR: ':1' }).settings?.prometheusAddress.port).toBe(1);
  });

  it('ends the start when its port is taken', async () => {
    const taker = createServer();
    taker.listen(0, '127.0.0.1');
    await once(taker, 'listening');
    const { port } = taker.address() as AddressInfo;
    try {
      const limiter = await start({ PROMETHEUS_ADDR: `127.0.0.1:${port}` });
      expect(await limiter.ended).toBe(1);
      expect(limiter.lines.at(-1)).toBe(
        `level=fatal msg="Cannot start: Prometheus (PROMETHEUS_ADDR): cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)"`,
      );
    } finally {
      taker.close();
    }
  });
});

describe('a limiter that waits for its Redis', () => {
  it('serves its statistics, which say that it serves no requests', async () => {
    const env = {
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: '127.0.0.1:0',
      RUNTIME_ROOT: folder,
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${await freePort()}`,
      STORE_FAILURE_MODE: 'allow',
    };
    const limiter = new InProcessLimiter({ env }, () => {});
    onTestFinished(async () => void (await limiter.stop()));
    await eventually(async () => {
      const text = await scraped(limiter);
      expect(text).toContain('\nratelimit_health_serving 0\n');
      expect(text).toContain('\nratelimit_health_redis 0\n');
      expect(text).toContain('\nweir_store_info{backend="redis",failure_mode="allow"} 1\n');
    });
  });
});

describe('PROMETHEUS_PATH', () => {
  it('is the only path that is served', async () => {
    const limiter = await start({ PROMETHEUS_PATH: '/a/b' });
    expect(await scraped(limiter, '/a/b')).toContain('ratelimit_service_config_load_success');
    expect(await scraped(limiter)).toBe('404');
  });

  for (const path of ['metrics', '', '/a//b', '/a/../b', '/a?b']) {
    it(`may not be ${JSON.stringify(path)}`, () => {
      expect(parseLimiterSettings({ PROMETHEUS_PATH: path }).errors?.map(({ message }) => message)).toEqual([
        `PROMETHEUS_PATH: ${JSON.stringify(path)} is not accepted, expected a path that begins with /, such as /metrics, without query, //, . and ..`,
      ]);
    });
  }
});

describe('PROMETHEUS_MAPPER_YAML', () => {
  it('takes the place of the built-in mapping', async () => {
    const mapper = written(
      'map.yaml',
      'mappings: [{ match: ratelimit.service.*, name: own, labels: { stat: $1 } }]\n',
    );
    const limiter = await start({ PROMETHEUS_MAPPER_YAML: mapper });
    const text = await scraped(limiter);
    expect(text).toContain('\nown{stat="config_load_success"} 1\n');
    expect(text).toContain('\nratelimit_server_ShouldRateLimit_total_requests 0\n');
  });

  it('says what of it has no effect', async () => {
    const mapper = written('odd.yaml', 'defaults: { summary_options: { buf_cap: 3 } }\n');
    const limiter = await start({ PROMETHEUS_MAPPER_YAML: mapper });
    expect(limiter.lines[0]).toBe(
      `level=warning msg="PROMETHEUS_MAPPER_YAML: ${mapper}:1:41: buf_cap has no effect: the limiter does not buffer"`,
    );
  });

  it('ends the start with file, line and reason when it is bad', async () => {
    const mapper = written('bad.yaml', 'mappings:\n- match: a.*\n  nome: b\n');
    const limiter = await start({ PROMETHEUS_MAPPER_YAML: mapper });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.at(-1)).toBe(
      `level=fatal msg="Cannot start: PROMETHEUS_MAPPER_YAML: ${mapper}:2:3: name: is missing; ${mapper}:3:9: unknown key nome"`,
    );
  });
});

describe('PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS', () => {
  for (const [value, unitMs] of [
    ['false', 1_000],
    ['true', 1],
  ] as const) {
    it(`${value} serves response_time in units of ${unitMs} ms`, async () => {
      // At every look a second later, so that a call takes some of them.
      let ms = 0;
      const clock = {
        nowMs: () => Date.now(),
        monotonicMs: () => {
          ms += 1_000;
          return ms;
        },
      };
      const limiter = await start({ PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS: value }, { clock });
      const client = new LimiterClient(limiter.ports.grpc);
      await client.allowed('d', 'k', 'v');
      client.close();
      const text = await scraped(limiter);
      const sum =
        /^ratelimit_service_response_time_seconds_sum\{grpc_method="ShouldRateLimit"\} (\d+)$/m.exec(text);
      const tookMs = Number(sum?.[1]) * unitMs;
      expect(tookMs).toBeGreaterThanOrEqual(1_000);
      expect(tookMs).toBeLessThan(100_000);
    });
  }
});
