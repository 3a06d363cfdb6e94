/** The memcache counters of one turn: the questions, the answers to each request, and the changes to send. */

import { maxTotal, reportedTotal, totalAfter } from '../folded-run.ts';
import { callAbandoned, failAll, failOp, hitsToCount, type Operation } from '../operation.ts';
import { stopOthersWhenOver } from '../stop-when-over.ts';
import type { StoreError } from '../store-error.ts';
import { addCommand, changeCommand, type MemcacheCommand } from './command.ts';

export interface PendingBatch {
  readonly ops: Operation[];
  readonly stopWhenOver: boolean;
  readonly done: () => void;
  /** Keys without an answer yet. */
  keysLeft: number;
  /** Whether one of its keys could not be read. */
  failed: boolean;
}

/** One key of a turn. */
export class KeyCount {
  /** The key in the form that memcache accepts. */
  readonly key: string;
  readonly requests: PendingBatch[] = [];
  /** The error of a node that could not be asked. All ops with this key get it. Undefined if it does not count as a failure. */
  error: StoreError | undefined;
  /** Whether the node has the key; undefined if it did not answer. */
  found: boolean | undefined;
  /** The lifetime of the key from its first hit, in seconds. */
  ttlSeconds = 0;
  #total = 0;
  /** Changes that were sent after the question, so that its answer does not include them. */
  #unseen: number[] = [];
  /** Signed changes, to be sent in this order. */
  #changes: number[] = [];

  constructor(key: string) {
    this.key = key;
  }

  overlook(change: number): void {
    this.#unseen.push(change);
  }

  answer(found: boolean, total: number): void {
    this.found = found;
    this.#total = total;
    for (const change of this.#unseen) this.#total = changed(this.#total, change);
  }

  /** The current total of the key. If the node cannot be asked, it is 0, and every op counts from there. */
  get total(): number {
    return this.found === undefined ? 0 : this.#total;
  }

  count(op: Operation): void {
    const before = this.total;
    const isRefund = op.verb === 'refund';
    op.after = reportedTotal(before, op.applied, isRefund);
    if (op.applied === 0) return;
    this.#total = Math.min(maxTotal, op.after);
    if (!isRefund && this.ttlSeconds === 0) this.ttlSeconds = op.ttlSeconds;
    // The change stops at the bound, so that the node's 64 bits never overflow.
    const change = isRefund ? -op.applied : Math.min(op.applied, maxTotal - before);
    const last = this.#changes.at(-1) ?? 0;
    if (last * change > 0)
      this.#changes[this.#changes.length - 1] = Math.max(-maxTotal, Math.min(maxTotal, last + change));
    else if (change !== 0) this.#changes.push(change);
  }

  takeChanges(): number[] {
    const changes = this.#changes;
    this.#changes = [];
    return changes;
  }
}

/**
 * The requests of one turn and the totals of their keys. Each key is asked for once. A request is concluded when all of its keys are
 * answered. Each op then gets the total as if the ops had been sent alone, in order. Pure.
 */
export class CounterBatch {
  /** Totals by the key of the ops. */
  readonly keys = new Map<string, KeyCount>();
  readonly requests: PendingBatch[] = [];

  /** `keyOf` returns the key in the form that memcache accepts. */
  add(request: PendingBatch, keyOf: (op: Operation) => string): void {
    this.requests.push(request);
    for (const op of request.ops) {
      let count = this.keys.get(op.key);
      if (count === undefined) {
        count = new KeyCount(keyOf(op));
        this.keys.set(op.key, count);
      }
      if (count.requests.at(-1) === request) continue;
      count.requests.push(request);
      request.keysLeft += 1;
    }
  }

  /** Writes the answers of one request into its ops. Returns the keys that change. */
  conclude({ ops, stopWhenOver, failed }: PendingBatch): Set<KeyCount> {
    const changedKeys = new Set<KeyCount>();
    if (ops[0]?.caller?.abandoned === true) {
      failAll(ops, callAbandoned);
      return changedKeys;
    }
    for (const op of ops) {
      op.error = undefined;
      op.applied = hitsToCount(op);
      op.after = this.keys.get(op.key)!.total;
    }
    const known = failed ? this.#withoutFailed(ops) : ops;
    if (stopWhenOver) stopOthersWhenOver(known);
    for (const op of known) {
      const count = this.keys.get(op.key)!;
      count.count(op);
      changedKeys.add(count);
    }
    return changedKeys;
  }

