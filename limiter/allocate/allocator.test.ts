import { beforeEach, describe, expect, it } from 'vitest';
import { MemoryStore } from '../stores/memory/memory-store.ts';
import { plainCounter } from '../stores/operation.ts';
import { Allocator, tickMs } from './allocator.ts';
import type { AssignmentForm, GrantedBucket, PoolTerms, Share } from './terms.ts';

let nowMs: number;
/** By how much the time of day was set. */
let dateMs: number;
let allocator: Allocator;
let store: MemoryStore;

beforeEach(() => {
  nowMs = 1_800_000_000_000;
  dateMs = 0;
  const clock = { nowMs: () => nowMs + dateMs, monotonicMs: () => nowMs };
  store = new MemoryStore({ clock, maxCounters: 100, maxBytes: 1e6, ledgers: true });
  allocator = new Allocator({ store, clock, random: () => 0.5, limiter: 'limiter' });
});

function termsOf(requests: number, form: AssignmentForm = 'exact', name = 'counter'): PoolTerms {
  const limit = {
    ...{ requests, lengthSeconds: 60, hasBurst: false },
    counter: plainCounter('counter', { perSecond: false, capacity: requests }),
    windowAt: (atMs: number) => {
      const startSeconds = Math.floor(atMs / 60_000) * 60;
      const ttlSeconds = startSeconds + 70 - Math.floor(atMs / 1000);
      return { key: `${name}_${startSeconds}`, startSeconds, endSeconds: startSeconds + 60, ttlSeconds };
    },
  };
  return { form, limits: [limit] };
}

interface Client {
  readonly share: Share;
  readonly pushes: GrantedBucket[];
}

function open(terms: PoolTerms): Client {
  const pushes: GrantedBucket[] = [];
  const holder = { weight: 1, push: (one: GrantedBucket) => void pushes.push(one), count: () => {} };
  return { pushes, share: allocator.open('pool', terms, holder) };
}

function wait(ms: number): void {
  for (const endMs = nowMs + ms; nowMs < endMs; nowMs += tickMs) allocator.tick();
}

const sentTo = ({ pushes }: Client): number =>
  pushes.reduce((sum, { tokens, isFresh }) => sum + (isFresh ? tokens : 0), 0);

describe('the hits of a client that is gone', () => {
  it('stay charged when another client comes', () => {
    const terms = termsOf(10);
    const gone = open(terms);
    gone.share.report({ allowed: 0, denied: 100 });
    expect(sentTo(gone)).toBeGreaterThan(0);
    nowMs += 50;
    gone.share.close();
    nowMs += 50;
    allocator.tick();
    const other = open(terms);
    let reported = 0;
    for (let n = 0; n < 8; n += 1) {
      const allowed = sentTo(other) - reported;
      reported += allowed;
      expect(other.share.report({ allowed, denied: 100 })).toBe(0);
      wait(5_000);
    }
    expect(sentTo(gone) + sentTo(other)).toBeLessThanOrEqual(10);
    expect(sentTo(other)).toBeGreaterThan(4);
  });
});

describe('a reset', () => {
  it.each([
    ['a fixed window', false, 'exact'],
    ['a sliding window', true, 'exact'],
    ['a sliding window of refilling buckets', true, 'refilling'],
  ] as const)('makes used hits available within a second: %s', (_, isEndless, form) => {
    const [fixed] = termsOf(100).limits;
    const endless = { key: 'counter', startSeconds: 0, endSeconds: Number.POSITIVE_INFINITY, ttlSeconds: 60 };
    const one = isEndless ? { ...fixed!, windowAt: () => endless } : fixed!;
    const terms = { form, limits: [one] };
    for (let n = 0; n < 9; n += 1) {
      const gone = open(terms);
      gone.share.report({ allowed: 0, denied: 1_000 });
      wait(5_000);
      gone.share.close();
    }
    const other = open(terms);
    other.share.report({ allowed: 0, denied: 1_000 });
    wait(1_000);
    expect(other.share.view().mayUse).toBeLessThan(3);
    const { key } = one.windowAt(nowMs);
    store.remove([key]);
    allocator.reset([key]);
    wait(1_000);
    const { mayUse } = other.share.view();
    expect(mayUse).toBeGreaterThan(10);
    expect(mayUse).toBeLessThanOrEqual(100);
  });
});

