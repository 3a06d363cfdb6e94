/** A value beyond REQUEST_MAX_TEXT_BYTES has one identity, no matter who finds its counter. */
import { hash } from 'node:crypto';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const rules = `domain: d
descriptors:
  - { key: path, value: /api/*, detailed_metric: true, rate_limit: { unit: year, requests_per_unit: 2 } }
`;
const path = (end: string) => `/api/${'x'.repeat(17_000)}${end}`;
const long = path('a');
const identity = `${long.slice(0, 16_384)}~sha256:${hash('sha256', long)}`;
const shown = `${long.slice(0, 64)}~${hash('sha256', long).slice(0, 8)}`;

it.each(['compatible', 'unambiguous'])('is found by its whole text with COUNTER_KEYS=%s', async (form) => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  writeFileSync(join(folder, 'config/d.yaml'), rules);
  const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, COUNTER_KEYS: form } });
  onTestFinished(async () => void (await limiter.stop()));
  const statuses = async (value: string, times: number) => {
    const all: number[] = [];
    for (let i = 0; i < times; i++) all.push((await limiter.ask('d', [{ path: value }])).status);
    return all;
  };
  expect([await statuses(long, 3), await statuses(path('b'), 1)]).toEqual([[200, 200, 429], [200]]);

  const api = `http://127.0.0.1:${limiter.ports.debug}/v1`;
  const about = new URLSearchParams({ domain: 'd', entry: `path=${long}` });
  const get = async (url: string, init?: RequestInit) => (await (await fetch(url, init)).json()) as Found;
  const { counters } = await get(`${api}/counters?${about}`);
  const entry = { key: 'path', valueBegins: long.slice(0, 64), valueHash: hash('sha256', long) };
  expect(counters).toMatchObject([{ rule: 'd.path_/api/*', used: 3, over: true, entries: [entry] }]);
  const { key } = counters[0]!;
  if (form === 'compatible') expect(key).toMatch(/^d_path_\/api\/x+~sha256:[0-9a-f]{64}_\d+$/);
  if (form === 'compatible') expect(key).toContain(identity);
  const listed = await get(`${api}/counters?domain=d&over=true`);
  expect(listed.counters).toMatchObject([
    { key, rule: 'd.path_/api/*', certain: false, entries: [{ key: 'path' }] },
  ]);
  if (form === 'compatible') expect(listed.counters[0]?.entries).toEqual([entry]);
  const explained = await get(`${api}/explain`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ domain: 'd', entries: [{ key: 'path', value: long }] }),
  });
  expect(explained.counters as unknown).toEqual([key]);

  expect(await get(`${api}/refusals?${about}`)).toMatchObject({
    refusals: [{ count: 1, entries: [{ key: 'path', value: shown }] }],
  });
  const other = new URLSearchParams({ domain: 'd', entry: `path=${path('b')}` });
  expect((await get(`${api}/refusals?${other}`)).refusals).toEqual([]);

  const top = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/top?format=json`)).text();
  expect(top).not.toContain('x'.repeat(65));
  const stats = await limiter.stats();
  expect(stats.get(`ratelimit.service.rate_limit.d.path_${shown}.over_limit`)).toBe(1);
  expect(limiter.lines.join('\n')).not.toContain('x'.repeat(65));

  expect(await get(`${api}/counters?${about}`, { method: 'DELETE' })).toMatchObject({ reset: 1 });
  expect([await statuses(long, 1), await statuses(path('b'), 2)]).toEqual([[200], [200, 429]]);
});

interface Found {
  counters: { key: string; entries: object[] }[];
  refusals: object[];
}
