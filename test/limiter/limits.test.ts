/** Algorithms and several limits with what else a rule may say, in a whole limiter. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const folder = suiteFolder();
mkdirSync(join(folder, 'config'));
/** The first two of each rule's hits pass. */
const limits: Record<string, string> = {
  sliding: 'rate_limit: { window: 5m, requests_per_unit: 2, algorithm: sliding_window }',
  bucket: 'rate_limit: { unit: hour, requests_per_unit: 2, algorithm: token_bucket }',
  several: `rate_limits:
      - { window: 90s, requests_per_unit: 2, algorithm: token_bucket }
      - { unit: month, requests_per_unit: 9, name: monthly }`,
};
const flags: Record<string, string> = {
  shared: 'share_threshold: true',
  detailed: 'detailed_metric: true',
  valued: 'value_to_metric: true',
  shadow: 'shadow_mode: true',
  quota: 'quota_mode: true',
};
const rules = Object.entries(limits).flatMap(([kind, text]) =>
  Object.entries(flags).map(
    ([flag, line]) => `  - key: ${kind}_${flag}\n    value: v*\n    ${line}\n    ${text}\n`,
  ),
);
writeFileSync(join(folder, 'config/d.yaml'), `domain: d\ndescriptors:\n${rules.join('')}`);

let nowMs: number;
beforeEach(() => {
  nowMs = Date.UTC(2026, 1, 10);
});
const start = limitersOfSuite(() => ({
  clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
  env: { RUNTIME_ROOT: folder, BACKEND_TYPE: 'memory' },
}));

async function codes(limiter: InProcessLimiter, key: string, ...values: string[]): Promise<string[]> {
  const answers: string[] = [];
  for (const value of values) answers.push((await limiter.ask('d', [{ [key]: value }])).body.overallCode);
  return answers;
}

/** Of one metric key: what ends in the statistic, with its number. */
async function counted(
  limiter: InProcessLimiter,
  key: string,
  stat: string,
): Promise<Record<string, number>> {
  const prefix = 'ratelimit.service.rate_limit.d.';
  const found = [...(await limiter.stats())].filter(
    ([name, value]) => name.startsWith(`${prefix}${key}`) && name.endsWith(`.${stat}`) && value > 0,
  );
  return Object.fromEntries(
    found.map(([name, value]) => [name.slice(prefix.length, -stat.length - 1), value]),
  );
}

for (const kind of Object.keys(limits)) {
  const behind = kind === 'several' ? '.90s' : '';

  it(`share_threshold gives all values one ${kind} counter`, async () => {
    const limiter = await start();
    expect(await codes(limiter, `${kind}_shared`, 'v1', 'v2', 'v3')).toEqual(['OK', 'OK', 'OVER_LIMIT']);
  });

  it(`detailed_metric and value_to_metric name values beside ${kind} limits`, async () => {
    const limiter = await start();
    await codes(limiter, `${kind}_detailed`, 'v1', 'v1', 'v1', 'v2');
    expect(await counted(limiter, `${kind}_detailed`, 'over_limit')).toEqual({
      [`${kind}_detailed_v1${behind}`]: 1,
    });
    await codes(limiter, `${kind}_valued`, 'v1', 'v1', 'v1', 'v2');
    expect(await counted(limiter, `${kind}_valued`, 'over_limit')).toEqual({
      [`${kind}_valued_v1${behind}`]: 1,
    });
  });

  it(`shadow_mode lets ${kind} limits count as if enforced`, async () => {
    const limiter = await start();
    const key = `${kind}_shadow`;
    expect(await codes(limiter, key, 'v', 'v', 'v', 'v')).toEqual(['OK', 'OK', 'OK', 'OK']);
    expect(await counted(limiter, key, 'shadow_mode')).toEqual({ [`${key}_v*${behind}`]: 2 });
    const within = await counted(limiter, key, 'within_limit');
    expect(new Set(Object.values(within))).toEqual(new Set([2]));
  });

  it(`quota_mode limits by ${kind} limits when all quotas are exceeded`, async () => {
    const limiter = await start();
    const key = `${kind}_quota`;
    expect(await codes(limiter, key, 'v', 'v', 'v')).toEqual(['OK', 'OK', 'OVER_LIMIT']);
    const both = await limiter.ask('d', [{ [key]: 'v' }, { [key]: 'vv' }]);
    expect(both.body.overallCode).toBe('OK');
  });

  it(`jitter and the local cache change no answer of ${kind} limits`, async () => {
    const limiter = await start({
      EXPIRATION_JITTER_MAX_SECONDS: '300',
      LOCAL_CACHE_SIZE_IN_BYTES: '100000',
    });
    const key = `${kind}_detailed`;
    expect(await codes(limiter, key, 'v', 'v', 'v', 'v')).toEqual(['OK', 'OK', 'OVER_LIMIT', 'OVER_LIMIT']);
    const cached = await counted(limiter, key, 'over_limit_with_local_cache');
    expect(cached).toEqual({ [`${key}_v${behind}`]: 1 });
    nowMs += 3_600_000;
    expect(await codes(limiter, key, 'v', 'v', 'v')).toEqual(['OK', 'OK', 'OVER_LIMIT']);
  });
}

it('counts a month of the calendar among several limits', async () => {
  const limiter = await start({ USE_CALENDAR_MONTH_RATE_LIMIT: 'true' });
  const ask = async () => (await limiter.ask('d', [{ several_quota: 'v' }])).body.overallCode;
  const passed: string[] = [];
  // Two of 90 seconds pass each time: the month has nine.
  for (let i = 0; i < 5; i++) {
    passed.push(await ask(), await ask());
    nowMs += 90_000;
  }
  expect(passed).toEqual([...Array(9).fill('OK'), 'OVER_LIMIT']);
  nowMs = Date.UTC(2026, 2, 1);
  expect(await ask()).toBe('OK');
});
