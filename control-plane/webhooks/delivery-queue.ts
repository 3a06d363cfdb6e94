/**
 * The events that one endpoint has not accepted yet, the oldest first, and when each is tried. The queue is bounded: when it is full, the
 * oldest waiting event is dropped, because newer events say more about the current state.
 *
 *            take               delivered, discard
 *   waiting ──────> in flight ─────────────────────> out
 *      ^               │
 *      └───────────────┘ failed: waits on its own account, longer each time
 *
 * A failure that is the endpoint's (no connection, 5xx, 429 ...) also pauses the endpoint; until it has taken an event again only one is
 * tried at a time. A failure that is the event's (400, 404 ...) lets the others pass.
 *
 * Pure: times are milliseconds of a clock that never jumps, and the owner sets the timer.
 */
import { retryDelayMs } from '../../process/time/pacing.ts';

export interface DeliveryQueueOptions {
  /** The maximum number of waiting events, in addition to those in flight. At least 1. */
  capacity: number;
  /** The number of concurrent deliveries while the endpoint is healthy. */
  concurrency: number;
  /** The age from which on events are dropped. */
  maxAgeMs: number;
  random(): number;
}

export interface DeliveryFailure {
  /** Which side is at fault. */
  side: 'endpoint' | 'event';
  /** The minimum wait that the endpoint asked for. */
  retryAfterMs?: number | undefined;
}

interface QueuedDelivery<Message> {
  message: Message;
  addedMs: number;
  attempts: number;
  dueMs: number;
  isInFlight: boolean;
}

/** Chosen: a receiver that restarts gets the event again soon, and a receiver that is down for long gets few attempts. */
const firstDelayMs = 1_000;
const longestDelayMs = 600_000;
/** Chosen: once the endpoint is healthy again, the longest wait of events that failed because of the endpoint. */
const recoveryMs = 30_000;

export class DeliveryQueue<Message extends { readonly id: string }> {
  readonly #options: DeliveryQueueOptions;
  /** Events in the order of their arrival, including those in flight. */
  readonly #entries = new Map<string, QueuedDelivery<Message>>();
  #inFlight = 0;
  /** The number of failures since the endpoint last accepted an event. */
  #failures = 0;
  #pausedUntilMs = Number.NEGATIVE_INFINITY;

  constructor(options: DeliveryQueueOptions) {
    this.#options = options;
  }

  /** The number of events that wait or are in flight. */
  get size(): number {
    return this.#entries.size;
  }

  get inFlight(): number {
    return this.#inFlight;
  }

  /** Adds an event. Returns the events that were dropped for it. An event with a known id is not added again. */
  add(message: Message, nowMs: number): Message[] {
    if (this.#entries.has(message.id)) return [];
    const entry = { message, addedMs: nowMs, attempts: 0, dueMs: nowMs, isInFlight: false };
    this.#entries.set(message.id, entry);
    return this.#shrink();
  }

  /** Removes and returns events that are too old. */
  expire(nowMs: number): Message[] {
    const expired: Message[] = [];
    for (const { message, addedMs, isInFlight } of this.#entries.values()) {
      if (nowMs - addedMs <= this.#options.maxAgeMs) break;
      if (!isInFlight) expired.push(message);
    }
    for (const { id } of expired) this.#entries.delete(id);
    return expired;
  }

  /** Returns the oldest event that is due, which is now in flight. Returns undefined if there is none or no delivery may begin. */
  take(nowMs: number): { message: Message; attempt: number } | undefined {
    if (!this.#hasSlot() || nowMs < this.#pausedUntilMs) return undefined;
    for (const entry of this.#entries.values()) {
      if (entry.isInFlight || entry.dueMs > nowMs) continue;
      entry.isInFlight = true;
      entry.attempts += 1;
      this.#inFlight += 1;
      return { message: entry.message, attempt: entry.attempts };
    }
    return undefined;
  }

  /** Returns the time at which `take` will return an event. Undefined if only an addition or the end of a delivery can change that. */
  get dueMs(): number | undefined {
    if (!this.#hasSlot()) return undefined;
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const { isInFlight, dueMs } of this.#entries.values()) {
      if (!isInFlight && dueMs < earliestMs) earliestMs = dueMs;
    }
    return earliestMs === Number.POSITIVE_INFINITY ? undefined : Math.max(earliestMs, this.#pausedUntilMs);
  }

  delivered(id: string, nowMs: number): void {
    this.discard(id);
    if (this.#failures === 0) return;
    this.#failures = 0;
    for (const entry of this.#entries.values()) entry.dueMs = Math.min(entry.dueMs, nowMs + recoveryMs);
  }

  /** Returns the wait until the next attempt, and the events that were dropped because others arrived meanwhile. */
  failed(id: string, nowMs: number, failure: DeliveryFailure): { retryInMs: number; dropped: Message[] } {
    const entry = this.#land(id);
    if (entry === undefined) return { retryInMs: 0, dropped: [] };
    const { random } = this.#options;
    const minMs = failure.retryAfterMs ?? 0;
    entry.dueMs = nowMs + Math.max(minMs, deliveryDelayMs(entry.attempts, random));
    // Other events that were in flight when the endpoint failed provide no new information.
    if (failure.side === 'endpoint' && nowMs >= this.#pausedUntilMs) {
      this.#failures += 1;
      this.#pausedUntilMs = nowMs + deliveryDelayMs(this.#failures, random);
    }
    if (failure.side === 'endpoint') this.#pausedUntilMs = Math.max(this.#pausedUntilMs, nowMs + minMs);
    const retryInMs = Math.round(Math.max(entry.dueMs, this.#pausedUntilMs) - nowMs);
    return { retryInMs, dropped: this.#shrink() };
  }

  /** Removes an event that was in flight and must not be tried again. */
  discard(id: string): void {
    if (this.#land(id) !== undefined) this.#entries.delete(id);
  }

  /** Removes and returns all waiting events. */
  clear(): Message[] {
    const waiting = [...this.#entries.values()].filter(({ isInFlight }) => !isInFlight);
    for (const { message } of waiting) this.#entries.delete(message.id);
    return waiting.map(({ message }) => message);
  }

  #hasSlot(): boolean {
    return this.#inFlight < (this.#failures > 0 ? 1 : this.#options.concurrency);
  }

  #land(id: string): QueuedDelivery<Message> | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined || !entry.isInFlight) return undefined;
    entry.isInFlight = false;
    this.#inFlight -= 1;
    return entry;
  }

  #shrink(): Message[] {
    const dropped: Message[] = [];
    for (const { message, isInFlight } of this.#entries.values()) {
      if (this.#entries.size - this.#inFlight - dropped.length <= this.#options.capacity) break;
      if (!isInFlight) dropped.push(message);
    }
    for (const { id } of dropped) this.#entries.delete(id);
    return dropped;
  }
}

/** Returns the delay after this number of consecutive failures, 1 for the first. */
export function deliveryDelayMs(failures: number, random: () => number): number {
  return retryDelayMs({ failures, firstMs: firstDelayMs, maxMs: longestDelayMs, random });
}
