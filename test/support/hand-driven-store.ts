import {
  type CounterOp,
  type CounterStore,
  failOp,
  type StoreError,
} from '../../limiter/stores/counter-store.ts';

/** A request that waits for the test to say what the store answers. */
export interface HeldRequest {
  readonly ops: CounterOp[];
  answer(after: number): void;
  fail(error: StoreError): void;
}

/** Keeps every request and every ping until the test answers. */
export class HandDrivenStore implements CounterStore {
  connected = true;
  readonly requests: HeldRequest[] = [];
  readonly pings: PromiseWithResolvers<void>[] = [];

  submit(ops: CounterOp[], _options: unknown, done: () => void): void {
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
