import { hashTagOf } from '../counter-store.ts';
import type {
  Fullness,
  Note,
  ReservationCall,
  ReservationStore,
  ReserveCall,
} from '../reservations/reservation-store.ts';
import { SpreadReservations } from '../reservations/spread-reservations.ts';

/** Budgets in a Redis Cluster, whose counters of one hash tag are in one place. The note of a reservation has a slot of its own. */
export class ClusterReservations implements ReservationStore {
  readonly #slots: ReservationStore;
  readonly #spread: ReservationStore;

  /** Of one slot. */
  constructor(slots: ReservationStore) {
    this.#slots = slots;
    this.#spread = new SpreadReservations({
      placeOf: ({ key }) => hashTagOf(key),
      storeOf: () => slots,
      stores: [slots],
    });
  }

  submit(call: ReservationCall, done: () => void): void {
    if (call.kind === 'reserve' && call.note !== undefined)
      void this.#reserveNoted(call, call.note).then(done);
    else this.#spread.submit(call, done);
  }

  recall(id: string): Promise<string | undefined> {
    return this.#slots.recall(id);
  }

  note(note: Note): Promise<string | Fullness | undefined> {
    return this.#slots.note(note);
  }

  get share(): ReservationStore['share'] {
    return this.#slots.share;
  }

  claim(name: string, seconds: number): Promise<boolean> {
    return this.#slots.claim(name, seconds);
  }

  async #reserveNoted(call: ReserveCall, note: string): Promise<void> {
    const { id, counters, caller, owner } = call;
    try {
      const noted = await this.recall(id);
      if (noted !== undefined && noted !== note) {
        await this.#ask({ kind: 'look', counters, caller, error: undefined });
        call.outcome = 'conflict';
        call.expiresAtMs = 0;
        return;
      }
      const part = { ...call, note: undefined };
      await this.#ask(part);
      const { error, outcome, full, expiresAtMs } = part;
      Object.assign(call, { error, outcome, full, expiresAtMs });
      if (error !== undefined || (outcome !== 'reserved' && outcome !== 'repeated')) return;
      const ttlMs = Math.max(...counters.map((counter) => counter.ttlMs));
      await this.#slots.note({ id, text: note, ttlMs, owner });
    } catch (error) {
      call.error = error as ReserveCall['error'];
    }
  }

  #ask(call: ReservationCall): Promise<void> {
    return new Promise((resolve) => this.#spread.submit(call, resolve));
  }
}
