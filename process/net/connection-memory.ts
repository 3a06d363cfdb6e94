/**
 * The memory of all connections for the unfinished work of their callers: requests that are not complete, responses that are
 * not read, handshakes. One bound applies to the sum. At the bound, the address that uses most loses its oldest unfinished
 * work, on its connection that uses most. No other caller notices.
 *
 * Each thread has its own account, and all accounts share the bound. Beyond it, threads that use more than an equal part end
 * something.
 */
import { Heap } from '../queues/heap.ts';
import type { Timers } from '../time/clock.ts';
import { addressGroup } from './peer.ts';

/** The account's view of a connection. */
export interface MemoryOwner {
  /**
   * Ends the oldest unfinished work, reports that to its caller, and sets the bytes to what is left. Returns false if there
   * is nothing to end.
   */
  shed(): boolean;
  /** The bytes that it holds now. Only for connections that do not report changes. */
  measure?(): number;
}

/** The memory of one connection. */
export interface ConnectionBytes {
  /** The bytes that the account knows of. */
  readonly bytes: number;
  /** Sets the exact number. */
  set(bytes: number): void;
  /** Reports an approximate number. Small changes are ignored, because each one costs the account time. */
  report(bytes: number): void;
  /** Called when the connection is gone. */
  close(): void;
}

/** The memory of all threads of a process. Each has a cell with its number of KiB. */
export interface ThreadMemory {
  cells: Int32Array;
  own: number;
}

export interface ConnectionMemoryOptions {
  maxBytes: number;
  /** Undefined if this thread is the only one. */
  shared?: ThreadMemory | undefined;
  timers: Timers;
}

/** Chosen: the difference between what a connection holds and what the account knows. 10,000 connections differ by 20 MiB. */
const coarseBytes = 2048;

/** Chosen: the interval at which connections that do not report are asked. */
const lookMs = 250;

/** Makes cells for this number of threads. */
export function sharedCells(threads: number): Int32Array<SharedArrayBuffer> {
  return new Int32Array(new SharedArrayBuffer(4 * threads));
}

export class ConnectionMemory {
  readonly maxBytes: number;
  readonly #shared: ThreadMemory | undefined;
  readonly #ownPart: number;
  readonly #byName = new Map<string, AddressUse>();
  readonly #addresses = largestFirst<AddressUse>();
  readonly #measured = new Map<ConnectionUse, () => number>();
  readonly #timers: Timers;
  /** Set while there are connections. */
  #endLooks: (() => void) | undefined;
  #opened = 0;
  #bytes = 0;
  #isShedding = false;
  #isClosed = false;

  constructor({ maxBytes, shared, timers }: ConnectionMemoryOptions) {
    this.maxBytes = maxBytes;
    this.#shared = shared;
    this.#timers = timers;
    this.#ownPart = shared === undefined ? maxBytes : maxBytes / shared.cells.length;
    this.#publish();
  }

  /** The bytes of this thread. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Opens the account of a connection. `remoteAddress` is as sockets name it, or undefined if there is none. */
  open(remoteAddress: string | undefined, owner: MemoryOwner): ConnectionBytes {
    const name = addressGroup(remoteAddress);
    this.#opened += 1;
    let address = this.#byName.get(name);
    if (address === undefined) {
      address = new AddressUse(name, this.#opened);
      this.#byName.set(name, address);
      this.#addresses.add(address);
    }
    const use = new ConnectionUse(this, address, owner, this.#opened);
    address.connections.add(use);
    const { measure } = owner;
    if (measure !== undefined) this.#measured.set(use, () => measure.call(owner));
    if (this.maxBytes !== Number.POSITIVE_INFINITY && !this.#isClosed) {
      this.#endLooks ??= this.#timers.every(lookMs, () => this.#look());
    }
    return use;
  }

  /** Called when the listeners have ended. The last connections may still be open. */
  close(): void {
    this.#isClosed = true;
    this.#endLooks?.();
  }

  /** Only a `ConnectionUse` calls this. */
  changed(use: ConnectionUse, change: number): void {
    const { address } = use;
    address.connections.moved(use.place);
    address.bytes += change;
    this.#addresses.moved(address.place);
    this.#bytes += change;
    this.#publish();
    if (change > 0) this.#shed();
  }

  /** Only a `ConnectionUse` calls this, when it holds nothing any more. */
  closed(use: ConnectionUse): void {
    const { address } = use;
    this.#measured.delete(use);
    address.connections.remove(use.place);
    if (address.connections.size > 0) return;
    this.#addresses.remove(address.place);
    this.#byName.delete(address.name);
    if (this.#byName.size > 0) return;
    this.#endLooks?.();
    this.#endLooks = undefined;
  }

  /** Asks connections that do not report, and ends work if other threads have used up the bound. */
  #look(): void {
    for (const [use, measure] of this.#measured) use.report(measure());
    this.#shed();
  }

  #shed(): void {
    if (this.#isShedding) return;
    this.#isShedding = true;
    try {
      while (this.#isOver()) {
        const use = this.#addresses.first?.connections.first;
        if (use === undefined || use.bytes === 0) return;
        const before = this.#bytes;
        // A connection without unfinished work holds memory for others than its caller. It is asked again after its next report.
        if (!use.owner.shed() || this.#bytes >= before) use.set(0);
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

class ConnectionUse implements ConnectionBytes {
  bytes = 0;
  place = 0;
  readonly address: AddressUse;
  readonly owner: MemoryOwner;
  readonly number: number;
  readonly #account: ConnectionMemory;
  #isClosed = false;

  constructor(account: ConnectionMemory, address: AddressUse, owner: MemoryOwner, number: number) {
    this.#account = account;
    this.address = address;
    this.owner = owner;
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

class AddressUse {
  bytes = 0;
  place = 0;
  readonly name: string;
  readonly number: number;
  readonly connections = largestFirst<ConnectionUse>();

  constructor(name: string, number: number) {
    this.name = name;
    this.number = number;
  }
}

interface Ranked {
  readonly bytes: number;
  /** Numbers follow the order of arrival. */
  readonly number: number;
  /** The place in its heap. */
  place: number;
}

/** Compares by size, and by arrival where the sizes are equal. */
function outranks(one: Ranked, other: Ranked): boolean {
  return one.bytes > other.bytes || (one.bytes === other.bytes && one.number < other.number);
}

function largestFirst<Member extends Ranked>(): Heap<Member> {
  return new Heap<Member>(outranks, (member, place) => {
    member.place = place;
  });
}
