/** A Redis that answers what its commands never give: no request is decided by that, and STORE_FAILURE_MODE decides. */

import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { RedisStoreAdmin } from '../../limiter/operate/store-admin/redis-store-admin.ts';
import { newLeaseTerms, type Operation } from '../../limiter/stores/operation.ts';
import type { RedisStoreBase } from '../../limiter/stores/redis/redis-store-base.ts';
import type { Store } from '../../limiter/stores/store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, submit } from '../support/counter-ops.ts';
import { type FakeRedis, resp, startFakeRedis } from '../support/fake-redis.ts';
import { httpAsk } from '../support/http-ask.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { openRedisStoreAdmin } from '../support/open-store-admin.ts';
import { newRedisStore, openRedisStore } from '../support/redis-stores.ts';
import {
  lookCall,
  reserveCall,
  reservedCounter,
  settleCall,
  submitCall,
  type TestCall,
} from '../support/reservation-calls.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const nowMicros = 1_800_000_000_000_000;
const secret = 'secret-of-a-caller';

/** What a test's Redis answers to every command, by a name. */
const replies = {
  status: '+OK\r\n',
  otherStatus: '+QUEUED\r\n',
  one: ':1\r\n',
  minusOne: ':-1\r\n',
  least: ':-9223372036854775808\r\n',
  most: ':9223372036854775807\r\n',
  beyondMost: ':99999999999999999999\r\n',
  text: resp(secret),
  emptyText: resp(''),
  digits: resp('7'),
  nothing: resp(null),
  noList: '*-1\r\n',
  emptyList: resp([]),
  listOfOne: resp([1]),
  listOfLeast: '*1\r\n:-9223372036854775808\r\n',
  listOfMost: '*1\r\n:9223372036854775807\r\n',
  listOfText: resp([secret]),
  listOfNothing: resp([null]),
  listOfStatus: '*1\r\n+OK\r\n',
  listOfList: '*1\r\n*0\r\n',
  oneTwoThree: resp([1, 2, 3]),
  fiveZeros: resp([0, 0, 0, 0, 0]),
  manyNumbers: resp(Array<number>(64).fill(1)),
  timeAlone: resp([nowMicros]),
  timeAndLess: resp([nowMicros, -1, -1, -1, -1]),
  timeAndText: resp([nowMicros, secret]),
  timeAndNothing: resp([nowMicros, null]),
  timeAndMore: resp([nowMicros, 1, 1, 1, 1, 1]),
  reservedFor1970: resp([nowMicros, 'reserved 0 0 c 1 0 0 1 1 0 1 0 0 ']),
  reservedBelowZero: resp([nowMicros, `reserved ${nowMicros / 1000 + 60_000} 0 c -1 0 0 1 1 0 1 0 0 `]),
  reservedCut: resp([nowMicros, `reserved ${nowMicros / 1000 + 60_000} 0 c 1 0 0 `]),
  reservedInOtherWords: resp([nowMicros, `reserved ${nowMicros / 1000 + 60_000} 0 z 1 0 0 1 1 0 1 0 0 `]),
  settledWithMore: resp([nowMicros, 'settled 3 3 c 1 0 0 1 1 0 1 0 0 9 ']),
  otherOutcome: resp([nowMicros, 'passed 1 1 c 1 0 0 1 1 0 1 0 ']),
  heldWithoutTime: resp([' ', 0]),
  heldBefore1970: resp([' ', -1]),
  heldAtOne: resp([' ', 1]),
  heldNothingAtAll: resp(['', nowMicros]),
  heldTooMany: resp(['     ', nowMicros]),
  heldWords: resp([`${secret} `, nowMicros]),
  heldBelowZero: resp(['-1:-2:-3 ', nowMicros]),
  heldTwoParts: resp(['1:2 ', nowMicros]),
  heldTooLarge: resp(['99999999999999999:0:0 ', nowMicros]),
  heldErrorWithoutError: resp(['! ', nowMicros]),
  heldAndMore: resp([' ', nowMicros, 3]),
  leasedBelowZero: resp([1, -1, -1, '', nowMicros]),
  leasedTooMany: resp([1, 100, 100, '', nowMicros]),
  leasedOfNothing: resp([1, null, null, '', nowMicros]),
  scanOfNumbers: '*2\r\n$1\r\n0\r\n*1\r\n:1\r\n',
  scanWithoutCursor: '*2\r\n$1\r\nx\r\n*0\r\n',
} as const;
type ReplyName = keyof typeof replies;

