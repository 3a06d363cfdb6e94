import { hash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const rules = `domain: d
descriptors:
  - key: k
    rate_limit: { unit: year, requests_per_unit: 9 }
  - key: path
    value: /api/*
    rate_limit: { unit: year, requests_per_unit: 2 }
  - key: a
    descriptors: [{ key: b, descriptors: [{ key: c, rate_limit: { unit: year, requests_per_unit: 9 } }] }]
`;
const over = { code: 2, limitRemaining: 0 };

async function start(env: Record<string, string> = {}) {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/d.yaml'), rules);
  const limiter = await InProcessLimiter.start({
    env: { RUNTIME_ROOT: folder, REQUEST_MAX_ENTRIES: '2', HTTP_MAX_BODY_BYTES: '300000', ...env },
  });
  onTestFinished(async () => void (await limiter.stop()));
  const client = new LimiterClient(limiter.ports.grpc);
  onTestFinished(() => client.close());
  const post = async (path: string, body: unknown) => {
    const answer = await fetch(`http://127.0.0.1:${limiter.ports.http}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    });
    const text = await answer.text();
    return {
      status: answer.status,
      retryAfter: answer.headers.get('retry-after'),
      reason: answer.headers.get('weir-error'),
      body: text.startsWith('{') ? (JSON.parse(text) as Record<string, unknown>) : text,
    };
  };
  return { limiter, client, post };
}

const entries = (...keys: string[]) => keys.map((key) => ({ key, value: 'v' }));
const counted = { entries: entries('k') };
const request = (...descriptors: object[]) => ({ domain: 'd', descriptors: [counted, ...descriptors] });
/** Three levels have a rule. */
const crowded = request({ entries: entries('a', 'b', 'c') });
const tooManyEntries = 'a descriptor may have 2 entries (REQUEST_MAX_ENTRIES), descriptor 1 has 3';

describe('a request beyond the bounds', () => {
  it('is over limit over gRPC, counted nowhere but in its statistic, and logged', async () => {
    const { limiter, client, post } = await start();
    expect(await client.ask(crowded)).toMatchObject({
      overallCode: 2,
      statuses: [over, over],
      responseHeadersToAdd: [{ key: 'Retry-After', value: '1' }],
    });
    const own = { entries: entries('x', 'y', 'z', 'z'), limit: { requestsPerUnit: 1, unit: 4 } };
    expect(await client.ask(request(own))).toMatchObject({ overallCode: 2, statuses: [over, over] });
    const many = await client.ask(request(...Array.from({ length: 300 }, () => ({ entries: [] }))));
    expect(many.overallCode).toBe(2);
    expect(many.statuses).toHaveLength(256);
    expect(many.statuses.every(({ code, currentLimit }) => code === 2 && !currentLimit)).toBe(true);
    const long = await client.ask(request({ entries: [{ key: 'k', value: 'v'.repeat(300_000) }] }));
    expect(long).toMatchObject({ overallCode: 2, statuses: [] });

    expect(await post('/json', crowded)).toMatchObject({
      ...{ status: 429, retryAfter: '1', reason: tooManyEntries },
      body: { overallCode: 'OVER_LIMIT', statuses: [{ code: 'OVER_LIMIT' }, { code: 'OVER_LIMIT' }] },
    });
    expect(await post('/json', ' '.repeat(300_001))).toMatchObject({ status: 429, retryAfter: '1' });
    const check = { domain: 'd', descriptors: [[{ k: 'v' }], [{ a: 'v' }, { b: 'v' }, { c: 'v' }]] };
    expect(await post('/v1/check', check)).toMatchObject({
      ...{ status: 429, retryAfter: '1', reason: tooManyEntries },
      body: { code: 'OVER_LIMIT', descriptors: [{ code: 'OVER_LIMIT', rule: null, limit: null }, {}] },
    });
    for (const length of [270_000, 300_001])
      expect(await post('/v1/check', ' '.repeat(length))).toMatchObject({
        ...{ status: 429, retryAfter: '1' },
        body: { code: 'OVER_LIMIT', descriptors: [] },
      });

    const { statuses } = await client.ask({ domain: 'd', descriptors: [counted] });
    expect(statuses[0]?.limitRemaining).toBe(8);
    const stats = await limiter.stats();
    const beyond = (bound: string) =>
      stats.get(`ratelimit.service.call.should_rate_limit.too_large.__bound=${bound}`);
    expect([beyond('REQUEST_MAX_ENTRIES'), beyond('REQUEST_MAX_DESCRIPTORS')]).toEqual([4, 1]);
    expect([beyond('REQUEST_MAX_BYTES'), beyond('HTTP_MAX_BODY_BYTES')]).toEqual([2, 2]);
    expect(stats.get('ratelimit.service.rate_limit.d.k.total_hits')).toBe(1);
    expect(stats.get('ratelimit.service.rate_limit.d.k.over_limit')).toBe(0);
    expect(limiter.lines.filter((line) => line.includes('exceeds a bound'))).toEqual([
      expect.stringMatching(/ listener=gRPC peer="127\.0\.0\.1:\d+" reason="a descriptor .* times=1$/),
      expect.stringMatching(/ listener=gRPC .*REQUEST_MAX_DESCRIPTORS/),
      expect.stringMatching(/ listener=gRPC .*REQUEST_MAX_BYTES/),
      expect.stringMatching(/ listener=HTTP peer="127\.0\.0\.1:\d+" reason="a descriptor .* times=1$/),
      expect.stringContaining('reason="the body is longer than 300000 bytes (HTTP_MAX_BODY_BYTES)" times=1'),
      expect.stringMatching(/ listener=HTTP .*REQUEST_MAX_BYTES/),
    ]);
  });

  it('is decided as others if what is beyond them matches nothing', async () => {
    const { client, post } = await start();
    const deeper = request({ entries: entries('a', 'b', 'c', 'd') });
    expect(await client.ask(deeper)).toMatchObject({
      overallCode: 1,
      statuses: [{ code: 1, limitRemaining: 8 }, { code: 1 }],
    });
    const elsewhere = { domain: 'other', descriptors: [{ entries: entries('a', 'b', 'c') }] };
    expect(await client.ask(elsewhere)).toMatchObject({ overallCode: 1, statuses: [{ code: 1 }] });
    expect(await post('/json', deeper)).toMatchObject({
      status: 200,
      body: { statuses: [{ limitRemaining: 7 }, { code: 'OK' }] },
    });
  });

  it('is an error if that is set', async () => {
    const { client, post } = await start({ REQUEST_TOO_LARGE: 'error', SHADOW_MODE: 'true' });
    await expect(client.ask(crowded)).rejects.toMatchObject({ code: 3, details: tooManyEntries });
    const long = request({ entries: [{ key: 'k', value: 'v'.repeat(300_000) }] });
    await expect(client.ask(long)).rejects.toMatchObject({ code: 3 });
    expect(await post('/json', crowded)).toMatchObject({ status: 400, reason: tooManyEntries });
    expect(await post('/json', ' '.repeat(300_001))).toMatchObject({ status: 413 });
    expect(await post('/v1/check', ' '.repeat(270_000))).toMatchObject({ status: 400 });
    expect(await post('/v1/check', ' '.repeat(300_001))).toMatchObject({ status: 413 });
  });

  it('passes with SHADOW_MODE, and is counted as such', async () => {
    const { limiter, client, post } = await start({ SHADOW_MODE: 'true' });
    expect(await client.ask(crowded)).toMatchObject({ overallCode: 1, statuses: [over, over] });
    const long = request({ entries: [{ key: 'k', value: 'v'.repeat(300_000) }] });
    expect(await client.ask(long)).toMatchObject({ overallCode: 1, statuses: [] });
    expect(await post('/json', ' '.repeat(300_001))).toMatchObject({ status: 200 });
    expect((await limiter.stats()).get('ratelimit.service.global_shadow_mode')).toBe(3);
  });

  it('stays an error if its caller is a program, or it is no request', async () => {
    const { client, post } = await start();
    const descriptors = [[{ a: 'v' }, { b: 'v' }, { c: 'v' }]];
    expect(await post('/v1/reserve', { domain: 'd', descriptors, amount: 1 })).toMatchObject({ status: 400 });
    expect(await post('/v1/reserve', ' '.repeat(270_000))).toMatchObject({ status: 400 });
    expect(await post('/v1/commit', ' '.repeat(300_001))).toMatchObject({ status: 413 });
    await expect(client.ask({ ...crowded, domain: '' })).rejects.toMatchObject({ code: 2 });
    expect(await post('/json', { ...crowded, domain: 7 })).toMatchObject({ status: 400 });
  });
});

describe('a value above REQUEST_MAX_TEXT_BYTES', () => {
  it('is matched whole, and counted by its beginning and its hash', async () => {
    const { limiter, client } = await start();
    const path = (end: string) => `/api/${'x'.repeat(17_000)}${end}`;
    const ask = (value: string) =>
      client.ask({ domain: 'd', descriptors: [{ entries: [{ key: 'path', value }] }] });
    const codes: number[] = [];
    for (const end of ['a', 'a', 'a', 'b', 'b', 'b']) codes.push((await ask(path(end))).overallCode);
    expect(codes).toEqual([1, 1, 2, 1, 1, 2]);
    expect((await ask(`/web/${'x'.repeat(17_000)}`)).statuses[0]?.currentLimit).toBeUndefined();
    // As long as the bound it is itself, and no other text is counted with it.
    const form = `${path('a').slice(0, 16_384)}~sha256:${hash('sha256', path('a'))}`;
    expect((await ask(form)).overallCode).toBe(1);
    const stats = await limiter.stats();
    expect(stats.get('ratelimit.service.long_texts')).toBe(8);
    expect(stats.get('ratelimit.service.call.should_rate_limit.service_error')).toBe(0);
  });
});
