import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rule } from '../../rules/model.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { openMemoryStore } from '../../test/support/open-memory-store.ts';
import { bareResponse, ignoredEvents, plainCounting } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Code } from '../decide/messages.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BoundedLocalCache } from '../stores/local-cache.ts';
import { RateLimitService } from './rate-limit-service.ts';

/** Half a minute before an hour ends. */
const start = Date.UTC(2026, 2, 31, 22, 59, 30);

interface Setting {
  /** Requests per minute and per hour of the rules. */
  minute: number;
  hour: number;
  shadow: boolean;
  shadowMode: boolean;
  quotaMode: boolean;
  localCache: boolean;
  stops: boolean;
}

interface Asked {
  key: 'one' | 'two' | 'shadow' | 'quota' | 'quotas' | 'free' | 'unknown';
  addend: number | undefined;
  negative: boolean;
}

interface Step {
  descriptors: Asked[];
  addend: number;
  seconds: number;
}

interface ModelLimit {
  readonly name: string;
  readonly max: number;
  readonly length: number;
}

interface ModelRule {
  readonly limits: readonly ModelLimit[];
  readonly shadow: boolean;
  readonly quota: boolean;
}

function rulesOf({ minute, hour, shadow }: Setting): Rule[] {
  const both = () => [
    limit({ requestsPerUnit: minute, name: 'm' }),
    limit({ requestsPerUnit: hour, unit: 'hour', name: 'h' }),
  ];
  return [
    rule({ key: 'one', rateLimit: limit({ requestsPerUnit: minute }) }),
    rule({ key: 'two', limits: both(), shadowMode: shadow }),
    rule({ key: 'shadow', rateLimit: limit({ requestsPerUnit: minute }), shadowMode: true }),
    rule({ key: 'quota', rateLimit: limit({ requestsPerUnit: minute }), quotaMode: true }),
    rule({ key: 'quotas', limits: both(), quotaMode: true }),
    rule({ key: 'free', rateLimit: limit({ unlimited: true, unit: '', requestsPerUnit: 0 }) }),
  ];
}

function modelRules({ minute, hour, shadow }: Setting): Record<string, ModelRule> {
  const perMinute = { name: '', max: minute, length: 60 };
  const both = [
    { ...perMinute, name: '.m' },
    { name: '.h', max: hour, length: 3600 },
  ];
  return {
    one: { limits: [perMinute], shadow: false, quota: false },
    two: { limits: both, shadow, quota: false },
    shadow: { limits: [perMinute], shadow: true, quota: false },
    quota: { limits: [perMinute], shadow: false, quota: true },
    quotas: { limits: both, shadow: false, quota: true },
  };
}

interface Status {
  over: boolean;
  /** Undefined where there is no limit. */
  left: number | undefined;
  seconds: number | undefined;
}

interface Counter {
  total: number;
  /** The local cache knows it to be over its limit. */
  isKnownFull: boolean;
}

type Stop = 'none' | 'totals' | 'cache';

interface AskedOfModel {
  readonly key: string;
  readonly found: ModelRule | undefined;
  readonly hits: number;
  readonly negative: boolean;
  readonly counters: readonly (ModelLimit & { readonly counter: Counter })[];
  /** By one of its counters at least. */
  readonly isKnownFull: boolean;
  /** By the totals before the request. */
  readonly wouldExceed: boolean;
  /** Neither in shadow mode nor negative. */
  readonly canBeOverLimit: boolean;
}

/**
 * What is documented, counted in plain numbers. A counter of one limit counts what is rejected as well. Several limits of a rule count
 * nothing unless all of them have room.
 */
class DecisionModel {
  readonly #set: Setting;
  readonly #rules: Record<string, ModelRule>;
  readonly #counters = new Map<string, Counter>();
  readonly stats = new Map<string, number>();

  constructor(set: Setting) {
    this.#set = set;
    this.#rules = modelRules(set);
  }

