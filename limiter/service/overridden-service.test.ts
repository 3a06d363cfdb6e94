import { beforeEach, describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { calendarWindow } from '../../rules/calendar.ts';
import type { Entry, Limit } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from '../../test/support/plain-service.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor, type RequestedLimit } from '../decide/messages.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import { RateLimitService } from './rate-limit-service.ts';

/** Half a minute before a minute and a day end. */
const start = Date.UTC(2026, 2, 31, 23, 59, 30);
const second = 1_000;

let clock: ManualClock;
let registry: StatsRegistry;
let service: RateLimitService;
let asked: string[];
let leasesEnded: number;
let hits: [string, number][];
let answer: RateLimitResponse | undefined;

beforeEach(() => {
  clock = new ManualClock(start);
  registry = new StatsRegistry();
  asked = [];
  hits = [];
  leasesEnded = 0;
  const store = openMemoryStore({ clock });
  service = new RateLimitService({
    store: {
      submit: (ops, options, done) => {
        asked.push(...ops.map(({ key }) => key));
        store.submit(ops, options, done);
      },
      ping: () => store.ping(),
      close: () => store.close(),
    },
    localCache: new BoundedLocalCache({ maxBytes: 100_000 }),
    stats: registry,
    clock,
    random: () => 0,
    counting: plainCounting,
    response: { ...bareResponse, retryAfter: true },
    events: {
      ...ignoredEvents,
      onOverridden: (effect, count) => hits.push([effect, count]),
      onPlansEnded: () => {
        leasesEnded += 1;
      },
    },
  });
});

function useRule(...limits: Limit[]): void {
  service.useRules(new RuleTable(compileRules([source('d', [rule({ key: 'k', limits })])])));
}

let made = 0;
function override(effect: OverrideEffect, traits: Partial<Override> & { value?: string } = {}): Override {
  const { value = 'v', ...rest } = traits;
  made += 1;
  const id = `o${made}`;
  return {
    ...{ id, source: 'api', name: id, domain: 'd', match: [{ key: 'k', value }], limit: '', effect },
    ...{ createdMs: start, endsMs: undefined, reason: 'r', by: '', ...rest },
  };
}

const requests = (requestsPerUnit: number, unit?: 2): OverrideEffect => ({
  kind: 'limit',
  requestsPerUnit,
  unit,
});

interface Asking {
  key?: string;
  value?: string;
  hits?: number;
  requested?: RequestedLimit;
  negative?: boolean;
}

function ask({ key = 'k', value = 'v', hits: hitsAddend = 1, requested, negative = false }: Asking = {}) {
  const entries: Entry[] = [{ key, value }];
  const descriptor: Descriptor = { entries, limit: requested, hitsAddend, isNegativeHits: negative };
  let summary = '';
  service.decide(
    { domain: 'd', descriptors: [descriptor], hitsAddend: 0 },
    { abandoned: false },
    {
      answer: (response) => {
        answer = response;
        const [status] = response.statuses;
        const { code, currentLimit, limitRemaining } = status!;
        summary = `${code === Code.OK ? 'ok' : 'over'} ${currentLimit?.requestsPerUnit ?? 'none'} ${limitRemaining}`;
      },
      reject: (error) => {
        throw error;
      },
    },
  );
  return summary;
}

function statistic(name: string): number | undefined {
  const line = [...registry.statsLines()].find((one) =>
    one.startsWith(`ratelimit.service.rate_limit.d.k.${name}: `),
  );
  return line === undefined ? undefined : Number(line.split(': ')[1]);
}

describe('an override of the requests of a limit', () => {
  it('ends at its time, to the millisecond', () => {
    useRule(limit({ requestsPerUnit: 2 }));
    const ends = [1, 37, 38].map((ms) =>
      override(requests(100 + ms), { value: `v${ms}`, endsMs: start + ms }),
    );
    service.useOverrides(ends);
    for (const ms of [1, 37, 38]) {
      clock.ms = start + ms - 1;
      expect(ask({ value: `v${ms}` })).toBe(`ok ${100 + ms} ${99 + ms}`);
      clock.ms = start + ms;
      expect(ask({ value: `v${ms}` })).toBe('ok 2 0');
    }
  });

  it('changes the number and keeps the counter, and its end brings the number back', () => {
    useRule(limit({ requestsPerUnit: 2 }));
    expect([ask(), ask(), ask()]).toEqual(['ok 2 1', 'ok 2 0', 'over 2 0']);
    service.useOverrides([override(requests(5), { endsMs: start + 10 * second })]);
    expect(ask()).toBe('ok 5 1');
    clock.ms += 10 * second - 1;
    expect(ask()).toBe('ok 5 0');
    clock.ms += 1;
    expect(ask()).toBe('over 2 0');
    expect(new Set(asked)).toHaveLength(1);
    expect(statistic('total_hits')).toBe(6);
    expect(hits).toEqual([
      ['limit', 1],
      ['limit', 1],
    ]);
  });

  it('is not hindered by what the local cache remembers, neither when it comes nor when it ends', () => {
    useRule(limit({ requestsPerUnit: 1 }));
    ask();
    ask();
    expect(ask()).toBe('over 1 0');
    const before = asked.length;
    service.useOverrides([override(requests(0), { endsMs: start + second })]);
    expect(ask()).toBe('over 0 0');
    expect(asked).toHaveLength(before + 1);
    clock.ms += second;
    service.useOverrides([override(requests(9))]);
    expect(ask()).toBe('ok 9 5');
  });

  it('ends what is leased when it comes and when it ends', () => {
    useRule(limit());
    service.useOverrides([override(requests(5), { endsMs: start + second })]);
    expect(leasesEnded).toBe(2);
    ask();
    expect(leasesEnded).toBe(2);
    clock.ms += second;
    ask();
    ask();
    expect(leasesEnded).toBe(3);
  });

  it('merges no counters by a wildcard, and gives way to an exact one and a longer pattern', () => {
    useRule(limit({ requestsPerUnit: 1 }));
    service.useOverrides([
      override(requests(20), { value: '*' }),
      override(requests(30), { value: 'v*' }),
      override(requests(40), { value: 'vw' }),
    ]);
    expect(['a', 'v', 'vx', 'vw', 'vw'].map((value) => ask({ value }))).toEqual([
      'ok 20 19',
      'ok 30 29',
      'ok 30 29',
      'ok 40 39',
      'ok 40 38',
    ]);
  });

  it('is for the named one of several limits, or for none', () => {
    useRule(limit({ requestsPerUnit: 2, name: 'fast' }), limit({ unit: 'day', requestsPerUnit: 100 }));
    service.useOverrides([override(requests(3), { limit: 'fast' })]);
    expect([ask(), ask(), ask(), ask()]).toEqual(['ok 3 2', 'ok 3 1', 'ok 3 0', 'over 3 0']);
    service.useOverrides([override(requests(3)), override(requests(3), { limit: 'slow' })]);
    expect(ask()).toBe('over 2 0');
  });

  it('brings a limit if no rule matches and it has a unit', () => {
    useRule(limit());
    const match = [{ key: 'other', value: 'v*' }];
    service.useOverrides([override(requests(1, 2), { match })]);
    expect([ask({ key: 'other' }), ask({ key: 'other', value: 'vx' }), ask({ key: 'other' })]).toEqual([
      'ok 1 0',
      'ok 1 0',
      'over 1 0',
    ]);
    service.useOverrides([override(requests(1), { match })]);
    expect(ask({ key: 'other' })).toBe('ok none 0');
  });

  it('wins over the limit of a request', () => {
    useRule(limit({ requestsPerUnit: 2 }));
    const requested = { requestsPerUnit: 7, unit: 2 };
    expect(ask({ requested })).toBe('ok 7 6');
    service.useOverrides([override(requests(3))]);
    expect(ask({ requested })).toBe('ok 3 1');
    service.useOverrides([override({ kind: 'unlimited' })]);
    expect(ask({ requested })).toMatch(/^ok none 4294967295$/);
    const match = [{ key: 'other', value: 'v' }];
    service.useOverrides([override(requests(5), { match })]);
    expect(ask({ key: 'other', requested })).toBe('ok 5 4');
  });

  it('grows the burst of a bucket with its rate', () => {
    useRule(limit({ requestsPerUnit: 60, algorithm: Algorithm.TOKEN_BUCKET, burst: 2 }));
    expect([ask({ hits: 2 }), ask()]).toEqual(['ok 60 0', 'over 60 0']);
    service.useOverrides([override(requests(600))]);
    clock.ms += second;
    expect(ask({ value: 'new', hits: 3 })).toBe('over 60 2');
    expect(ask({ hits: 10 })).toBe('ok 600 0');
  });

  it('leaves a bucket room at any rate', () => {
    useRule(limit({ requestsPerUnit: 1_000, unit: 'hour', algorithm: Algorithm.TOKEN_BUCKET, burst: 1_000 }));
    for (const rate of [2 ** 32, 2 ** 52 - 1, 2 ** 52, Number.MAX_SAFE_INTEGER]) {
      service.useOverrides([override(requests(rate), { value: `${rate}` })]);
      expect(ask({ value: `${rate}`, hits: 1_400 })).toMatch(/^ok /);
    }
  });

  it('changes the number of a sliding window', () => {
    useRule(limit({ requestsPerUnit: 2, algorithm: Algorithm.SLIDING_WINDOW }));
    expect([ask({ hits: 2 }), ask()]).toEqual(['ok 2 0', 'over 2 0']);
    service.useOverrides([override(requests(5))]);
    expect([ask({ hits: 3 }), ask()]).toEqual(['ok 5 0', 'over 5 0']);
  });
});

describe('other overrides', () => {
  it('block without counting, in shadow mode as well and if no rule matches, and let hits be returned', () => {
    service.useRules(
      new RuleTable(compileRules([source('d', [rule({ key: 'k', rateLimit: limit(), shadowMode: true })])])),
    );
    ask({ hits: 4 });
    const block = { kind: 'block' } as const;
    service.useOverrides([override(block), override(block, { match: [{ key: 'other', value: '*' }] })]);
    expect([ask(), ask({ key: 'other' })]).toEqual(['over 10 0', 'over 0 0']);
    expect(asked).toHaveLength(1);
    expect(statistic('over_limit')).toBe(1);
    expect(statistic('over_limit_with_local_cache')).toBe(0);
    ask({ hits: 3, negative: true });
    service.useOverrides([]);
    expect(ask()).toBe('ok 10 8');
  });

  it.each<[string, number | undefined, string | undefined, number | undefined]>([
    ['a block that ends before the window', 12_001, '13', 13],
    ['a block that ends after it', 7_200_000, '7200', 7200],
    ['a block without an end, for which waiting does not help', undefined, undefined, 30],
  ])('name the end of %s', (_, lengthMs, retryAfter, resetSeconds) => {
    useRule(limit());
    const endsMs = lengthMs === undefined ? undefined : start + lengthMs;
    service.useOverrides([override({ kind: 'block' }, { endsMs })]);
    expect(ask()).toBe('over 10 0');
    expect(answer!.statuses[0]!.durationUntilResetSeconds).toBe(resetSeconds);
    expect(answer!.responseHeadersToAdd.find(({ key }) => key === 'Retry-After')?.value).toBe(retryAfter);
    // Hits that are given back have the end of the window.
    ask({ negative: true });
    expect(answer!.statuses[0]!.durationUntilResetSeconds).toBe(30);
  });

  it('let all pass, and the statistics of the rule continue', () => {
    useRule(limit({ requestsPerUnit: 1 }));
    service.useOverrides([override({ kind: 'unlimited' })]);
    expect([ask(), ask({ hits: 7 })]).toEqual(['ok none 4294967295', 'ok none 4294967295']);
    expect(asked).toEqual([]);
    expect([statistic('total_hits'), statistic('within_limit')]).toEqual([8, 8]);
    expect(hits).toEqual([
      ['unlimited', 1],
      ['unlimited', 7],
    ]);
  });

  it('lift one of several limits, and the other is counted as before', () => {
    useRule(limit({ requestsPerUnit: 2, name: 'fast' }), limit({ unit: 'day', requestsPerUnit: 4 }));
    ask();
    const before = [...asked];
    service.useOverrides([override({ kind: 'unlimited' }, { limit: 'fast' })]);
    asked.length = 0;
    expect([ask(), ask(), ask(), ask()]).toEqual(['ok 4 2', 'ok 4 1', 'ok 4 0', 'over 4 0']);
    expect(asked[0]).toBe(before[1]);
  });

  it('put a limit in shadow mode, that of a request as well', () => {
    useRule(limit({ requestsPerUnit: 0 }));
    service.useOverrides([
      override({ kind: 'shadow' }),
      override({ kind: 'shadow' }, { match: [{ key: 'other', value: 'v' }] }),
    ]);
    expect(ask()).toBe('ok 0 0');
    expect(statistic('shadow_mode')).toBe(1);
    expect(ask({ key: 'other' })).toBe('ok none 0');
    expect(ask({ key: 'other', requested: { requestsPerUnit: 0, unit: 2 } })).toBe('ok 0 0');
  });
});

describe('a grant', () => {
  const grant = (count: number, traits: Partial<Override> = {}) =>
    override({ kind: 'grant', hits: count }, traits);

  it('adds to the limit until the window ends in which it was created, with other grants and over other overrides', () => {
    useRule(limit({ requestsPerUnit: 2 }));
    service.useOverrides([grant(3)]);
    expect(ask()).toBe('ok 5 4');
    service.useOverrides([grant(3), grant(4), override(requests(10), { value: '*' })]);
    expect(ask()).toBe('ok 17 15');
    clock.ms += 30 * second - 1;
    expect(ask()).toBe('ok 17 14');
    clock.ms += 1;
    expect(ask()).toBe('ok 10 9');
  });

  it('ends with the window of a calendar', () => {
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
    useRule(limit({ unit: 'month', calendar, requestsPerUnit: 2 ** 40 }));
    service.useOverrides([grant(2 ** 41, { createdMs: clock.nowMs() })]);
    expect(ask()).toBe(`ok ${3 * 2 ** 40} ${3 * 2 ** 40 - 1}`);
    clock.ms = calendarWindow(calendar, clock.nowMs() / 1000).endSeconds * second - 1;
    expect(ask()).toBe(`ok ${3 * 2 ** 40} ${3 * 2 ** 40 - 2}`);
    clock.ms += 1;
    expect(ask()).toBe(`ok ${2 ** 40} ${2 ** 40 - 1}`);
  });

  it('lasts the length of a window if windows slide, and in a bucket', () => {
    for (const algorithm of [Algorithm.SLIDING_WINDOW, Algorithm.TOKEN_BUCKET]) {
      useRule(limit({ requestsPerUnit: 2, algorithm }));
      service.useOverrides([grant(3, { createdMs: clock.nowMs() })]);
      expect(ask({ hits: 5 })).toMatch(/^ok \d 0$/);
      clock.ms += 60 * second - 1;
      expect(ask({ hits: 0 })).toMatch(algorithm === Algorithm.SLIDING_WINDOW ? /^ok 5/ : /^ok 2 [1-4]/);
      clock.ms += 1;
      expect(ask({ hits: 6 })).toMatch(/^over 2/);
      clock.ms += 600 * second;
    }
  });

  it('ends before its window if it says so', () => {
    useRule(limit({ requestsPerUnit: 2 }));
    service.useOverrides([grant(3, { endsMs: start + second })]);
    expect(ask()).toBe('ok 5 4');
    clock.ms += second;
    expect(ask()).toBe('ok 2 0');
  });
});