/** Something that is asked of Redis. Rejects with the store's error. */
interface Question {
  ask(store: RedisStoreBase): Promise<unknown>;
  /** Of the replies above, those that a sound Redis may give to it. */
  sound: readonly ReplyName[];
}

async function answered(store: Store, ops: Operation[], stopWhenOver = false): Promise<Operation[]> {
  await submit(store, ops, { stopWhenOver });
  const failed = ops.filter(({ error }) => error !== undefined);
  // One that is answered although another is not could not have come from such a reply.
  if (failed.length > 0) {
    expect(failed).toHaveLength(ops.length);
    throw failed[0]!.error;
  }
  return ops;
}

const key = `1{d;k=${secret}}60:60`;
const sliding = new SlidingWindow({ requests: 10, windowMicros: 3_600_000_000 });
const bucket = new TokenBucket({ requests: 10, burst: 5, windowMicros: 3_600_000_000 });
const plain = () => counterOp({ key });
const bounded = (bound: AlgorithmBound = sliding) => counterOp({ key, bound, limit: 10 });
const group = () =>
  [new FixedWindow(9), sliding, bucket].map((bound, i) =>
    counterOp({ key: `${key}${i}`, bound, groupSize: 3, limit: bound.capacity }),
  );
const leased = (): Operation => {
  const reported = { sequence: 1, want: 5, most: 5, limit: 100 };
  const lease = newLeaseTerms({ ledgerKey: `weir:lease:${key}`, limiter: 'l', ...reported });
  return counterOp({ key, maxLease: 5, lease });
};
const counters = (amount?: number) => [reservedCounter({ stem: `1{d;k=${secret}}`, amount })];
const asked = (call: TestCall) => (store: RedisStoreBase) => submitCall(store, call);

/** Of one Redis, by scripts. */
const byScript: Record<string, Question> = {
  'a hit': { ask: (store) => answered(store, [plain()]), sound: ['listOfOne', 'timeAlone'] },
  'a look': {
    ask: (store) => answered(store, [counterOp({ key, hits: 0 })]),
    sound: ['listOfOne', 'timeAlone'],
  },
  'a refund': {
    ask: (store) => answered(store, [counterOp({ key, negative: true })]),
    sound: ['listOfOne', 'timeAlone'],
  },
  'hits of two counters': { ask: (store) => answered(store, [plain(), counterOp({ key: 'b' })]), sound: [] },
  'a hit that stops when over': {
    ask: (store) => answered(store, [plain()], true),
    sound: ['listOfOne', 'timeAlone'],
  },
  'a sliding window': { ask: (store) => answered(store, [bounded()]), sound: [] },
  'a bucket': { ask: (store) => answered(store, [bounded(bucket)]), sound: [] },
  'several limits': { ask: (store) => answered(store, group()), sound: [] },
  'several limits that stop when over': { ask: (store) => answered(store, group(), true), sound: [] },
  'a window and a bucket': {
    ask: (store) => answered(store, [counterOp({ key: 'b' }), bounded(bucket)]),
    sound: [],
  },
  'a lease': { ask: (store) => answered(store, [leased()]), sound: [] },
  reserve: { ask: (store) => asked(reserveCall({ id: 'r', counters: counters(3) }))(store), sound: [] },
  settle: { ask: (store) => asked(settleCall({ id: 'r', counters: counters(3) }))(store), sound: [] },
  'look at a budget': { ask: (store) => asked(lookCall(counters()))(store), sound: [] },
  'a note': {
    ask: (store) => store.notes.note({ id: 'r', text: 'text', ttlMs: 60_000, owner: undefined }),
    sound: ['status', 'nothing', 'noList'],
  },
  'a note that is recalled': {
    ask: (store) => store.notes.recall('r'),
    sound: ['text', 'emptyText', 'digits', 'nothing', 'noList'],
  },
  'a claim': {
    ask: (store) => store.claims.claim('c', 60),
    sound: ['status', 'nothing', 'noList'],
  },
};

/** Where no scripts run. */
const byCommands: Record<string, Question> = {
  'a hit': { ask: (store) => answered(store, [plain()]), sound: ['one', 'minusOne'] },
  'a look': {
    ask: (store) => answered(store, [counterOp({ key, hits: 0 })]),
    sound: ['digits', 'nothing', 'noList'],
  },
  'a refund': {
    ask: (store) => answered(store, [counterOp({ key, negative: true })]),
    sound: ['nothing', 'noList'],
  },
  'a hit that stops when over': { ask: (store) => answered(store, [plain()], true), sound: [] },
};

