/** Reservations in a Redis Cluster. Counters with one hash tag are in one slot. The note of a reservation has a separate slot. */
import { failAll, type Operation } from '../../operation.ts';
import { type ReservationPlaces, submitSpread, undoSpread } from '../../spread-reservations.ts';
import { hashTagOf, type Notes } from '../../store.ts';
import { StoreError } from '../../store-error.ts';

/** Submits a call to all of its slots. `submit` sends the part for one slot. */
export function submitToSlots(
  ops: Operation[],
  { submit, notes }: Pick<ReservationPlaces, 'submit'> & { readonly notes: Notes },
  done: () => void,
): void {
  const places: ReservationPlaces = { placeOf: ({ key }) => hashTagOf(key), submit };
  const { note } = ops[0]!.hold!.reservation;
  if (ops[0]!.verb === 'reserve' && note !== undefined)
    void reserveNoted(ops, note, places, notes).then(done);
  else submitSpread(ops, places, done);
}

async function reserveNoted(
  ops: readonly Operation[],
  note: string,
  places: ReservationPlaces,
  notes: Notes,
): Promise<void> {
  const call = ops[0]!.hold!.reservation;
  const { id, owner } = call;
  const ask = (): Promise<void> => new Promise((resolve) => submitSpread(ops, places, resolve));
  let isNew = false;
  try {
    const noted = await notes.recall(id);
    if (noted !== undefined && noted !== note) {
      for (const op of ops) op.verb = 'look';
      await ask();
      for (const op of ops) op.verb = 'reserve';
      call.outcome = 'conflict';
      call.expiresAtMs = 0;
      return;
    }
    call.note = undefined;
    await ask();
    call.note = note;
    const failed = ops.some(({ error }) => error !== undefined);
    if (failed || (call.outcome !== 'reserved' && call.outcome !== 'repeated')) return;
    isNew = call.outcome === 'reserved';
    const ttlMs = Math.max(...ops.map(({ hold }) => hold!.ttlMs));
    await notes.note({ id, text: note, ttlMs, owner });
  } catch (error) {
    if (!(error instanceof StoreError)) throw error;
    if (isNew) await undoSpread(ops, places);
    failAll(ops, error);
  }
}
