import { createHash } from 'node:crypto';
import type { Operation, ReachedReservationBound, Reservation, ReservationOwner } from '../operation.ts';
import { countAll, type Note, type Notes, type Store } from '../store.ts';
import { ReservationTally, roundedEnd } from './reservation-tally.ts';

export interface OwnerBoundsOptions {
  /** Shares tallies, if the store has several limiters. */
  readonly share: Notes['share'];
  readonly clock: { nowMs(): number };
  /** BUDGET_MAX_DOMAIN_RESERVATIONS. */
  readonly maxOfDomain: number;
  /** BUDGET_MAX_CALLER_RESERVATIONS. */
  readonly maxOfCaller: number;
  /** BUDGET_RECORD_TTL. */
  readonly recordMs: number;
}

/** Chosen: how often limiters share their tally of an owner that reserves. */
const shareMs = 1_000;

/**
 * Bounds how many reservations a store keeps for one domain and for one caller: open ones, remembered ones, and notes. Each limiter
 * counts its own and shares them once a second, so that a reserve costs no further call. So all limiters together can exceed a bound
 * by their reservations of one second.
 */
export class OwnerBounds {
  readonly #options: OwnerBoundsOptions;
  readonly #domains = new Map<string, ReservationTally>();
  readonly #callers = new Map<string, ReservationTally>();

  constructor(options: OwnerBoundsOptions) {
    this.#options = options;
  }

  /** Submits the operations of a call if the bounds have room. */
  submit(store: Store, ops: Operation[], done: () => void): void {
    const call = ops[0]!.hold!.reservation;
    const { verb } = ops[0]!;
    if (call.owner === undefined || verb === 'look') store.submit(ops, countAll, done);
    else if (verb === 'reserve') this.#reserve(store, ops, call, call.owner, done);
    else this.#commit(store, ops, call, call.owner, done);
  }

  async note(notes: Notes, note: Note): Promise<string | ReachedReservationBound | undefined> {
    const { id, ttlMs, owner } = note;
    if (owner === undefined) return notes.note(note);
    const full = this.#fullOf(owner, this.#options.clock.nowMs());
    if (full !== undefined) return (await notes.recall(id)) ?? full;
    const kept = await notes.note(note);
    if (kept === undefined) this.#addRemembered(owner, ttlMs);
    return typeof kept === 'object' ? this.#withRoom(kept, owner) : kept;
  }

