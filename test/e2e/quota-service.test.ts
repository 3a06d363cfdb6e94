/** Real Envoys that decide by assignments of real limiters. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { parse } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { readDocument } from '../support/documents.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { eventually } from '../support/eventually.ts';
import { readExample } from '../support/example-cases.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { envoyProgram, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { type LimiterProcess, type RunningLimiter, startLimiter } from '../support/limiter-process.ts';
import { QuotaClient } from '../support/quota-client.ts';
import { deniedAfterwards, deniedAtFirst, quotaEnvoyConfig } from '../support/quota-envoy.ts';
import { startRedis } from '../support/redis-server.ts';
import { replaced } from '../support/replaced.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

/** Of a day, so that no window ends while a test runs; much of it may be used in its first hours. */
const rules = (requests: number): string => `
domain: edge
descriptors:
  - key: name
    rate_limit: { requests_per_unit: ${requests}, unit: day }
  - key: name
    value: shadow
    shadow_mode: true
    rate_limit: { requests_per_unit: 1, unit: day }
  - key: name
    value: blocked
    rate_limit: { requests_per_unit: 0, unit: day }
`;

interface Rules {
  /** The settings that name them. */
  env: Record<string, string>;
  use(text: string): void;
}

function rulesOf(text: string): Rules {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  const use = (rulesText: string): void => writeFileSync(join(folder, 'config/edge.yaml'), rulesText);
  use(text);
  const env = { RLQS: 'true', RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: 'config' };
  return { env: { ...env, RUNTIME_WATCH_ROOT: 'false', BACKEND_TYPE: 'memory' }, use };
}

async function stoppedAtEnd<Limiter extends RunningLimiter>(starting: Promise<Limiter>): Promise<Limiter> {
  const limiter = await starting;
  onTestFinished(async () => void (await limiter.stop()));
  return limiter;
}

const limiterWith = ({ env }: Rules): Promise<RunningLimiter> => stoppedAtEnd(startLimiterHere({ env }));

class QuotaEnvoy {
  readonly #port: number;
  readonly envoy: EnvoyProcess;

  constructor(envoy: EnvoyProcess, port: number) {
    this.envoy = envoy;
    this.#port = port;
  }

  async ask(bucket: string): Promise<boolean> {
    const response = await fetch(`http://127.0.0.1:${this.#port}/`, { headers: { 'x-bucket': bucket } });
    await response.arrayBuffer();
    return response.status === 200;
  }

  /** How many of so many pass. */
  async load(bucket: string, times: number): Promise<number> {
    const passed = await Promise.all(Array.from({ length: times }, () => this.ask(bucket)));
    return passed.filter(Boolean).length;
  }

  /** Asks until a bucket has its assignment. Gives how many requests passed: one. */
  async opened(bucket: string): Promise<number> {
    await eventually(async () => expect(await this.ask(bucket)).toBe(true), { intervalMs: 20 });
    return 1;
  }
}

/** What docs/quota-service.md shows of the example. */
function partsOf({ static_resources: { listeners, clusters } }: ExampleConfig): object {
  const [filter] = listeners[0]!.filter_chains[0]!.filters[0]!.typed_config.http_filters;
  return { http_filters: [filter], clusters: clusters.filter(({ name }) => name === 'weir') };
}

interface ExampleConfig {
  static_resources: {
    listeners: { filter_chains: { filters: { typed_config: { http_filters: object[] } }[] }[] }[];
    clusters: { name: string }[];
  };
}

