import { createHash } from 'node:crypto';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { beforeEach, describe, expect, it } from 'vitest';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { unsignedToken } from '../../test/support/service-account-token.ts';
import {
  type ReviewOutcome,
  type TokenOutcome,
  TokenReviews,
  type TokenReviewsOptions,
} from './token-reviews.ts';

const audience = 'weir-control-plane';
const user = 'system:serviceaccount:shop:limiter';

let clock: ManualClock;
let timers: ManualTimers;
let asked: string[];
let outcomes: ReviewOutcome[];
let failures: string[];
let answer: (token: string) => Promise<{ user: string } | { problem: string }>;

beforeEach(() => {
  clock = new ManualClock(1_000_000);
  timers = new ManualTimers();
  asked = [];
  outcomes = [];
  failures = [];
  answer = async () => ({ user });
});

function advance(ms: number): void {
  clock.ms += ms;
  timers.advance(ms);
}

function reviews(
  options: Partial<TokenReviewsOptions> = {},
): (token: string, address?: string) => ReturnType<TokenReviews['outcome']> {
  const all = new TokenReviews({
    audience,
    review: (token) => {
      asked.push(token);
      return answer(token);
    },
    perSecond: 100,
    maxKnown: 100,
    clock,
    timers,
    reviewed: (outcome) => outcomes.push(outcome),
    failed: (reason) => failures.push(reason),
    ...options,
  });
  return (token, address = '10.0.0.1') =>
    all.outcome(token, createHash('sha256').update(token).digest('base64'), address);
}

let number = 0;
/** Another one each time; it expires in an hour, unless the claims say otherwise. */
const newToken = (claims: object = {}): string =>
  unsignedToken({ aud: [audience], exp: clock.ms / 1000 + 3_600, jti: String(number++), ...claims });

