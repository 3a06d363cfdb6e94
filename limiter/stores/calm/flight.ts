import type { CounterOp } from '../counter-store.ts';
import { failOp } from '../folded-run.ts';
import type { StoreError } from '../store-error.ts';

/** What an op under way occupies besides its key, rounded up. */
const opOverheadBytes = 256;

/** What requests wait with, for the bound in bytes. */
export function waitingBytes(ops: readonly CounterOp[]): number {
  let bytes = 0;
  for (const op of ops) bytes += op.key.length + opOverheadBytes;
  return bytes;
}

/** One request at the store. */
export class Flight {
  readonly ops: readonly CounterOp[];
  readonly bytes: number;
  readonly done: () => void;
  /** The tick of the breaker in which it set out. */
  readonly sinceTick: number;
  /** Whether the caller still waits: what the store says otherwise is too late. */
  waiting = true;
  previous: Flight | undefined = undefined;
  next: Flight | undefined = undefined;

  constructor(ops: readonly CounterOp[], bytes: number, sinceTick: number, done: () => void) {
    this.ops = ops;
    this.bytes = bytes;
    this.sinceTick = sinceTick;
    this.done = done;
  }

  /** Answers without the store. */
  abandon(error: StoreError): void {
    this.waiting = false;
    for (const op of this.ops) failOp(op, error);
    this.done();
  }
}

/** Requests under way, in the order of their arrival: a linked list, as they leave it from anywhere. */
export class Flights {
  size = 0;
  bytes = 0;
  #first: Flight | undefined;
  #last: Flight | undefined;

  add(flight: Flight): void {
    flight.previous = this.#last;
    if (this.#last === undefined) this.#first = flight;
    else this.#last.next = flight;
    this.#last = flight;
    this.size += 1;
    this.bytes += flight.bytes;
  }

  remove(flight: Flight): void {
    const { previous, next } = flight;
    if (previous === undefined) this.#first = next;
    else previous.next = next;
    if (next === undefined) this.#last = previous;
    else next.previous = previous;
    flight.previous = undefined;
    flight.next = undefined;
    this.size -= 1;
    this.bytes -= flight.bytes;
  }

  /** Takes out those that set out before this tick. */
  takeBefore(tick: number): Flight[] {
    const taken: Flight[] = [];
    for (let flight = this.#first; flight !== undefined && flight.sinceTick < tick; flight = this.#first) {
      this.remove(flight);
      taken.push(flight);
    }
    return taken;
  }

  /** Empties the list. */
  takeAll(): Flight[] {
    return this.takeBefore(Number.POSITIVE_INFINITY);
  }
}
