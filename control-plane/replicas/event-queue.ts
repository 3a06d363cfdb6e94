/**
 * Which Kubernetes events are written, and when. Pure. The same event of an object again is one event with a count; an
 * object that tells too much, and a queue that is full, drop what is new.
 */
import { TokenBucket } from '../../process/time/token-bucket.ts';

export interface EventContent {
  uid: string;
  type: 'Normal' | 'Warning';
  reason: string;
  note: string;
}

export type EventWrite<T extends EventContent> =
  | { do: 'create'; event: T; atMs: number }
  /** The event of this content, seen `count` times, was already written. */
  | { do: 'repeat'; event: T; count: number; lastMs: number };

type DropReason = 'object' | 'queue';

export interface EventQueueOptions {
  /** Events that wait; defaults to 1,000. */
  mostWaiting?: number;
  /** Of one object. Defaults to 25 at once and one more every 20 s. */
  burstPerObject?: number;
  perSecondPerObject?: number;
  /** Defaults to 10. */
  writesPerSecond?: number;
}

interface Series<T> {
  event: T;
  count: number;
  lastMs: number;
  isWaiting: boolean;
}

/** Chosen: the same event after a longer silence is a new one. */
const seriesMs = 6 * 60_000;
/** Chosen: what is remembered of objects and events. */
const mostRemembered = 4_096;

export class EventQueue<T extends EventContent> {
  readonly #options: Required<EventQueueOptions>;
  readonly #writes: TokenBucket;
  readonly #objects = new Map<string, TokenBucket>();
  readonly #series = new Map<string, Series<T>>();
  readonly #waiting: Series<T>[] = [];

  constructor(options: EventQueueOptions = {}) {
    this.#options = {
      mostWaiting: 1_000,
      burstPerObject: 25,
      perSecondPerObject: 1 / 20,
      writesPerSecond: 10,
      ...options,
    };
    const { writesPerSecond } = this.#options;
    this.#writes = new TokenBucket({ burst: writesPerSecond * 2, perSecond: writesPerSecond });
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Why the event is dropped; undefined when it is not. */
  add(event: T, nowMs: number): DropReason | undefined {
    const key = JSON.stringify([event.uid, event.type, event.reason, event.note]);
    const known = this.#series.get(key);
    const isRepeated = known !== undefined && nowMs - known.lastMs < seriesMs;
    if (isRepeated && known.isWaiting) {
      known.count += 1;
      known.lastMs = nowMs;
      return undefined;
    }
    if (!this.#bucketOf(event.uid).take(nowMs)) return 'object';
    if (this.#waiting.length >= this.#options.mostWaiting) return 'queue';
    const count = isRepeated ? known.count + 1 : 1;
    const series = { event: isRepeated ? known.event : event, count, lastMs: nowMs, isWaiting: true };
    remember(this.#series, key, series);
    this.#waiting.push(series);
    return undefined;
  }

  /** Undefined when nothing waits, or too much has been written already. */
  next(nowMs: number): EventWrite<T> | undefined {
    if (this.#waiting.length === 0 || !this.#writes.take(nowMs)) return undefined;
    const series = this.#waiting.shift() as Series<T>;
    series.isWaiting = false;
    const { event, count, lastMs } = series;
    return count === 1 ? { do: 'create', event, atMs: lastMs } : { do: 'repeat', event, count, lastMs };
  }

  /** Milliseconds until `next` has something; undefined when nothing waits. */
  nextDueMs(nowMs: number): number | undefined {
    return this.#waiting.length === 0 ? undefined : this.#writes.waitMs(nowMs);
  }

  /** When this process no longer leads. Returns how many there were. */
  clear(): number {
    const count = this.#waiting.length;
    this.#waiting.length = 0;
    this.#series.clear();
    return count;
  }

  #bucketOf(uid: string): TokenBucket {
    const { burstPerObject: burst, perSecondPerObject: perSecond } = this.#options;
    const bucket = this.#objects.get(uid) ?? new TokenBucket({ burst, perSecond });
    remember(this.#objects, uid, bucket);
    return bucket;
  }
}

/** The one that was used longest ago is forgotten. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > mostRemembered && oldest !== undefined) map.delete(oldest);
}