  decide(
    descriptors: readonly Asked[],
    addend: number,
    nowSeconds: number,
  ): { over: boolean; statuses: Status[] } {
    const asked = descriptors.map((one) => this.#asked(one, addend, nowSeconds));
    const stop = this.#set.stops && descriptors.length > 1 ? this.#stopBy(asked) : 'none';
    const statuses = asked.map((one) => this.#status(one, stop, nowSeconds));
    const { shadowMode } = this.#set;
    return {
      over:
        !shadowMode &&
        isRefused(
          asked,
          statuses.map(({ over }) => over),
          this.#set.quotaMode,
        ),
      statuses,
    };
  }

  #asked({ key, addend, negative }: Asked, requested: number, nowSeconds: number): AskedOfModel {
    const found = this.#rules[key];
    const hits = addend ?? Math.max(1, requested);
    const counters = (found?.limits ?? []).map((one) => {
      const name = `${key}${one.name} ${Math.floor(nowSeconds / one.length)}`;
      const counter = this.#counters.get(name) ?? { total: 0, isKnownFull: false };
      this.#counters.set(name, counter);
      return { ...one, counter };
    });
    // Several limits let hits of 0 look whatever is known.
    const asksCache = this.#set.localCache && !negative && (hits > 0 || counters.length === 1);
    const isKnownFull = asksCache && counters.some(({ counter }) => counter.isKnownFull);
    const wouldExceed =
      !negative && (isKnownFull || counters.some(({ max, counter }) => counter.total + hits > max));
    const canBeOverLimit = found !== undefined && !negative && !found.shadow;
    return { key, found, hits, negative, counters, isKnownFull, wouldExceed, canBeOverLimit };
  }

  /** What holds hits back: the totals before the request, or what the local cache knows, which only looks at all others. */
  #stopBy(asked: readonly AskedOfModel[]): Stop {
    const { quotaMode } = this.#set;
    const rejectedBy = (isOver: (one: AskedOfModel) => boolean): boolean => {
      const over = asked.map((one) => one.canBeOverLimit && isOver(one));
      return isRefused(asked, over, quotaMode);
    };
    if (rejectedBy(({ isKnownFull }) => isKnownFull)) return 'cache';
    return rejectedBy(({ wouldExceed }) => wouldExceed) ? 'totals' : 'none';
  }

  #status(one: AskedOfModel, stop: Stop, nowSeconds: number): Status {
    const { key, found, hits, negative, counters, isKnownFull } = one;
    if (found === undefined) return { over: false, left: undefined, seconds: undefined };
    for (const { name } of counters)
      this.#add(`${key}${name}.${negative ? 'total_negative_hits' : 'total_hits'}`, hits);
    // Judged where it is counted: another descriptor of the request may have the same counter.
    const exceeds = counters.some(({ max, counter }) => counter.total + hits > max);
    const isHeldBack = !negative && (stop === 'cache' || (stop === 'totals' && !one.wouldExceed));
    const each = counters.map(({ max, length, counter }) => {
      const isFull = isKnownFull && counter.isKnownFull;
      const { total } = counter;
      let over = false;
      if (negative) counter.total = Math.max(0, total - hits);
      else if (isKnownFull) over = isFull;
      else if (isHeldBack) over = total + (counters.length === 1 ? 0 : hits) > max;
      else {
        if (counters.length === 1 || !exceeds) counter.total += hits;
        over = total + hits > max;
      }
      if (negative) counter.isKnownFull = false;
      else if (over && (counters.length === 1 || total >= max)) counter.isKnownFull = true;
      const seconds = length - (nowSeconds % length);
      return {
        over,
        isSkipped: isKnownFull && !isFull,
        left: isFull ? 0 : Math.max(0, max - counter.total),
        seconds,
      };
    });
    const known = each.filter(({ isSkipped }) => !isSkipped);
    const refusing = known.filter(({ over }) => over).sort((a, b) => b.seconds - a.seconds);
    const [tightest] = known.toSorted((a, b) => a.left - b.left);
    const { over, left, seconds } = refusing[0] ?? tightest!;
    return { over: over && !found.shadow, left, seconds };
  }

  #add(name: string, hits: number): void {
    this.stats.set(name, (this.stats.get(name) ?? 0) + hits);
  }
}

function isQuota({ quota }: ModelRule, quotaMode: boolean): boolean {
  return quota || quotaMode;
}

