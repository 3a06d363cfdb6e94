/** By which host names the HTTP port and the debug port may be asked: HTTP_ALLOWED_HOSTS, DEBUG_ALLOWED_HOSTS. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { httpAsk } from '../support/http-ask.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const rules = `
domain: shop
descriptors:
  - { key: ip, rate_limit: { unit: year, requests_per_unit: 1 } }
`;
const folder = suiteFolder();
const startLimiter = limitersOfSuite(() => ({
  env: { RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: 'config' },
}));
beforeAll(() => {
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config', 'shop.yaml'), rules);
});

const question = '{"domain":"shop","descriptors":[{"entries":[{"key":"ip","value":"a"}]}]}';
const check = '{"domain":"shop","descriptors":[[{"ip":"a"}]]}';
const json = (body: string, host: string) => ({
  method: 'POST',
  headers: { host, 'content-type': 'application/json' },
  body,
});

describe('HTTP_ALLOWED_HOSTS', () => {
  it('is empty: the HTTP port answers to every name', async () => {
    const { ports } = await startLimiter();
    expect((await httpAsk(ports.http, '/json', json(question, 'rebound.example'))).status).toBe(200);
    expect((await httpAsk(ports.http, '/v1/check', json(check, 'rebound.example'))).status).toBe(429);
  });

  it('rejects other names, counts none of their requests, and answers their probes', async () => {
    const limiter = await startLimiter({ HTTP_ALLOWED_HOSTS: 'Limits.example' });
    const { ports } = limiter;
    const wrong = 'rebound.example:8080';
    const detail = `the host "${wrong}" is not an IP address, not a name of this machine or its cluster, and not one of HTTP_ALLOWED_HOSTS`;
    expect(await httpAsk(ports.http, '/json', json(question, wrong))).toMatchObject({
      status: 403,
      body: 'Forbidden\n',
      headers: { 'weir-error': detail },
    });
    for (const path of ['/v1/check', '/v1/budget', '/v1/forward-auth/x', '/v1/openapi.json', '/v1']) {
      const answer = await httpAsk(ports.http, path, json(check, wrong));
      expect([path, answer.status, JSON.parse(answer.body).detail]).toEqual([path, 403, detail]);
    }
    for (const path of ['/healthcheck', '/livez'])
      expect((await httpAsk(ports.http, path, { headers: { host: wrong } })).status).toBe(200);
    // The first request that counts.
    expect((await httpAsk(ports.http, '/json', json(question, 'limits.example'))).status).toBe(200);
    for (const host of ['127.0.0.1', 'limits.example:1', 'weir', 'limiter.weir.svc', hostname()])
      expect((await httpAsk(ports.http, '/json', json(question, host))).status).toBe(429);
    const stats = (await httpAsk(ports.debug, '/stats')).body;
    expect(stats).toContain('ratelimit.http.foreign_host: 6');
    expect(limiter.lines.filter((line) => line.includes('because of its Host header'))).toHaveLength(1);
  });
});

describe('the debug port', () => {
  const pages = [
    '/',
    '/stats',
    '/top',
    '/rlconfig',
    '/nothing',
    '/debug/pprof/',
    '/debug/pprof/heap',
    '//stats',
  ];

  it('answers no page by the name of another, and says which setting it takes', async () => {
    const { ports } = await startLimiter({ DEBUG_ALLOWED_HOSTS: 'ops.example' });
    for (const path of pages) {
      const answer = await httpAsk(ports.debug, path, { headers: { host: 'rebound.example' } });
      expect([path, answer.status, answer.body.includes('DEBUG_ALLOWED_HOSTS')]).toEqual([path, 403, true]);
    }
    for (const path of ['/livez', '/console'])
      expect((await httpAsk(ports.debug, path, { headers: { host: 'rebound.example' } })).status).toBe(200);
    for (const host of ['ops.example', 'limiter.weir.svc.cluster.local', 'limiter'])
      expect((await httpAsk(ports.debug, '/stats', { headers: { host } })).status).toBe(200);
    const stats = (await httpAsk(ports.debug, '/stats')).body;
    expect(stats).toContain(`ratelimit.admin.refused.__reason=foreign: ${pages.length}`);
  });

  it('gives profiles at other addresses than loopback to browsers with the token alone', async () => {
    const { ports } = await startLimiter();
    const browser = { host: '10.0.0.1:6070', 'user-agent': 'Mozilla/5.0 (X11; Linux x86_64)' };
    const refused = await httpAsk(ports.debug, '/debug/pprof/heap', { headers: browser });
    expect([refused.status, refused.body.includes('DEBUG_TOKEN_FILE')]).toEqual([403, true]);
    expect((await httpAsk(ports.debug, '/stats', { headers: browser })).status).toBe(200);
    const pprof = { host: '10.0.0.1:6070', 'user-agent': 'Go-http-client/1.1' };
    expect((await httpAsk(ports.debug, '/debug/pprof/heap', { headers: pprof })).status).toBe(200);
    const token = 'a-token-of-the-debug-listener';
    writeFileSync(join(folder, 'token'), token);
    const withToken = await startLimiter({ DEBUG_TOKEN_FILE: join(folder, 'token') });
    const shown = { ...browser, authorization: `Bearer ${token}` };
    const profile = (headers: Record<string, string>) =>
      httpAsk(withToken.ports.debug, '/debug/pprof/heap', { headers });
    expect((await profile(browser)).status).toBe(401);
    expect((await profile(shown)).status).toBe(200);
  });
});