  #reserve(
    store: Store,
    ops: Operation[],
    call: Reservation,
    owner: ReservationOwner,
    done: () => void,
  ): void {
    // If a call without room repeats an earlier call, it gets the answer of any repetition.
    const nowMs = this.#options.clock.nowMs();
    const full = call.isOverLimitElsewhere ? undefined : this.#fullOf(owner, nowMs);
    if (full !== undefined) {
      call.isOverLimitElsewhere = true;
      store.submit(ops, countAll, () => {
        // The rejection of a limit reports when the amount fits, which the bound does not know.
        const isRejected = ops.some(({ hold }) => hold!.outcome === 'refused' && !hold!.isQuota);
        const isFull = isAnswered(ops) && call.outcome === 'refused' && !isRejected;
        if (isFull) call.outcome = 'full';
        call.full = isFull ? full : undefined;
        done();
      });
      return;
    }
    store.submit(ops, countAll, () => {
      if (isAnswered(ops)) {
        if (call.outcome === 'reserved')
          this.#add(owner, call.expiresAtMs + this.#remembersMs(call, ops), nowMs, weightOf(call.note));
        else if (call.outcome === 'full') call.full = call.full && this.#withRoom(call.full, owner);
      }
      done();
    });
  }

  #commit(
    store: Store,
    ops: Operation[],
    call: Reservation,
    owner: ReservationOwner,
    done: () => void,
  ): void {
    store.submit(ops, countAll, () => {
      const { isMarker, commitOutcome, unknown, id } = call;
      if (isAnswered(ops)) {
        if (isMarker && commitOutcome === 'settled' && ops.some(isCharged)) this.#remove(owner);
        // The call is remembered, so that it is not charged again.
        if (!isMarker && commitOutcome === 'unknown' && unknown === 'charge' && id !== '')
          this.#addRemembered(owner, 0);
      }
      done();
    });
  }

  /**
   * Returns how long a reservation is remembered after its TTL. If all of a marker's amounts are released on expiry, it is not
   * remembered.
   */
  #remembersMs({ isMarker }: Reservation, ops: readonly Operation[]): number {
    const isForgotten = isMarker && ops.every(({ hold }) => hold!.onExpiry === 'release');
    return isForgotten ? 0 : this.#options.recordMs;
  }

  #fullOf({ domain, caller }: ReservationOwner, nowMs: number): ReachedReservationBound | undefined {
    const { maxOfDomain, maxOfCaller } = this.#options;
    const ofDomain = this.#tally(this.#domains, domain, 'd', nowMs);
    if (ofDomain.totalAt(nowMs) >= maxOfDomain) return { of: 'domain', roomAtMs: ofDomain.firstEndMs };
    if (caller === undefined) return undefined;
    const ofCaller = this.#tally(this.#callers, caller, 'c', nowMs);
    if (ofCaller.totalAt(nowMs) < maxOfCaller) return undefined;
    return { of: 'caller', roomAtMs: ofCaller.firstEndMs };
  }

  /** Adds the time at which there is room again to a rejection of the memory store, which does not know this time. */
  #withRoom(full: ReachedReservationBound, { domain }: ReservationOwner): ReachedReservationBound {
    if (full.of !== 'memory') return full;
    const nowMs = this.#options.clock.nowMs();
    const own = this.#tally(this.#domains, domain, 'd', nowMs);
    const tallies = own.totalAt(nowMs) > 0 ? [own] : [...this.#domains.values()];
    let roomAtMs = Number.POSITIVE_INFINITY;
    for (const tally of tallies)
      if (tally.totalAt(nowMs) > 0) roomAtMs = Math.min(roomAtMs, tally.firstEndMs);
    return { of: 'memory', roomAtMs: Number.isFinite(roomAtMs) ? roomAtMs : nowMs };
  }

  #addRemembered(owner: ReservationOwner, ttlMs: number): void {
    const nowMs = this.#options.clock.nowMs();
    this.#add(owner, nowMs + ttlMs + this.#options.recordMs, nowMs, 1);
  }

  #add({ domain, caller }: ReservationOwner, endMs: number, nowMs: number, weight: number): void {
    const end = roundedEnd(endMs, nowMs);
    this.#tally(this.#domains, domain, 'd', nowMs).add(end, weight);
    if (caller !== undefined) this.#tally(this.#callers, caller, 'c', nowMs).add(end, weight);
  }

  #remove({ domain, caller }: ReservationOwner): void {
    const nowMs = this.#options.clock.nowMs();
    this.#tally(this.#domains, domain, 'd', nowMs).removeOne(nowMs);
    if (caller !== undefined) this.#tally(this.#callers, caller, 'c', nowMs).removeOne(nowMs);
  }

  #tally(
    tallies: Map<string, ReservationTally>,
    name: string,
    kind: 'd' | 'c',
    nowMs: number,
  ): ReservationTally {
    let tally = tallies.get(name);
    if (tally === undefined) {
      for (const [other, one] of tallies) {
        if (tallies.size < maxTallies) break;
        if (one.totalAt(nowMs) === 0) tallies.delete(other);
      }
      tally = new ReservationTally(this.#options.share !== undefined);
      tallies.set(name, tally);
    }
    if (this.#options.share !== undefined && nowMs - tally.sharedMs >= shareMs) {
      tally.sharedMs = nowMs;
      void this.#share(tally, `${kind}:${createHash('sha256').update(name).digest('base64url')}`);
    }
    return tally;
  }

  /** Shares a tally. If this fails, the changes are shared later. */
  async #share(tally: ReservationTally, name: string): Promise<void> {
    const changes = tally.takeUnshared();
    try {
      tally.learn(await this.#options.share!(name, changes, this.#options.clock.nowMs()));
    } catch {
      tally.putBack(changes);
    }
  }
}

/** Chosen: the number of domains and callers whose tallies are retained although they have no reservations. */
const maxTallies = 1_000;

/** Chosen: a note of this many characters counts as one reservation. */
const charactersOfOne = 1024;

function weightOf(note: string | undefined): number {
  return note === undefined ? 1 : Math.ceil(note.length / charactersOfOne);
}

/** Whether the store answered a call. Its operations fail together. */
function isAnswered([first]: readonly Operation[]): boolean {
  return first!.error === undefined;
}

function isCharged({ hold }: Operation): boolean {
  return hold!.outcome === 'charged';
}
