/**
 * The requests of one turn and the totals of their keys. A key is asked for once, whoever wants it; a request is concluded
 * when all of its keys are answered, and each op then gets the total as if it had come alone, in order. Pure.
 */
import { callAbandoned } from '../call-abandoned.ts';
import type { CounterOp } from '../counter-store.ts';
import { failOp, maxTotal, totalAfter } from '../folded-run.ts';
import { holdBack } from '../stop-when-over.ts';
import type { StoreError } from '../store-error.ts';

export interface PendingRequest {
  readonly ops: CounterOp[];
  readonly stopWhenOver: boolean;
  readonly done: () => void;
  /** Keys without an answer yet. */
  keysLeft: number;
  /** One of its keys could not be read. */
  failed: boolean;
}

/** One key of a turn. */
export class KeyCount {
  /** As memcache takes it. */
  readonly key: string;
  readonly requests: PendingRequest[] = [];
  /** Why the node could not be asked, and with it all that counts this key; undefined where that is no failure. */
  error: StoreError | undefined;
  /** The node said that the key is there; undefined when it said nothing. */
  found: boolean | undefined;
  /** Life of the key from its first hit, in seconds. */
  ttlSeconds = 0;
  #total = 0;
  /** What went to the node behind the question, and so is not in its answer. */
  #unseen: number[] = [];
  /** Signed, to be sent in this order. */
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

  /** 0 for as long as the node cannot be asked: then every op counts from there. */
  get total(): number {
    return this.found === undefined ? 0 : this.#total;
  }

  count(op: CounterOp): void {
    const before = this.total;
    op.after = totalAfter(before, op.applied, op.negative);
    if (op.applied === 0) return;
    this.#total = op.after;
    if (!op.negative && this.ttlSeconds === 0) this.ttlSeconds = op.ttlSeconds;
    // No more than up to the bound, so that the node's 64 bits never run over.
    const change = op.negative ? -op.applied : Math.min(op.applied, maxTotal - before);
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

export class CounterBatch {
  /** By the key of the ops. */
  readonly keys = new Map<string, KeyCount>();
  readonly requests: PendingRequest[] = [];

  /** `keyOf`: the key as memcache takes it. */
  add(request: PendingRequest, keyOf: (op: CounterOp) => string): void {
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

  /** Writes the answers of one request into its ops. Returns the keys that are to be changed. */
  conclude({ ops, stopWhenOver, failed }: PendingRequest): Set<KeyCount> {
    const changedKeys = new Set<KeyCount>();
    if (ops[0]?.caller?.abandoned === true) {
      for (const op of ops) failOp(op, callAbandoned);
      return changedKeys;
    }
    for (const op of ops) {
      op.error = undefined;
      op.applied = op.hits;
      op.after = this.keys.get(op.key)!.total;
    }
    const known = failed ? this.#withoutFailed(ops) : ops;
    if (stopWhenOver) holdBack(known);
    for (const op of known) {
      const count = this.keys.get(op.key)!;
      count.count(op);
      changedKeys.add(count);
    }
    return changedKeys;
  }

  #withoutFailed(ops: readonly CounterOp[]): CounterOp[] {
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