function isRefused(
  asked: readonly { found: ModelRule | undefined; key: string }[],
  over: readonly boolean[],
  quotaMode: boolean,
): boolean {
  const ofQuotas = asked.map(({ found, key }) =>
    found === undefined ? quotaMode && key !== 'free' : isQuota(found, quotaMode),
  );
  if (over.some((isOver, i) => isOver && !ofQuotas[i])) return true;
  const quotas = over.filter((_, i) => ofQuotas[i]);
  return quotas.length > 0 && quotas.every((isOver) => isOver);
}

function limiter(set: Setting) {
  const clock = new ManualClock(start);
  const registry = new StatsRegistry({ countsLeases: false });
  const service = new RateLimitService({
    store: openMemoryStore({ clock }),
    localCache: set.localCache ? new BoundedLocalCache({ maxBytes: 100_000 }) : undefined,
    stats: registry,
    clock,
    random: () => 0,
    counting: { ...plainCounting, stopCacheKeyIncrementWhenOverLimit: set.stops },
    response: { ...bareResponse, shadowMode: set.shadowMode, quotaMode: set.quotaMode },
    events: ignoredEvents,
  });
  service.useRules(new RuleTable(compileRules([source('d', rulesOf(set))])));
  const ask = (descriptors: readonly Asked[], hitsAddend: number): RateLimitResponse => {
    const answers: RateLimitResponse[] = [];
    const request = {
      ...{ domain: 'd', hitsAddend },
      descriptors: descriptors.map(({ key, addend, negative }) => ({
        ...{ entries: [{ key, value: 'v' }], limit: undefined, hitsAddend: addend, isNegativeHits: negative },
      })),
    };
    const refuse = (error: unknown) => {
      throw error;
    };
    service.decide(request, { abandoned: false }, { answer: (one) => answers.push(one), reject: refuse });
    expect(answers).toHaveLength(1);
    return answers[0]!;
  };
  return { clock, ask, registry };
}

const key = fc.constantFrom<Asked['key']>('one', 'two', 'shadow', 'quota', 'quotas', 'free', 'unknown');
const asked: fc.Arbitrary<Asked> = fc.record({
  key,
  addend: fc.constantFrom(undefined, undefined, 0, 1, 2, 5),
  negative: fc.constantFrom(false, false, false, true),
});
const step: fc.Arbitrary<Step> = fc.record({
  descriptors: fc.uniqueArray(asked, { minLength: 1, maxLength: 5, selector: (one) => one.key }),
  addend: fc.constantFrom(0, 1, 3),
  seconds: fc.constantFrom(0, 0, 0, 7, 40),
});
const setting: fc.Arbitrary<Setting> = fc.record({
  minute: fc.integer({ min: 0, max: 6 }),
  hour: fc.integer({ min: 0, max: 12 }),
  shadow: fc.boolean(),
  shadowMode: fc.boolean(),
  quotaMode: fc.boolean(),
  localCache: fc.boolean(),
  stops: fc.boolean(),
});

describe('a decision', () => {
  it('is what the model of counters, quotas, shadow mode, cache and stop-when-over decides', () => {
    fc.assert(
      fc.property(setting, fc.array(step, { minLength: 1, maxLength: 15 }), (set, steps) => {
        const model = new DecisionModel(set);
        const { clock, ask, registry } = limiter(set);
        for (const { descriptors, addend, seconds } of steps) {
          clock.ms += seconds * 1_000;
          const answer = ask(descriptors, addend);
          const expected = model.decide(descriptors, addend, Math.floor(clock.ms / 1000));
          const statuses = answer.statuses.map(
            ({ code, currentLimit, limitRemaining, durationUntilResetSeconds }): Status => ({
              over: code === Code.OVER_LIMIT,
              left: currentLimit === undefined ? undefined : limitRemaining,
              seconds: durationUntilResetSeconds,
            }),
          );
          expect({ over: answer.overallCode === Code.OVER_LIMIT, statuses }).toEqual(expected);
        }
        const lines = new Set(registry.statsLines());
        for (const [name, hits] of model.stats)
          if (hits > 0) expect(lines).toContain(`ratelimit.service.rate_limit.d.${name}: ${hits}`);
      }),
      { numRuns: caseCount(300) },
    );
  });
});
