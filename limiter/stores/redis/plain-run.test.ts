import { describe, expect, it } from 'vitest';
import { counterOp } from '../../../test/support/counter-ops.ts';
import { FoldedRun } from '../folded-run.ts';
import { StoreError } from '../store-error.ts';
import { applyPlainly, inParallel, PlainCounting } from './plain-counting.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { RedisErrors } from './wire/redis-error.ts';
import { ReplyError } from './wire/resp.ts';

const errors = new RedisErrors({ timeoutMs: 1000, password: undefined });
const refused = new ReplyError("READONLY You can't write against a read only replica.");
const lost = new Error('Connection is closed.');

/** Commands with the given answers, in order. An Error rejects. */
function scripted(replies: [command: string, reply: unknown][]): KeyedCommands {
  return {
    send: (_key, name, args) => {
      const [command, reply] = replies.shift() ?? [];
      expect([name, ...args].join(' ')).toBe(command);
      return reply instanceof Error ? Promise.reject(reply) : Promise.resolve(reply);
    },
    translate: (error) => (error instanceof StoreError ? error : errors.fromCommand(error)),
    placeOf: () => 0,
  };
}

/** Returns the total, or whether the failed op is marked as not counted. */
async function applied(
  hits: { hits: number; negative?: boolean },
  replies: [string, unknown][],
): Promise<number | { notCounted: boolean }> {
  const op = counterOp({ key: 'k', ttlSeconds: 60, ...hits });
  const commands = scripted(replies);
  try {
    await applyPlainly(commands, new FoldedRun(op));
    return op.after;
  } catch (error) {
    return { notCounted: commands.translate(error).notCounted };
  } finally {
    expect(replies).toEqual([]);
  }
}

const add = { hits: 2 };
const takeBack = { hits: 3, negative: true };
const make = 'set k 0 EX 60 NX';
const expire = 'expire k 60';
const there = null;

describe('applyPlainly, when a command fails,', () => {
  const cases: [what: string, hits: typeof add, replies: [string, unknown][], outcome: unknown][] = [
    [
      'INCRBY was refused',
      add,
      [
        [make, refused],
        ['incrby k 2', refused],
      ],
      { notCounted: true },
    ],
    [
      'the reply to INCRBY was lost',
      add,
      [
        [make, lost],
        ['incrby k 2', lost],
      ],
      { notCounted: false },
    ],
    [
      'there was no connection',
      add,
      [
        [make, errors.notConnected()],
        ['incrby k 2', errors.notConnected()],
      ],
      { notCounted: true },
    ],
    [
      'the key was there',
      add,
      [
        [make, there],
        ['incrby k 2', 5],
      ],
      5,
    ],
    [
      'SET and EXPIRE were refused',
      add,
      [
        [make, refused],
        ['incrby k 2', 2],
        [expire, refused],
      ],
      { notCounted: false },
    ],
    [
      'SET was refused and EXPIRE was not',
      add,
      [
        [make, refused],
        ['incrby k 2', 2],
        [expire, 1],
      ],
      2,
    ],
    [
      'the key ended behind SET, and the connection was lost behind INCRBY',
      add,
      [
        [make, there],
        ['incrby k 2', 2],
        [expire, lost],
      ],
      2,
    ],
    [
      'INCRBY counted beyond 2^53 and what brings it back found no connection',
      add,
      [
        [make, there],
        ['incrby k 2', 2 ** 53],
        ['get k', errors.notConnected()],
      ],
      { notCounted: false },
    ],
    [
      'INCRBY counted beyond 2^53, and another caller brought that back as well',
      add,
      [
        [make, there],
        ['incrby k 2', 2 ** 53],
        ['get k', Buffer.from(String(2 ** 53))],
        [make, there],
        ['decrby k 1', 2 ** 53 - 2],
        [make, there],
        ['incrby k 1', 2 ** 53 - 1],
      ],
      2 ** 53,
    ],
    ['the reply to GET before DECRBY was lost', takeBack, [['get k', lost]], { notCounted: true }],
    [
      'DECRBY was refused',
      takeBack,
      [
        ['get k', Buffer.from('5')],
        [make, there],
        ['decrby k 3', refused],
      ],
      { notCounted: true },
    ],
    [
      'the reply to DECRBY was lost',
      takeBack,
      [
        ['get k', Buffer.from('5')],
        [make, there],
        ['decrby k 3', lost],
      ],
      { notCounted: false },
    ],
    [
      'DECRBY counted and what corrects it found no connection',
      takeBack,
      [
        ['get k', Buffer.from('5')],
        [make, there],
        ['decrby k 3', -1],
        [make, errors.notConnected()],
        ['incrby k 1', errors.notConnected()],
      ],
      { notCounted: false },
    ],
  ];
  it.each(cases)('knows whether it counted: %s', async (_, hits, replies, outcome) => {
    expect(await applied(hits, [...replies])).toEqual(outcome);
  });
});

