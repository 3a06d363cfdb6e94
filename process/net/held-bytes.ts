/**
 * What all connections together hold for callers that have not done their part: requests that are not complete, answers
 * that are not read, handshakes. One bound for all; at the bound the address that holds most ends what it left unfinished
 * longest, on the connection of it that holds most. Nobody else notices.
 *
 * An account belongs to one thread. Those of several threads share the bound: while all together are within it, each holds
 * what it likes, and beyond it those that hold more than an equal part end something.
 */
import type { Timers } from '../time/clock.ts';
import { addressGroup } from './peer.ts';

/** A connection as the account sees it. */
export interface Holder {
  /**
   * Ends what is unfinished longest, says so to whom it concerns, and sets the holding to what is left. False when there
   * is nothing to end.
   */
  shed(): boolean;
  /** Bytes that it holds now: for connections of which nobody hears when that changes. */
  measure?(): number;
}

/** What one connection holds. */
export interface ConnectionBytes {
  /** What the account knows of. */
  readonly bytes: number;
  /** Exactly so many. */
  set(bytes: number): void;
  /** About so many: small changes are not worth the account's time. */
  report(bytes: number): void;
  /** The connection is gone. */
  close(): void;
}

/** Of the threads of a process, each with a cell: KiB that it holds. */
export interface SharedHoldings {
  cells: Int32Array;
  own: number;
}

export interface HeldBytesOptions {
  maxBytes: number;
  /** Undefined: this thread is the only one. */
  shared?: SharedHoldings | undefined;
  timers: Timers;
}

/** Chosen: what a connection may hold more, or less, than the account knows. 10,000 of them are 20 MiB. */
const coarseBytes = 2048;

/** Chosen: how often those that do not report are asked. */
const lookMs = 250;

/** For so many threads. */
export function sharedCells(threads: number): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(4 * threads));
}

export class HeldBytes {
  readonly maxBytes: number;
  readonly #shared: SharedHoldings | undefined;
  readonly #ownPart: number;
  readonly #byName = new Map<string, AddressHoldings>();
  readonly #addresses = new LargestFirst<AddressHoldings>();
  readonly #measured = new Map<ConnectionHolding, () => number>();
  readonly #timers: Timers;
  /** Set while there are connections. */
  #endLooks: (() => void) | undefined;
  #opened = 0;
  #bytes = 0;
  #isShedding = false;
  #isClosed = false;

  constructor({ maxBytes, shared, timers }: HeldBytesOptions) {
    this.maxBytes = maxBytes;
    this.#shared = shared;
    this.#timers = timers;
    this.#ownPart = shared === undefined ? maxBytes : maxBytes / shared.cells.length;
    this.#publish();
  }

  /** Of this thread. */
  get bytes(): number {
    return this.#bytes;
  }

