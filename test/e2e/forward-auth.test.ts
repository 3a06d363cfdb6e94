/** /v1/forward-auth/<profile>: asked of whole limiters as proxies ask it. PROFILES_FILE and the file beside the rules. */
import { createHash } from 'node:crypto';
import { mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { type HttpAnswer, httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { startRedis } from '../support/redis-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const rules = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { name: per_address, unit: day, requests_per_unit: 2 }
  - key: path
    value: /größe
    rate_limit: { unit: day, requests_per_unit: 0 }
    hide_identity: true
  - key: path
    value: //a/../b
    rate_limit: { unit: day, requests_per_unit: 0 }
`;

const byAddress = 'rate_limits: [{actions: [{remote_address: {}}]}]';
const byPath = 'rate_limits: [{actions: [{request_headers: {header_name: ":path", descriptor_key: path}}]}]';
const profiles = `profiles:
  shop: {domain: shop, ${byAddress}}
  closed: {domain: shop, refusedStatus: 403, onError: deny, trustedHops: 1, ${byAddress}}
  path: {domain: shop, ${byPath}}
  nowhere: {domain: nowhere, ${byAddress}}
  nowhere-closed: {domain: nowhere, onError: deny, ${byAddress}}
`;

let folder: string;
beforeEach(() => {
  folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config', 'shop.yaml'), rules);
  writeFileSync(join(folder, 'config', 'open.yaml'), 'domain: open\ndescriptors: []\n');
});

/** Puts another file in the place of one, as anyone who writes it with care does. */
function put(file: string, text: string): void {
  writeFileSync(`${file}.new`, text);
  renameSync(`${file}.new`, file);
}

const running: InProcessLimiter[] = [];
afterEach(() => Promise.all(running.splice(0).map((limiter) => limiter.stop())));

/** `text`: of the profiles; null: there is no file. */
async function start(env: Record<string, string> = {}, text: string | null = profiles) {
  if (text !== null) put(join(folder, 'profiles.yaml'), text);
  const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, ...env } });
  running.push(limiter);
  return limiter;
}

interface Sent {
  method?: string;
  headers?: Record<string, string>;
  body?: string;
}

const ask = (limiter: InProcessLimiter, profile: string, sent: Sent = {}): Promise<HttpAnswer> =>
  httpAsk(limiter.ports.http, `/v1/forward-auth/${profile}`, sent);

const from = (address: string): Sent => ({ headers: { 'X-Forwarded-For': address } });

const problem = ({ body }: HttpAnswer): { status: number; detail: string } => JSON.parse(body);

async function answers(limiter: InProcessLimiter): Promise<Record<string, number>> {
  const name = 'ratelimit.forward_auth.requests.__answer=';
  const all = [...(await limiter.stats())].filter(([key, value]) => key.startsWith(name) && value > 0);
  return Object.fromEntries(all.map(([key, value]) => [key.slice(name.length), value]));
}

describe('/v1/forward-auth/<profile>', () => {
  it('lets requests pass until the limit, then limits them with what a client needs', async () => {
    const limiter = await start();
    for (const left of ['1', '0']) {
      const answer = await ask(limiter, 'shop', from('10.9.9.9, 203.0.113.7'));
      expect(answer).toMatchObject({ status: 200, body: '', headers: { 'ratelimit-remaining': left } });
      expect(answer.headers['x-weir-refused']).toBeUndefined();
    }
    const refused = await ask(limiter, 'shop', from('10.8.8.8, 203.0.113.7'));
    expect(refused.status).toBe(429);
    expect(refused.headers['x-weir-refused']).toBe('shop.remote_address');
    expect(Number(refused.headers['retry-after'])).toBeGreaterThan(0);
    expect(refused.headers['ratelimit-limit']).toMatch(/^2/);
    expect(refused.headers['content-type']).toBe('application/problem+json');
    expect(problem(refused)).toEqual({
      type: 'about:blank',
      title: 'Too Many Requests',
      status: 429,
      detail: 'a rate limit is exceeded',
    });
    // Another client is another counter, and so is the address that a client wrote itself.
    expect((await ask(limiter, 'shop', from('203.0.113.8'))).status).toBe(200);
    expect((await ask(limiter, 'shop', from('10.8.8.8'))).status).toBe(200);
    expect(await answers(limiter)).toEqual({ allowed: 4, refused: 1 });
  });

  it("takes the client's path behind a profile that says so, as it was written", async () => {
    const line = `profiles:\n  line: {domain: shop, originalRequest: ext-authz, ${byPath}}\n`;
    const limiter = await start({}, profiles.replace('profiles:\n', line));
    for (const path of ['', '/', '/a/b', '/%zz', '/a?b=/c', '/a%2Fb'])
      expect({ path, ...(await ask(limiter, `line${path}`)) }).toMatchObject({ path, status: 200, body: '' });
    expect(await ask(limiter, 'line//a/../b')).toMatchObject({ status: 429 });
    expect(await answers(limiter)).toEqual({ allowed: 5, undescribed: 1, refused: 1 });
    expect(problem(await ask(limiter, 'path/a'))).toMatchObject({
      status: 404,
      detail: expect.stringContaining('no path below the profile path'),
    });
    expect(problem(await ask(limiter, 'none/a')).detail).toContain('there is no profile "none"');
  });

  it('takes any method, and reads no body', async () => {
    const limiter = await start();
    for (const method of ['POST', 'DELETE', 'HEAD', 'OPTIONS', 'PROPFIND']) {
      const body = method === 'HEAD' ? '' : '{"a":';
      // Node frames no body of a DELETE or OPTIONS by itself: its bytes would be taken for another request.
      const headers = { 'X-Forwarded-For': '203.0.113.7', 'Content-Length': String(body.length) };
      const answer = await ask(limiter, 'path', { method, headers, body });
      expect({ method, ...answer }).toMatchObject({ method, status: 200, body: '' });
    }
  });

  it('limits with the status of the profile, by the hop that it trusts', async () => {
    const limiter = await start();
    const asked = from('203.0.113.7, 10.0.0.1');
    await ask(limiter, 'closed', asked);
    await ask(limiter, 'closed', asked);
    const refused = await ask(limiter, 'closed', asked);
    expect(refused).toMatchObject({ status: 403, headers: { 'x-weir-refused': 'shop.remote_address' } });
    expect((await ask(limiter, 'closed', from('203.0.113.8, 10.0.0.1'))).status).toBe(200);
  });

  it('says the domain of a rule that hides itself, and knows paths as text', async () => {
    const limiter = await start();
    const path = Buffer.from('/größe').toString('latin1');
    const refused = await ask(limiter, 'path', { headers: { 'X-Forwarded-Uri': path } });
    expect(refused).toMatchObject({ status: 429, headers: { 'x-weir-refused': 'shop' } });
  });

  it('lets pass of what no descriptor comes, and reports it once', async () => {
    const limiter = await start();
    for (const sent of [{}, from('unknown'), { headers: { Forwarded: 'for=203.0.113.7' } }])
      expect(await ask(limiter, 'shop', sent)).toMatchObject({ status: 200, body: '' });
    expect(await answers(limiter)).toEqual({ undescribed: 3 });
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.forward_auth.headers_missing.__header=X-Forwarded-For')).toBe(3);
    const reported = limiter.lines.filter((line) => line.includes('does not send a header'));
    expect(reported).toHaveLength(1);
    expect(reported[0]).toContain('profile=shop header=X-Forwarded-For');
  });

  it('answers by onError if the domain has no rules', async () => {
    const limiter = await start();
    expect(await ask(limiter, 'nowhere', from('203.0.113.7'))).toMatchObject({ status: 200, body: '' });
    const denied = await ask(limiter, 'nowhere-closed', from('203.0.113.7'));
    expect(denied.status).toBe(503);
    expect(denied.headers['x-weir-refused']).toBeUndefined();
    expect(await answers(limiter)).toEqual({ failed_allowed: 1, failed_denied: 1 });
    expect(limiter.lines.join('\n')).toContain('there are no rules for the domain');
  });

  it('does not let a client that sends more than a request may have pass a limit', async () => {
    const limiter = await start({ REQUEST_MAX_TEXT_BYTES: '100', REQUEST_MAX_BYTES: '1024' });
    const long = (bytes: number) => ({ headers: { 'X-Forwarded-Uri': `/${'a'.repeat(bytes)}` } });
    expect((await ask(limiter, 'path', long(200))).headers['x-weir-refused']).toBeUndefined();
    const refused = await ask(limiter, 'path', long(2000));
    const { status, headers } = refused;
    expect([status, headers['x-weir-refused'], headers['retry-after']]).toEqual([429, 'shop', '1']);
    expect(problem(refused).detail).toContain('REQUEST_MAX_BYTES');
    expect(await answers(limiter)).toEqual({ allowed: 1, too_large: 1 });
  });

  it('says 403 to a caller that sends more if that is an error', async () => {
    const small = { REQUEST_MAX_TEXT_BYTES: '100', REQUEST_MAX_BYTES: '1024' };
    const limiter = await start({ ...small, REQUEST_TOO_LARGE: 'error' });
    const headers = { 'X-Forwarded-Uri': `/${'a'.repeat(2000)}` };
    expect((await ask(limiter, 'path', { headers })).status).toBe(403);
    expect(await answers(limiter)).toEqual({ too_large: 1 });
  });

  it('reads a header after thousands of others', async () => {
    const limiter = await start();
    const others = Object.fromEntries(Array.from({ length: 2_500 }, (_, i) => [`a${i}`, '1']));
    const sent = { headers: { ...others, 'X-Forwarded-For': '203.0.113.7' } };
    expect((await ask(limiter, 'shop', sent)).status).toBe(200);
    expect(await answers(limiter)).toEqual({ allowed: 1 });
  });

  it('names the profiles that there are', async () => {
    const limiter = await start();
    const missing = await ask(limiter, 'shops');
    expect(missing.status).toBe(404);
    expect(problem(missing).detail).toBe(
      'there is no profile "shops", there are shop, closed, path, nowhere, nowhere-closed',
    );
    expect((await ask(limiter, 'shop/more')).status).toBe(404);
    expect(await answers(limiter)).toEqual({ unknown_profile: 2 });
    // Most proxies let pass then, and show nobody the answer.
    const reported = limiter.lines.filter((line) => line.includes('a profile that it may not use'));
    expect(reported).toHaveLength(1);
    expect(reported[0]).toContain('there is no profile \\"shops\\", there are shop, closed');
  });

  it('asks callers for their identity and their rights before anything is reported', async () => {
    const secret = 'c2VjcmV0LW9mLWEtdGVzdC10aGF0LWlzLW5vdC1yYW5k';
    const hash = createHash('sha256').update(secret).digest('hex');
    const file = join(folder, 'callers.yaml');
    writeFileSync(
      file,
      `callers:
  - {name: edge, token_sha256: ${hash}, domains: [shop]}
  - {name: other, token_sha256: ${hash}, domains: [elsewhere]}
  - {name: all, token_sha256: ${hash}, domains: ["*"]}
  - {name: reader, token_sha256: ${hash}, domains: ["*"], rights: [read]}
`,
    );
    const limiter = await start({ CALLERS_FILE: file });
    const as = (name: string, profile: string) =>
      ask(limiter, profile, {
        headers: { authorization: `Bearer ${name}.${secret}`, 'X-Forwarded-For': '::1' },
      });
    expect((await ask(limiter, 'shop')).status).toBe(401);
    expect((await ask(limiter, 'none')).status).toBe(401);
    expect((await as('reader', 'none')).status).toBe(403);
    expect((await as('edge', 'shop')).status).toBe(200);
    // What there is, and is not the caller's, is rejected as what there is not.
    for (const name of ['nowhere', 'nothing']) {
      const refused = await as('edge', name);
      expect(refused.status).toBe(403);
      expect(problem(refused).detail).toBe(
        `the caller may not use a profile "${name}", but shop, closed, path`,
      );
    }
    expect(problem(await as('other', 'shop')).detail).toBe(
      'the caller may not use a profile "shop", but none',
    );
    expect((await as('all', 'none')).status).toBe(404);
  });
});

/** What comes back on a connection of its own until it ends, or until `enough` has come. */
function exchange(port: number, text: string, enough?: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(text));
    onTestFinished(() => void socket.destroy());
    let received = '';
    socket.on('data', (chunk) => {
      received += chunk.toString('latin1');
      if (enough?.test(received) === true) resolve(received);
    });
    socket.on('end', () => resolve(received));
    socket.on('error', reject);
  });
}

it('takes no notice of an expectation of the client', async () => {
  const limiter = await start();
  const request =
    'GET /v1/forward-auth/shop HTTP/1.1\r\nHost: weir\r\nX-Forwarded-For: 203.0.113.7\r\nExpect: more\r\n';
  const answer = await exchange(limiter.ports.http, `${request}Connection: close\r\n\r\n`);
  expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n[\s\S]*RateLimit-Remaining/);
});

it.each([
  ['a header of any length', '/v1/forward-auth/shop', '431'],
  // The whole target that Caddy sends for a request to `localhost:80`.
  ['a target that is no path, before a header of any length', '80', '400'],
])('is known to reject %s', async (_, target, status) => {
  const limiter = await start();
  const head = `GET ${target} HTTP/1.1\r\nHost: weir\r\nX-Long: ${'a'.repeat(900_000)}\r\n\r\n`;
  expect((await exchange(limiter.ports.http, head)).slice(0, 13)).toBe(`HTTP/1.1 ${status} `);
});

describe('bodies', () => {
  const head = (rest: string): string =>
    `POST /v1/forward-auth/shop HTTP/1.1\r\nHost: weir\r\nX-Forwarded-For: 203.0.113.7\r\n${rest}\r\n\r\n`;

  it('are not waited for if the client waits to be asked for them', async () => {
    const limiter = await start();
    const answer = await exchange(
      limiter.ports.http,
      head('Expect: 100-continue\r\nContent-Length: 5000000'),
      /HTTP\/1\.1 200/,
    );
    expect(answer).toMatch(/HTTP\/1\.1 200 OK\r\n/);
    expect(answer).toMatch(/Connection: close/i);
  });

  it('in pieces without an end, end with the connection', async () => {
    const limiter = await start();
    const answer = await exchange(limiter.ports.http, `${head('Transfer-Encoding: chunked')}5\r\nhello\r\n`);
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n/);
    expect(answer).toMatch(/Connection: close/i);
  });

  it('that are short are dropped, and the connection continues', async () => {
    const limiter = await start();
    const one = `${head('Content-Length: 5')}hello`;
    const answer = await exchange(limiter.ports.http, one + one + one, /200 OK[\s\S]*200 OK[\s\S]*429 Too/);
    expect(answer).not.toMatch(/Connection: close/i);
  });
});

const statusOf = async (limiter: InProcessLimiter, profile: string): Promise<number> =>
  (await ask(limiter, profile, from('203.0.113.99'))).status;
/** A file with one profile, of a domain that limits nothing. */
const one = (name: string): string => `profiles: {${name}: {domain: open, ${byAddress}}}\n`;

describe('the file of profiles', () => {
  const becomes = (limiter: InProcessLimiter, profile: string, status: number): Promise<void> =>
    eventually(async () => expect(await statusOf(limiter, profile)).toBe(status));

  it('need not be there, is read when it comes, and followed', async () => {
    const limiter = await start({}, null);
    expect(problem(await ask(limiter, 'a')).detail).toContain('there are none (PROFILES_FILE)');
    put(join(folder, 'profiles.yaml'), one('a'));
    await becomes(limiter, 'a', 200);
    put(join(folder, 'profiles.yaml'), one('b'));
    await becomes(limiter, 'b', 200);
    expect(await statusOf(limiter, 'a')).toBe(404);
  });

  it('stays as it was when it is damaged or goes away, and is reported', async () => {
    const limiter = await start({ LOG_LEVEL: 'info' }, one('a'));
    const path = join(folder, 'profiles.yaml');
    put(path, 'profiles: {a: {domain: open, rate_limit: []}}\n');
    const refused = (): string[] =>
      limiter.lines.filter((line) => line.includes('profiles file cannot be used'));
    await eventually(() => expect(refused()).toHaveLength(1));
    expect(refused()[0]).toContain(`${path}:1:30: a profile has no field \\"rate_limit\\"`);
    expect((await limiter.stats()).get('ratelimit.profiles.load_failed')).toBe(1);
    expect(await statusOf(limiter, 'a')).toBe(200);
    rmSync(path);
    await eventually(() => expect(refused()).toHaveLength(2));
    expect(await statusOf(limiter, 'a')).toBe(200);
    put(path, one('b'));
    await becomes(limiter, 'b', 200);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.profiles.load_failed')).toBe(0);
    expect(stats.get('ratelimit.profiles.load_success')).toBe(2);
    expect(stats.get('ratelimit.profiles.load_error')).toBe(2);
    expect(stats.get('ratelimit.profiles.entries')).toBe(1);
    expect(limiter.lines.join('\n')).toMatch(/level=warning msg="Profiles are in force"/);
  });

  it('prevents no start, and answers no request before it is valid', async () => {
    const limiter = await start({}, 'profiles: [\n');
    const answer = await ask(limiter, 'a', from('203.0.113.99'));
    expect(answer.status).toBe(503);
    expect(problem(answer).detail).toContain('PROFILES_FILE');
    put(join(folder, 'profiles.yaml'), one('a'));
    await becomes(limiter, 'a', 200);
  });

  it('may be swapped with the link of the root, and named by PROFILES_FILE', async () => {
    const root = join(folder, 'current');
    for (const version of ['v1', 'v2']) {
      mkdirSync(join(folder, version, 'config'), { recursive: true });
      writeFileSync(join(folder, version, 'config', 'open.yaml'), 'domain: open\ndescriptors: []\n');
      writeFileSync(join(folder, version, 'profiles.yaml'), one(version));
    }
    symlinkSync('v1', root);
    const limiter = await start({ RUNTIME_ROOT: root }, null);
    expect(await statusOf(limiter, 'v1')).toBe(200);
    symlinkSync('v2', `${root}.new`);
    renameSync(`${root}.new`, root);
    await becomes(limiter, 'v2', 200);
    await limiter.stop();
    const named = await start({ RUNTIME_ROOT: root, PROFILES_FILE: join(folder, 'v1', 'profiles.yaml') });
    expect(await statusOf(named, 'v1')).toBe(200);
  });

  it('is reported if PROFILES_FILE names none', async () => {
    const path = join(folder, 'none.yaml');
    const limiter = await start({ PROFILES_FILE: path });
    expect(limiter.lines.join('\n')).toContain(`PROFILES_FILE: ${path}: no such file or directory`);
    expect(await statusOf(limiter, 'a')).toBe(503);
  });
});

describeWithServer('profiles and Redis', redisProgram, (path) => {
  it('answers by onError while it is away', async () => {
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
    const limiter = await start(store);
    expect((await ask(limiter, 'shop', from('203.0.113.7'))).headers['ratelimit-remaining']).toBe('1');
    await redis.kill('SIGKILL');
    await eventually(async () => {
      const answer = await ask(limiter, 'closed', from('203.0.113.7, ::1'));
      expect(answer.status).toBe(503);
      expect(problem(answer).detail).toContain('onError');
    });
    const allowed = await ask(limiter, 'shop', from('203.0.113.7'));
    expect(allowed).toMatchObject({ status: 200, body: '' });
    expect(allowed.headers['ratelimit-remaining']).toBeUndefined();
    expect(await answers(limiter)).toMatchObject({ failed_allowed: 1, failed_denied: expect.any(Number) });
  });

  it('answers by the profiles in force in every worker', async () => {
    const redis = await startRedis({ path });
    onTestFinished(() => redis.stop());
    const store = { BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
    const limiter = await start({ ...store, LIMITER_WORKERS: '2' }, one('a'));
    const statuses = async (profile: string): Promise<Set<number>> =>
      new Set(await Promise.all(Array.from({ length: 8 }, () => statusOf(limiter, profile))));
    expect(await statuses('a')).toEqual(new Set([200]));
    put(join(folder, 'profiles.yaml'), one('b'));
    await eventually(async () => expect(await statuses('b')).toEqual(new Set([200])));
    expect(await statuses('a')).toEqual(new Set([404]));
    expect((await answers(limiter))['allowed']).toBeGreaterThanOrEqual(16);
  });
});
