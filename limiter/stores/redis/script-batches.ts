import { type CounterOp, callAbandoned, failOp, type StoreError } from '../counter-store.ts';
import { FoldedRun } from '../folded-run.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';
import { countScript, type RedisScript, replyNumber, stopScript } from './scripts.ts';

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

/** Ops of many requests, folded by key, for one call of `countScript`. */
export class CountBatch implements Batch {
  readonly script = countScript;
  readonly requests: PendingRequest[] = [];
  readonly #runs = new Map<string, FoldedRun>();
  /** In the order of the script's keys. */
  #sent: FoldedRun[] = [];

  /** False when the op's key would be one too many. */
  add(op: CounterOp, request: PendingRequest): boolean {
    const run = this.#runs.get(op.key);
    if (run !== undefined) run.add(op);
    else if (this.#runs.size < maxKeysPerCall) this.#runs.set(op.key, new FoldedRun(op));
    else return false;
    if (this.requests[this.requests.length - 1] !== request) {
      this.requests.push(request);
      request.callsLeft += 1;
    }
    return true;
  }

  leaveOutAbandoned(): boolean {
    for (const run of this.#runs.values()) {
      if (!run.leaveOutAbandoned()) this.#runs.delete(run.key);
    }
    return this.#runs.size > 0;
  }

  toArgs(): string[] {
    const additions: FoldedRun[] = [];
    const others: FoldedRun[] = [];
    for (const run of this.#runs.values()) (run.isAddition ? additions : others).push(run);
    this.#sent = others.length === 0 ? additions : additions.concat(others);
    const args = [String(this.#sent.length)];
    for (const run of this.#sent) args.push(run.key);
    args.push(String(additions.length));
    for (const run of additions) args.push(String(run.shift), String(run.ttlSeconds));
    for (const run of others) {
      args.push(String(run.shift), String(run.low), String(run.high), String(run.ttlSeconds));
    }
    return args;
  }

  answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply) || reply.length !== this.#sent.length) return false;
    for (let i = 0; i < reply.length; i += 1) {
      const run = this.#sent[i] as FoldedRun;
      const before = replyNumber(reply[i]);
      if (before === undefined) run.fail(errors.fromCommand(reply[i]));
      else run.answer(before);
    }
    return true;
  }

  fail(error: StoreError): void {
    for (const run of this.#runs.values()) run.fail(error);
  }

  countPlainly(plain: PlainCounting): Promise<void> {
    return plain.count([...this.#runs.values()]);
  }
}

/** Whole requests for one call of `stopScript`. Nothing is folded: what a request may count depends on those before it. */
export class StopBatch implements Batch {
  readonly script = stopScript;
  readonly requests: PendingRequest[] = [];
  #ops: CounterOp[] = [];
  /** How many ops each request has. */
  #sizes: number[] = [];

  /** False when the request's keys would be too many; an empty batch takes any up to `maxKeysPerCall`. */
  add(ops: CounterOp[], request: PendingRequest): boolean {
    if (this.#ops.length + ops.length > maxKeysPerCall) return false;
    for (const op of ops) this.#ops.push(op);
    this.#sizes.push(ops.length);
    this.requests.push(request);
    request.callsLeft += 1;
    return true;
  }

  /** Whole requests: what one of them may count depends on all of its ops. */
  leaveOutAbandoned(): boolean {
    const kept: CounterOp[] = [];
    const sizes: number[] = [];
    let first = 0;
    for (const size of this.#sizes) {
      const ops = this.#ops.slice(first, first + size);
      first += size;
      if (ops[0]?.caller?.abandoned === true) {
        for (const op of ops) failOp(op, callAbandoned);
      } else {
        for (const op of ops) kept.push(op);
        sizes.push(size);
      }
    }
    this.#ops = kept;
    this.#sizes = sizes;
    return kept.length > 0;
  }

  toArgs(): string[] {
    const args = [String(this.#ops.length)];
    for (const op of this.#ops) args.push(op.key);
    let next = 0;
    for (const size of this.#sizes) {
      args.push(String(size));
      for (const end = next + size; next < end; next += 1) {
        const op = this.#ops[next] as CounterOp;
        args.push(hitsArgument(op), String(op.ttlSeconds), String(op.limit), op.holdsBack.charAt(0));
      }
    }
    return args;
  }

  answer(reply: unknown, errors: RedisErrors): boolean {
    if (!Array.isArray(reply) || reply.length !== this.#ops.length) return false;
    for (let i = 0; i < reply.length; i += 1) {
      const op = this.#ops[i] as CounterOp;
      const after = replyNumber(reply[i]);
      if (after === undefined) {
        failOp(op, errors.fromCommand(reply[i]));
        continue;
      }
      const heldBack = after < 0;
      op.applied = heldBack ? 0 : op.hits;
      op.after = heldBack ? -1 - after : after;
      op.error = undefined;
    }
    return true;
  }

  fail(error: StoreError): void {
    for (const op of this.#ops) failOp(op, error);
  }

  countPlainly(plain: PlainCounting): Promise<void> {
    const requests: CounterOp[][] = [];
    let first = 0;
    for (const size of this.#sizes) {
      requests.push(this.#ops.slice(first, first + size));
      first += size;
    }
    return plain.countWhole(requests);
  }
}

function hitsArgument(op: CounterOp): string {
  if (op.negative) return op.hits === 0 ? '' : `-${op.hits}`;
  return op.lookOnly ? '' : String(op.hits);
}
