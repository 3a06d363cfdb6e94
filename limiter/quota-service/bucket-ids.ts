/**
 * The bucket ids that streams of this thread report. Each is here once, with its plan, however many streams report it: a fleet of
 * Envoys has the same buckets.
 */
import type { Entry } from '../../rules/model.ts';
import type { BucketPlans, Treatment } from './bucket-plans.ts';
import { textOf } from './quota-messages.ts';

export interface BucketBounds {
  /** Buckets of one stream, of one caller and in all. */
  readonly ofStream: number;
  readonly ofCaller: number;
  readonly inAll: number;
  /** Bytes of all bucket ids, each with 200 more. Those that one caller reported first may have half of them. */
  readonly idBytes: number;
}

/**
 * Chosen: an id that is in no other stream takes 4 KB, with its limits, shares and counters. So 70,000 short ids reach the default bound,
 * and take half of the memory that the chart gives a limiter.
 */
const moreBytes = 200;

export type BucketBound = 'stream' | 'caller' | 'all' | 'bytes';

/** What one caller, or one address without a name, has. */
interface Room {
  readonly caller: string;
  buckets: number;
  idBytes: number;
}

export class BucketId {
  readonly domain: string;
  /** As answers write it, a character a byte. */
  readonly text: string;
  /** By their keys. */
  readonly entries: readonly Entry[];
  /** Of the caller that reported it first. */
  readonly room: Room;
  /** Buckets of streams. */
  buckets = 0;
  #treatment: Treatment | undefined;
  #epoch = 0;

  constructor(domain: string, entries: readonly Entry[], text: string, room: Room) {
    this.domain = domain;
    this.entries = entries;
    this.text = text;
    this.room = room;
  }

  isPlanned(treatment: Treatment, epoch: number): boolean {
    return this.#treatment === treatment && this.#epoch === epoch;
  }

  /** By the rules and overrides of this epoch. */
  treatment(plans: BucketPlans, epoch: number): Treatment {
    if (this.#treatment === undefined || this.#epoch !== epoch) {
      this.#treatment = plans.treatmentOf(this.domain, this.entries);
      this.#epoch = epoch;
    }
    return this.#treatment;
  }
}

export class BucketIds {
  readonly #bounds: BucketBounds;
  /** By domain and text. */
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

  /** For one more bucket of a stream that has so many; or the bound that leaves no room for it. */
  take(
    { caller, domain, ofStream }: { caller: string; domain: string; ofStream: number },
    entries: readonly Entry[],
  ): BucketId | BucketBound {
    const bounds = this.#bounds;
    const room = this.#rooms.get(caller) ?? { caller, buckets: 0, idBytes: 0 };
    if (ofStream >= bounds.ofStream) return 'stream';
    if (room.buckets >= bounds.ofCaller) return 'caller';
    if (this.#buckets >= bounds.inAll) return 'all';
    const text = textOf(entries);
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

  /** The caller has one bucket less of it. */
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

  /** Others may still report ids that are its own. */
  #tidy({ caller, buckets, idBytes }: Room): void {
    if (buckets === 0 && idBytes === 0) this.#rooms.delete(caller);
  }
}
