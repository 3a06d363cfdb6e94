import { beforeEach, describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import { type Limit, Unit } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { limitedPlan, type MatchedTraits } from '../../test/support/matched-rule.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from '../../test/support/plain-service.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { policyName } from '../decide/extra-headers.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import type { OnceClaims } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import { LimitWarnings } from './limit-warnings.ts';
import { RateLimitService } from './rate-limit-service.ts';

const nowMs = 1_700_000_000_000;
const endSeconds = nowMs / 1000 + 60;

/** What several limiters have in common: the first who claims a name has it. */
class SharedClaims implements OnceClaims {
  readonly #names = new Set<string>();
  readonly claimed: [name: string, seconds: number][] = [];
  down = false;
  claim = async (name: string, seconds: number): Promise<boolean> => {
    if (this.down) throw new StoreError('away', { transient: true });
    const isFirst = !this.#names.has(name);
    this.#names.add(name);
    this.claimed.push([name, seconds]);
    return isFirst;
  };
}

const planOf = (traits: MatchedTraits = {}): LimitPlan =>
  limitedPlan({ requestsPerUnit: 100, warnAt: [50, 80, 95], ...traits }).limits[0]!;

describe('LimitWarnings', () => {
  let clock: ManualClock;
  let claims: SharedClaims;
  let reported: string[];
  beforeEach(() => {
    clock = new ManualClock(nowMs);
    claims = new SharedClaims();
    reported = [];
  });

  function limiter(name: string, shared: OnceClaims | undefined = claims): LimitWarnings {
    return new LimitWarnings({
      claims: shared,
      clock,
      onReached: (_, mark, used) => reported.push(`${name} ${mark} ${used}`),
    });
  }
  const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

  it('says the highest mark that is reached', () => {
    const warnings = limiter('a');
    const marks = [0, 49, 50, 79, 80, 94, 95, 100, 300].map((used) =>
      warnings.note(planOf(), 'k', endSeconds, used),
    );
    expect(marks).toEqual([undefined, undefined, 50, 50, 80, 80, 95, 95, 95]);
  });

  it('reports each mark once, by one of several limiters', async () => {
    const [a, b] = [limiter('a'), limiter('b')];
    for (const used of [50, 51, 82]) a.note(planOf(), 'k', endSeconds, used);
    for (const used of [83, 96, 97]) b.note(planOf(), 'k', endSeconds, used);
    a.note(planOf(), 'k', endSeconds, 99);
    await settled();
    expect(reported).toEqual(['a 50 50', 'a 80 82', 'b 95 96']);
  });

  it('asks the store once a mark, whatever comes after', async () => {
    const warnings = limiter('a');
    for (let used = 50; used < 90; used++) warnings.note(planOf(), 'k', endSeconds, used);
    await settled();
    expect(claims.claimed).toEqual([
      ['k~warned:50%', 120],
      ['k~warned:80%', 120],
    ]);
  });

  it('reports again in the next window', async () => {
    const warnings = limiter('a');
    warnings.note(planOf(), 'k:1', endSeconds, 60);
    clock.ms += 60_000;
    warnings.note(planOf(), 'k:2', endSeconds + 60, 70);
    await settled();
    expect(reported).toEqual(['a 50 60', 'a 50 70']);
  });

  it('reports what has no window once in its length', async () => {
    const plan = planOf({ algorithm: Algorithm.TOKEN_BUCKET, unit: Unit.MINUTE });
    const warnings = limiter('a');
    warnings.note(plan, 'k', 0, 60);
    clock.ms += 59_999;
    warnings.note(plan, 'k', 0, 60);
    await settled();
    expect(claims.claimed).toEqual([['k~warned:50%', 60]]);
    clock.ms += 1;
    warnings.note(plan, 'k', 0, 60);
    await settled();
    expect(claims.claimed).toHaveLength(2);
  });

  it('reports again once the window has ended, whenever the first hit was', async () => {
    const warnings = limiter('a');
    for (const ms of [30_000, 29_999, 1]) {
      clock.ms += ms;
      warnings.note(planOf(), 'k', endSeconds, 60);
    }
    await settled();
    expect(claims.claimed).toHaveLength(2);
  });

  it('reports by itself while the store is away, and if nothing is shared', async () => {
    claims.down = true;
    for (const warnings of [limiter('a'), limiter('b'), limiter('c', undefined)]) {
      warnings.note(planOf(), 'k', endSeconds, 60);
      warnings.note(planOf(), 'k', endSeconds, 61);
    }
    await settled();
    expect(reported.toSorted()).toEqual(['a 50 60', 'b 50 60', 'c 50 60']);
  });

  it('has 128 claims under way at most, and makes up for the others', async () => {
    const open: ((isFirst: boolean) => void)[] = [];
    const warnings = limiter('a', { claim: () => new Promise((resolve) => open.push(resolve)) });
    const noteAll = () => {
      for (let index = 0; index < 200; index++) warnings.note(planOf(), `k${index}`, endSeconds, 60);
    };
    noteAll();
    expect(open).toHaveLength(128);
    for (const answer of open.splice(0)) answer(true);
    await settled();
    noteAll();
    for (const answer of open.splice(0)) answer(true);
    await settled();
    expect(new Set(reported).size).toBe(1);
    expect(reported).toHaveLength(200);
  });

  it('forgets the oldest of 10,000 counters, whose marks the store still knows', async () => {
    const warnings = limiter('a');
    for (let index = 0; index <= 10_000; index++) {
      warnings.note(planOf(), `k${index}`, endSeconds, 60);
      if (index % 100 === 0) await settled();
    }
    await settled();
    expect(reported).toHaveLength(10_001);
    warnings.note(planOf(), 'k0', endSeconds, 60);
    warnings.note(planOf(), 'k10000', endSeconds, 60);
    await settled();
    expect(claims.claimed).toHaveLength(10_002);
    expect(reported).toHaveLength(10_001);
  });
});

describe('RateLimitService, of rules with warn_at', () => {
  let clock: ManualClock;
  let fails: boolean;
  let service: RateLimitService;
  let reached: string[];
  beforeEach(() => {
    clock = new ManualClock(nowMs);
    fails = false;
    reached = [];
    const store = openMemoryStore({ clock });
    service = new RateLimitService({
      store: {
        submit: (ops, options, done) =>
          store.submit(ops, options, () => {
            // The answer came too late, so that it is written nevertheless.
            if (fails) for (const op of ops) op.error = new StoreError('away', { transient: true });
            done();
          }),
        ping: () => store.ping(),
        close: () => store.close(),
      },
      localCache: new BoundedLocalCache({ maxBytes: 100_000 }),
      stats: new StatsRegistry(),
      clock,
      random: () => 0,
      counting: { ...plainCounting, storeFailureMode: 'allow' },
      response: bareResponse,
      warnings: new LimitWarnings({
        claims: undefined,
        clock,
        onReached: (plan, mark) => reached.push(`${policyName(plan)} ${mark}`),
      }),
      events: ignoredEvents,
    });
  });

  const useLimits = (...limits: Limit[]): void =>
    service.useRules(new RuleTable(compileRules([source('d', [rule({ key: 'k', limits })])])));

  /** `80 daily 20`: mark, limit, and what is left; of each warning. */
  function ask(hits = 1, isNegativeHits = false): string[] | undefined {
    let warnings: string[] | undefined;
    const entries = [{ key: 'k', value: 'v' }];
    service.decide(
      {
        domain: 'd',
        descriptors: [{ entries, limit: undefined, hitsAddend: hits, isNegativeHits }],
        hitsAddend: 0,
      },
      { abandoned: false },
      {
        answer: ({ statuses }) => {
          warnings = statuses[0]!.warnings?.map(
            ({ mark, plan, left }) => `${mark} ${policyName(plan)} ${left}`,
          );
        },
        reject: (error) => {
          throw error;
        },
      },
    );
    return warnings;
  }

  const daily = { ...limit({ requestsPerUnit: 100, unit: 'day' }), name: 'daily', warnAt: [50, 80] };

  it('warns from the mark on, also over limit, and no more after a refund', () => {
    useLimits(daily);
    expect([ask(49), ask(1), ask(30), ask(20), ask(1), ask(1)]).toEqual([
      undefined,
      ['50 daily 50'],
      ['80 daily 20'],
      ['80 daily 0'],
      ['80 daily 0'],
      ['80 daily 0'],
    ]);
    expect(ask(80, true)).toBeUndefined();
    expect(reached).toEqual(['daily 50', 'daily 80']);
  });

  it('warns of each limit of a rule, whichever decides', () => {
    useLimits(
      daily,
      limit({ requestsPerUnit: 60, warnAt: [100] }),
      limit({ requestsPerUnit: 10_000, unit: 'year' }),
    );
    expect(ask(50)).toEqual(['50 daily 50']);
    expect(ask(10)).toEqual(['50 daily 40', '100 1m 0']);
    // Not by what another limit rejected.
    expect(ask(50)).toEqual(['50 daily 40', '100 1m 0']);
    clock.ms += 60_000;
    expect(ask(30)).toEqual(['80 daily 10']);
  });

  it.each([1, 2])('warns of nothing that could not be counted, of %i limits', (count) => {
    useLimits(...[daily, limit({ requestsPerUnit: 60, warnAt: [100] })].slice(0, count));
    expect(ask(50)).toEqual(['50 daily 50']);
    fails = true;
    expect(ask(5)).toBeUndefined();
  });

  it('counts percents of the burst of a token bucket', () => {
    const bucket = {
      ...limit({ requestsPerUnit: 1, unit: 'second', burst: 10, warnAt: [90] }),
      algorithm: Algorithm.TOKEN_BUCKET,
    };
    useLimits(bucket);
    expect([ask(8), ask(1)]).toEqual([undefined, ['90 1s 1']]);
  });

  it('warns by the limit of an override, and not while one blocks', () => {
    useLimits(daily);
    const of = (effect: OverrideEffect): Override => ({
      ...{ id: 'o', source: 'api', name: 'o', domain: 'd', match: [{ key: 'k', value: 'v' }], limit: '' },
      ...{ effect, createdMs: nowMs, endsMs: undefined, reason: 'r', by: '' },
    });
    service.useOverrides([of({ kind: 'limit', requestsPerUnit: 10, unit: undefined })]);
    expect(ask(5)).toEqual(['50 daily 5']);
    service.useOverrides([of({ kind: 'block' })]);
    expect(ask(5)).toBeUndefined();
  });
});