  /** `remoteAddress` as sockets name it; undefined where there is none. */
  open(remoteAddress: string | undefined, holder: Holder): ConnectionBytes {
    const name = addressGroup(remoteAddress);
    this.#opened += 1;
    let address = this.#byName.get(name);
    if (address === undefined) {
      address = new AddressHoldings(name, this.#opened);
      this.#byName.set(name, address);
      this.#addresses.add(address);
    }
    const holding = new ConnectionHolding(this, address, holder, this.#opened);
    address.connections.add(holding);
    const { measure } = holder;
    if (measure !== undefined) this.#measured.set(holding, () => measure.call(holder));
    if (this.maxBytes !== Number.POSITIVE_INFINITY && !this.#isClosed) {
      this.#endLooks ??= this.#timers.every(lookMs, () => this.#look());
    }
    return holding;
  }

  /** The listeners have ended; the last connections may still be about to go. */
  close(): void {
    this.#isClosed = true;
    this.#endLooks?.();
  }

  /** Of a holding alone. */
  changed(holding: ConnectionHolding, change: number): void {
    const { address } = holding;
    address.connections.moved(holding);
    address.bytes += change;
    this.#addresses.moved(address);
    this.#bytes += change;
    this.#publish();
    if (change > 0) this.#shed();
  }

  /** Of a holding alone, which holds nothing any more. */
  closed(holding: ConnectionHolding): void {
    const { address } = holding;
    this.#measured.delete(holding);
    address.connections.remove(holding);
    if (address.connections.largest !== undefined) return;
    this.#addresses.remove(address);
    this.#byName.delete(address.name);
    if (this.#byName.size > 0) return;
    this.#endLooks?.();
    this.#endLooks = undefined;
  }

  /** Asks those that do not report, and does what other threads' holdings ask of this one. */
  #look(): void {
    for (const [holding, measure] of this.#measured) holding.report(measure());
    this.#shed();
  }

  #shed(): void {
    if (this.#isShedding) return;
    this.#isShedding = true;
    try {
      while (this.#isOver()) {
        const holding = this.#addresses.largest?.connections.largest;
        if (holding === undefined || holding.bytes === 0) return;
        const before = this.#bytes;
        // One that has nothing to end holds for others than its caller: it is asked again once it reports anew.
        if (!holding.holder.shed() || this.#bytes >= before) holding.set(0);
      }
    } finally {
      this.#isShedding = false;
    }
  }

  #isOver(): boolean {
    if (this.#bytes <= this.#ownPart) return false;
    if (this.#shared === undefined) return true;
    const { cells } = this.#shared;
    let kibibytes = 0;
    for (let at = 0; at < cells.length; at += 1) kibibytes += Atomics.load(cells, at);
    return kibibytes * 1024 > this.maxBytes;
  }

  #publish(): void {
    if (this.#shared === undefined) return;
    Atomics.store(this.#shared.cells, this.#shared.own, Math.ceil(this.#bytes / 1024));
  }
}

class ConnectionHolding implements ConnectionBytes {
  bytes = 0;
  place = 0;
  readonly address: AddressHoldings;
  readonly holder: Holder;
  readonly number: number;
  readonly #account: HeldBytes;
  #isClosed = false;

  constructor(account: HeldBytes, address: AddressHoldings, holder: Holder, number: number) {
    this.#account = account;
    this.address = address;
    this.holder = holder;
    this.number = number;
  }

  set(bytes: number): void {
    const change = bytes - this.bytes;
    if (change === 0 || this.#isClosed) return;
    this.bytes = bytes;
    this.#account.changed(this, change);
  }

  report(bytes: number): void {
    const change = bytes - this.bytes;
    if (change >= coarseBytes || change <= -coarseBytes) this.set(bytes);
  }

  close(): void {
    if (this.#isClosed) return;
    this.set(0);
    this.#isClosed = true;
    this.#account.closed(this);
  }
}

class AddressHoldings {
  bytes = 0;
  place = 0;
  readonly name: string;
  readonly number: number;
  readonly connections = new LargestFirst<ConnectionHolding>();

  constructor(name: string, number: number) {
    this.name = name;
    this.number = number;
  }
}

interface Ranked {
  readonly bytes: number;
  /** They are numbered as they come. */
  readonly number: number;
  /** Where it stands; the heap's own. */
  place: number;
}

/** Of two that hold as much, the one that came first. */
function outranks(one: Ranked, other: Ranked): boolean {
  return one.bytes > other.bytes || (one.bytes === other.bytes && one.number < other.number);
}

/** A binary heap whose members may grow and shrink. */
class LargestFirst<Member extends Ranked> {
  readonly #members: Member[] = [];

  get largest(): Member | undefined {
    return this.#members[0];
  }

  add(member: Member): void {
    member.place = this.#members.length;
    this.#members.push(member);
    this.#rise(member);
  }

  remove(member: Member): void {
    const last = this.#members.pop() as Member;
    if (last === member) return;
    this.#put(last, member.place);
    this.moved(last);
  }

  /** Its bytes are others. */
  moved(member: Member): void {
    this.#rise(member);
    this.#sink(member);
  }

  #rise(member: Member): void {
    let place = member.place;
    while (place > 0) {
      const above = this.#members[(place - 1) >> 1] as Member;
      if (!outranks(member, above)) break;
      const next = above.place;
      this.#put(above, place);
      place = next;
    }
    this.#put(member, place);
  }

  #sink(member: Member): void {
    let place = member.place;
    for (;;) {
      let below = this.#members[2 * place + 1];
      const right = this.#members[2 * place + 2];
      if (below === undefined) break;
      if (right !== undefined && outranks(right, below)) below = right;
      if (!outranks(below, member)) break;
      const next = below.place;
      this.#put(below, place);
      place = next;
    }
    this.#put(member, place);
  }

  #put(member: Member, place: number): void {
    this.#members[place] = member;
    member.place = place;
  }
}