describe('TokenReviews', () => {
  it('remembers a good token for a minute, then asks again', async () => {
    const outcome = reviews();
    const token = newToken();
    const known = { is: 'known', user, expiresMs: clock.ms + 3_600_000 };
    expect(await outcome(token)).toEqual(known);
    advance(59_999);
    expect(outcome(token)).toEqual(known);
    expect(asked).toHaveLength(1);
    advance(1);
    expect(await outcome(token)).toEqual(known);
    expect(asked).toHaveLength(2);
  });

  it('takes a token that was good while the API server is away, until it expires', async () => {
    const outcome = reviews();
    const token = newToken({ exp: clock.ms / 1000 + 600 });
    await outcome(token);
    answer = () => Promise.reject(new Error('connection refused'));
    advance(300_000);
    expect(await outcome(token)).toMatchObject({ is: 'known' });
    expect(await outcome(newToken())).toEqual({
      is: 'open',
      reason: 'the API server cannot be asked about the token',
    });
    expect(failures).toEqual(['connection refused', 'connection refused']);
    advance(300_000);
    expect(await outcome(token)).toEqual({ is: 'unknown', reason: 'the token has expired' });
  });

  it('forgets a token that is good no more', async () => {
    const outcome = reviews();
    const token = newToken();
    await outcome(token);
    answer = async () => ({ problem: 'deleted' });
    advance(60_000);
    expect(await outcome(token)).toMatchObject({ is: 'unknown' });
    advance(10_000);
    answer = () => Promise.reject(new Error('connection refused'));
    expect(await outcome(token)).toMatchObject({ is: 'open' });
  });

  it('asks again about a token that was good, however many bad ones come from its address', async () => {
    const good = newToken();
    answer = async (token) => (token === good ? { user } : { problem: 'unknown' });
    const outcome = reviews();
    expect(await outcome(good)).toMatchObject({ is: 'known' });
    for (let sent = 0; sent < 36; sent += 1) void outcome(newToken());
    expect(outcome(newToken())).toMatchObject({ is: 'open' });
    advance(60_000);
    expect(await outcome(good)).toMatchObject({ is: 'known' });
    answer = async () => ({ problem: 'withdrawn' });
    advance(60_000);
    expect(await outcome(good)).toMatchObject({ is: 'unknown' });
  });

  it('remembers a bad token for ten seconds, without its being wrong again', async () => {
    const outcome = reviews();
    answer = async () => ({ problem: 'no' });
    const token = newToken();
    expect(await outcome(token)).toMatchObject({ is: 'unknown' });
    for (let i = 0; i < 20; i++) expect(outcome(token)).toMatchObject({ is: 'unknown' });
    expect(asked).toHaveLength(1);
    answer = async () => ({ user });
    advance(10_000);
    expect(await outcome(token)).toMatchObject({ is: 'known' });
  });

  it('asks once for a token that many streams show at a time', async () => {
    const outcome = reviews();
    const token = newToken();
    const all = await Promise.all(Array.from({ length: 50 }, () => outcome(token)));
    expect(new Set(all.map(({ is }) => is))).toEqual(new Set(['known']));
    expect(asked).toHaveLength(1);
  });

  it.each([
    ['is no JWT', 'a-token-of-another-kind'],
    ['has no claims', 'a.b.c'],
    ['has claims that are null', `a.${Buffer.from('null').toString('base64url')}.c`],
    ['is for another audience', unsignedToken({ aud: 'other', exp: 9e9 })],
    ['has expired', unsignedToken({ aud: audience, exp: 999 })],
    ['never expires', unsignedToken({ aud: audience })],
  ])('does not ask about a token that %s', (_, token) => {
    expect(reviews()(token)).toMatchObject({ is: 'unknown' });
    expect(asked).toEqual([]);
  });

  it('remembers no more good tokens than it may', async () => {
    const outcome = reviews({ maxKnown: 2 });
    const [first, ...rest] = [newToken(), newToken(), newToken()];
    for (const token of [first as string, ...rest]) await outcome(token);
    for (const token of rest) expect(outcome(token)).toMatchObject({ is: 'known' });
    expect(outcome(first as string)).toBeInstanceOf(Promise);
  });

  it('asks about eight at a time, and about so many a second', async () => {
    const settle: (() => void)[] = [];
    answer = () => new Promise((resolve) => settle.push(() => resolve({ user })));
    const outcome = reviews({ perSecond: 10 });
    const all = Array.from({ length: 12 }, (_, i) => outcome(newToken(), `10.0.0.${i}`));
    expect(asked).toHaveLength(8);
    for (const one of settle.splice(0)) one();
    await Promise.all(all.slice(0, 8));
    expect(asked).toHaveLength(10);
    advance(200);
    expect(asked).toHaveLength(12);
    for (const one of settle.splice(0)) one();
    expect((await Promise.all(all)).map(({ is }) => is)).toEqual(Array(12).fill('known'));
  });

  describe('behind an address from which made-up tokens come', () => {
    const flooded = '192.0.2.66';
    let good: string;
    let outcome: ReturnType<typeof reviews>;
    /** What made-up tokens got. */
    let answers: TokenOutcome[];
    beforeEach(() => {
      good = newToken({ exp: 9e9 });
      answer = async (token) => (token === good ? { user } : { problem: 'no' });
      outcome = reviews();
      answers = [];
    });

    async function flood(seconds: number, perSecond: number): Promise<void> {
      let sent = 0;
      for (let step = 1; step <= seconds * 10; step++) {
        for (; sent < (step * perSecond) / 10; sent++) {
          void Promise.resolve(outcome(newToken(), flooded)).then((one) => answers.push(one));
        }
        advance(100);
        await nextTurn();
      }
    }

    /** What the right token has got so far. */
    function show(): { is?: TokenOutcome['is'] } {
      const got: { is?: TokenOutcome['is'] } = {};
      void Promise.resolve(outcome(good, flooded)).then(({ is }) => Object.assign(got, { is }));
      return got;
    }

    it('so many questions are asked: 90 in the first minute and 60 in each further', async () => {
      await flood(60, 300);
      expect(asked.length).toBeGreaterThanOrEqual(89);
      expect(asked.length).toBeLessThanOrEqual(91);
      await flood(120, 300);
      expect(asked.length).toBeLessThanOrEqual(211);
      expect(answers.filter(({ is }) => is === 'unknown')).toHaveLength(asked.length);
      expect(outcomes.filter((outcome) => outcome === 'not asked').length).toBeGreaterThan(53_000);
      expect(answers).toContainEqual({
        is: 'open',
        reason:
          'too many tokens that the API server does not know came from this address: try again in some seconds',
      });
      // Nobody else notices.
      expect(await outcome(newToken(), '10.0.0.9')).toMatchObject({ is: 'unknown' });
    });

    it('a right one is heard at once, once its budget has filled again', async () => {
      await flood(60, 300);
      advance(30_000);
      await nextTurn();
      expect(await outcome(good, flooded)).toMatchObject({ is: 'known' });
    });

    it('a right one is heard within seconds while bad ones continue', async () => {
      await flood(600, 1);
      const got = show();
      await flood(6, 1);
      expect(got).toEqual({ is: 'known' });
    });

    it('a right one is heard within two seconds of its coming again while they come in floods', async () => {
      await flood(60.5, 300);
      const first = show();
      await flood(16, 300);
      expect(first).toEqual({ is: 'open' });
      const second = show();
      await flood(2, 300);
      expect(second).toEqual({ is: 'known' });
    });

    it('right ones cost nothing of the budget', async () => {
      answer = async () => ({ user });
      for (let sent = 0; sent < 500; sent++) {
        expect(await outcome(newToken(), flooded)).toMatchObject({ is: 'known' });
        advance(10);
      }
    });

    it('nor do those about which the API server cannot be asked', async () => {
      answer = () => Promise.reject(new Error('connection refused'));
      for (let sent = 0; sent < 500; sent++) {
        expect(await outcome(newToken(), flooded)).toMatchObject({ is: 'open' });
        advance(10);
      }
      answer = async () => ({ user });
      expect(await outcome(good, flooded)).toMatchObject({ is: 'known' });
    });
  });

  it('lets addresses take turns', async () => {
    const outcome = reviews({ perSecond: 8 });
    const many = Array.from({ length: 30 }, () => newToken());
    const other = newToken();
    for (const token of many) void outcome(token, '10.0.0.1');
    void outcome(other, '10.0.0.2');
    // Eight are asked about at once; the next two after an eighth of a second each.
    await nextTurn();
    advance(250);
    await nextTurn();
    expect(asked).toHaveLength(10);
    expect(asked.slice(8)).toContain(other);
  });

  it('lets so many wait and no more, whatever the number of addresses', () => {
    answer = () => new Promise(() => {});
    const outcome = reviews();
    const all = Array.from({ length: 1_000 }, (_, i) => outcome(newToken(), `10.0.${i >> 8}.${i & 255}`));
    expect(all.filter((one) => one instanceof Promise)).toHaveLength(8 + 256);
    expect(all.at(-1)).toEqual({ is: 'open', reason: 'too many tokens wait for a review by the API server' });
  });

  it('reports to callers that wait when it closes', async () => {
    answer = () => new Promise(() => {});
    const all = new TokenReviews({
      audience,
      review: answer,
      perSecond: 1,
      maxKnown: 9,
      clock,
      timers,
      reviewed: () => {},
      failed: () => {},
    });
    const [, waiting] = [newToken(), newToken()].map((token) => all.outcome(token, token, 'a'));
    all.close();
    expect(await waiting).toEqual({ is: 'open', reason: 'this replica is shutting down' });
    expect(timers.size).toBe(0);
  });
});
