import { failOp, type Operation } from '../../limiter/stores/operation.ts';
import type { Store } from '../../limiter/stores/store.ts';
import type { StoreError } from '../../limiter/stores/store-error.ts';

/** A request that waits for the test to say what the store answers. */
export interface UnansweredRequest {
  readonly ops: Operation[];
  answer(after: number): void;
  fail(error: StoreError): void;
}

/** Keeps every request and every ping until the test answers. */
export class HandDrivenStore implements Store {
  connected = true;
  readonly requests: UnansweredRequest[] = [];
  readonly pings: PromiseWithResolvers<void>[] = [];

  submit(ops: Operation[], _options: unknown, done: () => void): void {
    this.requests.push({
      ops,
      answer: (after) => {
        for (const op of ops) Object.assign(op, { applied: op.hits, after, error: undefined });
        done();
      },
      fail: (error) => {
        for (const op of ops) failOp(op, error);
        done();
      },
    });
  }

  /** Answers all requests held, and holds them no longer. */
  answerAll(after: number): void {
    for (const request of this.requests.splice(0)) request.answer(after);
  }

  ping(): Promise<void> {
    const ping = Promise.withResolvers<void>();
    this.pings.push(ping);
    return ping.promise;
  }

  close(): Promise<void> {
    return Promise.resolve();
  }
}
