import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Code } from '../limiter/decide/messages.ts';
import { parseLimiterSettings } from '../limiter/settings/settings.ts';
import { Algorithm } from '../rules/algorithms/registry.ts';
import type { Rule } from '../rules/model.ts';
import { readRuleFiles } from '../rules/reader/read-rule-files.ts';
import { InProcessLimiter } from '../test/support/in-process-limiter.ts';
import { ManualClock } from '../test/support/manual-clock.ts';
import { caseCount } from '../test/support/property-cases.ts';
import { limit, rule } from '../test/support/rule-builder.ts';
import { Replay, type ReplayOptions, rulesCountedAs } from './replay.ts';
import { type ReplayReport, reportOf } from './replay-report.ts';
import type { ReplayDecision } from './replayed-rules.ts';

/** 2026-11-20T08:59:30Z: half a minute before a minute and an hour end. */
const start = Date.UTC(2026, 10, 20, 8, 59, 30);

function sourcesOf(yaml: string) {
  const { sources, errors } = readRuleFiles([{ name: 'rules.yaml', text: Buffer.from(yaml) }], {
    mergeDomains: false,
  });
  expect(errors).toEqual([]);
  return sources;
}

function settingsOf(env: Record<string, string> = {}) {
  const parsed = parseLimiterSettings({ BACKEND_TYPE: 'memory', DISABLE_STATS: 'true', ...env });
  if (parsed.errors !== undefined) throw new Error(parsed.errors[0]?.message);
  return parsed.settings;
}

type Line = { atMs?: number; domain?: string; descriptors: unknown[]; hitsAddend?: number };

function replayed(yaml: string, lines: readonly Line[], more: Partial<ReplayOptions> = {}): ReplayReport {
  const replay = new Replay({
    rules: sourcesOf(yaml),
    settings: settingsOf(),
    sortWindow: 100,
    maxBadLines: 0,
    ...more,
  });
  lines.forEach(({ atMs = 0, domain = 'd', ...fields }, index) => {
    const time = new Date(start + atMs).toISOString();
    replay.addLine(JSON.stringify({ time, domain, ...fields }), index + 1);
  });
  replay.finish();
  return reportOf(replay, 10);
}

const by = (key: string, value: string) => [[key, value]];
const twoAMinute = `
domain: d
descriptors:
  - key: client
    rate_limit: { unit: minute, requests_per_unit: 2 }
`;

