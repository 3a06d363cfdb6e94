/**
 * The bucket ids that streams of this thread report. Each exists once, with its plan, however many streams report it: all Envoys of a
 * fleet have the same buckets.
 */
import type { Entry } from '../../rules/model.ts';
import type { BucketPlan, BucketPlans } from './bucket-plans.ts';

export interface BucketBounds {
  /** The most buckets of one stream, of one caller and in total. */
  readonly ofStream: number;
  readonly ofCaller: number;
  readonly inAll: number;
  /** The most bytes of all bucket ids, plus 200 for each id. The ids that one caller reported first may take half of them. */
  readonly idBytes: number;
}

/**
 * Chosen: an id that is in no other stream takes 4 KB, with its limits, shares and counters. So 70,000 short ids reach the default
 * bound, and take half of the memory that the chart gives a limiter.
 */
const moreBytes = 200;

export type BucketBound = 'stream' | 'caller' | 'all' | 'bytes';

/** The buckets and bytes of one caller, or of one address without a name. */
interface Room {
  readonly caller: string;
  buckets: number;
  idBytes: number;
}

export class BucketId {
  readonly domain: string;
  /** The id as answers write it, one character per byte. */
  readonly text: string;
  /** The entries, sorted by their keys. */
  readonly entries: readonly Entry[];
  /** The room of the caller that reported the id first. */
  readonly room: Room;
  /** The number of buckets of streams with this id. */
  buckets = 0;
  #treatment: BucketPlan | undefined;
  #epoch = 0;

  constructor(domain: string, entries: readonly Entry[], text: string, room: Room) {
    this.domain = domain;
    this.entries = entries;
    this.text = text;
    this.room = room;
  }

  isPlanned(treatment: BucketPlan, epoch: number): boolean {
    return this.#treatment === treatment && this.#epoch === epoch;
  }

  /** Returns the treatment by the rules and overrides of this epoch. */
  treatment(plans: BucketPlans, epoch: number): BucketPlan {
    if (this.#treatment === undefined || this.#epoch !== epoch) {
      this.#treatment = plans.treatmentOf(this.domain, this.entries);
      this.#epoch = epoch;
    }
    return this.#treatment;
  }
}

export class BucketIds {
  readonly #bounds: BucketBounds;
  /** The ids by domain and text. */
  readonly #domains = new Map<string, Map<string, BucketId>>();
  readonly #rooms = new Map<string, Room>();
  #buckets = 0;
  #bytes = 0;

  constructor(bounds: BucketBounds) {
    this.#bounds = bounds;
  }

  get buckets(): number {
    return this.#buckets;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /**
   * Returns the id for one more bucket of a stream that has `ofStream` buckets, or the bound that leaves no room for it. `text`: the
   * entries as `textOf` returns them.
   */
  take(
    { caller, domain, ofStream }: { caller: string; domain: string; ofStream: number },
    entries: readonly Entry[],
    text: string,
  ): BucketId | BucketBound {
    const bounds = this.#bounds;
    const room = this.#rooms.get(caller) ?? { caller, buckets: 0, idBytes: 0 };
    if (ofStream >= bounds.ofStream) return 'stream';
    if (room.buckets >= bounds.ofCaller) return 'caller';
    if (this.#buckets >= bounds.inAll) return 'all';
    let id = this.#domains.get(domain)?.get(text);
    if (id === undefined) {
      const bytes = text.length + moreBytes;
      if (this.#bytes + bytes > bounds.idBytes || room.idBytes + bytes > bounds.idBytes / 2) return 'bytes';
      id = new BucketId(domain, entries, text, room);
      this.#domains.getOrInsertComputed(domain, () => new Map()).set(text, id);
      this.#bytes += bytes;
      room.idBytes += bytes;
    }
    this.#rooms.set(caller, room);
    this.#buckets += 1;
    room.buckets += 1;
    id.buckets += 1;
    return id;
  }

  /** Records that the caller has one bucket less of the id. */
  leave(caller: string, id: BucketId): void {
    const room = this.#rooms.get(caller)!;
    this.#buckets -= 1;
    room.buckets -= 1;
    id.buckets -= 1;
    this.#tidy(room);
    if (id.buckets > 0) return;
    const { domain, text, room: owner } = id;
    const ids = this.#domains.get(domain)!;
    ids.delete(text);
    if (ids.size === 0) this.#domains.delete(domain);
    this.#bytes -= text.length + moreBytes;
    owner.idBytes -= text.length + moreBytes;
    this.#tidy(owner);
  }

  /** Drops an empty room. A room is still needed while other callers report ids that it owns. */
  #tidy({ caller, buckets, idBytes }: Room): void {
    if (buckets === 0 && idBytes === 0) this.#rooms.delete(caller);
  }
}
