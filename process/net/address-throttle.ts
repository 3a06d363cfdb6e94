/**
 * Slows down guessing, by remote address: the first few wrong answers cost nothing, and each later one costs a wait that is twice the
 * one before. Pure. Memory is bounded, and no caller can force a fresh start: entries are removed only by age, never for lack of room.
 * While the table is full, new addresses share one entry.
 */
import { addressGroup } from './peer.ts';

/** Chosen: the number of wrong answers without a wait. */
const free = 5;
const firstWaitMs = 1_000;
const longestWaitMs = 900_000;
/** The time after the last wrong answer at which an address starts afresh; longer than the longest wait. */
const forgetMs = 3_600_000;

interface ThrottledAddress {
  wrong: number;
  lastMs: number;
  blockedUntilMs: number;
}

export class AddressThrottle {
  readonly #maxAddresses: number;
  /** Entries, the one with the oldest last wrong answer first. */
  readonly #entries = new Map<string, ThrottledAddress>();
  #others = newEntry();

  /** `maxAddresses` bounds the remembered addresses. */
  constructor(maxAddresses = 10_000) {
    this.#maxAddresses = maxAddresses;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** The time that this address has to wait before it may try again; 0: none. */
  waitMs(address: string, nowMs: number): number {
    const entry =
      this.#entries.get(addressGroup(address)) ?? (this.#isFull(nowMs) ? this.#others : undefined);
    return entry === undefined ? 0 : Math.max(0, entry.blockedUntilMs - nowMs);
  }

  /** Notes a wrong answer from this address. */
  wrong(address: string, nowMs: number): void {
    const entry = this.#entryOf(addressGroup(address), nowMs);
    if (nowMs - entry.lastMs >= forgetMs) entry.wrong = 0;
    entry.wrong++;
    entry.lastMs = nowMs;
    if (entry.wrong < free) return;
    // `retryDelayMs` does not fit: randomness must not shorten a penalty.
    entry.blockedUntilMs = nowMs + Math.min(longestWaitMs, firstWaitMs * 2 ** (entry.wrong - free));
  }

  #entryOf(network: string, nowMs: number): ThrottledAddress {
    const known = this.#entries.get(network);
    if (known === undefined && this.#isFull(nowMs)) return this.#others;
    const entry = known ?? newEntry();
    this.#entries.delete(network);
    this.#entries.set(network, entry);
    return entry;
  }

  #isFull(nowMs: number): boolean {
    for (const [network, { lastMs }] of this.#entries) {
      if (nowMs - lastMs < forgetMs) break;
      this.#entries.delete(network);
    }
    return this.#entries.size >= this.#maxAddresses;
  }
}

function newEntry(): ThrottledAddress {
  return { wrong: 0, lastMs: Number.NEGATIVE_INFINITY, blockedUntilMs: 0 };
}
