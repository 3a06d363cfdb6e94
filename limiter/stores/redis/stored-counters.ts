/** Reads and removes single counters, and their data in Redis: for operators, apart from the requests that count. */
import { type CounterState, largestExactNumber } from '../../algorithms/algorithm-bound.ts';
import { ledgerKeyOf } from '../../allocate/ledger.ts';
import type { StoredCounter } from '../store.ts';
import type { StoreError } from '../store-error.ts';
import { reservationKeysOf } from './reservation-keys.ts';
import type { KeyedCommands } from './wire/redis-connection.ts';
import { integerReply, ReplyError, textReply, UnexpectedReply } from './wire/resp.ts';

export interface StoredCounterOptions {
  /** Whether counters may have ledgers of leases. */
  readonly leases: boolean;
}

/** Reads a counter. Undefined: there is no such key, or it holds no counter. Rejects with a StoreError. */
export async function readCounter(
  commands: KeyedCommands,
  key: string,
  { leases }: StoredCounterOptions,
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

/** Removes counters with their ledgers and reservations. Returns the number of counters that existed. Rejects with a StoreError. */
export async function removeCounter(
  commands: KeyedCommands,
  key: string,
  { leases }: StoredCounterOptions,
): Promise<number> {
  const del = (one: string) =>
    commands
      .send(one, 'del', [one])
      .then((reply) => integerReply('DEL', reply, 0, 1))
      .catch((error: unknown) => {
        throw commands.translate(error);
      });
  // A ledger without its counter is invalid, but a counter without its ledger is not, so the counter is removed first.
  const ledgerKey = leases ? ledgerKeyOf(key) : undefined;
  const [removed] = await Promise.all([
    del(key),
    ledgerKey === undefined ? 0 : del(ledgerKey),
    ...reservationKeysOf(key).map((one) => del(one).catch(unlessForbidden)),
  ]);
  return removed;
}

/** Ignores an error of permission: if access to reservations is not permitted, there are none. */
function unlessForbidden(error: StoreError): void {
  if (!/\bNOPERM\b/.test(error.message)) throw error;
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