  #withoutFailed(ops: readonly Operation[]): Operation[] {
    return ops.filter((op) => {
      const { error } = this.keys.get(op.key)!;
      if (error !== undefined) failOp(op, error);
      return error === undefined;
    });
  }
}

function changed(total: number, change: number): number {
  return totalAfter(total, Math.abs(change), change < 0);
}

/** Keys whose questions are in flight. Later turns may ask for a key again before the first answer. */
export class RequestedKeys {
  readonly #asked = new Map<string, KeyCount[]>();

  add(count: KeyCount): void {
    const others = this.#asked.get(count.key);
    if (others === undefined) this.#asked.set(count.key, [count]);
    else others.push(count);
  }

  remove(count: KeyCount): void {
    const others = this.#asked.get(count.key) ?? [];
    if (others.length <= 1) this.#asked.delete(count.key);
    else others.splice(others.indexOf(count), 1);
  }

  /** Records a change that is sent after questions in flight. Their answers will not include it. */
  overlook(key: string, change: number): void {
    for (const count of this.#asked.get(key) ?? []) count.overlook(change);
  }
}

// Sends hits to a node: with `incr`; if the key is missing, with `add`, which alone sets its lifetime; and if another limiter was first,
// with `incr` again. If the key was missing a moment ago, `add` is sent immediately after `incr`, before its answer arrives. `add` has no
// effect if the key exists by then, so nothing is counted twice, and the next question finds the key.

export type ChangeOutcome = 'success' | 'error' | 'miss' | 'not_stored';

export interface ChangeEvents {
  /** Called with the outcome of one command: `miss` is for incr and decr, `not_stored` for add. */
  onCommand(command: 'increment' | 'add' | 'decrement', outcome: ChangeOutcome): void;
  /** Called when hits were not counted, as far as is known. */
  onLost(problem: string, key: string, error: string): void;
}

export interface IncreaseOptions {
  key: string;
  hits: number;
  /** The same as for `addCommand`. */
  expiry: () => number;
  /** Whether the key was missing a moment ago. */
  wasMissing: boolean;
  send: (command: MemcacheCommand) => void;
  events: ChangeEvents;
}

export function sendIncrease({ key, hits, expiry, wasMissing, send, events }: IncreaseOptions): void {
  /** The reply to incr; undefined until then. */
  let isMissing: boolean | undefined;
  let added: string | StoreError | undefined;
  const lost = (problem: string, error: StoreError): void => events.onLost(problem, key, error.message);
  const again = (): void =>
    send(
      changeCommand('incr', key, hits, (reply) => {
        events.onCommand('increment', outcomeOf(reply));
        if (reply === 'NOT_FOUND')
          events.onLost('Failed to increment after failing to add', key, 'the key is gone');
        else if (typeof reply !== 'string') lost('Failed to increment after failing to add', reply);
      }),
    );
  /** Called after each reply, and acts after both: a connection that takes no more commands answers at once. */
  const conclude = (): void => {
    if (isMissing !== true || added === undefined) return;
    events.onCommand('add', outcomeOf(added));
    if (added === 'NOT_STORED') again();
    else if (typeof added !== 'string') lost('Failed to add', added);
  };
  const add = (): void =>
    send(
      addCommand(key, hits, expiry(), (reply) => {
        added = reply;
        conclude();
      }),
    );
  send(
    changeCommand('incr', key, hits, (reply) => {
      events.onCommand('increment', outcomeOf(reply));
      if (typeof reply !== 'string') lost('Failed to increment', reply);
      isMissing = reply === 'NOT_FOUND';
      if (isMissing && !wasMissing) add();
      else conclude();
    }),
  );
  if (wasMissing) add();
}

/** A missing key stays missing. */
export function sendDecrease(options: Pick<IncreaseOptions, 'key' | 'hits' | 'send' | 'events'>): void {
  const { key, hits, send, events } = options;
  send(
    changeCommand('decr', key, hits, (reply) => {
      events.onCommand('decrement', outcomeOf(reply));
      if (typeof reply !== 'string') events.onLost('Failed to decrement', key, reply.message);
    }),
  );
}

function outcomeOf(reply: string | StoreError): ChangeOutcome {
  if (typeof reply !== 'string') return 'error';
  if (reply === 'NOT_FOUND') return 'miss';
  return reply === 'NOT_STORED' ? 'not_stored' : 'success';
}