async function figures(limiter: RunningLimiter, pattern: RegExp): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/stats`)).text();
  const lines = text.split('\n').filter((line) => pattern.test(line));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.lastIndexOf(':')), Number(line.split(': ').at(-1))]),
  );
}

describeWithServer('quota clients', envoyProgram, (envoyPath) => {
  const start = async (limiterPort: number): Promise<QuotaEnvoy> => {
    const listenPort = await freePort();
    const kinds = { '': { ...deniedAtFirst, ...deniedAfterwards } };
    const config = quotaEnvoyConfig({ listenPort, serverPort: limiterPort, domain: 'edge', kinds });
    const envoy = await startEnvoy(envoyPath, config);
    onTestFinished(() => envoy.stop());
    return new QuotaEnvoy(envoy, listenPort);
  };

  it('share a limit with each other and with the rate limit service, and never exceed it', async () => {
    const limiter = await limiterWith(rulesOf(rules(300)));
    const [one, other] = [await start(limiter.ports.grpc), await start(limiter.ports.grpc)];
    let passed = (await one.opened('x')) + (await other.opened('x'));
    // Rejected by an Envoy, which has no share of a limit of 0.
    expect(await one.load('blocked', 5)).toBe(0);
    await one.opened('shadow');
    expect(await one.load('shadow', 5)).toBe(5);
    for (let round = 0; round < 4; round++) {
      passed += (await one.load('x', 120)) + (await other.load('x', 40));
      await sleep(1_500);
    }
    const ask = { domain: 'edge', descriptors: [{ entries: [{ key: 'name', value: 'x' }] }] };
    for (let asked = 0; asked < 400; asked++) {
      const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, {
        method: 'POST',
        body: JSON.stringify(ask),
      });
      await response.arrayBuffer();
      if (response.status === 200) passed += 1;
    }
    expect(passed).toBeLessThanOrEqual(300);
    const listed = await (
      await fetch(`http://127.0.0.1:${limiter.ports.debug}/v1/assignments?domain=edge&entry=name%3Dx`)
    ).json();
    expect(listed).toMatchObject({
      count: 2,
      assignments: [{ bucket: { name: 'x' }, rule: 'edge.name' }, {}],
    });
    const hits = await figures(limiter, /^ratelimit\.quota\.hits/);
    expect(Object.keys(hits).length).toBeGreaterThan(0);
  });

  it('follow rules within a second', async () => {
    const inForce = rulesOf(rules(1_000_000));
    const limiter = await limiterWith(inForce);
    const envoy = await start(limiter.ports.grpc);
    await envoy.opened('x');
    inForce.use(rules(0));
    await eventually(async () => expect(await envoy.ask('x')).toBe(false), { timeoutMs: 3_000 });
    inForce.use(rules(1_000_000));
    await eventually(async () => expect(await envoy.ask('x')).toBe(true), { timeoutMs: 3_000 });
  });

  it('continue with what they have when their limiter is drained, until the next one takes over', async () => {
    const port = await freePort();
    const { env, ...files } = rulesOf(rules(1_000_000));
    const inForce = { ...files, env: { ...env, GRPC_PORT: `${port}` } };
    const limiter = await limiterWith(inForce);
    const envoy = await start(port);
    await envoy.opened('x');
    const client = new QuotaClient(port);
    onTestFinished(() => client.close());
    client.report('edge', { 'name=y': { denied: 1 } });
    await eventually(() => expect(client.answers.at(-1)).toMatch(/ [1-9]\d*$/));
    const answered = client.answers.length;
    await limiter.stop();
    expect(await client.ended).toBe('OK');
    expect(client.answers.slice(answered)).toContain(client.answers[answered - 1]);
    expect(client.ttls.at(-1)).toBeGreaterThanOrEqual(12);
    expect(await envoy.load('x', 20)).toBe(20);
    const next = await limiterWith(inForce);
    let passed = 0;
    let asked = 0;
    await eventually(
      async () => {
        passed += await envoy.load('x', 1);
        asked += 1;
        const address = `http://127.0.0.1:${next.ports.debug}/v1/assignments?domain=edge`;
        expect(await (await fetch(address)).json()).toMatchObject({
          assignments: [{ bucket: { name: 'x' }, ends: expect.any(String) }],
        });
      },
      { intervalMs: 100, timeoutMs: 14_000 },
    );
    expect(passed).toBe(asked);
    expect(await envoy.load('x', 20)).toBe(20);
  });

  it('are served by the example', async () => {
    const limiter = await limiterWith(rulesOf(readExample('quota-service', 'rules', 'quota-service.yaml')));
    const [port, servicePort] = [await freePort(), await freePort()];
    const example = readExample('quota-service', 'envoy.yaml');
    const [, shown] = fencedBlocks(readDocument('docs/quota-service.md'));
    expect(partsOf(parse(example))).toEqual(parse(shown!.text));
    const text = replaced(example, {
      'port_value: 10000 ': `port_value: ${port} `,
      'port_value: 10001 ': `port_value: ${servicePort} `,
      'port_value: 8081 ': `port_value: ${limiter.ports.grpc} `,
    });
    const envoy = await startEnvoy(envoyPath, text);
    onTestFinished(() => envoy.stop());
    const ask = async (): Promise<number> =>
      (await fetch(`http://127.0.0.1:${port}/`, { headers: { 'x-plan': 'gold' } })).status;
    expect(await ask()).toBe(429);
    await eventually(async () => expect(await ask()).toBe(200));
  });

  describeWithServer('of several limiters', redisProgram, (redisPath) => {
    it('share a limit, and lose no more than what a limiter that dies has assigned', async () => {
      const redis = await startRedis({ path: redisPath });
      onTestFinished(() => redis.stop());
      const env = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
      // Programs, one of which is killed.
      const begin = (): Promise<LimiterProcess> =>
        stoppedAtEnd(startLimiter({ env: { ...rulesOf(rules(300)).env, ...env } }));
      const limiters = [await begin(), await begin()] as const;
      const [one, other] = [await start(limiters[0].ports.grpc), await start(limiters[1].ports.grpc)];
      let passed = (await one.opened('x')) + (await other.opened('x'));
      for (let round = 0; round < 3; round++) {
        passed += (await one.load('x', 100)) + (await other.load('x', 40));
        await sleep(1_500);
      }
      await limiters[0].program.stop('SIGKILL');
      for (let round = 0; round < 3; round++) {
        passed += (await one.load('x', 100)) + (await other.load('x', 100));
        await sleep(1_500);
      }
      expect(passed).toBeLessThanOrEqual(300);
    });
  });
});
