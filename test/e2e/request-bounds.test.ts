import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

it('refuses a request beyond its bounds over gRPC and /json, uncounted, with a statistic and a log line', async () => {
  const folder = temporaryFolder();
  mkdirSync(join(folder, 'config'));
  const rules = 'domain: d\ndescriptors:\n  - key: k\n    rate_limit: { unit: year, requests_per_unit: 9 }\n';
  writeFileSync(join(folder, 'config/d.yaml'), rules);
  const limiter = await InProcessLimiter.start({
    env: { RUNTIME_ROOT: folder, REQUEST_MAX_ENTRIES: '2', HTTP_MAX_BODY_BYTES: '300000' },
  });
  onTestFinished(async () => void (await limiter.stop()));
  const client = new LimiterClient(limiter.ports.grpc);
  onTestFinished(() => client.close());
  const entries = (count: number, value: string) =>
    Array.from({ length: count }, () => ({ key: 'k', value }));
  const counted = { entries: entries(1, 'a') };

  const tooManyEntries = 'a descriptor may have 2 entries (REQUEST_MAX_ENTRIES), descriptor 1 has 3 or more';
  const crowded = { domain: 'd', descriptors: [counted, { entries: entries(3, 'a') }] };
  await expect(client.ask(crowded)).rejects.toMatchObject({ code: 3, details: tooManyEntries });
  const long = { domain: 'd', descriptors: [counted, { entries: entries(1, 'v'.repeat(300_000)) }] };
  await expect(client.ask(long)).rejects.toMatchObject({
    code: 3,
    details: expect.stringMatching(
      /^a request may have 262144 bytes \(REQUEST_MAX_BYTES\), this one has 3000\d\d$/,
    ),
  });
  const answer = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, {
    method: 'POST',
    body: JSON.stringify(crowded),
  });
  expect([answer.status, answer.headers.get('weir-error')]).toEqual([400, tooManyEntries]);

  const longer = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, {
    method: 'POST',
    body: ' '.repeat(300_001),
  });
  expect(longer.status).toBe(413);

  expect((await client.ask({ domain: 'd', descriptors: [counted] })).statuses[0]?.limitRemaining).toBe(8);
  const stats = await limiter.stats();
  const refused = (bound: string) =>
    stats.get(`ratelimit.service.call.should_rate_limit.too_large.__bound=${bound}`);
  expect([refused('REQUEST_MAX_ENTRIES'), refused('REQUEST_MAX_BYTES')]).toEqual([2, 1]);
  expect([refused('HTTP_MAX_BODY_BYTES'), refused('REQUEST_MAX_TEXT_BYTES')]).toEqual([1, 0]);
  expect(limiter.lines.filter((line) => line.includes('refused for its size'))).toEqual([
    expect.stringMatching(/ listener=gRPC peer="127\.0\.0\.1:\d+" reason="a descriptor .* times=1$/),
    expect.stringMatching(/ listener=gRPC peer="127\.0\.0\.1:\d+" reason=".*REQUEST_MAX_BYTES/),
    expect.stringMatching(/ listener=HTTP peer="127\.0\.0\.1:\d+" reason="a descriptor .* times=1$/),
    expect.stringContaining('reason="the body is longer than 300000 bytes (HTTP_MAX_BODY_BYTES)" times=1'),
  ]);
});
