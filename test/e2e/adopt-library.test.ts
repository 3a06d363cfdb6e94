/** The library as a project gets it: packed, installed and run by every Node that it is for. */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun, projectRoot, readDocument } from '../support/documents.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { findServer, node22Program, node24Program, redisProgram } from '../support/find-server.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { type RedisServer, startRedis } from '../support/redis-server.ts';

const env = { ...process.env, npm_config_update_notifier: 'false' };
const [pack = '', install = '', ...others] = commandsToRun('docs/library.md');
const { name } = JSON.parse(readFileSync(join(projectRoot, 'packages/limiter/package.json'), 'utf8'));
const rules = {
  domain: 'shop',
  descriptors: [{ key: 'account', rate_limit: { unit: 'year', requests_per_unit: 2 } }],
};

let home: string;
/** A project beside the clone. */
let folder: string;

beforeAll(() => {
  home = mkdtempSync(join(tmpdir(), 'weir-library-'));
  folder = join(home, 'shop');
  for (const name of ['weir', 'shop']) mkdirSync(join(home, name));
  const options = {
    npm_config_pack_destination: join(home, 'weir'),
    npm_config_offline: 'true',
    npm_config_audit: 'false',
  };
  // "npm ci" would take the packages away from under the tests.
  const here = pack.replace(/^npm ci && /, '');
  execFileSync('sh', ['-c', here], { cwd: projectRoot, env: { ...env, ...options }, stdio: 'pipe' });
  writeFileSync(join(folder, 'package.json'), '{ "name": "shop", "private": true }\n');
  execFileSync('sh', ['-c', install], { cwd: folder, env: { ...env, ...options } });
  writeFileSync(join(folder, 'rules.json'), JSON.stringify(rules));
}, 120_000);

afterAll(() => rmSync(home, { recursive: true, force: true }));

/** Runs a file of the project, without any variable of the environment. */
function run(
  node: string,
  file: string,
  text: string,
  flags: readonly string[] = [],
): { status: number | null; stdout: string; stderr: string } {
  writeFileSync(join(folder, file), text);
  const { status, stdout, stderr } = spawnSync(node, [...flags, file], {
    cwd: folder,
    env: {},
    encoding: 'utf8',
    timeout: 30_000,
  });
  return { status, stdout, stderr };
}

const program = (load: string) => `
${load}
async function main({ createLimiter }) {
  const limiter = await createLimiter({ rules: 'rules.json' });
  const allowed = [];
  for (const _ of [1, 2, 3]) allowed.push((await limiter.check('shop', { account: 'ann' })).allowed);
  process.stderr.write(JSON.stringify(allowed));
}
`;
const asModule = program(`import * as library from '${name}';\nawait main(library);`);
const asCommonJs = program(`import('${name}').then(main);`);
const byRequire = program(`void main(require('${name}'));`);

