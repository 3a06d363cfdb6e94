/**
 * Users of Redis that lack the right to one command, for every command that the limiter may send: an operation answers as for a user
 * with all rights, or with an error. After an error, nothing has changed. No key is ever left without a time to live.
 */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it, onTestFinished } from 'vitest';
import type { AlgorithmBound } from '../../limiter/algorithms/algorithm-bound.ts';
import { FixedWindow } from '../../limiter/algorithms/fixed-window.ts';
import { SlidingWindow } from '../../limiter/algorithms/sliding-window.ts';
import { TokenBucket } from '../../limiter/algorithms/token-bucket.ts';
import type { RedisStoreAdmin } from '../../limiter/operate/store-admin/redis-store-admin.ts';
import { type LeaseTerms, newLeaseTerms, type Operation } from '../../limiter/stores/operation.ts';
import { program } from '../../limiter/stores/redis/lua/program.ts';
import { parseClusterAddress } from '../../limiter/stores/redis/wire/redis-address.ts';
import { ledgerKeyOf, type Store } from '../../limiter/stores/store.ts';
import { openClusterStore } from '../support/cluster-stores.ts';
import { counterOp, type GivenTerms, submit } from '../support/counter-ops.ts';
import { describeWithEachRedis } from '../support/describe-with-each-redis.ts';
import { openRedisStoreAdmin } from '../support/open-store-admin.ts';
import { startRedisCluster } from '../support/redis-cluster.ts';
import { startRedis } from '../support/redis-server.ts';
import { openRedisStore } from '../support/redis-stores.ts';
import {
  lookCall,
  noteOf,
  type ReservedCounter,
  reserveCall,
  reservedCounter,
  sendCall,
  settleCall,
  type TestCall,
} from '../support/reservation-calls.ts';

/** The command in docs/store.md that creates a user with all rights that the limiter needs. */
const documented = /ACL SETUSER weir on >\S+ ~\* resetchannels &\S+ (.*)/
  .exec(readFileSync(new URL('../../docs/store.md', import.meta.url), 'utf8'))![1]!
  .split(' ')
  .map((right) => right.slice(1));
