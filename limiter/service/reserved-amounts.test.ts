/** The reserved amounts of quotas in the dynamic metadata. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Rule } from '../../rules/model.ts';
import { type BudgetLimiter, budgetLimiter } from '../../test/support/budget-limiter.ts';
import { bareResponse } from '../../test/support/plain-service.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule } from '../../test/support/rule-builder.ts';
import { Code, type Descriptor } from '../decide/messages.ts';
import type { ResponseOptions } from '../decide/response.ts';
import { failAll } from '../stores/operation.ts';
import type { Store } from '../stores/store.ts';
import { StoreError } from '../stores/store-error.ts';

const reserve = { ttlSeconds: 1_000, estimate: 400, onExpiry: 'release' } as const;
const response = { dynamicMetadata: true };
const metadataAlone = { ...bareResponse, ...response };

function quota(key: string, traits: Partial<Rule> = {}): Rule {
  const limits = [limit({ unit: 'day', requestsPerUnit: 1_000_000, name: key })];
  return rule({ key, quotaMode: true, limits, ...traits });
}

interface Asked {
  key: string;
  id?: string | undefined;
  settles?: boolean;
  hits: number;
}

function descriptor({ key, id, settles = false, hits }: Asked): Descriptor {
  const entries = [{ key, value: 'a' }];
  if (id !== undefined) entries.unshift({ key: 'reservation_id', value: id });
  if (settles) entries.push({ key: 'settle', value: 'true' });
  return { entries, limit: undefined, hitsAddend: hits, isNegativeHits: false };
}

/** The overall code, and what the metadata reports as reserved, by the names of limits. */
function ask({ service }: BudgetLimiter, asked: readonly Asked[], own?: ResponseOptions) {
  const answers: { code: Code; reserved: Record<string, unknown> | undefined }[] = [];
  service.decide(
    { domain: 'd', descriptors: asked.map(descriptor), hitsAddend: 0 },
    { abandoned: false },
    {
      response: own,
      answer: ({ overallCode, dynamicMetadata }) => {
        const quotas = dynamicMetadata?.['quotas'] as { name: string; reserved?: number }[] | undefined;
        const reserved =
          dynamicMetadata && Object.fromEntries((quotas ?? []).map(({ name, reserved }) => [name, reserved]));
        answers.push({ code: overallCode, reserved });
      },
      reject: (error) => {
        throw error;
      },
    },
  );
  expect(answers).toHaveLength(1);
  return answers[0]!;
}

const rules = [
  quota('team', { reserve }),
  quota('user', { reserve }),
  quota('spare'),
  quota('free', { limits: [limit({ unit: '', unlimited: true })] }),
  rule({ key: 'hard', limits: [limit({ unit: 'day', requestsPerUnit: 1_000_000 })], reserve }),
];

/** `own`: whether the caller wants an answer of its own, and which. */
const steps = fc.array(
  fc.record({
    does: fc.array(fc.constantFrom('nothing', 'counts', 'reserves', 'commits'), {
      minLength: rules.length,
      maxLength: rules.length,
    }),
    hits: fc.integer({ min: 0, max: 50 }),
    own: fc.constantFrom(undefined, undefined, metadataAlone, bareResponse),
  }),
  { minLength: 1, maxLength: 8 },
);

describe('the metadata of quotas', () => {
  it('reports what is reserved of each, whatever the request does with it', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const limiter = budgetLimiter({ rules, response });
        const reserved = new Map<string, number>();
        for (const [step, { does, hits, own }] of list.entries()) {
          const asked: Asked[] = [];
          const shown: Record<string, number | undefined> = {};
          for (const [n, verb] of does.entries()) {
            const { key, reserve: terms, quotaMode } = rules[n]!;
            if (verb === 'nothing') continue;
            const isMarked = terms !== undefined && verb !== 'counts';
            const settles = verb === 'commits';
            // A commit names the reservation of the step before, if there is one.
            asked.push({ key, hits, ...(isMarked && { id: `${key}${settles ? step - 1 : step}`, settles }) });
            if (isMarked && settles) reserved.delete(`${key}${step - 1}`);
            else if (isMarked) reserved.set(`${key}${step}`, hits);
            if (quotaMode) shown[key === 'free' ? 'a' : key] = undefined;
            if (!quotaMode || terms === undefined) continue;
            let sum = 0;
            for (const [id, amount] of reserved) if (id.startsWith(key)) sum += amount;
            // An answer of the caller's own does not ask the store for amounts.
            shown[key] = own === undefined || isMarked ? sum : undefined;
          }
          if (asked.length === 0) continue;
          const expected = { code: Code.OK, reserved: own === bareResponse ? undefined : shown };
          expect(ask(limiter, asked, own)).toEqual(expected);
        }
      }),
      { numRuns: caseCount(100) },
    );
  });

  it('reports what is reserved of the limit that it describes', () => {
    const limits = [
      limit({ unit: 'hour', requestsPerUnit: 1_000, name: 'hourly' }),
      limit({ unit: 'minute', requestsPerUnit: 500, name: 'minutely' }),
    ];
    const limiter = budgetLimiter({ rules: [quota('team', { limits, reserve })], response });
    const look = () => ask(limiter, [{ key: 'team', hits: 0 }]).reserved;
    limiter.clock.ms += 60_000;
    expect(ask(limiter, [{ key: 'team', id: 's1', hits: 400 }]).reserved).toEqual({ minutely: 400 });
    expect(look()).toEqual({ minutely: 400 });
    limiter.clock.ms += 60_000;
    expect(look()).toEqual({ minutely: 0 });
    expect(ask(limiter, [{ key: 'team', id: 's2', hits: 450 }]).reserved).toEqual({ minutely: 450 });
    limiter.clock.ms += 60_000;
    expect(look()).toEqual({ hourly: 850 });
  });

  it('reports nothing of counters that the store does not answer for', () => {
    const failing = (store: Store): Store => ({
      submit: (ops, options, done) => {
        if (ops[0]!.hold === undefined) store.submit(ops, options, done);
        else {
          failAll(ops, new StoreError('away', { transient: true }));
          done();
        }
      },
      notes: store.notes,
      ping: () => store.ping(),
      close: () => store.close(),
    });
    const limiter = budgetLimiter({
      ...{ rules, response, around: failing },
      counting: { storeFailureMode: 'allow' },
    });
    expect(ask(limiter, [{ key: 'team', hits: 1 }])).toEqual({
      ...{ code: Code.OK, reserved: { team: undefined } },
    });
    expect(ask(limiter, [{ key: 'team', id: 's1', hits: 1 }]).code).toBe(Code.OK);
  });

  it('reports nothing reserved of a store that supports no reservations', () => {
    const without = (store: Store): Store => ({
      submit: (ops, options, done) => {
        expect(ops.every(({ hold }) => hold === undefined)).toBe(true);
        store.submit(ops, options, done);
      },
      ping: () => store.ping(),
      close: () => store.close(),
    });
    const limiter = budgetLimiter({ rules, response, around: without });
    const both = ['team', 'spare'].map((key) => ({ key, hits: 1 }));
    expect(ask(limiter, both).reserved).toEqual({ team: undefined, spare: undefined });
  });
});
