/**
 * Four nights, each solved by the commands of docs/troubleshooting.md alone, as they stand there: against a control plane, three
 * limiters, an Envoy and a Redis.
 */
import { copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type ControlPlaneProcess, startControlPlane } from '../support/control-plane-process.ts';
import { commandsToRun, readDocument } from '../support/documents.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { envoyConfig } from '../support/envoy-config.ts';
import { eventually } from '../support/eventually.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { envoyProgram, findServer, redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';
import { runWeir } from '../support/weir-command.ts';

const page = readDocument('docs/troubleshooting.md');

const notYetRun = new Set(commandsToRun('docs/troubleshooting.md').flatMap((text) => text.split('\n')));

/** The commands of a symptom, a line each. */
function commandsOf(symptom: string): string[] {
  const section = page.split(/^## /m).find((text) => text.startsWith(`${symptom}\n`));
  if (section === undefined) throw new Error(`docs/troubleshooting.md has no symptom "${symptom}"`);
  return fencedBlocks(section)
    .filter(({ language }) => language === 'sh')
    .flatMap(({ text }) => text.split('\n'));
}

/** The one command of the page that begins so, below this symptom. */
function command(symptom: string, beginning: string): string {
  const found = commandsOf(symptom).filter((line) => line.startsWith(beginning));
  expect(found, `commands "${beginning}" below "${symptom}"`).toHaveLength(1);
  notYetRun.delete(found[0]!);
  return found[0]!;
}

const manifest = (key: string, requestsPerUnit: number): string => `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: shop, namespace: shop }
spec:
  domain: shop
  descriptors:
    - key: ${key}
      rateLimit: { unit: hour, requestsPerUnit: ${requestsPerUnit} }
`;

/** Of a command that has nothing for the shell but quotes. */
function wordsOf(line: string): string[] {
  const word = /'[^']*'|"[^"$`\\]*"|[\w./=,:@-]+/g;
  expect(line.replaceAll(word, '').trim()).toBe('');
  return (line.match(word) ?? []).map((text) => text.replaceAll(/^['"]|['"]$/g, ''));
}

const envoy = findServer(envoyProgram);
const redisServer = findServer(redisProgram);
const canRun = 'path' in envoy && 'path' in redisServer;

describe.skipIf(!canRun)('four nights', () => {
  let folder: string;
  let redis: RedisServer;
  let controlPlane: ControlPlaneProcess;
  let limiters: LimiterProcess[] = [];
  let upstream: Server;
  let proxy: EnvoyProcess;
  let proxyPort: number;
  let environment: NodeJS.ProcessEnv;

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-nights-'));
    mkdirSync(join(folder, 'rules'));
    put(manifest('remote_address', 5));
    redis = await startRedis({ path: (redisServer as { path: string }).path });
    controlPlane = await startControlPlane({
      env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: join(folder, 'rules') },
    });
    const env = {
      CONFIG_TYPE: 'GRPC_XDS_DELTA',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${controlPlane.ports.xds}`,
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      LOCAL_CACHE_SIZE_IN_BYTES: '1048576',
      LEASES: 'on',
    };
    limiters = await Promise.all(
      [1, 2, 3].map((n) => startLimiter({ env: { ...env, POD_NAME: `limiter-${n}` } })),
    );
    upstream = createServer((_, response) => response.end('here\n')).listen(0, '127.0.0.1');
    await new Promise((resolve) => upstream.once('listening', resolve));
    proxyPort = await freePort();
    proxy = await startEnvoy(
      (envoy as { path: string }).path,
      envoyConfig({
        listenPort: proxyPort,
        limiterPort: limiters.map(({ ports }) => ports.grpc),
        upstreamPort: (upstream.address() as AddressInfo).port,
        domain: 'shop',
        trustedHops: 1,
      }),
    );
    environment = {
      ...process.env,
      WEIR_LIMITERS: limiters.map(({ ports }) => `127.0.0.1:${ports.debug}`).join(','),
    };
  }, 120_000);

  afterAll(async () => {
    await proxy?.stop();
    await Promise.all(limiters.map((limiter) => limiter.stop()));
    await controlPlane?.stop();
    await redis?.stop();
    upstream?.close();
    rmSync(folder, { recursive: true, force: true });
  });

  /** As a deployment swaps it, at once. */
  function put(text: string): void {
    writeFileSync(join(folder, 'new.yaml'), text);
    copyFileSync(join(folder, 'new.yaml'), join(folder, 'rules/shop.yaml'));
  }

  /** As a shell would, in the folder, for a fiftieth of the CPU. */
  function run(line: string): { status: number | null; output: string } {
    const [program, ...args] = wordsOf(line).map((word) => (word === 'rules/' ? join(folder, word) : word));
    expect(program).toBe('weir');
    const { status, stdout, stderr } = runWeir(args, { env: environment });
    return { status, output: `${stdout}${stderr}` };
  }

  /** What Envoy answers to this client now. */
  async function ask(client = '203.0.113.7'): Promise<number> {
    const response = await fetch(`http://127.0.0.1:${proxyPort}/`, {
      headers: { 'x-forwarded-for': client },
    });
    await response.text();
    return response.status;
  }

  /** Asks until every limiter has rejected it once, and remembers that. */
  async function untilOverLimit(client?: string): Promise<void> {
    await eventually(async () => {
      for (let i = 0; i < 9; i++) expect(await ask(client)).toBe(429);
    });
  }

  async function passesFor(client: string, patienceMs: number): Promise<void> {
    const check = async () => {
      for (let i = 0; i < 9; i++) expect(await ask(client)).toBe(200);
    };
    await eventually(check, { timeoutMs: patienceMs, intervalMs: 20 });
  }

  async function overrideIds(): Promise<string[]> {
    const { output } = run('weir override list -o json');
    return (JSON.parse(output) as { overrides: { id: string }[] }).overrides.map(({ id }) => id);
  }

  it('a tenant hammers, and is right: let him through now, and put it back', async () => {
    const client = '203.0.113.7';
    await untilOverLimit(client);
    const top = run(command('Too many 429 responses', 'weir top'));
    expect(top.output).toMatch(/remote_address.*203\.0\.113\.7/);
    const why = run(command('Too many 429 responses', 'weir why'));
    expect(why.output).toMatch(/203\.0\.113\.7/);

    const raise = 'Raise a limit now';
    const set = run(command(raise, 'weir override set'));
    expect(set).toMatchObject({ status: 0 });
    await passesFor(client, 2_000);
    expect(await ask('203.0.113.8')).toBe(200);

    const [id, ...others] = await overrideIds();
    expect(others).toEqual([]);
    expect(page).toContain('`weir override rm <id>`');
    expect(run(`weir override rm ${id}`)).toMatchObject({ status: 0 });
    await untilOverLimit(client);

    expect(run(command(raise, 'weir counters grant'))).toMatchObject({ status: 0 });
    await passesFor(client, 2_000);
    const [grant] = await overrideIds();
    expect(run(`weir override rm ${grant}`)).toMatchObject({ status: 0 });
    await untilOverLimit(client);
    expect(run(command(raise, 'weir counters reset'))).toMatchObject({ status: 0 });
    expect(await ask(client)).toBe(200);
  }, 120_000);

  it('a merge sets a limit too low: all pass while the rules are corrected', async () => {
    put(manifest('remote_address', 1));
    const clients = ['198.51.100.1', '198.51.100.2', '198.51.100.3'];
    await eventually(async () => {
      for (const client of clients) expect(await ask(client)).toBe(429);
    });
    const why = run(command('Too many 429 responses', 'weir why'));
    expect(why.output).toMatch(/198\.51\.100\.\d/);
    const shadow = command('Too many 429 responses', 'weir override set');
    expect(run(shadow)).toMatchObject({ status: 0 });
    for (const client of clients) await passesFor(client, 2_000);

    put(manifest('remote_address', 1_000));
    await eventually(async () => {
      const { output } = run('weir counters list shop remote_address=198.51.100.1 -o json');
      expect(JSON.parse(output).counters[0]).toMatchObject({ limit: 1_000 });
    });
    const [id] = await overrideIds();
    expect(run(`weir override rm ${id}`)).toMatchObject({ status: 0 });
    for (const client of clients) await passesFor(client, 2_000);
  }, 120_000);

  it('Redis is killed: status says so, and that it is over', async () => {
    await redis.kill('SIGKILL');
    await eventually(async () => {
      await ask();
      const { status, output } = run(command('Redis is down', 'weir status'));
      expect(status).toBe(1);
      expect(output).toMatch(/breaker has been open/);
    });
    await redis.start();
    let asked = 0;
    await eventually(async () => {
      expect(await ask(`198.51.100.${10 + asked++}`)).toBe(200);
      expect(run(command('Redis is down', 'weir status'))).toMatchObject({ status: 0 });
    });
  }, 120_000);

  it('a rule matches no caller because of a typing error: explain names what is similar', async () => {
    put(manifest('remote_adress', 2));
    const client = '203.0.113.7';
    const explain = command('Requests are not limited', 'weir explain');
    await eventually(async () => {
      const { output } = run('weir counters list shop remote_address=203.0.113.7');
      expect(output).not.toMatch(/remote_address/);
    });
    await passesFor(client, 10_000);
    expect(run(explain).output).toMatch(/similar: remote_adress/);

    put(manifest('remote_address', 2));
    await untilOverLimit(client);
    expect(run(explain).output).toMatch(/remote_address/);
    const why = run(command('A request matches the wrong rule', 'weir why'));
    expect(why).toMatchObject({ status: 0, output: expect.stringMatching(/remote_address/) });
  }, 120_000);

  it('leave no command of the page that was not run', () => {
    expect([...notYetRun]).toEqual([]);
  });
});
