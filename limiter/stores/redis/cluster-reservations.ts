import { hashTagOf } from '../counter-store.ts';
import type {
  Fullness,
  Note,
  ReservationCall,
  ReservationStore,
  ReserveCall,
  ReservedCounter,
  SettleCall,
} from '../reservations/reservation-store.ts';
import { SpreadReservations } from '../reservations/spread-reservations.ts';

export interface ClusterReservationsOptions {
  /** Of one slot. */
  readonly slots: ReservationStore;
  readonly recordMs: number;
}

/** Chosen: windows before the present one in which an id is looked for, and how many of them at a time. */
const earlierWindows = 64;
const atATime = 8;

/**
 * Budgets in a Redis Cluster. Counters of one hash tag are in one place. One without has a slot for each of its windows, and
 * what is reserved beside each: an id that is not known in the present window is looked for in those before, the latest first.
 */
export class ClusterReservations implements ReservationStore {
  readonly #options: ClusterReservationsOptions;
  readonly #usual: ReservationStore;
  readonly #repeating: ReservationStore;

  constructor(options: ClusterReservationsOptions) {
    const { slots } = options;
    const spread = (submit: ReservationStore['submit']) =>
      new SpreadReservations({
        placeOf: ({ key }) => hashTagOf(key),
        storeOf: () => ({ ...slots, submit }),
        stores: [slots],
      });
    this.#options = options;
    this.#usual = spread((call, done) => this.#submitToSlot(call, done));
    this.#repeating = spread((call, done) => {
      if (call.kind === 'reserve') void this.#reserveAgain(call).then(done);
      else this.#submitToSlot(call, done);
    });
  }

  submit(call: ReservationCall, done: () => void): void {
    if (call.kind === 'reserve' && call.note !== undefined)
      void this.#reserveNoted(call, call.note).then(done);
    else this.#usual.submit(call, done);
  }

  recall(id: string): Promise<string | undefined> {
    return this.#options.slots.recall(id);
  }

  note(note: Note): Promise<string | Fullness | undefined> {
    return this.#options.slots.note(note);
  }

  get share(): ReservationStore['share'] {
    return this.#options.slots.share;
  }

  claim(name: string, seconds: number): Promise<boolean> {
    return this.#options.slots.claim(name, seconds);
  }

  /** The note has a slot of its own. */
  async #reserveNoted(call: ReserveCall, note: string): Promise<void> {
    try {
      const noted = await this.recall(call.id);
      if (noted !== undefined && noted !== note) {
        await ask(this.#usual, {
          kind: 'look',
          counters: call.counters,
          caller: call.caller,
          error: undefined,
        });
        call.outcome = 'conflict';
        call.expiresAtMs = 0;
        return;
      }
      const part = { ...call, note: undefined };
      await ask(noted === undefined ? this.#usual : this.#repeating, part);
      const { error, outcome, full, expiresAtMs } = part;
      Object.assign(call, { error, outcome, full, expiresAtMs });
      if (error !== undefined || (outcome !== 'reserved' && outcome !== 'repeated')) return;
      const ttlMs = Math.max(...call.counters.map((counter) => counter.ttlMs));
      await this.#options.slots.note({ id: call.id, text: note, ttlMs, owner: call.owner });
    } catch (error) {
      call.error = error as ReserveCall['error'];
    }
  }

  #submitToSlot(call: ReservationCall, done: () => void): void {
    const [counter] = call.counters;
    const keys = call.kind === 'settle' && call.undoes !== true ? earlierKeysOf(counter!, this.#options) : [];
    if (keys.length === 0) this.#options.slots.submit(call, done);
    else void this.#settle(call as SettleCall, counter!, keys).then(done);
  }

  /** One whose note is there: it may have been made in an earlier window. */
  async #reserveAgain(call: ReserveCall): Promise<void> {
    const { slots } = this.#options;
    const [counter] = call.counters;
    const keys = call.isMarker ? [] : earlierKeysOf(counter!, this.#options);
    const found = await findEarlier(keys, async (key) => {
      const part = { ...call, counters: [{ ...counter!, key }], refusedElsewhere: true };
      await ask(slots, part);
      return part.error !== undefined || part.outcome !== 'refused' ? part : undefined;
    });
    if (found === undefined) return ask(slots, call);
    await ask(slots, { kind: 'look', counters: call.counters, caller: call.caller, error: undefined });
    const { error, outcome, expiresAtMs } = found;
    Object.assign(call, { error, outcome, expiresAtMs });
    counter!.outcome = found.counters[0]!.outcome;
  }

  async #settle(call: SettleCall, counter: ReservedCounter, keys: readonly string[]): Promise<void> {
    const { slots } = this.#options;
    const present: SettleCall = { ...call, unknown: 'tell' };
    await ask(slots, present);
    // Nothing was reserved for it here, so this may be what was more than was reserved.
    const isExcess = present.outcome === 'repeated' && present.amount === 0;
    const isHere = present.outcome !== 'unknown' && !isExcess;
    const found =
      isHere || present.error !== undefined ? undefined : await this.#settleEarlier(call, counter, keys);
    const { error, outcome, charged, amount } = found ?? present;
    Object.assign(call, { error, outcome, charged, amount });
    if (error !== undefined || isHere || isExcess) return;
    if (found === undefined) {
      if (call.unknown === 'charge') await ask(slots, call);
      return;
    }
    const [{ outcome: became, changed, lost } = counter] = found.counters;
    counter.outcome = became;
    counter.lost = lost;
    if (changed <= 0) return;
    const now = { ...counter, amount: changed };
    const part: SettleCall = { ...call, unknown: 'charge', counters: [now] };
    await ask(slots, part);
    call.error = part.error;
    const { used, reserved, open, waitMicros } = now;
    Object.assign(counter, { used, reserved, open, waitMicros, changed: now.changed });
  }

  #settleEarlier(
    call: SettleCall,
    counter: ReservedCounter,
    keys: readonly string[],
  ): Promise<SettleCall | undefined> {
    return findEarlier(keys, async (key) => {
      const part: SettleCall = { ...call, unknown: 'tell', hasEnded: true, counters: [{ ...counter, key }] };
      await ask(this.#options.slots, part);
      return part.error !== undefined || part.outcome !== 'unknown' ? part : undefined;
    });
  }
}

/** Empty where all windows of the counter are in one place. */
function earlierKeysOf(
  counter: ReservedCounter,
  { recordMs }: ClusterReservationsOptions,
): readonly string[] {
  const { key, bound, windowEndSeconds, earlierKeys } = counter;
  if (hashTagOf(key) !== key || !bound.holdsTotal) return [];
  const lengthSeconds = Math.max(1, windowEndSeconds - Number(/\d*$/.exec(key)![0]));
  const longestSeconds = longestTtlSeconds + recordMs / 1000;
  return earlierKeys(Math.min(longestSeconds, earlierWindows * lengthSeconds)).slice(0, earlierWindows);
}

const longestTtlSeconds = 86_400;

async function findEarlier<T>(
  keys: readonly string[],
  look: (key: string) => Promise<T | undefined>,
): Promise<T | undefined> {
  for (let first = 0; first < keys.length; first += atATime) {
    const found = await Promise.all(keys.slice(first, first + atATime).map(look));
    const one = found.find((part) => part !== undefined);
    if (one !== undefined) return one;
  }
  return undefined;
}

function ask(store: ReservationStore, call: ReservationCall): Promise<void> {
  return new Promise((resolve) => store.submit(call, resolve));
}
