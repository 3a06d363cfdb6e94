/**
 * One key's folded run by plain commands, no script: INCRBY with EXPIRE, GET for a look, and for refunds GET and then
 * DECRBY. The last two are two steps: what others do between them is corrected where it shows, not prevented.
 */
import { ReplyError } from 'ioredis';
import { type FoldedRun, maxTotal } from '../folded-run.ts';
import { StoreError } from '../store-error.ts';
import type { KeyedCommands } from './keyed-commands.ts';

/** The client reads integers beyond this one off; text it reads exactly. */
const exactReply = 2 ** 52;

/** Applies and answers the run. Rejects with what `send` rejected with, or with a StoreError. */
export async function applyPlainly(commands: KeyedCommands, run: FoldedRun): Promise<void> {
  if (run.isAddition) run.answer(await add(commands, run, run.shift));
  else if (run.isLook) run.answer(await totalHeld(commands, run.key));
  else run.answer(await clamp(commands, run));
}

/** The total of a key, 0 when it is missing. Rejects likewise. */
export async function totalHeld(commands: KeyedCommands, key: string): Promise<number> {
  const held = await commands.send(key, 'get', [key]);
  if (held === null) return 0;
  const text = String(held);
  if (/^-?\d{1,19}$/.test(text)) return Math.min(maxTotal, Math.max(0, Number(text)));
  throw new StoreError('Redis answered: ERR value is not an integer or out of range', { transient: false });
}

/**
 * Refunds that meet never leave the key below zero for long. A key that ends between the two steps is made anew, as 0 and
 * with a life. Gives the value before.
 */
async function clamp(commands: KeyedCommands, run: FoldedRun): Promise<number> {
  const { key } = run;
  const before = await marking(true, commands, totalHeld(commands, key));
  const after = Math.min(run.high, Math.max(run.low, before + run.shift));
  if (after > before) return add(commands, run, after - before);
  if (after === before) return before;
  const left = Number(await commands.send(key, 'decrby', [key, String(before - after)]));
  if (left < 0) {
    const expire = () => commands.send(key, 'expire', [key, String(run.lifeSeconds)]);
    const corrected = commands.send(key, 'incrby', [key, String(-left)]);
    await marking(false, commands, Promise.all([corrected, insist(expire)]));
  }
  return before;
}

/** INCRBY and EXPIRE go out together. Gives the value before, never above `maxTotal`. */
async function add(commands: KeyedCommands, run: FoldedRun, hits: number): Promise<number> {
  const { key } = run;
  const expire = () => commands.send(key, 'expire', [key, String(run.ttlSeconds)]);
  const incrby = commands.send(key, 'incrby', [key, String(hits)]);
  const [counted, expired] = await Promise.allSettled([incrby, expire()]);
  if (counted.status === 'rejected') {
    if (!isOverflow(counted.reason)) throw counted.reason;
    await saturate(commands, key);
    return maxTotal;
  }
  // The key moved between the two, or the connection broke there. A life may be set twice, unlike a count.
  if (expired.status === 'rejected' || Number(expired.value) !== 1)
    await marking(false, commands, insist(expire));
  const after = Number(counted.value);
  if (after <= exactReply) return after - hits;
  const total = await marking(false, commands, saturate(commands, key));
  return Math.min(maxTotal, Number(total - BigInt(hits)));
}

/** For a step before the one that counts, or behind it: its failure says whether the op was counted. */
async function marking<T>(notCounted: boolean, commands: KeyedCommands, step: Promise<T>): Promise<T> {
  try {
    return await step;
  } catch (error) {
    throw commands.translate(error).marked(notCounted);
  }
}

/** A total that Redis acknowledged is answered even when the server is lost before it set the life. */
async function insist(expire: () => Promise<unknown>): Promise<void> {
  try {
    await expire();
  } catch (error) {
    if (error instanceof ReplyError) throw error;
  }
}

/** Brings a total down to `maxTotal` if it is above, and gives what it was. */
async function saturate(commands: KeyedCommands, key: string): Promise<bigint> {
  const total = BigInt(String((await commands.send(key, 'get', [key])) ?? '0'));
  const excess = total - BigInt(maxTotal);
  if (excess > 0n) await commands.send(key, 'decrby', [key, String(excess)]);
  return total;
}

function isOverflow(error: unknown): boolean {
  return error instanceof Error && /\bwould overflow\b/.test(error.message);
}
