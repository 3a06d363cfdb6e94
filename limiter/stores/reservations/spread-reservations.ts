import type {
  Fullness,
  LookCall,
  Note,
  ReservationCall,
  ReservationStore,
  ReserveCall,
  ReservedCounter,
  SettleCall,
} from './reservation-store.ts';

export interface SpreadReservationsOptions {
  /** Equal for counters that one call of a store can take together. */
  readonly placeOf: (counter: ReservedCounter) => unknown;
  readonly storeOf: (counter: ReservedCounter) => ReservationStore;
  /** All of them: notes are with the first counter of a call, or as claims with the first store. */
  readonly stores: readonly ReservationStore[];
}

/**
 * Calls whose counters are in several places. Each place decides for itself, at once; a reserve asks one after the other, in
 * the order of the counters, and where one refuses, those before give back what they took: so nothing is overspent, others may be
 * refused too early, and what a crash leaves is held until its TTL. Who repeats a call completes what was half done.
 */
export class SpreadReservations implements ReservationStore {
  readonly #options: SpreadReservationsOptions;

  constructor(options: SpreadReservationsOptions) {
    this.#options = options;
  }

  submit(call: ReservationCall, done: () => void): void {
    const { placeOf, storeOf } = this.#options;
    const places = [...Map.groupBy(call.counters, placeOf).values()];
    if (places.length === 1) {
      storeOf(call.counters[0]!).submit(call, done);
      return;
    }
    const asked = call.kind === 'reserve' ? this.#reserve(call, places) : this.#askAll(call, places);
    void asked.then(done);
  }

  async recall(id: string): Promise<string | undefined> {
    const notes = await Promise.all(this.#options.stores.map((store) => store.recall(id)));
    return notes.find((note) => note !== undefined);
  }

  async note(note: Note): Promise<string | Fullness | undefined> {
    return (await this.recall(note.id)) ?? this.#options.stores[0]!.note(note);
  }

  get share(): ReservationStore['share'] {
    return this.#options.stores[0]!.share;
  }

  claim(name: string, seconds: number): Promise<boolean> {
    return this.#options.stores[0]!.claim(name, seconds);
  }

  async #askAll(call: SettleCall | LookCall, places: readonly ReservedCounter[][]): Promise<void> {
    const parts = places.map((counters) => ({ ...call, counters }));
    await Promise.all(parts.map((part) => this.#ask(part)));
    call.error = parts.find(({ error }) => error !== undefined)?.error;
    if (call.kind !== 'settle') return;
    const settled = parts as SettleCall[];
    const first = settled.find(({ outcome }) => outcome !== 'unknown') ?? settled[0]!;
    call.charged = first.charged;
    call.amount = first.amount;
    call.outcome = settledFirst.find((one) => settled.some(({ outcome }) => outcome === one)) ?? 'unknown';
  }

  async #reserve(call: ReserveCall, places: readonly ReservedCounter[][]): Promise<void> {
    const made: ReserveCall[] = [];
    const otherQuotaPasses = call.otherQuotaPasses || call.counters.some(mayRefuseAsQuota);
    const width = call.counters.length;
    let isRefused = false;
    for (const counters of places) {
      const part = {
        ...call,
        counters,
        width,
        otherQuotaPasses,
        note: made.length === 0 ? call.note : undefined,
      };
      await this.#ask(part);
      call.error = part.error;
      call.outcome = part.outcome;
      call.full = part.full;
      isRefused = part.error !== undefined || (part.outcome !== 'reserved' && part.outcome !== 'repeated');
      if (isRefused) break;
      made.push(part);
    }
    if (!isRefused && !call.otherQuotaPasses && noQuotaPasses(call)) {
      call.outcome = 'refused';
      isRefused = true;
    }
    if (!isRefused) {
      call.outcome = made.every(({ outcome }) => outcome === 'repeated') ? 'repeated' : 'reserved';
      call.expiresAtMs = made[0]!.expiresAtMs;
      return;
    }
    call.expiresAtMs = 0;
    await Promise.all(made.map((part) => this.#undo(part)));
    if (call.error !== undefined) return;
    // All say how they stand, and a marker's settling is to charge nothing there either.
    const refusing = made.length === places.length ? undefined : places[made.length];
    const { outcome, caller } = call;
    await Promise.all(
      places.map((all) => {
        if (all === refusing) return undefined;
        if (outcome === 'conflict')
          return this.#ask({ kind: 'look', counters: all, caller, error: undefined });
        // Of a marker that they left out they remember as much already.
        const counters = call.isMarker ? all.filter((counter) => counter.outcome !== 'left-out') : all;
        if (counters.length === 0) return undefined;
        return this.#ask({ ...call, counters, width, note: undefined, refusedElsewhere: true });
      }),
    );
  }

  /** Not of what was made before: where a marker was left out, its youngest is none of this call. */
  async #undo({ id, isMarker, counters: all, caller, outcome }: ReserveCall): Promise<void> {
    const counters = isMarker ? all.filter((counter) => counter.outcome === 'charged') : all;
    if (outcome !== 'reserved' || counters.length === 0) return;
    await this.#ask({
      kind: 'settle',
      id,
      isMarker,
      counters: counters.map((counter) => ({ ...counter, amount: 0 })),
      caller,
      unknown: 'tell',
      undoes: true,
      error: undefined,
      outcome: 'unknown',
      charged: 0,
      amount: 0,
    });
  }

  #ask(part: ReservationCall): Promise<void> {
    return new Promise((resolve) => this.#options.storeOf(part.counters[0]!).submit(part, resolve));
  }
}

const settledFirst = ['settled', 'late', 'repeated'] as const;

function mayRefuseAsQuota({ isQuota, isShadow }: ReservedCounter): boolean {
  return isQuota && !isShadow;
}

function noQuotaPasses({ counters }: ReserveCall): boolean {
  const quotas = counters.filter(mayRefuseAsQuota);
  return quotas.length > 0 && quotas.every(({ outcome }) => outcome === 'left-out');
}
