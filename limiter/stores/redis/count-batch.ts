import { leaveOut } from '../call-abandoned.ts';
import type { CounterOp } from '../counter-store.ts';
import { FoldedRun } from '../folded-run.ts';
import type { StoreError } from '../store-error.ts';
import { type Batch, maxKeysPerCall, type PendingRequest, replyNumber } from './batch.ts';
import { countScript } from './count-script.ts';
import type { PlainCounting } from './plain-counting.ts';
import type { RedisErrors } from './redis-error.ts';

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
      if (!run.keepOthers(leaveOut)) this.#runs.delete(run.key);
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
