/** Counts in Redis by plain commands, if Redis runs no scripts. */
import { type FoldedRun, maxTotal } from '../folded-run.ts';
import type { Operation } from '../operation.ts';
import { readThenCount, type SubmitAll } from '../stop-when-over.ts';
import { StoreError } from '../store-error.ts';
import { failSteps, needsScripts, type Step } from './bounded-steps.ts';
import type { PlainCommands } from './count-parts.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { hasSet, integerReply, ReplyError, textReply, UnexpectedReply } from './wire/resp.ts';

/** Integers above this may be read with an error of one; text is read exactly. */
const exactReply = 2 ** 52;

/**
 * Counts one key's folded run: SET and INCRBY, GET for a look, and for refunds GET, then SET and DECRBY. The last are two steps.
 * Changes by others in between are corrected where they show, not prevented. Answers the run. Rejects with the error of `send`, or
 * with a StoreError.
 */
export async function applyPlainly(commands: KeyedCommands, run: FoldedRun): Promise<void> {
  // The ledger gets no message.
  run.lease = undefined;
  if (run.isLook) {
    run.answer(await totalOf(commands, run.key));
    return;
  }
  try {
    run.answer(await (run.isAddition ? add(commands, run, run.shift) : clamp(commands, run)));
  } catch (error) {
    if (!(error instanceof ReplyError && error.message.startsWith('OOM '))) throw error;
    run.answerUncounted(await totalOf(commands, run.key), commands.translate(error));
  }
}

/** Returns the total of a key, 0 if it is missing. Rejects in the same cases. */
async function totalOf(commands: KeyedCommands, key: string): Promise<number> {
  const text = textReply('GET', await commands.send(key, 'get', [key]));
  if (text === undefined) return 0;
  if (/^-?\d{1,19}$/.test(text)) return Math.min(maxTotal, Math.max(0, Number(text)));
  throw new StoreError('Redis answered: ERR value is not an integer or out of range', { transient: false });
}

/**
 * Refunds hits, and returns the value before. Concurrent refunds never leave the key below zero for long. A key that ends between the
 * two steps is created again, as 0.
 */
async function clamp(commands: KeyedCommands, run: FoldedRun): Promise<number> {
  const { key } = run;
  const before = await marking(true, commands, totalOf(commands, key));
  const after = Math.min(run.high, Math.max(run.low, before + run.shift));
  if (after > before) return add(commands, run, after - before);
  if (after === before) return before;
  const left = await change(commands, run, 'decrby', before - after);
  if (left < 0) await marking(false, commands, change(commands, run, 'incrby', -left));
  return before;
}

/** Adds hits, and returns the value before, never above `maxTotal`. */
async function add(commands: KeyedCommands, run: FoldedRun, hits: number): Promise<number> {
  let after: number;
  try {
    after = await change(commands, run, 'incrby', hits);
  } catch (error) {
    if (!isOverflow(error)) throw error;
    await saturate(commands, run);
    return maxTotal;
  }
  if (after <= exactReply) return after - hits;
  const total = await marking(false, commands, saturate(commands, run));
  return Math.min(maxTotal, Number(total - BigInt(hits)));
}

/**
 * Sends INCRBY or DECRBY, after a SET that creates a missing key with its time to live. A failing master may have replicated only the
 * first command, and so leaves no key without a time to live.
 */
async function change(
  commands: KeyedCommands,
  { key, lifeSeconds }: FoldedRun,
  name: 'incrby' | 'decrby',
  by: number | bigint,
): Promise<number> {
  const making = commands.send(key, 'set', [key, '0', 'EX', String(lifeSeconds), 'NX']);
  const [made, changed] = await Promise.allSettled([making, commands.send(key, name, [key, String(by)])]);
  if (changed.status === 'rejected') throw changed.reason;
  const total = integerReply(name.toUpperCase(), changed.value);
  const isNew = total === (name === 'incrby' ? 1 : -1) * Number(by);
  await marking(false, commands, ensureLife(commands, { key, seconds: lifeSeconds, isNew, made }));
  return total;
}