describe('terms of a pool', () => {
  it('change nothing if they say the same', () => {
    const client = open(termsOf(60));
    client.share.report({ allowed: 0, denied: 100 });
    const before = client.pushes.length;
    allocator.change('pool', termsOf(60));
    expect(client.pushes).toHaveLength(before);
    allocator.change('pool', termsOf(0));
    expect(client.pushes.at(-1)).toMatchObject({ tokens: 0 });
  });

  it('that come back find charged what clients could use before', () => {
    nowMs += 31_000;
    const client = open(termsOf(100));
    client.share.report({ allowed: 0, denied: 1_000 });
    wait(2_000);
    client.share.report({ allowed: 0, denied: 1_000 });
    wait(1_000);
    const allowed = sentTo(client);
    expect(allowed).toBeGreaterThan(90);
    allocator.change('pool', termsOf(100, 'exact', 'other'));
    client.share.report({ allowed, denied: 1_000 });
    wait(1_000);
    client.share.close();
    allocator.change('pool', termsOf(100));
    const next = open(termsOf(100));
    next.share.report({ allowed: 0, denied: 1_000 });
    wait(5_000);
    expect(allowed + sentTo(next)).toBeLessThanOrEqual(100);
  });

  it('of another form leave charged what clients may use of the form before', () => {
    const client = open(termsOf(600, 'refilling'));
    client.share.report({ allowed: 0, denied: 1_000 });
    const { mayUse } = client.share.view();
    expect(mayUse).toBeGreaterThan(200);
    allocator.change('pool', termsOf(600));
    for (let n = 0; n < 4; n += 1) {
      wait(5_000);
      client.share.report({ allowed: 0, denied: 1_000 });
    }
    const { form, assigned, returned } = client.share.view();
    expect(form).toBe('exact');
    expect(assigned - returned).toBeGreaterThan(0);
    expect(assigned - returned).toBeLessThanOrEqual(600 - mayUse);
  });
});

describe('a clock that is set', () => {
  it.each([
    ['exact', -10_000],
    ['exact', -3_600_000],
    ['exact', 3_600_000],
    ['refilling', -10_000],
    ['refilling', -3_600_000],
    ['refilling', 3_600_000],
  ] as const)('delays no assignment: %s, by %i ms', (form, ms) => {
    const client = open(termsOf(600, form));
    for (let n = 0; n < 16; n += 1) {
      if (n === 2) dateMs = ms;
      const before = client.pushes.length;
      client.share.report({ allowed: 0, denied: 1_000 });
      wait(5_000);
      expect(client.pushes.length).toBeGreaterThan(before);
    }
  });

  it('back has later windows charged again as soon as assignments reach into them', () => {
    const client = open(termsOf(600));
    client.share.report({ allowed: 0, denied: 1_000 });
    wait(50_000);
    dateMs = -3_600_000;
    wait(1_000);
    const keys = new Set<string>();
    const submit = store.submit.bind(store);
    store.submit = (ops, ...rest) => {
      for (const { key } of ops) keys.add(key);
      submit(ops, ...rest);
    };
    for (let n = 0; n < 24; n += 1) {
      client.share.report({ allowed: 0, denied: 1_000 });
      wait(5_000);
    }
    expect(keys.size).toBe(4);
  });
});

describe('many clients of one limit', () => {
  it('compete for it within the time of two reports, once it is not enough for all', () => {
    const reported: number[] = [];
    const submit = store.submit.bind(store);
    store.submit = (ops, ...rest) => {
      for (const { lease } of ops) if (lease !== undefined) reported.push(lease.hungry);
      submit(ops, ...rest);
    };
    const clients = Array.from({ length: 8_000 }, () => open(termsOf(1_000_000)));
    /** Each client reports once, a fifth of them in each second. */
    const reportAll = (denied: number): void => {
      for (let second = 0; second < 5; second += 1) {
        for (let n = second; n < clients.length; n += 5) clients[n]!.share.report({ allowed: 0, denied });
        wait(1_000);
      }
    };
    reportAll(1);
    reportAll(1);
    expect(reported.at(-1)).toBe(0);
    reportAll(1_000);
    reportAll(1_000);
    expect(reported.at(-1)).toBeGreaterThan(0);
  });
});