const { 'hits of two counters': _two, 'a window and a bucket': _both, ...ofOneSlot } = byScript;

/** A hit in a cluster is plain commands; all else are the scripts, for each slot one. */
const inCluster: Record<string, Question> = {
  ...ofOneSlot,
  'a hit': byCommands['a hit']!,
  'a look': byCommands['a look']!,
  'a hit that stops when over': byCommands['a hit that stops when over']!,
};

/** What it says of a reply holds nothing of a caller. */
function expectWorded(error: unknown, what: string): void {
  const worded =
    /^StoreError: (?:Redis gave an answer of an unexpected form to [A-Z ]+: |Redis answered: ERR value is not an integer)/;
  expect([what, String(error)]).toEqual([what, expect.stringMatching(worded)]);
  expect(String(error)).not.toContain(secret);
}

/** Every question with every reply, all names of replies at a time. */
async function expectRejected(
  questions: Record<string, { ask: (at: ReplyName) => Promise<unknown>; sound: readonly ReplyName[] }>,
): Promise<void> {
  for (const [question, { ask, sound }] of Object.entries(questions)) {
    for (const name of Object.keys(replies) as ReplyName[]) {
      const what = `${question}, answered with ${name}`;
      const outcome = await ask(name).then(
        (answer) => `answered ${JSON.stringify(answer)}`,
        (error: unknown) => error,
      );
      if (sound.includes(name)) expect([what, outcome]).toEqual([what, expect.stringMatching(/^answered/)]);
      else expectWorded(outcome, what);
    }
  }
}

