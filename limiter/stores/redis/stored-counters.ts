/** Reads and removes single counters, and their data in Redis: for operators, apart from the requests that count. */
import { type CounterState, largestExactNumber } from '../../algorithms/algorithm-bound.ts';
import type { StoredCounter } from '../store.ts';
import { ledgerKeyOf } from '../store.ts';
import { program } from './lua/program.ts';
import { ReservationPlace } from './reservation-keys.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { integerReply, ReplyError, textReply, UnexpectedReply } from './wire/resp.ts';

export interface StoredCounterOptions {
  /** Whether counters may have ledgers of leases. */
  readonly leases: boolean;
  /** BUDGET_RECORD_TTL. */
  readonly recordMs: number;
}

/** Reads a counter. Undefined: there is no such key, or it holds no counter. Rejects with a StoreError. */
export async function readCounter(
  commands: KeyedCommands,
  key: string,
  { leases }: Pick<StoredCounterOptions, 'leases'>,
): Promise<StoredCounter | undefined> {
  const ask = (command: string, args: string[], read: (reply: unknown) => string | undefined) =>
    commands
      .send(args[0]!, command, args)
      .then(read)
      .catch((error: unknown) => {
        // Another application's key may hold anything.
        if (error instanceof ReplyError && /^(?:WRONGTYPE|NOPERM)/.test(error.message)) return undefined;
        throw commands.translate(error);
      });
  const ledgerKey = leases ? ledgerKeyOf(key) : undefined;
  const [text, ledger] = await Promise.all([
    ask('get', [key], counterReply),
    ledgerKey === undefined ? undefined : ask('hmget', [ledgerKey, 't'], ledgerReply),
  ]);
  const held = stateOf(text);
  const leased = Number(ledger ?? 0);
  return held && { held, leased: Number.isSafeInteger(leased) ? leased : 0 };
}

/**
 * Removes a counter with its ledger, and releases its open reservations. Returns the number of counters that existed. Rejects with a
 * StoreError.
 */
export async function removeCounter(
  commands: KeyedCommands,
  key: string,
  { leases, recordMs }: StoredCounterOptions,
): Promise<number> {
  const del = (one: string) =>
    commands
      .send(one, 'del', [one])
      .then((reply) => integerReply('DEL', reply, 0, 1))
      .catch((error: unknown) => {
        throw commands.translate(error);
      });
  // The reservations come first. One that is released after the removal may hold hits of the next counter, which would stay charged.
  await releaseReservations(commands, key, recordMs);
  // A ledger without its counter is invalid, but a counter without its ledger is not, so the counter is removed first.
  const ledgerKey = leases ? ledgerKeyOf(key) : undefined;
  const [removed] = await Promise.all([del(key), ledgerKey === undefined ? 0 : del(ledgerKey)]);
  return removed;
}

/**
 * Releases the reservations on a counter that is being removed. Their records stay, so that their commits charge what was used, once, to
 * the next counter.
 */
async function releaseReservations(commands: KeyedCommands, key: string, recordMs: number): Promise<void> {
  const { hash, set, window } = new ReservationPlace(key);
  try {
    const records = await commands.send(hash, 'hlen', [hash]);
    if (integerReply('HLEN', records, 0, largestExactNumber) === 0) return;
    // In place of the counter, which may exist again, the script gets a key that never exists.
    const none = `weir:reserve-none:${hash}`;
    // Without the right to remove the counter, they are not released.
    await commands.send(hash, 'del', [none]);
    const keys = ['3', none, hash, set];
    const shape = `d - 1 1 0 1 ${window || '-'} - 0 0 r`;
    const call = ['1', 'p', '-'];
    const terms = ['1', String(recordMs), '0', 'fixed 0', shape, '1'];
    const args = [program.source, ...keys, ...call, ...terms, 'reservations'];
    for (let isMore = true; isMore; ) {
      const reply = await commands.send(hash, 'eval', args);
      const [, outcome] = Array.isArray(reply) ? (reply as unknown[]) : [];
      if (outcome instanceof ReplyError) throw outcome;
      if (!(outcome instanceof Buffer)) throw new UnexpectedReply('EVAL', reply);
      isMore = outcome.toString('latin1').startsWith('more');
    }
  } catch (error) {
    // If access to reservations is not permitted, there are none.
    const isOther =
      error instanceof ReplyError && /^(?:WRONGTYPE|NOPERM|ERR unknown command)/.test(error.message);
    if (!isOther) throw commands.translate(error);
  }
}

/** Returns the text of a counter. A value that is too long to be read belongs to no counter. */
function counterReply(reply: unknown): string | undefined {
  return reply === undefined ? undefined : textReply('GET', reply);
}

/** Returns one field of a ledger. */
function ledgerReply(reply: unknown): string | undefined {
  if (!Array.isArray(reply) || reply.length !== 1) throw new UnexpectedReply('HMGET', reply);
  return counterReply(reply[0]);
}

/**
 * Returns the state of a counter: a number, or the three numbers of a sliding window or a bucket, as `luaBoundKinds` writes them.
 * Undefined for any other text.
 */
function stateOf(text: string | undefined): CounterState | undefined {
  if (text === undefined) return undefined;
  if (/^-?\d+$/.test(text)) return [Math.min(largestExactNumber, Math.max(0, Number(text))), 0, 0];
  const [, a, b, c] = /^(\d{1,16}):(\d{1,16}):(\d{1,16})$/.exec(text) ?? [];
  return a === undefined ? undefined : [Number(a), Number(b), Number(c)];
}
