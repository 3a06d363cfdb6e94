/**
 * Kubernetes events about RateLimitConfigs, which `kubectl describe` shows. They never delay other work: if there are too many events,
 * new ones are dropped.
 */
import { Pump } from '../../process/queues/pump.ts';
import type { ProcessTime } from '../../process/time/clock.ts';
import { PacingTokenBucket } from '../../process/time/pacing.ts';
import { apiVersion } from '../../rules/language/kinds.ts';
import { ApiError, hasStatus, isTransient, type KubernetesApi } from '../kubernetes/api.ts';
import { type ConfigObject, kindOf } from '../model/config-object.ts';
import { hashOf } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { microTime } from './lease-api.ts';

export interface EventContent {
  uid: string;
  type: 'Normal' | 'Warning';
  reason: string;
  note: string;
}

type DropReason = 'object' | 'queue';

interface EventQueueOptions {
  /** The maximum number of waiting events. Defaults to 1,000. */
  maxWaiting?: number;
  /** The maximum rate of events for one object. Defaults to 25 at once and one more every 20 s. */
  burstPerObject?: number;
  perSecondPerObject?: number;
  /** The maximum number of writes per second. Defaults to 10. */
  writesPerSecond?: number;
}

/** An event that was reported `count` times, the last time at `lastMs`. */
interface Occurrences<T> {
  event: T;
  count: number;
  lastMs: number;
}

interface Series<T> extends Occurrences<T> {
  isWaiting: boolean;
}

/** Chosen: after a longer pause, the same event counts as a new one. */
const seriesMs = 6 * 60_000;
/** Chosen: the number of objects and events that are remembered. */
const maxRemembered = 4_096;

/**
 * Decides which Kubernetes events are written, and when. Pure. Repeated events of an object become one event with a count. New
 * events are dropped if an object reports too many, or if the queue is full.
 */
export class EventQueue<T extends EventContent> {
  readonly #options: Required<EventQueueOptions>;
  readonly #writes: PacingTokenBucket;
  readonly #objects = new Map<string, PacingTokenBucket>();
  readonly #series = new Map<string, Series<T>>();
  readonly #waiting: Series<T>[] = [];

  constructor(options: EventQueueOptions = {}) {
    this.#options = {
      maxWaiting: 1_000,
      burstPerObject: 25,
      perSecondPerObject: 1 / 20,
      writesPerSecond: 10,
      ...options,
    };
    const { writesPerSecond } = this.#options;
    this.#writes = new PacingTokenBucket({ burst: writesPerSecond * 2, perSecond: writesPerSecond });
  }

  get size(): number {
    return this.#waiting.length;
  }

  /** Returns the reason why the event is dropped. Undefined if it is not dropped. */
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
    if (this.#waiting.length >= this.#options.maxWaiting) return 'queue';
    const count = isRepeated ? known.count + 1 : 1;
    const series = { event: isRepeated ? known.event : event, count, lastMs: nowMs, isWaiting: true };
    remember(this.#series, key, series);
    this.#waiting.push(series);
    return undefined;
  }

  /**
   * Returns an event to write. If it occurred more than once, it was already written. Returns undefined if no event waits, or if too many
   * were already written.
   */
  next(nowMs: number): Occurrences<T> | undefined {
    if (this.#waiting.length === 0 || !this.#writes.take(nowMs)) return undefined;
    const series = this.#waiting.shift() as Series<T>;
    series.isWaiting = false;
    const { event, count, lastMs } = series;
    return { event, count, lastMs };
  }

  /** Returns the milliseconds until `next` returns an event. Undefined if no event waits. */
  nextDueMs(nowMs: number): number | undefined {
    return this.#waiting.length === 0 ? undefined : this.#writes.waitMs(nowMs);
  }

  /** Clears the queue when this process no longer leads. Returns the number of dropped events. */
  clear(): number {
    const count = this.#waiting.length;
    this.#waiting.length = 0;
    this.#series.clear();
    return count;
  }

  #bucketOf(uid: string): PacingTokenBucket {
    const { burstPerObject: burst, perSecondPerObject: perSecond } = this.#options;
    const bucket = this.#objects.get(uid) ?? new PacingTokenBucket({ burst, perSecond });
    remember(this.#objects, uid, bucket);
    return bucket;
  }
}

/** Drops the entry that was used longest ago. */
function remember<V>(map: Map<string, V>, key: string, value: V): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > maxRemembered && oldest !== undefined) map.delete(oldest);
}

export interface RecordedEvent {
  /** The object at the version that the event follows from. */
  object: Pick<ConfigObject, 'kind' | 'namespace' | 'name' | 'uid' | 'resourceVersion'>;
  type: 'Normal' | 'Warning';
  /** The reason of the condition, with at most 128 characters. */
  reason: string;
  /** The note, cut at 1,024 bytes, the maximum of the API. */
  note: string;
}

