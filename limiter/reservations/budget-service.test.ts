import { describe, expect, it } from 'vitest';
import { Algorithm } from '../../rules/algorithms/registry.ts';
import type { Rule } from '../../rules/model.ts';
import type { Override } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { type BudgetLimiter, budgetLimiter, madeId } from '../../test/support/budget-limiter.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor } from '../decide/messages.ts';
import type { RateLimitResponse } from '../decide/response-message.ts';
import { LimitWarnings } from '../service/limit-warnings.ts';
import { callAbandoned, failAll } from '../stores/operation.ts';
import type { Note, Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';
import type {
  BudgetFailure,
  BudgetScope,
  BudgetStatus,
  EndReservationAnswer,
  RecalledReservation,
  ReserveAnswer,
} from './budgets.ts';

const asker = { abandoned: false };
const day = { unit: 'day', requestsPerUnit: 1_000 } as const;

function teamRule(traits: Partial<Rule> = {}): Rule {
  return rule({ key: 'team', limits: [limit(day)], ...traits });
}

function descriptor(key: string, value = 'a', traits: Partial<Descriptor> = {}): Descriptor {
  const withoutHits = { limit: undefined, hitsAddend: undefined, isNegativeHits: false };
  return { entries: [{ key, value }], ...withoutHits, ...traits };
}

/** Returns the answer, which the memory store gives at once. */
function now<Answer>(ask: (done: (answer: Answer) => void) => void): Answer {
  const answers: Answer[] = [];
  ask((answer) => answers.push(answer));
  expect(answers).toHaveLength(1);
  return answers[0]!;
}

interface Asking {
  amount?: number | undefined;
  amounts?: (number | undefined)[];
  ttlMs?: number | undefined;
  id?: string | undefined;
  descriptors?: Descriptor[];
  domain?: string;
  recalled?: boolean;
}

function tryReserve({ budgets }: BudgetLimiter, asking: Asking = {}): ReserveAnswer | BudgetFailure {
  const common = { domain: 'd', descriptors: [descriptor('team')], amount: 600, ttlMs: 30_000 };
  return now((done) =>
    budgets.reserve({ ...common, id: undefined, recalled: false, ...asking }, asker, done),
  );
}

function reserve(limiter: BudgetLimiter, asking: Asking = {}): ReserveAnswer {
  const answer = tryReserve(limiter, asking);
  if ('failure' in answer) throw new Error(answer.message);
  return answer;
}

function settle(
  { budgets }: BudgetLimiter,
  id: string,
  actual: number | undefined,
  {
    descriptors = [descriptor('team')],
    unknown = 'charge' as 'charge' | 'report',
    amounts = undefined as (number | undefined)[] | undefined,
  } = {},
): EndReservationAnswer {
  const answer = now<EndReservationAnswer | BudgetFailure>((done) =>
    budgets.commit({ domain: 'd', descriptors, id, actual, unknown, amounts }, asker, done),
  );
  if ('failure' in answer) throw new Error(answer.message);
  return answer;
}

function status({ budgets }: BudgetLimiter, ...descriptors: Descriptor[]): readonly BudgetScope[] {
  const answer = now<BudgetStatus | BudgetFailure>((done) =>
    budgets.status({ domain: 'd', descriptors }, asker, done),
  );
  if ('failure' in answer) throw new Error(answer.message);
  return answer.scopes;
}

/** Returns `used/reserved/left` of each scope. */
function figures(scopes: readonly BudgetScope[]): string[] {
  return scopes.map(({ used, reserved, left }) => `${used}/${reserved}/${left}`);
}

/** Counts a plain hit, like ShouldRateLimit. */
function hit({ service }: BudgetLimiter, hitsAddend = 1, key = 'team'): string {
  return now((done) =>
    service.decide({ domain: 'd', descriptors: [descriptor(key)], hitsAddend }, asker, {
      answer: ({ overallCode }) => done(overallCode === Code.OK ? 'OK' : 'OVER'),
      reject: (error) => done(String(error)),
    }),
  );
}

/** A store that passes everything on. */
const passing = (store: Store): Store => ({
  submit: (ops, options, done) => store.submit(ops, options, done),
  ping: () => store.ping(),
  close: () => store.close(),
});
const withoutNotes = passing;

describe('BudgetService', () => {
  it('holds an amount, which hits see, and releases what was not used', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const reserved = reserve(limiter);
    expect(reserved).toMatchObject({ allowed: true, id: madeId(1), amount: 600, isRepeated: false });
    expect(reserved.expiresAtMs).toBe(limiter.clock.ms + 30_000);
    expect(figures(reserved.scopes)).toEqual(['600/600/400']);
    expect(hit(limiter, 401)).toBe('OVER');
    expect(settle(limiter, madeId(1), 100)).toMatchObject({ outcome: 'settled', charged: 100, amount: 600 });
    expect(figures(status(limiter, descriptor('team')))).toEqual(['501/0/499']);
  });

  it('asks the store for whole amounts alone', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    for (const wrong of [Number.NaN, -1, 1.5, 2 ** 53]) {
      expect(() => reserve(limiter, { amount: wrong })).toThrow('an amount is a whole number');
      expect(() => settle(limiter, 'chosen', wrong)).toThrow('an amount is a whole number');
    }
    expect(() => reserve(limiter, { ttlMs: Number.NaN })).toThrow('ttl must be');
    expect(figures(status(limiter, descriptor('team')))).toEqual(['0/0/1000']);
  });

  it('names the scope that was exhausted, and holds nothing of the others', () => {
    const limiter = budgetLimiter({
      rules: [
        rule({ key: 'user', limits: [limit({ unit: 'day', requestsPerUnit: 500 })] }),
        teamRule({
          limits: [limit({ ...day, name: 'daily' }), limit({ unit: 'hour', requestsPerUnit: 700 })],
        }),
      ],
    });
    const descriptors = [descriptor('team'), descriptor('user')];
    const refused = reserve(limiter, { descriptors });
    expect(refused).toMatchObject({ allowed: false, expiresAtMs: 0 });
    expect(refused.scopes.map(({ rule: path, limit: { name }, rejected: is }) => [path, name, is])).toEqual([
      ['d.team', 'daily', false],
      ['d.team', '', false],
      ['d.user', '', true],
    ]);
    expect(figures(refused.scopes)).toEqual(['0/0/1000', '0/0/700', '0/0/500']);
    // The amount never fits.
    expect(refused.headers).toEqual([]);
    expect(reserve(limiter, { descriptors, amount: 500 }).allowed).toBe(true);
    const [header] = reserve(limiter, { descriptors, amount: 1 }).headers;
    expect(header).toMatchObject({ key: 'Retry-After', value: '30' });
  });

  describe('amounts of descriptors', () => {
    const tokensAndMoney = [
      rule({ key: 'user', limits: [limit({ ...day, hitsUnit: 'tokens' })] }),
      teamRule({ limits: [limit({ ...day, requestsPerUnit: 9_000, hitsUnit: 'micro-dollars' })] }),
    ];
    const descriptors = [descriptor('user'), descriptor('team')];

    it('are all held, or none, and each is committed by its own', () => {
      const limiter = budgetLimiter({ rules: tokensAndMoney });
      const asked = { descriptors, amount: undefined, amounts: [600, 5_000], id: 'mine' };
      expect(figures(reserve(limiter, asked).scopes)).toEqual(['600/600/400', '5000/5000/4000']);
      expect(reserve(limiter, asked).isRepeated).toBe(true);
      expect(tryReserve(limiter, { ...asked, amounts: [600, 5_001] })).toMatchObject({ failure: 'conflict' });
      const refused = reserve(limiter, { ...asked, id: undefined, amounts: [400, 4_001] });
      expect([refused.allowed, ...figures(refused.scopes)]).toEqual([
        ...[false, '600/600/400', '5000/5000/4000'],
      ]);
      settle(limiter, 'mine', undefined, { descriptors, amounts: [100, 4_500] });
      expect(figures(status(limiter, ...descriptors))).toEqual(['100/0/900', '4500/0/4500']);
    });

    it('go before the common one, add up on one counter, and are what was reserved if nothing is said', () => {
      const limiter = budgetLimiter({ rules: tokensAndMoney });
      const twice = [...descriptors, descriptor('user')];
      reserve(limiter, { descriptors: twice, amount: 10, amounts: [undefined, 5_000, 20], id: 'mine' });
      const held = figures(status(limiter, ...descriptors));
      expect(held).toEqual(['30/30/970', '5000/5000/4000']);
      settle(limiter, 'mine', undefined, { descriptors: twice });
      expect(figures(status(limiter, ...descriptors))).toEqual(['30/0/970', '5000/0/4000']);
      settle(limiter, 'lost', 1, { descriptors, amounts: [undefined, 7] });
      expect(figures(status(limiter, ...descriptors))).toEqual(['31/0/969', '5007/0/3993']);
    });

    it('are needed if one amount meets rules of different hits_unit; nothing is charged then', () => {
      const limiter = budgetLimiter({ rules: tokensAndMoney });
      const message = (amount: number) =>
        `the amount ${amount} cannot be charged to rules of different hits_unit: d.user counts tokens, d.team counts micro-dollars; give each descriptor its own amount`;
      expect(tryReserve(limiter, { descriptors })).toEqual({ failure: 'invalid', message: message(600) });
      reserve(limiter, { descriptors, amounts: [600, 5_000], id: 'mine' });
      expect(() => settle(limiter, 'mine', 5, { descriptors })).toThrow(message(5));
      expect(figures(status(limiter, ...descriptors))).toEqual(['600/600/400', '5000/5000/4000']);
      // An amount of 0 may be charged in any unit, and reported hits are not an amount.
      settle(limiter, 'mine', 0, { descriptors });
      expect(settle(limiter, '', 5, { descriptors }).charged).toBe(5);
      expect(figures(status(limiter, ...descriptors))).toEqual(['5/0/995', '5/0/8995']);
    });

    it('are none of a rule whose limits count different things', () => {
      const limits = [limit(day), limit({ unit: 'hour', requestsPerUnit: 700, hitsUnit: 'tokens' })];
      const limiter = budgetLimiter({ rules: [teamRule({ limits, hideIdentity: true })] });
      expect(tryReserve(limiter, { amounts: [600] })).toMatchObject({
        failure: 'invalid',
        message: expect.stringContaining(
          'a rule that hides its name counts both requests and tokens; the limits of a rule need one hits_unit',
        ),
      });
    });
  });

  it('answers the same reserve and commit again, and counts nothing', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const first = reserve(limiter, { id: 'mine' });
    limiter.clock.ms += 1_000;
    expect(reserve(limiter, { id: 'mine' })).toMatchObject({
      ...{ allowed: true, id: 'mine', expiresAtMs: first.expiresAtMs, isRepeated: true },
    });
    expect(tryReserve(limiter, { id: 'mine', amount: 1 })).toMatchObject({ failure: 'conflict' });
    expect(settle(limiter, 'mine', 200).outcome).toBe('settled');
    expect(settle(limiter, 'mine', 900)).toMatchObject({ outcome: 'repeated', charged: 200, amount: 600 });
    expect(limiter.counted('rate_limit.d.team.')).toEqual({
      total_hits: 600,
      within_limit: 600,
      passed: 600,
      total_negative_hits: 400,
    });
  });

  it('counts charges beyond the held amount as hits, and amounts that did not fit as over limit', () => {
    const calls: string[] = [];
    const limiter = budgetLimiter({
      rules: [teamRule()],
      events: { onBudgetCall: (call, outcome) => calls.push(`${call} ${outcome}`) },
    });
    reserve(limiter);
    expect(settle(limiter, madeId(1), 1_100)).toMatchObject({ charged: 1_100 });
    expect(reserve(limiter, { amount: 1 }).allowed).toBe(false);
    expect(limiter.counted('rate_limit.d.team.')).toEqual({
      ...{ total_hits: 1_101, within_limit: 600, near_limit: 200, over_limit: 101 },
      ...{ passed: 1_100, limited: 1 },
    });
    expect(calls).toEqual(['reserve reserved', 'settle settled', 'reserve refused']);
  });

  it('reports marks that a commit reaches, with a reservation and without', () => {
    const reported: string[] = [];
    const limiter = budgetLimiter({
      rules: [teamRule({ limits: [limit({ ...day, warnAt: [50, 80, 95] })] })],
      warnings: new LimitWarnings({
        claims: undefined,
        clock: { nowMs: () => Date.UTC(2026, 2, 31, 23, 59, 30) },
        onReached: (_plan, mark, used) => reported.push(`${mark}% ${used}`),
      }),
    });
    const { id } = reserve(limiter, { amount: 100 });
    expect(reported).toEqual([]);
    settle(limiter, id, 600);
    expect(reported).toEqual(['50% 600']);
    settle(limiter, '', 250);
    settle(limiter, '', 10);
    expect(reported).toEqual(['50% 600', '80% 850']);
  });

  it('charges an unknown id once, reports it, and charges without any id each time', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    expect(settle(limiter, 'x', 5, { unknown: 'report' }).outcome).toBe('unknown');
    expect(settle(limiter, 'x', 5).outcome).toBe('unknown');
    expect(settle(limiter, 'x', 5).outcome).toBe('repeated');
    settle(limiter, '', 10);
    settle(limiter, '', 10);
    expect(figures(status(limiter, descriptor('team')))).toEqual(['25/0/975']);
  });

  it('says how long the oldest reservation has existed, and releases what has expired', () => {
    const expired: number[] = [];
    const limiter = budgetLimiter({
      rules: [teamRule({ limits: [limit({ ...day, requestsPerUnit: 1_000, warnAt: [50, 80] })] })],
      events: { onReservationsExpired: (hits) => expired.push(hits) },
    });
    // The test moves away from the end of the day.
    limiter.clock.ms += 60_000;
    reserve(limiter);
    limiter.clock.ms += 12_000;
    reserve(limiter, { amount: 200, ttlMs: 60_000 });
    expect(status(limiter, descriptor('team'))).toMatchObject([
      { used: 800, reserved: 800, open: 2, oldestSeconds: 12, mark: 80 },
    ]);
    limiter.clock.ms += 20_000;
    expect(status(limiter, descriptor('team'))).toMatchObject([
      { used: 200, reserved: 200, open: 1, oldestSeconds: 20, mark: undefined },
    ]);
    expect(expired).toEqual([600]);
  });

  it('charges a counter that two descriptors share for both of them', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const descriptors = [descriptor('team'), descriptor('team')];
    expect(reserve(limiter, { descriptors }).allowed).toBe(false);
    expect(reserve(limiter, { descriptors, amount: 500 }).allowed).toBe(true);
    settle(limiter, madeId(2), 100, { descriptors });
    expect(figures(status(limiter, descriptor('team')))).toEqual(['200/0/800']);
  });

  it('lets shadow rules pass, and uses quotas as long as one has something left', () => {
    const shadow = budgetLimiter({ rules: [teamRule({ shadowMode: true })] });
    expect(reserve(shadow, { amount: 1_200 }).allowed).toBe(true);
    expect(shadow.counted('rate_limit.d.team.')).toMatchObject({ over_limit: 200, shadow_mode: 200 });

    const quotas = budgetLimiter({
      rules: [
        rule({ key: 'one', quotaMode: true, limits: [limit({ ...day, requestsPerUnit: 100 })] }),
        rule({ key: 'two', quotaMode: true, limits: [limit({ ...day, requestsPerUnit: 700 })] }),
      ],
    });
    const descriptors = [descriptor('one'), descriptor('two')];
    const passed = reserve(quotas, { descriptors });
    expect(passed.allowed).toBe(true);
    expect(passed.scopes.map(({ rejected: refused, used }) => [refused, used])).toEqual([
      [true, 0],
      [false, 600],
    ]);
    expect(reserve(quotas, { descriptors }).allowed).toBe(false);
  });

  it('passes if nothing is limited, and knows no domain without rules', async () => {
    const limiter = budgetLimiter({
      rules: [teamRule(), rule({ key: 'free', limits: [limit({ unit: '', unlimited: true })] })],
    });
    const descriptors = [descriptor('other'), descriptor('free'), descriptor('team')];
    expect(reserve(limiter, { descriptors })).toMatchObject({
      allowed: true,
      scopes: [{ descriptor: 2 }],
      unlimited: [
        { descriptor: 0, rule: undefined },
        { descriptor: 1, rule: 'd.free' },
      ],
    });
    const unlimited = descriptors.slice(0, 2);
    expect(reserve(limiter, { descriptors: unlimited })).toMatchObject({ allowed: true, scopes: [] });
    const settled = await new Promise((done) =>
      limiter.budgets.commit(
        { domain: 'd', descriptors: unlimited, id: madeId(2), actual: 5, unknown: 'charge' },
        asker,
        done,
      ),
    );
    expect(settled).toMatchObject({ outcome: 'settled', charged: 0, amount: 0, scopes: [] });
    expect(tryReserve(limiter, { domain: 'e' })).toEqual({
      failure: 'no-domain',
      message: 'there are no rules for the domain "e"',
    });
  });

  describe('if nothing is limited', () => {
    const asking = { descriptors: [descriptor('other')], id: 'mine', recalled: true } as const;
    const ask = (limiter: BudgetLimiter, more: Partial<Asking> = {}) =>
      new Promise<ReserveAnswer | BudgetFailure>((done) => {
        const question = { domain: 'd', amount: 600, ttlMs: 30_000, ...asking, ...more };
        limiter.budgets.reserve({ ...question, descriptors: [...question.descriptors] }, asker, done);
      });
    const commit = async (limiter: BudgetLimiter, actual: number | undefined) => {
      const about = (await limiter.budgets.recall('mine', 'd')) as RecalledReservation;
      return new Promise<EndReservationAnswer | BudgetFailure>((done) => {
        limiter.budgets.commit({ ...about, id: 'mine', actual, unknown: 'report' }, asker, done);
      });
    };
    const settled = { outcome: 'settled', charged: 0, amount: 0, scopes: [] };

    it('knows a reservation until its end, and gives the same answer again', async () => {
      const limiter = budgetLimiter({ rules: [teamRule()] });
      const expiresAtMs = limiter.clock.ms + 30_000;
      const made = { allowed: true, id: 'mine', amount: 600, expiresAtMs, scopes: [] };
      expect(await ask(limiter)).toMatchObject({ ...made, isRepeated: false });
      limiter.clock.ms += 1_000;
      expect(await ask(limiter)).toMatchObject({ ...made, isRepeated: true });
      for (const actual of [480, undefined, 0]) expect(await commit(limiter, actual)).toMatchObject(settled);
      limiter.clock.ms += 29_000 + 600_000 - 1;
      expect(await commit(limiter, 5)).toMatchObject(settled);
      limiter.clock.ms += 1;
      expect(await limiter.budgets.recall('mine', 'd')).toBeUndefined();
      expect(await ask(limiter)).toMatchObject({ isRepeated: false });
    });

    it.each([
      ['another amount', { amount: 601 }],
      ['another amount of a descriptor', { amounts: [601] }],
      ['another TTL', { ttlMs: 30_001 }],
      ['other descriptors', { descriptors: [descriptor('other', 'b')] }],
      ['descriptors that are limited', { descriptors: [descriptor('team')] }],
    ])('is a conflict with %s', async (_, other) => {
      const limiter = budgetLimiter({ rules: [teamRule()] });
      await ask(limiter);
      expect(await ask(limiter, other)).toMatchObject({ failure: 'conflict' });
      const first = budgetLimiter({ rules: [teamRule()] });
      await ask(first, other);
      expect(await ask(first)).toMatchObject({ failure: 'conflict' });
    });

    it('charges nothing by the id alone, and once with descriptors, if rules came since', async () => {
      const limiter = budgetLimiter({ rules: [] });
      await ask(limiter, { descriptors: [descriptor('team')] });
      limiter.service.useRules(new RuleTable(compileRules([source('d', [teamRule()])])));
      expect(await ask(limiter, { descriptors: [descriptor('team')] })).toMatchObject({
        failure: 'conflict',
      });
      expect(await commit(limiter, 480)).toMatchObject(settled);
      expect(figures(status(limiter, descriptor('team')))).toEqual(['0/0/1000']);
      for (const outcome of ['unknown', 'repeated'])
        expect(settle(limiter, 'mine', 480)).toMatchObject({ outcome, charged: 480 });
      expect(figures(status(limiter, descriptor('team')))).toEqual(['480/0/520']);
    });

    it('keeps a note of one size, whatever the question', async () => {
      const notes: Note[] = [];
      const around = (store: Store): Store => ({
        ...passing(store),
        notes: {
          recall: (id) => store.notes!.recall(id),
          note: (note) => {
            notes.push(note);
            return store.notes!.note(note);
          },
        },
      });
      const limiter = budgetLimiter({ rules: [teamRule()], around });
      const long = 'x'.repeat(10_000);
      await ask(limiter);
      await ask(limiter, { id: 'else', descriptors: [descriptor('other', long), descriptor(long)] });
      expect(notes.map(({ text }) => text.length)).toEqual([notes[0]!.text.length, notes[0]!.text.length]);
      expect(notes[0]!.text).not.toContain('other');
      expect(notes[0]!.owner).toEqual({ domain: 'd', caller: undefined });
    });

    it('stores nothing of an ID that Weir makes, nor of the amount 0, and commits it without its store', async () => {
      const limiter = budgetLimiter({ rules: [teamRule()], around: withoutNotes });
      const made = [
        await ask(limiter, { id: undefined }),
        await ask(limiter, { amount: 0 }),
        await ask(limiter, { amount: 0, id: undefined, recalled: false }),
        await ask(limiter, { amount: 0 }),
      ] as ReserveAnswer[];
      const ids = made.map(({ id }) => id);
      for (const id of ids) expect(id).toMatch(/^w0\.18ac3e73\./);
      expect([ids[3], new Set(ids).size]).toEqual([ids[1], 3]);
      for (const id of ids)
        expect(settle(limiter, id, 700, { descriptors: [descriptor('team')] })).toMatchObject(settled);
    });

    it('says that its store is away, or keeps nothing', async () => {
      const error = new StoreError('connection refused', { transient: true });
      const around = (store: Store): Store => ({
        ...passing(store),
        notes: { recall: () => Promise.reject(error), note: () => Promise.reject(error) },
      });
      expect(await ask(budgetLimiter({ rules: [teamRule()], around }))).toEqual({
        ...{ failure: 'unavailable', message: 'connection refused' },
      });
      expect(await ask(budgetLimiter({ rules: [teamRule()], around: withoutNotes }))).toMatchObject({
        failure: 'unsupported',
      });
    });
  });

  it('reserves against the limit of a request, and against every algorithm', () => {
    const limiter = budgetLimiter({
      rules: [
        teamRule(),
        rule({ key: 'sliding', limits: [limit({ ...day, algorithm: Algorithm.SLIDING_WINDOW })] }),
        rule({ key: 'bucket', limits: [limit({ ...day, algorithm: Algorithm.TOKEN_BUCKET })] }),
      ],
    });
    const own = descriptor('team', 'a', { limit: { requestsPerUnit: 100, unit: 4 } });
    expect(reserve(limiter, { descriptors: [own] }).allowed).toBe(false);
    for (const key of ['sliding', 'bucket']) {
      const descriptors = [descriptor(key)];
      const { id, allowed } = reserve(limiter, { descriptors });
      expect(allowed).toBe(true);
      expect(reserve(limiter, { descriptors }).allowed).toBe(false);
      expect(settle(limiter, id, 100, { descriptors }).charged).toBe(100);
      expect(figures(status(limiter, descriptor(key)))).toEqual(['100/0/900']);
    }
  });

  it('says when the amount that did not fit will fit, if ever', () => {
    const algorithm = (of: Algorithm) => limit({ unit: 'hour', requestsPerUnit: 3_600, algorithm: of });
    const limiter = budgetLimiter({
      rules: [
        teamRule({ limits: [limit({ ...day, requestsPerUnit: 3_600 })] }),
        rule({ key: 'sliding', limits: [algorithm(Algorithm.SLIDING_WINDOW)] }),
        rule({ key: 'bucket', limits: [algorithm(Algorithm.TOKEN_BUCKET)] }),
      ],
    });
    const refused = (amount: number, ...keys: string[]) => {
      const { allowed, headers, scopes } = reserve(limiter, {
        amount,
        descriptors: keys.map((key) => descriptor(key)),
      });
      expect(allowed).toBe(false);
      return [headers[0]?.value, ...scopes.map(({ resetSeconds }) => resetSeconds)];
    };
    const held = [descriptor('bucket'), descriptor('sliding')];
    reserve(limiter, { amount: 3_600, ttlMs: 3_600_000, descriptors: held });
    reserve(limiter, { amount: 3_500 });
    // The hour and the day end in 30 s.
    expect(refused(101, 'team')).toEqual(['30', 30]);
    expect(refused(1, 'bucket')).toEqual(['1', 1]);
    expect(refused(600, 'bucket')).toEqual(['600', 600]);
    expect(refused(600, 'sliding')).toEqual(['630', 630]);
    expect(refused(900, 'sliding', 'bucket', 'team')).toEqual(['930', 930, 900, 30]);
    // The amount that the other bucket rejects will fit some day.
    expect(refused(3_601, 'bucket')).toEqual([undefined, 3_600]);
    for (const key of ['sliding', 'team']) expect(refused(3_601, key)[0]).toBeUndefined();
    limiter.clock.ms += 629_000;
    expect(refused(600, 'sliding')[0]).toBe('1');
    limiter.clock.ms += 1_000;
    expect(reserve(limiter, { amount: 600, descriptors: [descriptor('sliding')] }).allowed).toBe(true);
    // For a plain hit, the headers report when a hit passes.
    const plain = now<RateLimitResponse>((done) =>
      limiter.service.decide({ domain: 'd', descriptors: [descriptor('bucket')], hitsAddend: 3_000 }, asker, {
        answer: done,
        reject: (error) => expect.fail(String(error)),
      }),
    );
    expect(plain.statuses[0]).toMatchObject({ code: Code.OVER_LIMIT, durationUntilResetSeconds: 1 });
  });

  it('says when the first of quotas has room for the amount', () => {
    const bucket = limit({ unit: 'hour', requestsPerUnit: 3_600, algorithm: Algorithm.TOKEN_BUCKET });
    const limiter = budgetLimiter({
      rules: [
        rule({ key: 'large', quotaMode: true, limits: [bucket] }),
        rule({ key: 'small', quotaMode: true, limits: [limit({ ...day, requestsPerUnit: 500 })] }),
      ],
    });
    reserve(limiter, { amount: 3_600, ttlMs: 3_600_000, descriptors: [descriptor('large')] });
    const descriptors = [descriptor('large'), descriptor('small')];
    expect(reserve(limiter, { amount: 600, descriptors }).headers[0]?.value).toBe('600');
    expect(reserve(limiter, { amount: 3_601, descriptors })).toMatchObject({ allowed: false, headers: [] });
    expect(reserve(limiter, { amount: 500, descriptors }).allowed).toBe(true);
  });

  it('leaves plain hits nothing of a limit of 2^53 - 1 that is held whole', () => {
    const max = Number.MAX_SAFE_INTEGER;
    const limiter = budgetLimiter({
      rules: [teamRule({ limits: [limit({ ...day, requestsPerUnit: max })] })],
    });
    expect(reserve(limiter, { amount: max }).allowed).toBe(true);
    // The local cache rejects the second hit.
    for (const hits of [1, 1, 5]) expect(hit(limiter, hits)).toBe('OVER');
    expect(status(limiter, descriptor('team'))[0]).toMatchObject({ used: max, left: 0 });
    settle(limiter, madeId(1), max - 2);
    expect(['OK', 'OK', 'OVER'].map(() => hit(limiter))).toEqual(['OK', 'OK', 'OVER']);
  });

  it('is over limit by a block without any count, and freed by an override', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const override = (effect: Override['effect']): Override => ({
      ...{ id: 'o', source: 'api', name: 'o', domain: 'd', match: [{ key: 'team', value: 'a' }], limit: '' },
      ...{ effect, createdMs: limiter.clock.ms, endsMs: undefined, reason: '', by: '' },
    });
    limiter.service.useOverrides([override({ kind: 'block' })]);
    expect(reserve(limiter)).toMatchObject({
      allowed: false,
      scopes: [{ rejected: true, used: 0, left: 0 }],
    });
    // A look says the same, without counting anything.
    expect(status(limiter, descriptor('team'))).toMatchObject([{ used: 0, left: 0 }]);
    const ends = { ...override({ kind: 'block' }), endsMs: limiter.clock.ms + 12_000 };
    limiter.service.useOverrides([ends]);
    expect(status(limiter, descriptor('team'))).toMatchObject([{ left: 0, resetSeconds: 12 }]);
    limiter.service.useOverrides([override({ kind: 'unlimited' })]);
    expect(reserve(limiter, { amount: 5_000 })).toMatchObject({ allowed: true, scopes: [] });
    limiter.service.useOverrides([]);
    expect(figures(status(limiter, descriptor('team')))).toEqual(['0/0/1000']);
    expect(limiter.counted('rate_limit.d.team.')).toEqual({
      ...{ total_hits: 5_600, over_limit: 600, within_limit: 5_000 },
      ...{ passed: 5_000, limited: 600 },
    });
  });

  it('lets hits pass that this limiter remembered as full once something came back', () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    expect(hit(limiter, 990)).toBe('OK');
    reserve(limiter, { amount: 10 });
    expect(hit(limiter, 5)).toBe('OVER');
    settle(limiter, madeId(1), 0);
    expect(status(limiter, descriptor('team'))[0]!.used).toBe(995);
    expect(hit(limiter, 5)).toBe('OK');
  });

  it('has no room beyond BUDGET_MAX_RESERVATIONS, and bounds of a TTL', () => {
    const limiter = budgetLimiter({ rules: [teamRule()], maxReservations: 2 });
    reserve(limiter, { amount: 1 });
    reserve(limiter, { amount: 1 });
    expect(tryReserve(limiter, { amount: 1 })).toMatchObject({
      failure: 'full',
      message: 'a counter has as many open reservations as BUDGET_MAX_RESERVATIONS allows',
    });
    for (const ttlMs of [999, 3_600_001]) {
      expect(tryReserve(limiter, { ttlMs })).toMatchObject({
        failure: 'invalid',
        message: `ttl must be from 1s to 3600s (BUDGET_MAX_TTL), not ${ttlMs / 1000}s`,
      });
    }
  });

  it('is held for a minute if no duration is given, or for BUDGET_MAX_TTL', () => {
    for (const [maxTtlMs, heldMs] of [
      [3_600_000, 60_000],
      [10_000, 10_000],
    ] as const) {
      const limiter = budgetLimiter({ rules: [teamRule()], maxTtlMs });
      const { expiresAtMs } = reserve(limiter, { ttlMs: undefined });
      expect(expiresAtMs - limiter.clock.ms).toBe(heldMs);
    }
  });

  it('recalls the terms of a reservation if that is enabled', async () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    reserve(limiter, { id: 'known', recalled: true });
    reserve(limiter, { id: 'other', amount: 1 });
    expect(await limiter.budgets.recall('known', 'd')).toEqual({
      ...{ domain: 'd', descriptors: [descriptor('team')], isUnlimited: false },
    });
    expect(await limiter.budgets.recall('other', 'd')).toBeUndefined();
  });

  it('commits all descriptors although the rules have more or fewer limits than at the reservation', () => {
    const limited = [teamRule(), rule({ key: 'user', limits: [limit(day)] })];
    for (const [before, after] of [
      [limited, [teamRule()]],
      [[teamRule()], limited],
    ]) {
      const limiter = budgetLimiter({ rules: before! });
      const descriptors = [descriptor('team'), descriptor('user')];
      reserve(limiter, { descriptors, id: 'mine' });
      limiter.service.useRules(new RuleTable(compileRules([source('d', after!)])));
      expect(() => settle(limiter, 'mine', 480)).toThrow('has 2 descriptors, but the call names 1');
      expect(settle(limiter, 'mine', 480, { descriptors })).toMatchObject({
        outcome: 'settled',
        charged: 480,
      });
      expect(figures(status(limiter, descriptor('team')))).toEqual(['480/0/520']);
    }
  });

  it('keeps equal ids of two domains apart', async () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const rules = [source('d', [teamRule()]), source('e', [teamRule()])];
    limiter.service.useRules(new RuleTable(compileRules(rules)));
    const other = [descriptor('other')];
    for (const descriptors of [[descriptor('team')], other]) {
      const id = `mine ${descriptors === other}`;
      for (const [domain, amount] of [
        ['d', 5],
        ['e', 6],
      ] as const) {
        const answer = await new Promise((done) =>
          limiter.budgets.reserve(
            { domain, descriptors, amount, ttlMs: 30_000, id, recalled: true },
            asker,
            done,
          ),
        );
        expect(answer).toMatchObject({ allowed: true, isRepeated: false, id });
        expect(await limiter.budgets.recall(id, domain)).toMatchObject({ domain });
      }
      expect(await limiter.budgets.recall(id, 'f')).toBeUndefined();
    }
  });

  it('looks up an id that Weir made without its domain, and not in another one', async () => {
    const limiter = budgetLimiter({ rules: [teamRule()] });
    const { id } = reserve(limiter, { recalled: true });
    expect(id).toBe(madeId(1));
    expect(await limiter.budgets.recall(id, undefined)).toMatchObject({ domain: 'd' });
    // The hashes of the domains may begin with the same digits.
    expect(await limiter.budgets.recall(id, 'e')).toBeUndefined();
  });

  it('takes what somebody else wrote in place of a note for none of its own', async () => {
    for (const text of ['', 'null', '"text"', '{"domain":"d"}']) {
      const foreign = (store: Store): Store => ({
        ...passing(store),
        notes: { recall: () => Promise.resolve(text), note: () => Promise.resolve(text) },
      });
      const { budgets } = budgetLimiter({ rules: [rule({ key: 'team' })], around: foreign });
      const about = { domain: 'd', descriptors: [descriptor('team')], amount: 1, id: 'x', recalled: true };
      const answer = new Promise((done) => budgets.reserve({ ...about, ttlMs: 30_000 }, asker, done));
      expect(await answer).toMatchObject({ failure: 'conflict' });
      expect(await budgets.recall('x', 'd')).toBeUndefined();
    }
  });

  it('says that the store is away, and that it never can', async () => {
    let error = new StoreError('connection refused', { transient: true });
    const failing = (store: Store): Store => ({
      ...passing(store),
      submit: (ops, _, done) => {
        failAll(ops, error);
        done();
      },
      notes: { recall: () => Promise.reject(error), note: () => Promise.reject(error) },
    });
    const away = budgetLimiter({ rules: [teamRule()], around: failing });
    const unavailable = { failure: 'unavailable', message: 'connection refused' };
    expect(tryReserve(away)).toEqual(unavailable);
    expect(await away.budgets.recall('x', 'd')).toEqual(unavailable);
    expect(away.counted('rate_limit.d.team.')).toEqual({});
    error = callAbandoned;
    expect(tryReserve(away)).toMatchObject({ failure: 'unavailable' });

    const never = budgetLimiter({ rules: [teamRule()], around: withoutNotes });
    expect(tryReserve(never)).toMatchObject({ failure: 'unsupported' });
    expect(await never.budgets.recall('x', 'd')).toMatchObject({ failure: 'unsupported' });
  });
});
