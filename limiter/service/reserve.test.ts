import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { Entry, ReserveTerms, Rule } from '../../rules/model.ts';
import { type BudgetLimiter, budgetLimiter } from '../../test/support/budget-limiter.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor } from '../decide/messages.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { failAll } from '../stores/operation.ts';
import type { Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';

const terms: ReserveTerms = { ttlSeconds: 20, estimate: 400, onExpiry: 'release' };
const day = { unit: 'day', requestsPerUnit: 1_000 } as const;

function reservable(key: string, traits: Partial<Rule> = {}): Rule {
  return rule({ key, limits: [limit(day)], reserve: terms, ...traits });
}

interface Marks {
  key?: string;
  id?: string;
  settles?: boolean;
  hits?: number | undefined;
}

function marked({ key = 'team', id = 's1', settles = false, hits }: Marks = {}): Descriptor {
  const entries: Entry[] = [
    { key: 'reservation_id', value: id },
    { key, value: 'a' },
  ];
  if (settles) entries.push({ key: 'settle', value: 'true' });
  return { entries, limit: undefined, hitsAddend: hits, isNegativeHits: false };
}

function plain(key: string, hits?: number): Descriptor {
  return { entries: [{ key, value: 'a' }], limit: undefined, hitsAddend: hits, isNegativeHits: false };
}

function decide(
  { service }: BudgetLimiter,
  descriptors: Descriptor[],
  hitsAddend = 0,
): RateLimitResponse | Error {
  const answers: (RateLimitResponse | Error)[] = [];
  service.decide(
    { domain: 'd', descriptors, hitsAddend },
    { abandoned: false },
    { answer: (response) => answers.push(response), reject: (error) => answers.push(error as Error) },
  );
  expect(answers).toHaveLength(1);
  return answers[0]!;
}

/** `OK: OK 600, OVER 0`: the overall code, then code and remaining of each descriptor. */
function answerText(answer: RateLimitResponse | Error): string {
  if (answer instanceof Error) return answer.message;
  const codeText = (code: Code): string => (code === Code.OK ? 'OK' : 'OVER');
  const statuses = answer.statuses.map(
    ({ code, currentLimit, limitRemaining }) =>
      `${codeText(code)} ${currentLimit === undefined ? '-' : limitRemaining}`,
  );
  return `${codeText(answer.overallCode)}: ${statuses.join(', ')}`;
}

const ask = (limiter: BudgetLimiter, descriptors: Descriptor[], hits = 0): string =>
  answerText(decide(limiter, descriptors, hits));

/** What a look at the counter finds left. */
function left(limiter: BudgetLimiter, key = 'team'): string {
  return ask(limiter, [plain(key, 0)]);
}

describe('a request with markers', () => {
  it('reserves the estimate, or the amount of the request, and commits what was used', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')] });
    expect(ask(limiter, [marked()])).toBe('OK: OK 600');
    expect(ask(limiter, [marked({ id: 's2', hits: 500 })])).toBe('OK: OK 100');
    expect(ask(limiter, [marked({ id: 's3' })], 200)).toBe('OVER: OVER 100');
    expect(ask(limiter, [marked({ settles: true, hits: 50 })])).toBe('OK: OK 450');
    expect(ask(limiter, [marked({ id: 's2', settles: true })], 800)).toBe('OK: OK 150');
    expect(limiter.counted('rate_limit.d.team.')).toEqual({
      ...{ total_hits: 1_400, within_limit: 1_200, near_limit: 150, over_limit: 200 },
      ...{ total_negative_hits: 350, passed: 1_200, limited: 200 },
    });
  });

  it('adds reservations of one ID, and commits the oldest of them each time', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')] });
    ask(limiter, [marked({ hits: 100 })]);
    ask(limiter, [marked({ hits: 300 })]);
    expect(left(limiter)).toBe('OK: OK 600');
    expect(ask(limiter, [marked({ settles: true, hits: 10 })])).toBe('OK: OK 690');
    expect(ask(limiter, [marked({ settles: true, hits: 10 })])).toBe('OK: OK 980');
    // None is open: what was used is charged.
    expect(ask(limiter, [marked({ settles: true, hits: 10 })])).toBe('OK: OK 970');
  });

  it('charges the estimate if the commit has no amount', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')] });
    ask(limiter, [marked()]);
    expect(ask(limiter, [marked({ settles: true })])).toBe('OK: OK 600');
    expect(ask(limiter, [marked({ id: 'other', settles: true })])).toBe('OK: OK 600');
    expect(ask(limiter, [marked({ id: 's2' })])).toBe('OK: OK 200');
    expect(ask(limiter, [marked({ id: 's2', settles: true, hits: 0 })])).toBe('OK: OK 600');
  });

  it('reserves 0 until the limit is exceeded, and then charges nothing for it', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')] });
    ask(limiter, [marked({ id: 'all', hits: 1_000 })]);
    expect(ask(limiter, [marked({ id: 'fits', hits: 0 })])).toBe('OK: OK 0');
    expect(ask(limiter, [marked({ id: 'fits', settles: true, hits: 1 })])).toBe('OK: OK 0');
    expect(ask(limiter, [marked({ id: 'over', hits: 0 })])).toBe('OVER: OVER 0');
    ask(limiter, [marked({ id: 'over', settles: true, hits: 70 })]);
    // 1,001 are used, and none of the 70.
    ask(limiter, [marked({ id: 'all', settles: true, hits: 0 })]);
    expect(left(limiter)).toBe('OK: OK 999');
  });

  it('reserves all descriptors or none, each with its own amount', () => {
    const limiter = budgetLimiter({
      rules: [
        reservable('team'),
        reservable('user', {
          limits: [limit({ ...day, requestsPerUnit: 500 })],
          reserve: { ...terms, estimate: 300 },
        }),
      ],
    });
    const both = (id: string): Descriptor[] => [marked({ id }), marked({ id, key: 'user' })];
    expect(ask(limiter, both('s1'))).toBe('OK: OK 600, OK 200');
    expect(ask(limiter, both('s2'))).toBe('OVER: OK 600, OVER 200');
    expect(left(limiter)).toBe('OK: OK 600');
  });

  it('reserves nothing if a plain limit is exceeded, but commits', () => {
    const limiter = budgetLimiter({
      rules: [reservable('team'), rule({ key: 'ip', limits: [limit({ requestsPerUnit: 1 })] })],
    });
    expect(ask(limiter, [marked(), plain('ip')])).toBe('OK: OK 600, OK 0');
    expect(ask(limiter, [marked({ id: 's2' }), plain('ip')])).toBe('OVER: OK -, OVER 0');
    expect(left(limiter)).toBe('OK: OK 600');
    // An id that was only rejected counts nothing, no matter who rejected it.
    ask(limiter, [marked({ id: 's2', settles: true, hits: 100 })]);
    expect(left(limiter)).toBe('OK: OK 600');
    expect(ask(limiter, [marked({ settles: true, hits: 100 }), plain('ip')])).toBe('OVER: OK 900, OVER 0');
    // The request that the plain limit rejected asked for 400 as well.
    expect(limiter.counted('rate_limit.d.team.')).toMatchObject({
      ...{ total_hits: 800, within_limit: 400, passed: 400, limited: 400 },
    });
  });

  it('uses quotas as long as one of them, plain or reserved, has something left', () => {
    const limiter = budgetLimiter({
      rules: [
        reservable('team', { quotaMode: true }),
        rule({ key: 'spare', quotaMode: true, limits: [limit({ requestsPerUnit: 2 })] }),
      ],
    });
    const both = (id: string): Descriptor[] => [marked({ id, hits: 700 }), plain('spare')];
    expect(ask(limiter, both('s1'))).toBe('OK: OK 300, OK 1');
    expect(ask(limiter, both('s2'))).toBe('OK: OVER 300, OK 0');
    expect(ask(limiter, both('s3'))).toBe('OVER: OVER 300, OVER 0');
  });

  it('lets nothing pass that is not held, if a quota has something left for another id alone', () => {
    const limiter = budgetLimiter({ rules: [reservable('team'), reservable('quota', { quotaMode: true })] });
    const asked = (hits: number): Descriptor[] => [
      marked({ key: 'quota', id: 's1', hits: 900 }),
      marked({ id: 's2', hits: 300 }),
      marked({ key: 'quota', id: 's2', hits }),
    ];
    expect(ask(limiter, asked(100))).toBe('OK: OK 100, OK 700, OK 0');
    for (const id of ['s1', 's2']) ask(limiter, [marked({ key: 'quota', id, settles: true, hits: 0 })]);
    expect(ask(limiter, asked(101))).toBe('OVER: OK 100, OVER 700, OVER 100');
    expect(left(limiter)).toBe('OK: OK 700');
  });

  it('releases what was not committed, or charges it, as the rule says', () => {
    const rules = [reservable('team'), reservable('held', { reserve: { ...terms, onExpiry: 'charge' } })];
    const limiter = budgetLimiter({ rules });
    limiter.clock.ms += 60_000;
    ask(limiter, [marked(), marked({ key: 'held' })]);
    limiter.clock.ms += 20_001;
    const other = { id: 's2', hits: 1 };
    expect(ask(limiter, [marked(other), marked({ ...other, key: 'held' })])).toBe('OK: OK 999, OK 599');
    // Of what was given back all is charged; what stayed charged is put right.
    const late = { settles: true, hits: 100 };
    expect(ask(limiter, [marked(late), marked({ ...late, key: 'held' })])).toBe('OK: OK 899, OK 899');
  });

  it('matches marker entries as others if no rule below is reserved against', () => {
    const limiter = budgetLimiter({
      rules: [
        rule({ key: 'team', limits: [limit(day)] }),
        rule({ key: 'reservation_id', descriptors: [rule({ key: 'team', limits: [limit()] })] }),
      ],
    });
    expect(ask(limiter, [marked()])).toBe('OK: OK 9');
    expect(ask(limiter, [marked({ id: 's2' })])).toBe('OK: OK 9');
  });

  it('counts hits under an empty id, takes hits back, and holds ids of any length apart', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')] });
    expect(ask(limiter, [marked({ id: '', hits: 100 })])).toBe('OK: OK 900');
    expect(ask(limiter, [{ ...marked({ hits: 40 }), isNegativeHits: true }])).toBe('OK: OK 940');
    const long = 'x'.repeat(300);
    ask(limiter, [marked({ id: `${long}1` })]);
    ask(limiter, [marked({ id: `${long}2` })]);
    expect(ask(limiter, [marked({ id: `${long}2`, settles: true, hits: 0 })])).toBe('OK: OK 540');
    expect(ask(limiter, [marked({ id: `${long}2`, settles: true, hits: 0 })])).toBe('OK: OK 540');
  });

  it('reserves against several limits of a rule, and reports the tightest', () => {
    const limits = [
      limit({ ...day, name: 'daily' }),
      limit({ unit: 'hour', requestsPerUnit: 500, name: 'hourly' }),
    ];
    const refused: string[] = [];
    const limiter = budgetLimiter({
      rules: [reservable('team', { limits })],
      events: {
        onRequestOverLimit: ({ counter: plan }, entries, used) =>
          refused.push(`${plan.limit.name} ${entries.length} ${used}`),
      },
    });
    expect(ask(limiter, [marked()])).toBe('OK: OK 100');
    expect(ask(limiter, [marked({ id: 's2' })])).toBe('OVER: OVER 100');
    expect(refused).toEqual(['hourly 2 400']);
  });

  it('says of a quota that is left out which of its limits has nothing left', () => {
    const limits = [
      limit({ ...day, name: 'daily' }),
      limit({ unit: 'hour', requestsPerUnit: 500, name: 'hourly' }),
    ];
    const limiter = budgetLimiter({
      rules: [
        reservable('team', { quotaMode: true, limits }),
        rule({ key: 'spare', quotaMode: true, limits: [limit()] }),
      ],
    });
    expect(ask(limiter, [marked(), plain('spare')])).toBe('OK: OK 100, OK 9');
    expect(ask(limiter, [marked({ id: 's2' }), plain('spare')])).toBe('OK: OVER 100, OK 8');
    expect(limiter.counted('rate_limit.d.team.hourly.')).toMatchObject({ over_limit: 400 });
    expect(limiter.counted('rate_limit.d.team.daily.')['over_limit']).toBeUndefined();
  });

  it('says when the amount that did not fit will fit, if ever', () => {
    const bucket = limit({ unit: 'hour', requestsPerUnit: 3_600, algorithm: Algorithm.TOKEN_BUCKET });
    const limiter = budgetLimiter({
      rules: [reservable('team', { limits: [bucket] })],
      response: { retryAfter: true },
    });
    const refused = (id: string, hits: number) => {
      const answer = decide(limiter, [marked({ id, hits })]);
      if (answer instanceof Error) throw answer;
      const [{ code, durationUntilResetSeconds } = { code: Code.OK, durationUntilResetSeconds: 0 }] =
        answer.statuses;
      expect(code).toBe(Code.OVER_LIMIT);
      return [durationUntilResetSeconds, answer.responseHeadersToAdd[0]?.value];
    };
    expect(ask(limiter, [marked({ hits: 3_000 })])).toBe('OK: OK 600');
    expect(refused('s2', 900)).toEqual([300, '300']);
    expect(refused('s3', 3_601)).toEqual([3_600, undefined]);
  });

  it('lets everything pass in shadow mode, of a rule or of all', () => {
    const ofRule = budgetLimiter({ rules: [reservable('team', { shadowMode: true })] });
    expect(ask(ofRule, [marked({ hits: 1_500 })])).toBe('OK: OK 0');
    const ofAll = budgetLimiter({ rules: [reservable('team')], response: { shadowMode: true } });
    expect(ask(ofAll, [marked({ hits: 1_500 })])).toBe('OK: OVER 0');
    expect(ask(ofAll, [marked({ settles: true, hits: 100 })])).toBe('OK: OK 900');
  });

  it('is over limit without room on a counter, and does not say what is left', () => {
    const limiter = budgetLimiter({ rules: [reservable('team')], maxReservations: 1 });
    ask(limiter, [marked({ hits: 1 })]);
    expect(ask(limiter, [marked({ id: 's2', hits: 1 })])).toBe('OVER: OVER 999');
    expect(left(limiter)).toBe('OK: OK 999');
  });

  it.each([
    ['error', 'away'],
    ['allow', 'OK: OK -'],
    ['deny', 'OVER: OVER 0'],
  ] as const)('with STORE_FAILURE_MODE=%s answers %s while the store is away', (storeFailureMode, answer) => {
    const reported: string[] = [];
    const failing = (store: Store): Store => ({
      submit: (ops, _, done) => {
        failAll(ops, new StoreError('away', { transient: true }));
        done();
      },
      notes: store.notes,
      ping: () => store.ping(),
      close: () => store.close(),
    });
    const limiter = budgetLimiter({
      rules: [reservable('team')],
      counting: { storeFailureMode },
      events: { onStoreError: () => reported.push('error'), onUncounted: () => reported.push('uncounted') },
      around: failing,
    });
    expect(ask(limiter, [marked()])).toBe(answer);
    expect(reported).toEqual([storeFailureMode === 'error' ? 'error' : 'uncounted']);
    // What was used is not rejected.
    if (storeFailureMode === 'deny') expect(ask(limiter, [marked({ settles: true })])).toBe('OK: OK -');
  });
});

