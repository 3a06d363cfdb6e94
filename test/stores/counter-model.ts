import type { CounterOp } from '../../limiter/stores/counter-store.ts';

const max = BigInt(Number.MAX_SAFE_INTEGER);

/** What a store is expected to answer, written without regard to cost, one op after the other. */
export class CounterModel {
  readonly #totals = new Map<string, bigint>();

  submit(
    ops: readonly CounterOp[],
    stopWhenOver: boolean,
  ): { applied: number; after: number; error: undefined }[] {
    const wouldBeOver = ops.map(
      (op) => !op.negative && !op.lookOnly && this.#total(op) + BigInt(op.hits) > BigInt(op.limit),
    );
    const refuses = (kind: CounterOp['holdsBack']) =>
      wouldBeOver.filter((_, i) => ops[i]?.holdsBack === kind && !ops[i]?.negative && !ops[i]?.lookOnly);
    const together = refuses('together');
    const anyOver = refuses('alone').includes(true) || (together.length > 0 && !together.includes(false));
    return ops.map((op, i) => {
      const counts = !stopWhenOver || op.negative || wouldBeOver[i] || (!anyOver && !op.lookOnly);
      const applied = counts ? op.hits : 0;
      const moved = this.#total(op) + (op.negative ? -BigInt(applied) : BigInt(applied));
      const after = moved < 0n ? 0n : moved > max ? max : moved;
      this.#totals.set(op.key, after);
      return { applied, after: Number(after), error: undefined };
    });
  }

  #total(op: CounterOp): bigint {
    return this.#totals.get(op.key) ?? 0n;
  }
}
