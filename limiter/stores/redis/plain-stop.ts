import type { CounterOp } from '../counter-store.ts';
import { FoldedRun, failOp, totalAfter } from '../folded-run.ts';
import { holdBack } from '../stop-when-over.ts';
import { StoreError } from '../store-error.ts';

/**
 * Stop-when-over in two steps: the caller looks at every key of `totals`, then applies `runs`, then `answer` tells the
 * ops. Requests are judged in order, each by the totals that those before it leave. Pure.
 */
export class PlainStop {
  /** The total of every key before the first request, or why it is not known; written by the caller. */
  readonly totals = new Map<string, number | StoreError>();
  readonly #requests: readonly (readonly CounterOp[])[];
  readonly #runs = new Map<string, FoldedRun>();
  readonly #copies: { op: CounterOp; copy: CounterOp }[] = [];

  constructor(requests: readonly (readonly CounterOp[])[]) {
    this.#requests = requests;
    for (const ops of requests) for (const op of ops) this.totals.set(op.key, 0);
  }

  /** What each key may count. Runs that only look need not be applied: they are answered here. */
  judge(): FoldedRun[] {
    const expected = new Map(this.totals);
    for (const ops of this.#requests) {
      for (const op of ops) readTotal(op, expected.get(op.key));
      holdBack(ops);
      for (const op of ops) {
        if (op.error !== undefined) {
          op.applied = 0;
          continue;
        }
        this.#fold(op);
        const before = expected.get(op.key) as number;
        expected.set(op.key, totalAfter(before, op.applied, op.negative));
      }
    }
    const counting: FoldedRun[] = [];
    for (const run of this.#runs.values()) {
      if (run.isLook) run.answer(this.totals.get(run.key) as number);
      else counting.push(run);
    }
    return counting;
  }

  /** Once every run was answered or failed. */
  answer(): void {
    for (const { op, copy } of this.#copies) {
      op.applied = copy.applied;
      op.after = copy.after;
      op.error = copy.error;
    }
  }

  #fold(op: CounterOp): void {
    const copy = { ...op, hits: op.applied };
    this.#copies.push({ op, copy });
    const run = this.#runs.get(op.key);
    if (run === undefined) this.#runs.set(op.key, new FoldedRun(copy));
    else run.add(copy);
  }
}

/** When the key's total is not known, the op has failed. */
function readTotal(op: CounterOp, total: number | StoreError | undefined): void {
  if (total instanceof StoreError) {
    failOp(op, total);
    return;
  }
  op.after = total ?? 0;
  op.error = undefined;
}