const ofProgram = new Set(
  [...program.source.matchAll(/(?:pcall|writeParts)\('([A-Z]+)'/g)].map(([, name]) => name!.toLowerCase()),
);
/** What the store sends otherwise. */
const ofStore = ['eval', 'evalsha', 'get', 'set', 'incrby', 'decrby', 'expire', 'hlen', 'del'];

const year = 366 * 86_400_000_000;
const fixed = new FixedWindow(10);
const sliding = new SlidingWindow({ requests: 10, windowMicros: year });
const bucket = new TokenBucket({ requests: 10, burst: 10, windowMicros: year });
const full = String(Number.MAX_SAFE_INTEGER);

/** Sends on behalf of a user. All keys contain the stem. */
interface Sender {
  readonly store: Store;
  readonly stem: string;
  /** Of all masters, with all rights. */
  readonly clients: readonly Redis[];
}
type Answer = { readonly error: string } | { readonly is: unknown; readonly lease?: unknown };
type Act = (sender: Sender) => Promise<readonly Answer[]>;

/** Each step but the last is done with all rights. */
type Steps = readonly [...before: Act[], last: Act];

function ops(given: readonly (GivenTerms & { name?: string })[], stopWhenOver = false): Act {
  return async ({ store, stem }) => {
    const all = given.map(({ name = '', ...terms }) =>
      counterOp({ key: `${stem}${name}3600:0`, limit: 10, ...terms, ...leaseOf(terms, stem) }),
    );
    return (await submit(store, all, { stopWhenOver })).map(answerOf);
  };
}

function leaseOf({ lease }: GivenTerms, stem: string): { lease?: LeaseTerms } {
  return lease === undefined
    ? {}
    : { lease: newLeaseTerms({ ...lease, ledgerKey: ledgerKeyOf(`${stem}3600:0`)! }) };
}

function answerOf({ error, applied, after, over, lease }: Operation): Answer {
  if (error !== undefined) return { error: error.message };
  if (lease === undefined) return { is: { applied, after, over } };
  const { granted, othersCharged, othersHungry } = lease;
  // Without the right to leases, the limiter only counts.
  const isGranted = granted !== -1;
  return {
    is: { applied, over },
    ...(isGranted && { lease: { after, granted, othersCharged, othersHungry } }),
  };
}

const one = (terms: GivenTerms) => ops([terms]);
const add = (hits: number, terms: GivenTerms = {}) => one({ hits, ...terms });
const refund = (hits: number, terms: GivenTerms = {}) => one({ hits, negative: true, ...terms });
const group = (bounds: readonly AlgorithmBound[], hits = 1): Act =>
  ops(bounds.map((bound, i) => ({ bound, hits, groupSize: bounds.length, name: `:${i}` })));
/** Counts on one counter of a group alone. */
const alone = (i: number, bound: AlgorithmBound): Act => ops([{ bound, hits: 2, name: `:${i}` }]);
const message = (sequence: number, terms: Partial<LeaseTerms> = {}, hits = 1): Act =>
  add(hits, {
    limit: 100,
    lease: newLeaseTerms({ ledgerKey: '', limiter: 'one', sequence, want: 5, max: 5, limit: 100, ...terms }),
  });
const share = (limiter: string, sequence: number): Act =>
  message(sequence, { limiter, want: 10, max: 0, charged: 3, hungry: 1, livesMs: 60_000 }, 0);

function call(make: (stem: string) => TestCall): Act {
  return async ({ store, stem }) => {
    const made = make(stem);
    await new Promise<void>((resolve) => sendCall(store, made, resolve));
    const { error, outcome, charged, amount, counters } = made;
    if (error !== undefined) return [{ error: error.message }];
    const held = counters.map(
      ({ oldestMs: _, waitMicros: __, bound: ___, key: ____, stem: _____, ...its }) => its,
    );
    return [{ is: { outcome, charged, amount, held } }];
  };
}

type GivenCounter = Partial<ReservedCounter> & { name?: string };
const countersOf = (stem: string, given: readonly GivenCounter[]) =>
  given.map(({ name = '', ...terms }, i) =>
    reservedCounter({ stem, key: `${stem}${name}3600:0`, group: i, ...terms }),
  );
type GivenCall = Partial<Omit<TestCall, 'counters'>> & { counters?: readonly GivenCounter[] };
const reserve = ({ counters = [{}], ...terms }: GivenCall = {}): Act =>
  call((stem) =>
    reserveCall({
      id: stem,
      ...terms,
      counters: countersOf(
        stem,
        counters.map((its) => ({ amount: 3, ...its })),
      ),
    }),
  );
const settle = ({ counters = [{}], ...terms }: GivenCall = {}): Act =>
  call((stem) =>
    settleCall({
      id: stem,
      ...terms,
      counters: countersOf(
        stem,
        counters.map((its) => ({ amount: 1, ...its })),
      ),
    }),
  );
const look: Act = call((stem) => lookCall(countersOf(stem, [{}])));
const expires = { counters: [{ ttlMs: 1 }], id: 'expires' };
/** Makes what was reserved for a millisecond expire. */
const pass: Act = async () => {
  await sleep(3);
  return [];
};
const marker = { isMarker: true };
/** Removes the counter, but not what is beside it. */
const removed: Act = async ({ stem, clients }) => {
  await Promise.all(clients.map((client) => client.del(`${stem}3600:0`).catch(() => {})));
  return [];
};
/** No call of this kind is on the fast path. */
const shadow = { counters: [{ isShadow: true }] };
const several = { counters: [{ name: 'a' }, { name: 'b', bound: sliding }, { name: 'c', bound: bucket }] };

const endSeconds = Math.ceil(Date.now() / 1000) + 600;
const attempted = async (act: () => Promise<unknown>): Promise<readonly Answer[]> => {
  try {
    return [{ is: await act() }];
  } catch (error) {
    return [{ error: (error as Error).message }];
  }
};

const operations: Readonly<Record<string, Steps>> = {
  'a first hit': [add(1)],
  'a further hit': [add(1), add(1)],
  'a hit on a full total': [add(Number(full) - 1), add(5)],
  'a hit on an overflowing total': [add(Number(full)), add(5)],
  'a first refund': [refund(1)],
  'a further refund': [add(3), refund(1)],
  'a refund of too much': [add(3), refund(9)],
  'a look at a counter': [add(3), one({ lookOnly: true })],
  'hits of several kinds': [add(1), ops([{ hits: 2 }, { name: 'b' }, { name: 'c', bound: sliding }])],
  'stop-when-over': [add(9), ops([{ hits: 2 }, { name: 'b' }], true)],
  'stop-when-over with bounds': [add(9), ops([{ hits: 1 }, { name: 'b', bound: bucket }], true)],
  'a refund with stop-when-over': [add(9), ops([{ hits: 2, negative: true }, { name: 'b' }], true)],
  ...Object.fromEntries(
    Object.entries({ fixed, sliding, bucket }).flatMap(([name, bound]): [string, Steps][] => [
      [`a first hit of a bound: ${name}`, [add(1, { bound })]],
      [`a further hit of a bound: ${name}`, [add(1, { bound }), add(1, { bound })]],
      [`a refund of a bound: ${name}`, [add(3, { bound }), refund(1, { bound })]],
      [`a reserve: ${name}`, [reserve({ counters: [{ bound }] })]],
      [`a commit: ${name}`, [reserve({ counters: [{ bound }] }), settle({ counters: [{ bound }] })]],
    ]),
  ),
  'a first group': [group([fixed, sliding])],
  'a group of a new and an old counter': [alone(1, fixed), group([sliding, fixed])],
  'a group of an old and a new counter': [alone(0, fixed), group([fixed, bucket])],
  'a group of old counters': [group([sliding, bucket, fixed]), group([sliding, bucket, fixed])],
  'a refund of a group': [
    group([sliding, fixed], 3),
    ops([sliding, fixed].map((bound, i) => ({ bound, negative: true, groupSize: 2, name: `:${i}` }))),
  ],
  'a group with stop-when-over': [
    alone(1, fixed),
    ops(
      [sliding, fixed].map((bound, i) => ({ bound, groupSize: 2, name: `:${i}` })),
      true,
    ),
  ],
  'a first lease': [message(1)],
  'a lease of an old counter': [add(1), message(1)],
  'a further lease': [message(1), message(2, { spent: 2 })],
  'a lease of a second limiter': [message(1), message(1, { limiter: 'two' })],
  'the end of a lease': [message(1), message(2, { spent: 5, want: 0, forgets: true })],
  'a lease of a counter that was removed': [message(1), message(1, { limiter: 'two' }), removed, message(2)],
  'a first share': [share('one', 1)],
  'a further share': [share('one', 1), share('two', 1), share('one', 2)],
  'a further reserve': [reserve({ id: 'first' }), reserve()],
  'a longer reserve': [reserve({ id: 'first' }), reserve({ counters: [{ ttlMs: 36_000_000 }] })],
  'a reserve on an old counter': [add(1), reserve()],
  'a reserve with a note': [reserve({ note: 'n', id: 'first' }), reserve({ note: 'n' })],
  'a reserve in shadow mode': [reserve({ id: 'first' }), reserve(shadow)],
  'a reserve in shadow mode with a note': [reserve({ ...shadow, note: 'n' })],
  'a reserve of several limits': [reserve(several)],
  'a reserve of several limits with a note': [reserve({ ...several, note: 'n' })],
  'a further reserve of several limits': [reserve({ ...several, id: 'first' }), reserve(several)],
  'a reserve of a marker': [reserve(marker)],
  'a further reserve of a marker': [reserve(marker), reserve(marker)],
  'a repeated reserve': [reserve({ note: 'n' }), reserve({ note: 'n' })],
  'a reserve with the id of another': [
    reserve({ note: 'n' }),
    reserve({ note: 'o', counters: [{ name: 'b' }] }),
  ],
  'a reserve that is refused': [add(9), reserve()],
  'a reserve of a marker that is refused': [add(9), reserve(marker)],
  'a reserve in place of an expired one': [
    reserve({ ...expires, counters: [{ ttlMs: 1, amount: 9 }] }),
    pass,
    reserve(),
  ],
  'a reserve beside an expired one that stays charged': [
    reserve({ id: 'expires', counters: [{ ttlMs: 1, onExpiry: 'charge' }] }),
    pass,
    reserve(),
  ],
  'a commit of more than was reserved': [reserve(), settle({ counters: [{ amount: 5 }] })],
  'a commit of all that was reserved': [reserve(), settle({ counters: [{ amount: 3 }] })],
  'a commit of a marker': [reserve(marker), settle(marker)],
  'a commit of the first of two markers': [reserve(marker), reserve(marker), settle(marker)],
  'a late commit': [reserve({ counters: [{ ttlMs: 1 }] }), pass, settle()],
  'a late commit of a marker': [reserve({ ...marker, counters: [{ ttlMs: 1 }] }), pass, settle(marker)],
  'a commit on a counter that was removed': [reserve(), removed, settle()],
  'a commit of a marker on a counter that was removed': [reserve(marker), removed, settle(marker)],
  'a repeated commit': [reserve(), settle(), settle()],
  'a commit of several limits': [reserve(several), settle(several)],
  'a commit of an unknown id': [settle({ unknown: 'charge' })],
  'a commit of an unknown id on an old counter': [add(1), settle({ unknown: 'charge' })],
  'a commit that is undone': [reserve(), settle({ undoes: true })],
  'a look at what is reserved': [reserve(), look],
  'a look at what has expired': [reserve(), reserve(expires), pass, look],
  'a note': [({ store, stem }) => attempted(() => store.notes!.note(noteOf(stem, 'n', 60_000)))],
  'a note that is there': [
    ({ store, stem }) => attempted(() => store.notes!.note(noteOf(stem, 'n', 60_000))),
    ({ store, stem }) => attempted(() => store.notes!.note(noteOf(stem, 'o', 60_000))),
  ],
  'a recall': [reserve({ note: 'n' }), ({ store, stem }) => attempted(() => store.notes!.recall(stem))],
  'a claim': [({ store, stem }) => attempted(() => store.claims!.claim(stem, 60))],
  'a tally': [shareOf(1)],
  'a further tally': [shareOf(1), shareOf(1)],
  'the end of a tally': [shareOf(1), shareOf(-1)],
};

function shareOf(change: number): Act {
  return ({ store, stem }) =>
    attempted(() => store.notes!.share!(`d:${stem}`, new Map([[endSeconds, change]]), Date.now()));
}

/** The keys of a stem and what they hold, apart from counters of nothing; and those that never end. */
async function stateOf(
  clients: readonly Redis[],
  stem: string,
): Promise<{ held: Map<string, unknown>; endless: string[] }> {
  const held = new Map<string, unknown>();
  const endless: string[] = [];
  for (const client of clients) {
    for (const key of await client.keys(`*${stem}*`)) {
      const kind = await client.type(key);
      const value =
        kind === 'hash'
          ? Object.entries(await client.hgetallBuffer(key)).sort()
          : kind === 'zset'
            ? await client.zrange(key, '0', '-1', 'WITHSCORES')
            : await client.get(key);
      if (value !== '0') held.set(key.replaceAll(stem, '*'), value);
      if ((await client.pttl(key)) === -1) endless.push(key.replaceAll(stem, '*'));
    }
  }
  // A ledger without its counter is void.
  if (!held.has('*3600:0')) held.delete('weir:lease:*3600:0');
  return { held, endless };
}

interface Servers {
  readonly clients: readonly Redis[];
  /** Opens a store; without a login, one with all rights. */
  open(auth?: string): Promise<Store>;
  openAdmin(auth: string): RedisStoreAdmin;
  stop(): Promise<void>;
}

/**
 * A cluster adds to a total above the largest number in two steps. It stores a note after the reserve, which it then undoes: what was
 * open is removed, but not the head of the records.
 */
const inSteps = {
  operations: /^a hit on (?:a full|an overflowing) total$/,
  undoneKeys: /^weir:reserve:|^\*[bc]/,
};

function rightsSuite(start: () => Promise<Servers>, isCluster = false): void {
  let servers: Servers;
  let all: Store;
  const references = new Map<string, { answers: readonly Answer[]; keys: string }>();
  let stems = 0;

  beforeAll(async () => {
    servers = await start();
    all = await servers.open();
  });
  afterAll(async () => {
    await all?.close();
    await servers?.stop();
  });

  /** Empties the servers, and takes the right from a user that has all others. */
  const limit = async (command: string) => {
    const all = ['reset', 'on', '>pw', '~*', '&*', '+@all'];
    for (const client of servers.clients) {
      await client.flushall();
      await client.call('ACL', 'SETUSER', 'limited', ...all, `-${command}`);
    }
  };

  /** Does all steps but the last, and then the last one by this store. */
  const run = async (steps: Steps, last: Store) => {
    stems += 1;
    const { clients } = servers;
    const stem = `1{r${stems}x}`;
    for (const step of steps.slice(0, -1)) await step({ store: all, stem, clients });
    const before = await stateOf(clients, stem);
    const answers = await steps.at(-1)!({ store: last, stem, clients });
    return { before, answers, after: await stateOf(clients, stem) };
  };

  /** What is wrong with an operation of a user. */
  const problemsOf = async (name: string, steps: Steps, limited: Store): Promise<string[]> => {
    let reference = references.get(name);
    if (reference === undefined) {
      const { answers, after } = await run(steps, all);
      expect([name, answers.filter((answer) => 'error' in answer)]).toEqual([name, []]);
      reference = { answers, keys: keysOf(after.held) };
      references.set(name, reference);
    }
    const { before, answers, after } = await run(steps, limited);
    const problems = after.endless.map((key) => `${key} has no time to live`);
    const errors = answers.filter((answer) => 'error' in answer);
    if (errors.length === answers.length) {
      const changed = changedBetween(before.held, after.held).filter(
        (key) => !(isCluster && name.includes('note') && inSteps.undoneKeys.test(key)),
      );
      if (changed.length > 0) problems.push(`changed ${changed.join()} before ${errors[0]!.error}`);
    } else if (errors.length === 0) {
      for (const [i, answer] of answers.entries()) {
        const expected = { ...reference.answers[i]!, ...('lease' in answer ? {} : { lease: undefined }) };
        if (JSON.stringify(answer) !== JSON.stringify(expected))
          problems.push(`answers ${JSON.stringify(answer)} instead of ${JSON.stringify(expected)}`);
      }
      const keys = keysOf(after.held);
      const isGranted = answers.every((answer) => 'lease' in answer === 'lease' in reference.answers[0]!);
      if (isGranted && keys !== reference.keys) problems.push(`leaves ${keys} instead of ${reference.keys}`);
    }
    return problems.map((problem) => `${name} ${problem}`);
  };

  it('releases nothing by a reset without +del', async () => {
    const { clients, openAdmin } = servers;
    const stem = '1{reset}';
    await limit('del');
    await reserve()({ store: all, stem, clients });
    const before = await stateOf(clients, stem);
    const admin = openAdmin('limited:pw');
    onTestFinished(() => admin.close());
    await expect(admin.remove([{ key: `${stem}3600:0`, perSecond: false }])).rejects.toThrow('del');
    expect(changedBetween(before.held, (await stateOf(clients, stem)).held)).toEqual([]);
  });

  it('names all commands of the program in docs/store.md', () => {
    expect([...ofProgram].filter((command) => !documented.includes(command))).toEqual([]);
  });

  it.each([...new Set([...ofProgram, ...ofStore])])(
    'answers correctly or with an error without +%s, and leaves nothing behind',
    async (command) => {
      await limit(command);
      const limited = await servers.open('limited:pw');
      onTestFinished(() => limited.close());
      const problems: string[] = [];
      for (const [name, steps] of Object.entries(operations))
        if (!isCluster || !inSteps.operations.test(name))
          problems.push(...(await problemsOf(name, steps, limited)));
      expect(problems).toEqual([]);
    },
  );
}

/** Without ledgers of leases, which may also stay until their counter ends. */
function keysOf(held: ReadonlyMap<string, unknown>): string {
  return [...held.keys()]
    .filter((key) => !key.startsWith('weir:lease:'))
    .sort()
    .join();
}

/** The keys whose values differ. */
function changedBetween(one: ReadonlyMap<string, unknown>, other: ReadonlyMap<string, unknown>): string[] {
  return [...new Set([...one.keys(), ...other.keys()])].filter(
    (key) => JSON.stringify(one.get(key)) !== JSON.stringify(other.get(key)),
  );
}

describeWithEachRedis('a user of Redis', (path) => {
  rightsSuite(async () => {
    const server = await startRedis({ path, lifetimes: { jitterSeconds: 36_000 } });
    const client = new Redis(server.port, '127.0.0.1', { protocol: 2 });
    return {
      clients: [client],
      open: (auth = '') => openRedisStore({ url: `127.0.0.1:${server.port}`, auth }),
      openAdmin: (auth) => openRedisStoreAdmin(`127.0.0.1:${server.port}`, { auth }),
      stop: async () => {
        client.disconnect();
        await server.stop();
      },
    };
  });
});

describeWithEachRedis('a user of a Redis Cluster', (path) => {
  rightsSuite(async () => {
    const cluster = await startRedisCluster({ path, lifetimes: { jitterSeconds: 36_000 } });
    return {
      clients: cluster.members.slice(0, 3).map(({ client }) => client),
      open: (auth = '') => openClusterStore({ url: cluster.url, auth }),
      openAdmin: (auth) => openRedisStoreAdmin(parseClusterAddress({ url: cluster.url, auth })),
      stop: () => cluster.stop(),
    };
  }, true);
});
