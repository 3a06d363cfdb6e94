/**
 * Slows down anyone who guesses, by remote address: the first few wrong answers cost nothing, each one after them a wait
 * that is twice the one before. Pure.
 *
 * Memory is bounded, and nobody buys himself a new start: an entry goes by age alone, never for want of room. While the
 * table is full, addresses that are not in it share one entry.
 */
import { addressGroup } from './peer.ts';

/** Chosen: wrong ones that are free. */
const free = 5;
const firstWaitMs = 1_000;
const longestWaitMs = 900_000;
/** How long after its last wrong one an address starts anew; longer than the longest wait. */
const forgetMs = 3_600_000;

interface Entry {
  wrong: number;
  lastMs: number;
  blockedUntilMs: number;
}

export class AddressThrottle {
  readonly #mostAddresses: number;
  /** The one whose last wrong answer is longest ago comes first. */
  readonly #entries = new Map<string, Entry>();
  #others = newEntry();

  /** So many addresses are remembered. */
  constructor(mostAddresses = 10_000) {
    this.#mostAddresses = mostAddresses;
  }

  get size(): number {
    return this.#entries.size;
  }

  /** How long this address has to wait before it may try again; 0: not at all. */
  waitMs(address: string, nowMs: number): number {
    const entry =
      this.#entries.get(addressGroup(address)) ?? (this.#isFull(nowMs) ? this.#others : undefined);
    return entry === undefined ? 0 : Math.max(0, entry.blockedUntilMs - nowMs);
  }

  /** What this address tried was wrong. */
  wrong(address: string, nowMs: number): void {
    const entry = this.#entryOf(addressGroup(address), nowMs);
    if (nowMs - entry.lastMs >= forgetMs) entry.wrong = 0;
    entry.wrong++;
    entry.lastMs = nowMs;
    if (entry.wrong < free) return;
    // Not `retryDelayMs`: a penalty, of which chance takes nothing away.
    entry.blockedUntilMs = nowMs + Math.min(longestWaitMs, firstWaitMs * 2 ** (entry.wrong - free));
  }

  #entryOf(network: string, nowMs: number): Entry {
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
    return this.#entries.size >= this.#mostAddresses;
  }
}

function newEntry(): Entry {
  return { wrong: 0, lastMs: Number.NEGATIVE_INFINITY, blockedUntilMs: 0 };
}