describe('Replay', () => {
  it('says which callers were limited, by which rule and when', () => {
    const lines = [0, 1_000, 2_000, 3_000].map((atMs) => ({ atMs, descriptors: [by('client', 'a')] }));
    const report = replayed(twoAMinute, [...lines, { atMs: 4_000, descriptors: [by('client', 'b')] }]);
    expect(report).toMatchObject({
      requests: 5,
      from: '2026-11-20T08:59:30.000Z',
      to: '2026-11-20T08:59:34.000Z',
    });
    const limited = {
      requests: 2,
      share: 0.4,
      first: '2026-11-20T08:59:32.000Z',
      last: '2026-11-20T08:59:33.000Z',
    };
    expect(report.rules.limited).toEqual(limited);
    expect(report.rules.domains).toEqual([{ domain: 'd', requests: 5, limited }]);
    expect(report.rules.rules).toEqual([
      {
        rule: 'd.client',
        limit: {
          requestsPerUnit: 2,
          unit: 'MINUTE',
          unitMultiplier: 1,
          window: '1m',
          algorithm: 'fixed_window',
        },
        shadowMode: false,
        decisions: 5,
        hits: 5,
        negativeHits: 0,
        withinLimit: 3,
        nearLimit: 1,
        overLimit: 2,
        shadowed: 0,
        limited,
      },
    ]);
    expect(report.rules.offenders).toEqual({
      count: 1,
      missed: 0,
      top: [
        { counter: 'd_client_a_', rule: 'd.client', requests: 2, first: limited.first, last: limited.last },
      ],
    });
  });

  it('begins a new window where the clock of the recording does', () => {
    const at = [0, 1_000, 29_999, 30_000, 31_000, 32_000];
    const report = replayed(
      twoAMinute,
      at.map((atMs) => ({ atMs, descriptors: [by('client', 'a')] })),
    );
    expect(report.rules.limited).toMatchObject({
      requests: 2,
      first: '2026-11-20T08:59:59.999Z',
      last: '2026-11-20T09:00:02.000Z',
    });
  });

  it('sorts by time before it decides', () => {
    const at = [31_000, 0, 30_000, 1_000];
    const report = replayed(
      twoAMinute,
      at.map((atMs) => ({ atMs, descriptors: [by('client', 'a')] })),
    );
    expect(report.rules.limited.requests).toBe(0);
  });

  it('counts what shadow mode let pass, and limits no request by it', () => {
    const yaml = twoAMinute.replace('rate_limit', 'shadow_mode: true\n    rate_limit');
    const report = replayed(
      yaml,
      [1, 2, 3].map(() => ({ descriptors: [by('client', 'a')] })),
    );
    expect(report.rules.rules[0]).toMatchObject({ overLimit: 1, shadowed: 1, shadowMode: true });
    expect([report.rules.limited.requests, report.rules.offenders.count]).toEqual([0, 0]);
  });

  it('does not blame a rule in shadow mode for what exceeded another one', () => {
    const yaml = `${twoAMinute}  - key: plan
    shadow_mode: true
    rate_limit: { unit: minute, requests_per_unit: 1 }
`;
    const both = { descriptors: [by('client', 'a'), by('plan', 'free')] };
    const report = replayed(yaml, [both, both, both]);
    expect(report.rules.rules).toMatchObject([
      { rule: 'd.client', limited: { requests: 1 } },
      { rule: 'd.plan', shadowed: 2, limited: { requests: 0 } },
    ]);
    expect(report.rules.offenders.top.map(({ counter }) => counter)).toEqual(['d_client_a_']);
  });

  it('counts a request once for a rule that several of its descriptors are over', () => {
    const both = { descriptors: [by('client', 'a'), by('client', 'b')] };
    const report = replayed(twoAMinute, [both, both, both]);
    expect(report.rules.rules[0]).toMatchObject({ decisions: 6, overLimit: 2, limited: { requests: 1 } });
    expect(report.rules.offenders.top.map(({ counter }) => counter)).toEqual(['d_client_a_', 'd_client_b_']);
  });

  it('names rules by their path, wildcards as written', () => {
    const yaml = `
domain: d
descriptors:
  - key: path
    value: /a*
    descriptors:
      - key: plan
        value: gold
        rate_limit: { unit: hour, requests_per_unit: 0 }
`;
    const report = replayed(yaml, [
      {
        descriptors: [
          [
            ['path', '/abc'],
            ['plan', 'gold'],
          ],
        ],
      },
    ]);
    expect(report.rules.rules.map(({ rule }) => rule)).toEqual(['d.path_/a*.plan_gold']);
  });

  it('reports limits of requests, descriptors without a limit and unknown domains apart', () => {
    const limit = { requestsPerUnit: 1, unit: 'HOUR' };
    const report = replayed(twoAMinute, [
      { descriptors: [{ entries: by('own', 'x'), limit }] },
      { descriptors: [{ entries: by('own', 'x'), limit }] },
      { descriptors: [by('other', 'x')] },
      { domain: 'elsewhere', descriptors: [by('client', 'a'), by('client', 'b')] },
    ]);
    expect(report.rules.rules).toMatchObject([
      { rule: 'd (limit of the request)', limit: null, decisions: 2, limited: { requests: 1 } },
    ]);
    expect(report.rules.descriptorsWithoutLimit).toBe(3);
    expect(report.rules.unknownDomains).toEqual([{ domain: 'elsewhere', descriptors: 2 }]);
  });

  it('gives hits back', () => {
    const back = { entries: by('client', 'a'), isNegativeHits: true };
    const take = by('client', 'a');
    const report = replayed(
      twoAMinute,
      [take, take, back, take, take].map((one) => ({ descriptors: [one] })),
    );
    expect(report.rules.rules[0]).toMatchObject({ decisions: 5, hits: 4, negativeHits: 1, overLimit: 1 });
  });

  it('says which requests two sets of rules answer differently', () => {
    const against = twoAMinute
      .replace('key: client', 'key: plan')
      .replace('requests_per_unit: 2', 'requests_per_unit: 1');
    const both = { descriptors: [by('client', 'a'), by('plan', 'free')] };
    const { difference, ...report } = replayed(
      twoAMinute,
      [both, both, { descriptors: [by('client', 'a')] }],
      {
        against: sourcesOf(against),
      },
    );
    expect(report.rules.limited.requests).toBe(1);
    expect(report.against?.limited.requests).toBe(1);
    expect(difference?.newlyLimited).toMatchObject({
      limited: { requests: 1 },
      rules: [{ rule: 'd.client', requests: 1 }],
      offenders: { top: [{ counter: 'd_client_a_' }] },
    });
    expect(difference?.noLongerLimited).toMatchObject({
      limited: { requests: 1 },
      rules: [{ rule: 'd.plan', requests: 1 }],
      offenders: { top: [{ counter: 'd_plan_free_' }] },
    });
  });

  it('leaves out lines that it cannot replay, and says why', () => {
    const replay = new Replay({
      rules: sourcesOf(twoAMinute),
      settings: settingsOf(),
      sortWindow: 0,
      maxBadLines: 3,
    });
    const good = (seconds: number) =>
      JSON.stringify({ time: seconds, domain: 'd', descriptors: [by('client', 'a')] });
    const huge = { entries: by('client', 'a'), hitsAddend: '18446744073709551615' };
    replay.addLine(good(10), 1);
    replay.addLine('', 2);
    replay.addLine(good(8.5), 3);
    replay.addLine('nonsense', 4);
    replay.addLine(JSON.stringify({ time: 11, domain: 'd', descriptors: [huge] }), 5);
    replay.finish();
    expect(reportOf(replay, 10)).toMatchObject({
      requests: 1,
      badLines: {
        count: 3,
        first: [
          { line: 3, reason: 'is 1.5 s earlier than a request that was replayed before it' },
          { line: 4, reason: expect.stringMatching(/^is not JSON: /) },
          { line: 5, reason: 'hits_addend of descriptor 0 must be at most 9223372036854775807' },
        ],
      },
    });
    expect(() => replay.addLine('more nonsense', 6)).toThrow('more than 3 lines could not be replayed');
  });

  it('says what exceeds a sliding window, and what exceeds a bucket', () => {
    const at = [0, 1_000, 29_000, 31_000, 45_000, 61_000];
    const lines = at.map((atMs) => ({ atMs, descriptors: [by('client', 'a')] }));
    const rejectedBy = (words: string) => {
      const report = replayed(twoAMinute.replace('{ ', `{ ${words}, `), lines);
      const [{ limit, overLimit }] = report.rules.rules as [(typeof report.rules.rules)[0]];
      return [limit, overLimit, report.rules.limited.first?.slice(14, 19)];
    };
    const limit = { requestsPerUnit: 2, unit: 'MINUTE', unitMultiplier: 1, window: '1m' };
    expect(rejectedBy('algorithm: fixed_window')).toEqual([
      { ...limit, algorithm: 'fixed_window' },
      2,
      '59:59',
    ]);
    expect(rejectedBy('algorithm: sliding_window')).toEqual([
      { ...limit, algorithm: 'sliding_window' },
      3,
      '59:59',
    ]);
    expect(rejectedBy('algorithm: token_bucket, burst: 1')).toEqual([
      { ...limit, algorithm: 'token_bucket', burst: 1 },
      3,
      '59:31',
    ]);
  });

  it('tallies several limits by their rule, with what exceeded each of them', () => {
    const yaml = `
domain: d
descriptors:
  - key: client
    rate_limits:
      - { requests_per_unit: 2, unit: second }
      - { requests_per_unit: 3, unit: minute, name: all }
`;
    const at = [0, 1, 2, 1_000, 1_001, 2_000];
    const lines = at.map((atMs) => ({ atMs, descriptors: [by('client', 'a')] }));
    const { rules } = replayed(yaml, lines);
    expect(rules.rules).toMatchObject([
      {
        rule: 'd.client',
        limit: null,
        decisions: 6,
        hits: 6,
        limited: { requests: 3 },
        limits: [
          { label: '1s', limit: { window: '1s' }, overLimit: 1, limited: { requests: 1 } },
          { label: 'all', limit: { requestsPerUnit: 3 }, overLimit: 2, limited: { requests: 2 } },
        ],
      },
    ]);
    expect(rules.offenders.top).toMatchObject([{ counter: '1{d;client=a}', requests: 3 }]);
  });

  it('leaves out rules that decided nothing, being replaced by limits of requests', () => {
    const limit = { requestsPerUnit: 1, unit: 'HOUR' };
    const report = replayed(twoAMinute, [{ descriptors: [{ entries: by('client', 'x'), limit }] }]);
    expect(report.rules.rules.map(({ rule }) => rule)).toEqual(['d (limit of the request)']);
  });

  it('counts fixed windows by another algorithm, except for what a limiter would reject', () => {
    const month = limit({ unit: 'month' });
    const calendar = { unit: 'day', timezone: 'Europe/Zurich', startsOn: 1 } as const;
    const sliding = limit({ algorithm: Algorithm.SLIDING_WINDOW });
    const rules = [
      rule({
        key: 'a',
        limits: [limit({ unit: 'day' }), limit({ unit: 'second', unitMultiplier: 60 }), sliding],
      }),
      rule({ key: 'b', descriptors: [rule({ key: 'c', rateLimit: month })] }),
      rule({ key: 'd', rateLimit: limit({ unit: '', unlimited: true }) }),
      rule({ key: 'e', rateLimit: limit({ unit: 'day', calendar }) }),
    ];
    const algorithmsOf = (list: readonly Rule[]): number[][] =>
      list.flatMap(({ limits, descriptors }) => [
        limits.map(({ algorithm }) => algorithm),
        ...algorithmsOf(descriptors),
      ]);
    const as = (calendarMonths: boolean) =>
      algorithmsOf(rulesCountedAs(rules, Algorithm.SLIDING_WINDOW, { calendarMonths }));
    expect(as(false)).toEqual([[1, 0, 1], [], [1], [0], [0]]);
    expect(as(true)).toEqual([[1, 0, 1], [], [0], [0], [0]]);
  });

  it('says when counters found no room', () => {
    const lines = Array.from({ length: 5 }, (_, i) => ({ descriptors: [by('client', `c${i}`)] }));
    const report = replayed(twoAMinute, lines, { settings: settingsOf({ MEMORY_STORE_MAX_COUNTERS: '2' }) });
    expect(report.rules.countersEvicted).toBe(3);
  });
});

