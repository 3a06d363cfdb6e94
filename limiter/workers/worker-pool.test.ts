/** Workers that fail or end while they start, with simulated threads; `test/e2e/workers.test.ts` has real ones. */
import { EventEmitter } from 'node:events';
import type { Worker, WorkerOptions } from 'node:worker_threads';
import { beforeEach, expect, it } from 'vitest';
import { Health } from '../../process/grpc/health.ts';
import { createLogger } from '../../process/log/pino-logger.ts';
import { sharedCells } from '../../process/net/connection-memory.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { type RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import { eventually } from '../../test/support/eventually.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { parseLimiterSettings } from '../settings/settings.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { NumberedTask, WorkerStart, WorkerTask } from './messages.ts';
import { WorkerPool } from './worker-pool.ts';

/** Carries out every task at once, except those that it shall leave open. */
class PlayedThread extends EventEmitter {
  readonly tasks: WorkerTask['do'][] = [];
  /** Domains of the layers that it received; undefined: all. */
  readonly layers: RuleLayer['domains'][] = [];
  readonly #left: NumberedTask[] = [];
  readonly #leaves: ReadonlySet<WorkerTask['do']>;

  constructor(leaves: ReadonlySet<WorkerTask['do']>) {
    super();
    this.#leaves = leaves;
  }

  postMessage(message: NumberedTask): void {
    this.tasks.push(message.task.do);
    if (message.task.do === 'use-rules') {
      this.layers.push(...message.task.layers.map(({ domains }) => domains));
    }
    if (this.#leaves.has(message.task.do)) this.#left.push(message);
    else this.#done(message);
    if (message.task.do === 'end') queueMicrotask(() => this.emit('exit', 0));
  }

  /** Carries out the open tasks of one kind. */
  finish(kind: WorkerTask['do']): void {
    for (const message of this.#left) if (message.task.do === kind) this.#done(message);
  }

  #done({ number, task }: NumberedTask): void {
    const result = task.do === 'receive' ? task.message.kind : undefined;
    queueMicrotask(() => this.emit('message', { is: 'done', number, result }));
  }
}

const threads: PlayedThread[] = [];
const beginnings: WorkerStart[] = [];
let leaves: ReadonlySet<WorkerTask['do']>;
let timers: ManualTimers;
beforeEach(() => {
  threads.length = 0;
  beginnings.length = 0;
  leaves = new Set();
  timers = new ManualTimers();
});

async function serving(): Promise<WorkerPool> {
  const { settings } = parseLimiterSettings({ BACKEND_TYPE: 'redis', GRPC_HOST: '127.0.0.1' });
  if (settings === undefined) throw new Error('the settings are wrong');
  const clock = new ManualClock();
  const context = {
    settings,
    clock,
    timers,
    random: () => 0.5,
    registry: new StatsRegistry(),
    health: new Health(),
    log: createLogger({ level: 'panic', format: 'text', clock, destination: { write: () => {} } }),
  };
  const startThread = (_program: URL, { workerData }: WorkerOptions) => {
    const thread = new PlayedThread(leaves);
    beginnings.push(workerData as WorkerStart);
    threads.push(thread);
    return thread as unknown as Worker;
  };
  const pool = new WorkerPool(context, { count: 2, memoryCells: sharedCells(3), startThread });
  await pool.connectStore();
  await pool.listenForGrpc({ host: '127.0.0.1', port: 0 });
  return pool;
}

/** Ends the first thread and returns the one that replaces it. */
async function replaceFirst(): Promise<PlayedThread> {
  threads[0]?.emit('exit', 1);
  timers.advance(1_000);
  await eventually(() => expect(threads).toHaveLength(3));
  return threads[2] as PlayedThread;
}

const rules = () => new RuleTable(compileRules([]));

it('rules are in force when a worker that may have callers has them, though it is not ready yet', async () => {
  const pool = await serving();
  leaves = new Set(['listen', 'use-rules']);
  const fresh = await replaceFirst();
  await eventually(() => expect(fresh.tasks).toEqual(['connect-store', 'listen']));
  let inForce = false;
  const done = pool.useRules(rules()).then(() => {
    inForce = true;
  });
  await new Promise((resolve) => setImmediate(resolve));
  expect(inForce).toBe(false);
  fresh.finish('use-rules');
  await done;
  fresh.finish('listen');
});

it('rules do not wait for a worker that does not listen yet', async () => {
  const pool = await serving();
  leaves = new Set(['connect-store', 'use-rules']);
  const fresh = await replaceFirst();
  await pool.useRules(rules());
  expect(fresh.tasks).toEqual(['connect-store', 'use-rules']);
});

it('threads are sent of a change what is new, and with other rules the whole', async () => {
  const pool = await serving();
  const first = rules();
  await pool.useRules(first);
  const changed = RuleTable.with(first, { bytes: compileRules([]), domains: ['a'] });
  await pool.useRules(changed);
  await pool.useRules(RuleTable.with(changed, { bytes: compileRules([]), domains: ['b'] }));
  await pool.useRules(rules());
  expect(threads.map(({ layers }) => layers)).toEqual(Array(2).fill([undefined, ['a'], ['b'], undefined]));
});

it('a message is answered by each thread that may have callers, once all of them are done', async () => {
  const pool = await serving();
  const message = { capability: 'one', kind: 'forget', argument: ['a'] };
  expect(await pool.reach(message)).toEqual(['forget', 'forget']);
  leaves = new Set(['connect-store']);
  const fresh = await replaceFirst();
  expect(await pool.reach(message)).toHaveLength(1);
  expect(fresh.tasks).toEqual(['connect-store', 'receive']);
});

it('a thread that starts later begins with the last message of each kind that a capability published', async () => {
  const pool = await serving();
  const published = (kind: string, argument: number) => ({ capability: 'one', kind, argument });
  for (const [kind, argument] of [
    ['a', 1],
    ['b', 2],
    ['a', 3],
  ] as const)
    await pool.publish(published(kind, argument));
  await replaceFirst();
  expect(beginnings[2]!.published).toEqual([published('a', 3), published('b', 2)]);
});

it('a worker that is still starting at the end opens no listener', async () => {
  const pool = await serving();
  leaves = new Set(['connect-store']);
  const fresh = await replaceFirst();
  const ended = pool.shutdownGrpc();
  fresh.finish('connect-store');
  await ended;
  await pool.closeStore();
  expect(fresh.tasks).toEqual(['connect-store', 'shutdown-grpc', 'close-store', 'end']);
});
