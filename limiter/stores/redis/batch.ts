import type { StoreError } from '../store-error.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';
import type { RedisScript } from './redis-script.ts';

/** More would hold up Redis's other users: it does nothing else while a script runs. */
export const maxKeysPerCall = 512;

/** One `submit`, until every call that carries a part of it is answered. */
export interface PendingRequest {
  callsLeft: number;
  done: () => void;
}

/** What goes out in one script call. */
export interface Batch {
  readonly script: RedisScript;
  /** Asked right before it is sent: answers the ops whose callers gave up, and drops them. False when none is left. */
  leaveOutAbandoned(): boolean;
  /** Arguments after the script itself: the number of keys, the keys, the rest. */
  toArgs(): string[];
  /** Writes the answers; false when the reply is not what the script gives, and nothing was written. */
  answer(reply: unknown, errors: RedisErrors): boolean;
  fail(error: StoreError): void;
  /** Counts and answers without a script. Never rejects. */
  countPlainly(plain: PlainCounting): Promise<void>;
  readonly requests: readonly PendingRequest[];
}

/** Tells those requests that wait for nothing else any more: all of them, even when one throws, which is thrown then. */
export function settle(batch: Batch): void {
  let thrown: { error: unknown } | undefined;
  for (const request of batch.requests) {
    request.callsLeft -= 1;
    if (request.callsLeft > 0) continue;
    try {
      request.done();
    } catch (error) {
      thrown ??= { error };
    }
  }
  if (thrown !== undefined) throw thrown.error;
}

/** A number of a script's reply; undefined for the error of one key. Beyond 2^52 the scripts write it as text. */
export function replyNumber(reply: unknown): number | undefined {
  if (typeof reply === 'number') return reply;
  return reply instanceof Buffer ? Number(reply.toString('latin1')) : undefined;
}
