/** What an operation and a decision take of V8's heap, once V8 has optimized them: in a process that has run nothing else. */
import { getHeapStatistics } from 'node:v8';
import { expect, it } from 'vitest';
import { median } from '../../bench/bench-figures.ts';
import { KnownEntriesCache } from '../../limiter/decide/wire-reader.ts';
import { newOperation, plainCounter } from '../../limiter/stores/operation.ts';
import { CountPart } from '../../limiter/stores/redis/count-parts.ts';
import { Batch, finishBatch } from '../../limiter/stores/redis/turn-batches.ts';
import { CommandWriter, type Reply, RespReader } from '../../limiter/stores/redis/wire/resp.ts';
import { FlushTurn } from '../../process/queues/loop-turns.ts';
import { budgetLimiter } from '../support/budget-limiter.ts';
import { limit, rule } from '../support/rule-builder.ts';

/** Of many rounds the first ones run before V8 has optimized, and in some it collects garbage. */
function bytesOf(act: () => void): number {
  const acts = 500;
  const rounds: number[] = [];
  for (let round = 0; round < 1000; round += 1) {
    const before = getHeapStatistics().used_heap_size;
    for (let i = 0; i < acts; i += 1) act();
    rounds.push((getHeapStatistics().used_heap_size - before) / acts);
  }
  return median(rounds.slice(-301));
}

/** So that V8 cannot leave out what is made. */
let last: object | undefined;

it('makes an operation of 224 bytes', () => {
  const counter = plainCounter('k', { perSecond: false });
  const bytes = bytesOf(() => {
    last = newOperation(counter, 'k', 'add', 1, 60);
  });
  expect(last).toBeDefined();
  expect(bytes).toBe(224);
});

it('allocates 864 bytes to decide a request of one known descriptor in memory', () => {
  const day = limit({ unit: 'day', requestsPerUnit: 1_000_000_000 });
  const { service } = budgetLimiter({ rules: [rule({ key: 'k', limits: [day] })] });
  const entries = [{ key: 'k', value: 'v' }];
  const known = new KnownEntriesCache().add(Uint8Array.of(1), 0, 1, entries);
  const descriptor = { entries, known, limit: undefined, hitsAddend: undefined, isNegativeHits: false };
  const request = { domain: 'd', descriptors: [descriptor], hitsAddend: 0 };
  const decided = {
    answer: (response: object) => {
      last = response;
    },
    reject: (error: unknown) => {
      throw error;
    },
  };
  const asker = { abandoned: false };
  const bytes = bytesOf(() => service.decide(request, asker, decided));
  // What the rounds themselves allocate is a fraction of a byte.
  expect(Math.round(bytes)).toBeLessThanOrEqual(864);
});

it('allocates 1,064 bytes for a call of Redis with one hit, and for its reply', () => {
  const ops = [newOperation(plainCounter('k', { perSecond: false }), 'k', 'add', 1, 60)];
  const terms = {
    names: { prefix: '', isCluster: false },
    reservations: { maxReservations: 1, recordMs: 1 },
  };
  const writer = new CommandWriter();
  let reply: Reply;
  const reader = new RespReader((read) => {
    reply = read;
  });
  const replyBytes = Buffer.from('*1\r\n:5\r\n');
  const flushTurn = new FlushTurn();
  const answers = { flush: () => {} };
  const done = () => flushTurn.schedule(answers);
  const bytes = bytesOf(() => {
    const batch = new Batch(terms);
    batch.add(ops, 0, 1, CountPart, { callsLeft: 0, caller: undefined, done });
    batch.leaveOutAbandoned();
    batch.pushArguments(writer);
    last = writer.take();
    flushTurn.begin();
    reader.push(replyBytes, replyBytes.length);
    batch.answer(reply, undefined as never);
    finishBatch(batch);
    flushTurn.end();
  });
  expect(ops[0]!.after).toBe(6);
  expect(Math.round(bytes)).toBeLessThanOrEqual(1064);
});