/** Sets the time to live of a key that expired after SET, whose slot moved then, or that the user may not SET. */
async function ensureLife(
  commands: KeyedCommands,
  {
    key,
    seconds,
    isNew,
    made,
  }: { key: string; seconds: number; isNew: boolean; made: PromiseSettledResult<unknown> },
): Promise<void> {
  const wasMade = made.status === 'fulfilled' && hasSet(made.value);
  if (wasMade || !isNew) return;
  try {
    integerReply('EXPIRE', await commands.send(key, 'expire', [key, String(seconds)]), 0, 1);
  } catch (error) {
    // A total that Redis acknowledged is answered even if the server is lost before it set the time to live.
    if (error instanceof ReplyError || error instanceof UnexpectedReply) throw error;
  }
}

/** Marks the error of a step before or after the counting step with whether the op was counted. */
async function marking<T>(notCounted: boolean, commands: KeyedCommands, step: Promise<T>): Promise<T> {
  try {
    return await step;
  } catch (error) {
    throw commands.translate(error).marked(notCounted);
  }
}

/** Reduces a total above `maxTotal` to `maxTotal`, and returns the total before. Of several concurrent callers, one succeeds. */
async function saturate(commands: KeyedCommands, run: FoldedRun): Promise<bigint> {
  const { key } = run;
  const held = await commands.send(key, 'get', [key]);
  const text = textReply('GET', held) ?? '0';
  if (!/^-?\d{1,19}$/.test(text)) throw new UnexpectedReply('GET', held);
  const total = BigInt(text);
  const excess = total - BigInt(maxTotal);
  if (excess <= 0n) return total;
  const left = await change(commands, run, 'decrby', excess);
  if (left < maxTotal) await change(commands, run, 'incrby', excess);
  return total;
}

function isOverflow(error: unknown): boolean {
  return error instanceof Error && /\bwould overflow\b/.test(error.message);
}

export interface PlainCountingOptions {
  commands: KeyedCommands;
  /** Counts ops of a batch that is ready to be sent, in addition to other ops of the batch. */
  submit: SubmitAll;
  /** The most servers that are asked at a time for one batch. Defaults to all. */
  parallelism?: number | undefined;
  /** Items that still wait for their turn this long after the batch was sent fail. */
  timeoutMs: number;
  timedOut: () => StoreError;
  monotonicMs: () => number;
}

/** Counts by commands of one key each. */
export class PlainCounting implements PlainCommands {
  readonly #options: PlainCountingOptions;

  constructor(options: PlainCountingOptions) {
    this.#options = options;
  }

  async count(runs: readonly FoldedRun[], steps: readonly Step[]): Promise<void> {
    failSteps(steps, needsScripts);
    const { commands } = this.#options;
    await this.byPlace({
      items: runs,
      keyOf: (run) => run.key,
      work: (run) => applyPlainly(commands, run),
      fail: (run, error) => run.fail(error),
    });
  }

  /** Sends GET for every key, then INCRBY for the ops that may count. Other limiters may count in between, as in the Go service. */
  countWhole(requests: readonly (readonly Operation[])[]): Promise<void> {
    return new Promise((resolve) => readThenCount(requests, this.#options.submit, resolve));
  }

  /** Does `work` server by server, for all items of one server together. */
  async byPlace<T>(given: {
    items: readonly T[];
    keyOf: (item: T) => string;
    work: (item: T) => Promise<void>;
    fail: (item: T, error: StoreError) => void;
  }): Promise<void> {
    const {
      commands,
      parallelism = Number.POSITIVE_INFINITY,
      timeoutMs,
      timedOut,
      monotonicMs,
    } = this.#options;
    const { keyOf, work, fail } = given;
    const groups = Map.groupBy(given.items, (item) => commands.placeOf(keyOf(item)));
    const endMs = monotonicMs() + timeoutMs;
    await inParallel([...groups.values()], parallelism, async (group) => {
      if (monotonicMs() >= endMs) {
        for (const item of group) fail(item, timedOut().marked(true));
        return;
      }
      await Promise.all(
        group.map((item) => work(item).catch((error: unknown) => fail(item, commands.translate(error)))),
      );
    });
  }
}

/** Does `work` for each item, in order, for at most `limit` of them at a time. Rejects with the first error of `work`. */
export async function inParallel<T>(
  items: readonly T[],
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  if (items.length <= limit) {
    await Promise.all(items.map(work));
    return;
  }
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < items.length) await work(items[next++] as T);
  };
  await Promise.all(Array.from({ length: Math.max(1, limit) }, worker));
}
