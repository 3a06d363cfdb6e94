import type { CounterOp } from './counter-store.ts';
import { failOp } from './folded-run.ts';
import { StoreError } from './store-error.ts';

/** The answer to an op that was left out because its caller had gone: not counted, and no failure of the store. */
export const callAbandoned = new StoreError('the caller gave up before its hits were sent to the store', {
  transient: true,
  notCounted: true,
});

/** Asked right before ops are sent. True when nobody waits for this one: it is answered, and is not to be sent. */
export function leaveOut(op: CounterOp): boolean {
  if (op.caller === undefined || !op.caller.abandoned) return false;
  failOp(op, callAbandoned);
  return true;
}

/** Whether any of a request's ops was: then the request counts as one that was never made. */
export function wasLeftOut(ops: readonly CounterOp[]): boolean {
  for (const op of ops) if (op.error === callAbandoned) return true;
  return false;
}