describe('the packed library', () => {
  it('is small and has no dependencies', () => {
    expect(others).toEqual([]);
    const installed = readdirSync(join(folder, 'node_modules')).filter((one) => !one.startsWith('.'));
    expect(installed).toEqual([name.split('/')[0]]);
    const own = join(folder, 'node_modules', name);
    const files = readdirSync(own, { recursive: true, encoding: 'utf8' }).map((one) => join(own, one));
    const bytes = files.reduce((sum, one) => sum + statSync(one).size, 0);
    expect(bytes).toBeLessThan(1_500_000);
    const code = files
      .filter((one) => one.endsWith('.js'))
      .map((one) => readFileSync(one, 'utf8'))
      .join('');
    // No environment, no signals, no threads, no output; and none of what a server is made of.
    expect(code).not.toMatch(
      /process\.env|process\.on\(|worker_threads|process\.stdout|console\.(?:log|info)/,
    );
    expect(code).not.toMatch(/opentelemetry|kubernetes\/client|grpc-js|"pino"/);
    expect(readFileSync(join(own, 'LICENSES-OF-OTHERS.txt'), 'utf8')).toMatch(/^re2js [\d.]+ \(MIT\)$/m);
  });

  const nodes = [node22Program, node24Program].map((one) => [one.command, findServer(one)] as const);
  it.each([...nodes, ['node 26', { path: process.execPath }] as const])(
    'runs by %s, as ES module and from CommonJS, prints nothing and ends by itself',
    (_, found) => {
      if ('missing' in found) throw new Error(found.missing);
      for (const [file, text] of [
        ['esm.mjs', asModule],
        ['cjs.cjs', asCommonJs],
        ['require.cjs', byRequire],
      ] as const)
        expect(run(found.path, file, text)).toEqual({ status: 0, stdout: '', stderr: '[true,true,false]' });
    },
    60_000,
  );

  it.each([
    ['esm.mjs', (entry: string) => `import * as library from '${entry}';\nlibrary;`],
    ['cjs.cjs', (entry: string) => `require('${entry}');`],
  ])('says on an older Node which version it needs: %s', (file, load) => {
    const { exports, engines } = JSON.parse(
      readFileSync(join(projectRoot, 'packages/limiter/package.json'), 'utf8'),
    );
    const needed = /^>=(\d+\.\d+)$/.exec(engines.node)![1];
    // This Node takes itself for an older one. It has all exports, so none may be imported by its name.
    const asOld =
      "Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '20.20.2' } });";
    writeFileSync(join(folder, 'old.cjs'), asOld);
    for (const entry of Object.keys(exports)) {
      const { status, stderr } = run(process.execPath, file, load(join(name, entry)), [
        '--require',
        './old.cjs',
      ]);
      expect([status, stderr]).toEqual([
        1,
        expect.stringContaining(`\nError: @weir-limits/limiter needs Node ${needed} or later, not 20.20.2\n`),
      ]);
    }
    const dist = join(folder, 'node_modules', name, 'dist');
    for (const one of readdirSync(dist))
      expect(readFileSync(join(dist, one), 'utf8')).not.toMatch(/^(?:import|export) ?\{.*from ?["']node:/m);
  });

  it('does what its page shows', () => {
    const shown = fencedBlocks(readDocument('docs/library.md')).find(({ language }) => language === 'js');
    const { status, stdout, stderr } = run(process.execPath, 'shown.mjs', shown!.text);
    expect([status, stderr]).toEqual([0, '']);
    const lines = stdout.trim().split('\n');
    expect(lines.slice(0, 5)).toEqual([1, 2, 3, 4, 5].map((n) => `request ${n}: ${5 - n} left`));
    expect(lines[5]).toMatch(/^try again in \d+ s$/);
  });

  it('has types for TypeScript as strict as can be', () => {
    const text = `
import { createLimiter, type Decision, LimiterError } from '${name}';
import { limitRequests } from '${name}/express';
import { type FastifyRequest, limitRequests as hook } from '${name}/fastify';
const limiter = await createLimiter({ rules: 'rules.json', onEvent: (event) => void event.type });
const decision: Decision = await limiter.check('shop', { account: 'ann' }, { hits: 2 });
export const seconds: number | undefined = decision.retryAfterMs;
export const isOurs = (error: unknown): boolean => error instanceof LimiterError && error.code === 'store';
export const first = limitRequests(limiter, 'shop', { describe: ({ ip }) => ({ account: ip }), ipv6Prefix: 64 });
export const third = limitRequests(limiter, 'shop', { describe: ({ path, body }) => ({ path, user: body?.['user'] }) });
export const own = hook(limiter, 'shop', { describe: ({ url, user }: FastifyRequest & { user: string }) => [{ url }, { user }] });
export const second = hook(limiter, 'shop', { skip: async (request) => request.headers['x'] === 'y' });
// @ts-expect-error hits are a number
await limiter.check('shop', { account: 'ann' }, { hits: '2' });
`;
    writeFileSync(join(folder, 'typed.mts'), text);
    const strict = {
      strict: true,
      exactOptionalPropertyTypes: true,
      noUncheckedIndexedAccess: true,
      noEmit: true,
    };
    const compilerOptions = {
      ...strict,
      module: 'nodenext',
      target: 'es2022',
      skipLibCheck: false,
      types: [],
      lib: ['es2022', 'dom'],
    };
    writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, files: ['typed.mts'] }));
    const tsc = join(projectRoot, 'node_modules/.bin/tsc');
    const { status, stdout } = spawnSync(tsc, ['-p', folder], { encoding: 'utf8' });
    expect([status, stdout]).toEqual([0, '']);
  });

  it('is imported in little time', () => {
    // Of a processor, as others may be busy: reading and compiling it, above what Node takes.
    const text = `
const before = process.cpuUsage();
await import('${name}');
const { user, system } = process.cpuUsage(before);
process.stderr.write(String((user + system) / 1000));
`;
    const times = Array.from({ length: 5 }, () => Number(run(process.execPath, 'import.mjs', text).stderr));
    expect(times.sort((a, b) => a - b)[2]).toBeLessThan(300);
  });
});

describeWithServer('the library on Redis', redisProgram, (path) => {
  let redis: RedisServer;
  let limiter: LimiterProcess;

  beforeAll(async () => {
    redis = await startRedis({ path });
    const root = join(folder, 'limiter');
    mkdirSync(join(root, 'rules'), { recursive: true });
    writeFileSync(join(root, 'rules/shop.yaml'), JSON.stringify(rules));
    limiter = await startLimiter({
      env: {
        ...{ BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` },
        ...{ RUNTIME_ROOT: root, RUNTIME_APPDIRECTORY: 'rules' },
      },
    });
  }, 60_000);

  afterAll(async () => {
    await limiter?.stop();
    await redis?.stop();
  });

  it('shares counters with a limiter, and ends by itself', async () => {
    const ask = async (): Promise<number> => {
      const body = JSON.stringify({ domain: 'shop', descriptors: [[{ account: 'eve' }]] });
      const url = `http://127.0.0.1:${limiter.ports.http}/v1/check`;
      const headers = { 'Content-Type': 'application/json' };
      return (await fetch(url, { method: 'POST', headers, body })).status;
    };
    expect(await ask()).toBe(200);
    const text = `
import { createLimiter } from '${name}';
const limiter = await createLimiter({ rules: 'rules.json', store: { redis: 'redis://127.0.0.1:${redis.port}', timeoutMs: 5000 } });
const { remaining } = await limiter.check('shop', { account: 'eve' });
process.stderr.write(String(remaining));
`;
    expect(run(process.execPath, 'shared.mjs', text)).toEqual({ status: 0, stdout: '', stderr: '0' });
    expect(await ask()).toBe(429);
    const reset = text.replace(
      /const \{ remaining.*/,
      "const remaining = await limiter.reset('shop', { account: 'eve' });",
    );
    expect(run(process.execPath, 'reset.mjs', reset).stderr).toBe('1');
    expect(await ask()).toBe(200);
  });

  it('waits for an answer while a call is open, and ends while Redis is away', async () => {
    const text = `
import { createLimiter } from '${name}';
const limiter = await createLimiter({ rules: 'rules.json', store: { redis: '127.0.0.1:1', timeoutMs: 100 } });
process.stderr.write((await limiter.check('shop', { account: 'eve' })).reason);
`;
    expect(run(process.execPath, 'away.mjs', text)).toEqual({ status: 0, stdout: '', stderr: 'store' });
  });

  it('counts by a client of the program', async () => {
    const ioredis = JSON.stringify(join(projectRoot, 'node_modules/ioredis/built/index.js'));
    const text = `
import { createLimiter } from '${name}';
import ioredis from ${ioredis};
const client = new ioredis.Redis(${redis.port});
const limiter = await createLimiter({ rules: 'rules.json', store: { redis: client, timeoutMs: 5000 }, onError: 'throw' });
const held = await limiter.reserve('shop', { account: 'fay' }, { amount: 2 });
const after = await limiter.check('shop', { account: 'fay' });
await held.release();
await limiter.reset('shop', { account: 'fay' });
const all = await Promise.all([1, 2, 3].map(() => limiter.check('shop', { account: 'fay' })));
let sent = 0;
let late;
const slow = {
  status: 'ready',
  callBuffer: async (...words) => {
    sent += 1;
    const reply = await client.callBuffer(...words);
    await late?.promise;
    return reply;
  },
};
const closing = await createLimiter({ rules: 'rules.json', store: { redis: slow, timeoutMs: 5000 }, onError: 'throw' });
await closing.peek('shop', { account: 'gus' });
[sent, late] = [0, Promise.withResolvers()];
const giving = new AbortController();
const given = closing.reserve('shop', { account: 'gus' }, { amount: 2, signal: giving.signal });
const counted = closing.check('shop', { account: 'hal' });
while (sent === 0) await new Promise((next) => setTimeout(next, 1));
giving.abort('gone');
const reason = await given.catch((one) => one);
const closed = closing.close();
const commit = await closing.check('shop', { account: 'hal' }).catch(({ code }) => code);
late.resolve();
const inFlight = await counted;
await closed;
const gus = await limiter.peek('shop', { account: 'gus' });
process.stderr.write(JSON.stringify([reason, commit, inFlight.remaining, gus.remaining]));
process.stderr.write(JSON.stringify([held.allowed, after.allowed, all.map(({ remaining }) => remaining)]));
await limiter.close();
process.stderr.write(client.status);
client.disconnect();
`;
    const expected = `["gone","closed",1,2][true,false,[1,0,0]]ready`;
    expect(run(process.execPath, 'client.mjs', text)).toEqual({ status: 0, stdout: '', stderr: expected });
  });
});