describe('applyPlainly, when the server dies,', () => {
  /** Returns each key's time to live in a server that received only this many of the commands; undefined if the key has none. */
  async function livesAfter(hits: { hits: number; negative?: boolean }, commands: number) {
    const lives = new Map<string, number | undefined>(hits.negative === true ? [['k', 60]] : []);
    let sent = 0;
    const send = async (_key: string, name: string, [key, , , life]: string[]): Promise<unknown> => {
      sent += 1;
      if (sent > commands) throw lost;
      if (name === 'get') return lives.has(key!) ? Buffer.from('5') : null;
      if (name === 'set') return lives.has(key!) ? null : lives.set(key!, Number(life)) && 'OK';
      if (!lives.has(key!)) lives.set(key!, undefined);
      return 2;
    };
    const op = counterOp({ key: 'k', ttlSeconds: 60, ...hits });
    const { translate, placeOf } = scripted([]);
    await applyPlainly({ send, translate, placeOf }, new FoldedRun(op)).catch(() => {});
    return { lives: [...lives.values()], sent };
  }

  it.each([add, takeBack])('leaves no key without a life: %o', async (hits) => {
    const { sent } = await livesAfter(hits, 9);
    expect(sent).toBeGreaterThan(1);
    for (let commands = 0; commands <= sent; commands += 1)
      expect((await livesAfter(hits, commands)).lives).not.toContain(undefined);
  });
});

describe('PlainCounting', () => {
  it('counts nothing on servers whose turn comes after the timeout, and knows that it did not', async () => {
    let nowMs = 0;
    const plain = new PlainCounting({
      commands: {
        ...scripted([]),
        send: async (_key, name) => {
          nowMs += 500;
          return name === 'set' ? 'OK' : 1;
        },
        placeOf: (key) => key,
      },
      submit: () => {},
      parallelism: 1,
      timeoutMs: 1_000,
      timedOut: () => errors.timedOut(),
      monotonicMs: () => nowMs,
    });
    const ops = ['a', 'b'].map((key) => counterOp({ key }));
    await plain.count(
      ops.map((op) => new FoldedRun(op)),
      [],
    );
    expect(ops.map(({ after, error }) => [after, error?.notCounted])).toEqual([
      [1, undefined],
      [0, true],
    ]);
  });
});

describe('inParallel', () => {
  it.each([
    { limit: 1, max: 1 },
    { limit: 3, max: 3 },
    { limit: 10, max: 5 },
    { limit: Number.POSITIVE_INFINITY, max: 5 },
  ])('does at most $limit at a time, each once and in order', async ({ limit, max }) => {
    let running = 0;
    let maxSeen = 0;
    const begun: number[] = [];
    await inParallel([0, 1, 2, 3, 4], limit, async (item) => {
      begun.push(item);
      running += 1;
      maxSeen = Math.max(maxSeen, running);
      await new Promise((resolve) => setImmediate(resolve));
      running -= 1;
    });
    expect([begun, maxSeen, running]).toEqual([[0, 1, 2, 3, 4], max, 0]);
  });

  it('begins the first of them before it returns', () => {
    const begun: number[] = [];
    void inParallel([0, 1, 2], 2, async (item) => void begun.push(item));
    expect(begun.slice(0, 2)).toEqual([0, 1]);
  });
});