describe('requests with markers, step by step', () => {
  interface Step {
    /** Descriptors of the rules `team` and `pair`. */
    team: Mark;
    pair: Mark;
    /** Hits of a plain limit; undefined: no descriptor of it. */
    ip: number | undefined;
  }
  /** `settle`: what an earlier request reserved, by its number, counted back. */
  type Mark =
    | { does: 'nothing' }
    | { does: 'reserve'; hits: number | undefined }
    | { does: 'settle'; back: number; hits: number | undefined };

  const hits = fc.constantFrom(undefined, 0, 1, 40, 150, 320);
  const mark: fc.Arbitrary<Mark> = fc.oneof(
    fc.constant<Mark>({ does: 'nothing' }),
    fc.record({ does: fc.constant('reserve' as const), hits }),
    fc.record({ does: fc.constant('reserve' as const), hits }),
    fc.record({ does: fc.constant('settle' as const), back: fc.nat(4), hits }),
  );
  const steps: fc.Arbitrary<Step[]> = fc.array(
    fc.record({
      team: mark,
      pair: mark,
      ip: fc.option(fc.constantFrom(0, 1, 2), { nil: undefined, freq: 1 }),
    }),
    { minLength: 1, maxLength: 12 },
  );
  const reserve: ReserveTerms = { ttlSeconds: 1_000, estimate: 90, onExpiry: 'release' };

  /** One counter for each limit. */
  class Model {
    readonly max: readonly number[];
    readonly totals: number[];
    /** What each request reserved; undefined where nothing is open. */
    readonly reserved: (number | 'refused' | undefined)[] = [];
    asked = 0;
    back = 0;

    constructor(...max: number[]) {
      this.max = max;
      this.totals = max.map(() => 0);
    }

    add(amount: number): void {
      for (const n of this.totals.keys()) this.totals[n] = Math.max(0, this.totals[n]! + amount);
      if (amount < 0) this.back -= amount;
    }

    hasRoom(amount: number): boolean {
      return this.totals.every((total, n) => total + amount <= this.max[n]!);
    }

    left(): number {
      return Math.min(...this.totals.map((total, n) => Math.max(0, this.max[n]! - total)));
    }

    /** Of the limits that reject the amount the one that resets last: they come in this order. */
    leftOver(amount: number): number {
      const n = this.totals.findIndex((total, i) => total + amount > this.max[i]!);
      return Math.max(0, this.max[n]! - this.totals[n]!);
    }
  }

  it('are decided as a model of amounts decides them', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const limits = [
          limit({ unit: 'day', requestsPerUnit: 500, name: 'd' }),
          limit({ unit: 'hour', requestsPerUnit: 400, name: 'h' }),
        ];
        const limiter = budgetLimiter({
          rules: [
            reservable('team', { limits: [limit({ unit: 'day', requestsPerUnit: 600 })], reserve }),
            reservable('pair', { limits, reserve }),
            rule({ key: 'ip', limits: [limit({ unit: 'day', requestsPerUnit: 5 })] }),
          ],
        });
        const models = { team: new Model(600), pair: new Model(500, 400) };
        let ofIp = 0;
        let isIpKnownOver = false;
        for (const [step, { team, pair, ip }] of list.entries()) {
          const marks = Object.entries({ team, pair }) as ['team' | 'pair', Mark][];
          const asked = marks.filter(([, { does }]) => does !== 'nothing');
          const descriptors = asked.map(([key, one]) =>
            one.does === 'settle'
              ? marked({ key, id: `${key}${step - 1 - one.back}`, settles: true, hits: one.hits })
              : marked({ key, id: `${key}${step}`, hits: one.does === 'reserve' ? one.hits : 0 }),
          );
          if (ip !== undefined) descriptors.push(plain('ip', ip));
          if (descriptors.length === 0) continue;

          for (const [key, one] of asked) {
            if (one.does !== 'settle') continue;
            const model = models[key];
            const from = step - 1 - one.back;
            const held = model.reserved[from];
            // What was rejected charges nothing.
            if (held !== 'refused') {
              const changed = (one.hits ?? held ?? 0) - (held ?? 0);
              model.add(changed);
              model.asked += Math.max(0, changed);
            }
            delete model.reserved[from];
          }
          const settled = { team: models.team.left(), pair: models.pair.left() };
          if (ip !== undefined && !isIpKnownOver) ofIp += ip;
          const isIpOver = ip !== undefined && ofIp > 5;
          if (isIpOver) isIpKnownOver = true;
          const texts = asked.map(([key, one]) => {
            const model = models[key];
            if (one.does === 'settle') return `OK ${settled[key]}`;
            const amount = (one.does === 'reserve' ? one.hits : 0) ?? 90;
            model.asked += amount;
            if (isIpOver || !model.hasRoom(amount)) {
              model.reserved[step] = 'refused';
              return isIpOver ? 'OK -' : `OVER ${model.leftOver(amount)}`;
            }
            model.add(amount);
            model.reserved[step] = amount;
            return `OK ${model.left()}`;
          });
          if (ip !== undefined) texts.push(`${isIpOver ? 'OVER' : 'OK'} ${Math.max(0, 5 - ofIp)}`);
          const code = texts.some((text) => text.startsWith('OVER')) ? 'OVER' : 'OK';
          expect(ask(limiter, descriptors)).toBe(`${code}: ${texts.join(', ')}`);
        }
        for (const [key, metric] of [
          ['team', 'team'],
          ['pair', 'pair.h'],
        ] as const) {
          const { asked, back } = models[key];
          const { total_hits = 0, total_negative_hits = 0 } = limiter.counted(`rate_limit.d.${metric}.`);
          expect({ asked: total_hits, back: total_negative_hits }).toEqual({ asked, back });
        }
      }),
      { numRuns: caseCount(150) },
    );
  });
});