describe('a Redis that gives wrong replies', () => {
  let fake: FakeRedis;
  let reply: string = replies.status;
  beforeAll(async () => {
    fake = await startFakeRedis(([name = '', first = '', second = '']) => {
      // Makes the counter that is then counted.
      if (name.toUpperCase() === 'SET' && second === '0') return '+OK\r\n';
      const isSlots = name.toUpperCase() === 'CLUSTER' && first.toUpperCase() === 'SLOTS';
      return isSlots ? `*1\r\n*3\r\n:0\r\n:16383\r\n${resp(['127.0.0.1', fake.port])}` : reply;
    });
  });
  afterAll(() => fake.close());

  const questionsOf = (store: RedisStoreBase, questions: Record<string, Question>) =>
    Object.fromEntries(
      Object.entries(questions).map(([question, { ask, sound }]) => [
        question,
        {
          ask: (name: ReplyName) => {
            reply = replies[name];
            return ask(store);
          },
          sound,
        },
      ]),
    );

  it.each([
    ['by scripts', 'auto', byScript],
    ['by plain commands', 'never', byCommands],
  ] as const)('answers no question of a store %s', async (_, scripts, questions) => {
    const store = await openRedisStore({ url: `127.0.0.1:${fake.port}` }, { scripts });
    onTestFinished(() => store.close());
    await expectRejected(questionsOf(store, questions));
  });

  it('answers no question of a store in a cluster', async () => {
    const store = await openClusterStore({ url: `127.0.0.1:${fake.port}` });
    onTestFinished(() => store.close());
    await expectRejected(questionsOf(store, inCluster));
  });

  it('reports no operator of counters, records or overrides', async () => {
    const storeAdmin = openRedisStoreAdmin(`127.0.0.1:${fake.port}`, { leases: true });
    onTestFinished(() => storeAdmin.close());
    const one = [{ key, perSecond: false }];
    const nil = ['nothing', 'noList'] as const;
    const texts = ['text', 'emptyText', 'digits'] as const;
    const asks: Record<
      string,
      [(storeAdmin: RedisStoreAdmin) => Promise<unknown>, sound: readonly ReplyName[]]
    > = {
      'a list': [(it) => it.scan({ prefixes: ['1{'], from: undefined, count: 10 }), []],
      'a counter': [(it) => it.read(one), []],
      // It also asks for reservations. The answer of their script is no number.
      'a reset': [(it) => it.remove(one), []],
      'a message': [(it) => it.publish('x'), ['one']],
      'all records': [(it) => it.records('overrides'), ['emptyList']],
      'a record': [(it) => it.record('overrides', 'f'), [...texts, ...nil]],
      'a record that is put': [(it) => it.putRecord('overrides', 'f', 'x'), ['one']],
      'a new record': [(it) => it.putRecord('overrides', 'f', 'x', 'absent'), ['one']],
      'a record that is exchanged': [(it) => it.putRecord('overrides', 'f', 'x', { is: 'y' }), ['one']],
      'a record that is removed': [(it) => it.removeRecord('overrides', 'f'), ['one']],
    };
    const questions = Object.entries(asks).map(([question, [ask, sound]]) => [
      question,
      {
        ask: (name: ReplyName) => {
          reply = replies[name];
          return ask(storeAdmin);
        },
        sound,
      },
    ]);
    await expectRejected(Object.fromEntries(questions));
  });

  it.each(['+PING', ':1', '$4\r\nPONG', '*0', '$-1'])('is none if it answers PING with %j', async (pong) => {
    const other = await startFakeRedis(() => '+OK\r\n', { pong: `${pong}\r\n` });
    onTestFinished(() => other.close());
    const store = newRedisStore({ url: `127.0.0.1:${other.port}` });
    onTestFinished(() => store.close());
    const connected = store.connect({
      ...{ initialMs: 1, maxMs: 1, maxElapsedMs: 1, monotonicMs: () => performance.now() },
      sleep: () => Promise.resolve(),
    });
    await expect(connected).rejects.toThrow(/unexpected form to PING: /);
  });

  describe('to a limiter', () => {
    const folder = suiteFolder();
    beforeAll(() => {
      mkdirSync(join(folder, 'config'));
      const rules = ['plain', 'sliding'].map(
        (name) =>
          `  - key: ${name}\n    rate_limit: { unit: hour, requests_per_unit: 5${name === 'plain' ? '' : ', algorithm: sliding_window'} }\n`,
      );
      writeFileSync(join(folder, 'config/d.yaml'), `domain: d\ndescriptors:\n${rules.join('')}`);
    });

    const post = async (limiter: InProcessLimiter, path: string, body: object) => {
      const headers = { 'content-type': 'application/json' };
      return httpAsk(limiter.ports.http, path, { method: 'POST', headers, body: JSON.stringify(body) });
    };

    it.each([
      ['error', 400, 503],
      ['deny', 429, 429],
    ])('with STORE_FAILURE_MODE=%s is an error of the store', async (mode, ofJson, ofCheck) => {
      const limiter = await InProcessLimiter.start({
        env: {
          ...{ RUNTIME_ROOT: folder, BACKEND_TYPE: 'redis', REDIS_SOCKET_TYPE: 'tcp' },
          ...{ REDIS_URL: `127.0.0.1:${fake.port}`, STORE_FAILURE_MODE: mode },
        },
      });
      onTestFinished(async () => void (await limiter.stop()));
      const names: readonly ReplyName[] = [
        ...(['status', 'least', 'text', 'nothing', 'emptyList', 'listOfText', 'oneTwoThree'] as const),
        ...([
          'manyNumbers',
          'timeAndLess',
          'reservedFor1970',
          'heldTooMany',
          'heldErrorWithoutError',
        ] as const),
      ];
      for (const name of names) {
        reply = replies[name];
        const descriptors = ['plain', 'sliding'].map((one) => [{ [one]: secret }]);
        const json = await limiter.ask('d', [{ plain: secret }, { sliding: secret }]);
        expect([name, json.status]).toEqual([name, ofJson]);
        const check = await post(limiter, '/v1/check', { domain: 'd', descriptors });
        expect([name, check.status]).toEqual([name, ofCheck]);
        const reserve = await post(limiter, '/v1/reserve', {
          domain: 'd',
          descriptors,
          amount: 3,
          ttl: '1m',
        });
        expect([name, reserve.status]).not.toEqual([name, 200]);
        expect(reserve.body).not.toContain('1970');
      }
      const stats = await limiter.stats();
      const counted = mode === 'error' ? 'redis_error' : 'store_failure_mode';
      expect(stats.get(`ratelimit.service.call.should_rate_limit.${counted}`)).toBeGreaterThanOrEqual(
        names.length,
      );
      expect(await limiter.healthStatus()).toBe(200);
      const reported = limiter.lines.filter((line) => line.includes('unexpected form to EVALSHA'));
      expect(reported).not.toEqual([]);
      expect(limiter.lines.join('\n')).not.toContain(secret);
    });
  });
});
