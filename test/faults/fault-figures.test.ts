import { describe, expect, it } from 'vitest';
import { breaches, type FaultEvidence, type FaultFigures, faultFigures } from './fault-figures.ts';
import type { Answer } from './fault-load.ts';
import { GeneratorStalls } from './generator-stalls.ts';

const answer = (given: Partial<Answer> = {}): Answer => ({
  counter: 'a',
  limit: 100,
  askedMs: 0,
  tookMs: 1,
  outcome: 'OK',
  admitted: given.outcome === undefined || given.outcome === 'OK',
  message: '',
  ...given,
});

const figuresOf = (
  answers: Answer[],
  held: Record<string, number> = {},
  evidence: Partial<FaultEvidence> = {},
) =>
  faultFigures({
    sent: answers.length,
    answers,
    held: new Map(Object.entries(held)),
    openSpans: [{ fromMs: 100, toMs: 200 }],
    stalls: new GeneratorStalls(),
    rejectsUncounted: false,
    ...evidence,
  });

const lostAnswer = { outcome: 'ERROR', message: 'connection to Redis was lost before it answered' } as const;
const refused = {
  outcome: 'ERROR',
  message: 'the limiter does not ask the store until it answers again: Redis is not connected',
} as const;

describe('faultFigures', () => {
  it('count answers, errors and answers by mode, and find the slowest', () => {
    const answers = [answer(), answer({ outcome: 'BY_MODE', tookMs: 7 }), answer(lostAnswer)];
    expect(figuresOf(answers, { a: 1 })).toMatchObject({
      sent: 3,
      answered: 2,
      errors: 1,
      byMode: 1,
      slowestMs: 7,
    });
  });

  it('call a hit lost that was counted for an answer and is not held, whether OK or over the limit', () => {
    const answers = [answer(), answer({ outcome: 'OVER_LIMIT' }), answer({ counter: 'b' })];
    expect(figuresOf(answers, { a: 1 }).lost).toBe(2);
    expect(figuresOf(answers, { a: 2, b: 1 }).lost).toBe(0);
  });

  it('call an answer over limit lost, which an exhausted limit may give uncounted, only if less than the limit is held', () => {
    const answers = [answer({ limit: 1 }), answer({ limit: 1, outcome: 'OVER_LIMIT' })];
    const lost = (a: number) => figuresOf(answers, { a }, { rejectsUncounted: true }).lost;
    expect([0, 1, 2].map(lost)).toEqual([2, 0, 0]);
  });

  it('call a hit counted twice that neither an answer nor a lost reply accounts for', () => {
    const answers = [answer(), answer(lostAnswer), answer({ outcome: 'BY_MODE' })];
    expect([1, 2, 3, 4].map((a) => figuresOf(answers, { a }).countedTwice)).toEqual([0, 0, 0, 1]);
  });

  it('hold that what the open breaker rejected was never counted', () => {
    expect(figuresOf([answer(refused)], { a: 1 }).countedTwice).toBe(1);
  });

  it('do not weigh what one counter lost against what another has too much', () => {
    const answers = [answer({ counter: 'a' }), answer({ counter: 'b' })];
    expect(figuresOf(answers, { a: 2 })).toMatchObject({ lost: 1, countedTwice: 1 });
  });

  it('call OK answers beyond a counter’s limit over-admitted', () => {
    const answers = [1, 2, 3].map(() => answer({ limit: 2 }));
    expect(figuresOf(answers, { a: 3 }).overAdmitted).toBe(1);
    expect(figuresOf([...answers, answer({ outcome: 'OVER_LIMIT' })], { a: 4 }).overAdmitted).toBe(1);
  });

  it('take p99 of what was answered without the store while the breaker was open', () => {
    const inside = Array.from({ length: 100 }, (_, i) => answer({ ...refused, askedMs: 100, tookMs: i }));
    const outside = [
      answer({ ...refused, askedMs: 99, tookMs: 190 }),
      answer({ ...refused, askedMs: 150, tookMs: 199 }),
      answer({ ...refused, askedMs: 300 }),
      answer({ askedMs: 100, tookMs: 98 }),
    ];
    expect(figuresOf([...inside, ...outside]).openP99Ms).toBe(99);
    expect(figuresOf(outside).openP99Ms).toBeUndefined();
  });

  it('take p99 of what was answered long before the breaker opened', () => {
    const span = { fromMs: 5000, toMs: 6000 };
    const before = Array.from({ length: 100 }, (_, i) => answer({ askedMs: 100, tookMs: i }));
    const late = answer({ askedMs: 3000, tookMs: 501 });
    expect(figuresOf([...before, late], {}, { openSpans: [span] }).quietP99Ms).toBe(99);
    expect(figuresOf([late]).quietP99Ms).toBeUndefined();
  });

  it('leave out of all durations what the load generator stood still', () => {
    const stalls = new GeneratorStalls();
    for (const [fromMs, toMs] of [
      [90, 104],
      [106, 107.5],
      [108, 108.9],
    ] as const)
      stalls.add(fromMs, toMs);
    const answers = [answer({ ...refused, askedMs: 100, tookMs: 10 })];
    const { openP99Ms, slowestMs } = figuresOf(answers, {}, { stalls });
    expect(openP99Ms).toBeCloseTo(10 - 4 - 1.5);
    expect(slowestMs).toBe(openP99Ms);
  });
});

describe('breaches', () => {
  const good: FaultFigures = {
    sent: 10,
    answered: 8,
    errors: 2,
    byMode: 0,
    slowestMs: 90,
    opened: 1,
    quietP99Ms: 1,
    openP99Ms: 1,
    overAdmitted: 0,
    lost: 0,
    countedTwice: 0,
  };
  const bounds = { slowestMs: 100, minErrors: 1, minOpened: 1 };

  it('find nothing wrong with figures within their bounds', () => {
    expect(breaches(good, bounds)).toEqual([]);
  });

  it.each([
    [{ slowestMs: 101 }, 'slowestMs is 101, more than 100'],
    [{ overAdmitted: 1 }, 'overAdmitted is 1, more than 0'],
    [{ lost: 1 }, 'lost is 1, more than 0'],
    [{ countedTwice: 1 }, 'countedTwice is 1, more than 0'],
    [{ errors: 0, answered: 10 }, 'errors is 0, less than 1'],
    [{ opened: 0 }, 'opened is 0, less than 1'],
    [{ sent: 11 }, '1 requests had no answer'],
  ])('report %o', (wrong, text) => {
    expect(breaches({ ...good, ...wrong }, bounds)).toEqual([text]);
  });

  it('allow what a case allows', () => {
    expect(breaches({ ...good, lost: 9 }, { ...bounds, lost: Number.POSITIVE_INFINITY })).toEqual([]);
    expect(breaches(good, { ...bounds, errors: 1 })).toEqual(['errors is 2, more than 1']);
  });
});