describe('a replay beside a limiter', () => {
  const rules = `
domain: d
descriptors:
  - key: a
    rate_limit: { unit: second, requests_per_unit: 2, name: each }
  - key: a
    value: x*
    share_threshold: true
    rate_limit: { unit: minute, requests_per_unit: 4 }
  - key: a
    value: off
    shadow_mode: true
    rate_limit: { unit: hour, requests_per_unit: 1 }
  - key: a
    value: free
    rate_limit: { unlimited: true }
  - key: b
    rate_limit: { unit: day, requests_per_unit: 3, replaces: [{ name: each }] }
    descriptors:
      - key: c
        rate_limit: { unit: minute, requests_per_unit: 1 }
  - key: c
    rate_limit: { window: 90s, requests_per_unit: 4, algorithm: sliding_window, name: slides }
  - key: e
    rate_limits:
      - { unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 3 }
      - { window: 5m, requests_per_unit: 5, name: each }
      - { unit: hour, requests_per_unit: 9, algorithm: sliding_window }
`;
  const entry = fc.tuple(
    fc.constantFrom('a', 'b', 'c', 'e'),
    fc.constantFrom('x1', 'x2', 'off', 'free', 'y'),
  );
  const descriptor = fc.record({
    entries: fc.array(entry, { minLength: 1, maxLength: 2 }),
    hitsAddend: fc.option(fc.nat(3), { nil: undefined }),
    isNegativeHits: fc.boolean(),
    limit: fc.option(fc.constant({ requestsPerUnit: 2, unit: 'MINUTE' }), { nil: undefined, freq: 6 }),
  });
  const request = fc.record({
    passMs: fc.constantFrom(0, 1, 400, 1_000, 20_000, 3_600_000),
    descriptors: fc.array(descriptor, { minLength: 1, maxLength: 3 }),
    hitsAddend: fc.nat(2),
  });
  let folder: string;
  let limiter: InProcessLimiter;
  const clock = new ManualClock(start);

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-replay-'));
    writeFileSync(join(folder, 'd.yaml'), rules);
    const env = {
      RUNTIME_ROOT: folder,
      RUNTIME_APPDIRECTORY: '.',
      RUNTIME_WATCH_ROOT: 'false',
      DISABLE_STATS: 'true',
    };
    limiter = await InProcessLimiter.start({ clock, env });
  });

  afterAll(async () => {
    await limiter?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const ask = async (fields: object): Promise<unknown[]> => {
    const body = JSON.stringify(fields);
    const response = await fetch(`http://127.0.0.1:${limiter.ports.http}/json`, { method: 'POST', body });
    const { overallCode, statuses } = (await response.json()) as {
      overallCode: string;
      statuses: { code: string; limitRemaining?: number; durationUntilReset?: string }[];
    };
    return [
      overallCode,
      ...statuses.map(({ code, limitRemaining = 0, durationUntilReset }) => [
        code,
        limitRemaining,
        durationUntilReset,
      ]),
    ];
  };

  const answerOf = (decision: ReplayDecision): unknown[] => {
    if ('error' in decision) throw decision.error;
    const { overallCode, statuses } = decision.response;
    const name = (code: number) => (code === Code.OVER_LIMIT ? 'OVER_LIMIT' : 'OK');
    const reset = (seconds: number | undefined) => (seconds === undefined ? undefined : `${seconds}s`);
    return [
      name(overallCode),
      ...statuses.map(({ code, limitRemaining, durationUntilResetSeconds }) => [
        name(code),
        limitRemaining,
        reset(durationUntilResetSeconds),
      ]),
    ];
  };

  it('answers what the limiter answers to the same requests at the same times', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(request, { minLength: 1, maxLength: 25 }), async (requests) => {
        // A day without requests, after which every counter here has ended.
        clock.ms = (Math.floor(clock.ms / 86_400_000) + 2) * 86_400_000 - 30_000;
        const answers: unknown[] = [];
        const decisions: unknown[] = [];
        const replay = new Replay({
          rules: sourcesOf(rules),
          settings: settingsOf(),
          sortWindow: 100,
          maxBadLines: 0,
          onDecision: (_line, decision) => decisions.push(answerOf(decision)),
        });
        for (const [index, { passMs, descriptors, hitsAddend }] of requests.entries()) {
          clock.ms += passMs;
          const long = descriptors.map(({ entries, ...rest }) => ({
            ...rest,
            entries: entries.map(([key, value]) => ({ key, value })),
          }));
          answers.push(await ask({ domain: 'd', descriptors: long, hitsAddend }));
          replay.addLine(
            JSON.stringify({ time: clock.ms, domain: 'd', descriptors: long, hitsAddend }),
            index + 1,
          );
        }
        replay.finish();
        expect(decisions).toEqual(answers);
      }),
      { numRuns: caseCount(20) },
    );
  });
});