export interface EventRecorderOptions extends Telemetry, ProcessTime {
  client: KubernetesApi;
  /** The name of the replica. */
  instance: string;
  random(): number;
  limits?: EventQueueOptions;
}

interface Named extends RecordedEvent {
  uid: string;
  /** The name of the Event. */
  eventName: string;
}

const reportingController = 'weir.dev/control-plane';
const longestNoteBytes = 1_024;
const attempts = 4;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #queue: EventQueue<Named>;
  readonly #pump: Pump<Occurrences<Named>, ApiError>;
  #isClosed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#queue = new EventQueue(options.limits);
    this.#pump = new Pump({
      ...options,
      queue: this.#queue,
      concurrency: 1,
      mayRun: () => true,
      attempt: (write, failures) => this.#write(write, failures),
      firstRetryMs: 250,
      maxRetryMs: 5_000,
    });
  }

  /** Records an event, which is written soon. Only the leader calls it. */
  record(event: RecordedEvent): void {
    const { clock, metrics } = this.#options;
    metrics.all.eventsRecorded.inc();
    if (this.#isClosed) return;
    const { uid } = event.object;
    const note = cutNote(event.note);
    const named = { ...event, note, uid, eventName: nameOf(event) };
    if (this.#queue.add(named, clock.nowMs()) !== undefined) metrics.all.eventsDropped.inc();
    this.#pump.wake();
  }

  /** Drops waiting events, because another process leads. */
  clear(): void {
    this.#queue.clear();
  }

  /** Drops waiting events. Settles when no write is in progress. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.clear();
    await this.#pump.close();
  }

  /** Returns the error if another attempt is worthwhile. */
  async #write(write: Occurrences<Named>, failures: number): Promise<ApiError | undefined> {
    try {
      await this.#send(write);
      return undefined;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const isLost = failures === attempts || this.#isClosed || !isTransient(error);
      if (!isLost) return error;
      lines.eventNotRecorded(this.#options.log, { error });
      return undefined;
    }
  }

  async #send({ event, count, lastMs }: Occurrences<Named>): Promise<void> {
    const { client } = this.#options;
    const path = `/apis/events.k8s.io/v1/namespaces/${event.object.namespace}/events`;
    if (count === 1) {
      await this.#create(path, event, lastMs);
      return;
    }
    const series = { count, lastObservedTime: microTime(lastMs) };
    try {
      await client.request({
        method: 'PATCH',
        path: `${path}/${event.eventName}`,
        contentType: 'application/merge-patch+json',
        body: { series },
      });
    } catch (error) {
      // The event was never written, because its repetition arrived while it waited, or it has expired since.
      if (!hasStatus(error, 404)) throw error;
      await this.#create(path, event, lastMs, series);
    }
  }

  async #create(path: string, event: Named, atMs: number, series?: object): Promise<void> {
    const { client, instance } = this.#options;
    const { object, type, reason, note, eventName } = event;
    const { namespace, name, uid } = object;
    const { kind } = kindOf(object);
    try {
      await client.request({
        method: 'POST',
        path,
        body: {
          apiVersion: 'events.k8s.io/v1',
          kind: 'Event',
          metadata: { namespace, name: eventName },
          eventTime: microTime(atMs),
          reportingController,
          reportingInstance: instance.slice(0, 128),
          action: 'Reconcile',
          type,
          reason: reason.slice(0, 128),
          note,
          regarding: { apiVersion, kind, namespace, name, uid },
          ...(series === undefined ? {} : { series }),
        },
      });
    } catch (error) {
      // An earlier attempt succeeded, but its answer was lost; or an earlier leader reported the same.
      if (!(error instanceof ApiError && error.reason === 'AlreadyExists')) throw error;
    }
  }
}

/** Returns the name of the Event. It is the same on all replicas, so that a new leader does not report again what was reported. */
function nameOf({ object: { uid, name, resourceVersion }, reason, note }: RecordedEvent): string {
  const hash = hashOf([uid, resourceVersion, reason, note].join('\0'));
  return `${name.slice(0, 230).replace(/[.-]+$/, '')}.${hash}`;
}

/** Cuts between characters, because the API counts bytes. */
function cutNote(note: string): string {
  if (Buffer.byteLength(note) <= longestNoteBytes) return note;
  let end = Math.min(note.length, longestNoteBytes - 3);
  while (Buffer.byteLength(note.slice(0, end)) > longestNoteBytes - 3) end -= 1;
  const last = note.charCodeAt(end - 1);
  const isHalf = last >= 0xd800 && last < 0xdc00;
  return `${note.slice(0, isHalf ? end - 1 : end)}...`;
}
