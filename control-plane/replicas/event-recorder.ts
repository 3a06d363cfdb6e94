/** Kubernetes events about RateLimitConfigs, which `kubectl describe` shows. Never in anybody's way: what is too much is dropped. */
import { createHash } from 'node:crypto';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { retryDelayMs } from '../../process/time/token-bucket.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import type { ConfigObject } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { EventQueue, type EventQueueOptions, type EventWrite } from './event-queue.ts';
import { microTime } from './lease-api.ts';
import { apiVersion, kind } from './status-pump.ts';

export interface RecordedEvent {
  object: Pick<ConfigObject, 'namespace' | 'name' | 'uid'>;
  type: 'Normal' | 'Warning';
  /** Of the condition; at most 128 characters. */
  reason: string;
  /** Cut at 1,024 bytes, as much as the API takes. */
  note: string;
}

export interface EventRecorderOptions extends Telemetry {
  client: KubernetesClient;
  /** Name of the replica. */
  instance: string;
  clock: Clock;
  timers: Timers;
  random(): number;
  limits?: EventQueueOptions;
}

interface Named extends RecordedEvent {
  uid: string;
  /** Of the Event. */
  eventName: string;
}

const reportingController = 'weir.dev/control-plane';
const longestNoteBytes = 1_024;
const attempts = 4;

export class EventRecorder {
  readonly #options: EventRecorderOptions;
  readonly #queue: EventQueue<Named>;
  #count = 0;
  #writing: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #endPause: (() => void) | undefined;
  #isClosed = false;

  constructor(options: EventRecorderOptions) {
    this.#options = options;
    this.#queue = new EventQueue(options.limits);
  }

  /** Written soon. Leaders only. */
  record(event: RecordedEvent): void {
    const { clock, metrics } = this.#options;
    metrics.eventRecorded();
    if (this.#isClosed) return;
    const { uid } = event.object;
    const note = cutNote(event.note);
    const named = { ...event, note, uid, eventName: this.#nameOf(event) };
    if (this.#queue.add(named, clock.nowMs()) !== undefined) metrics.eventsDropped(1);
    this.#drive();
  }

  /** Forgets what waits: another one leads. */
  clear(): void {
    this.#queue.clear();
  }

  /** Gives up what waits; settles when no write is under way any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#callOff?.();
    this.#endPause?.();
    this.clear();
    await this.#writing;
  }

  #drive(): void {
    const { clock, timers } = this.#options;
    if (this.#isClosed || this.#writing !== undefined) return;
    this.#callOff?.();
    const nowMs = clock.nowMs();
    const write = this.#queue.next(nowMs);
    if (write === undefined) {
      const delayMs = this.#queue.nextDueMs(nowMs);
      if (delayMs !== undefined) this.#callOff = timers.after(Math.max(1, delayMs), () => this.#drive());
      return;
    }
    this.#writing = this.#write(write).finally(() => {
      this.#writing = undefined;
      this.#drive();
    });
  }

  async #write(write: EventWrite<Named>): Promise<void> {
    for (let failures = 1; ; failures += 1) {
      try {
        await this.#send(write);
        return;
      } catch (error) {
        if (!(error instanceof ApiError)) throw error;
        const isLost = failures === attempts || this.#isClosed || !mayRepeat(error);
        if (isLost) {
          lines.eventNotRecorded(this.#options.log, error);
          return;
        }
        await this.#pause(error, failures);
      }
    }
  }

  async #send(write: EventWrite<Named>): Promise<void> {
    const { client } = this.#options;
    const { event } = write;
    const path = `/apis/events.k8s.io/v1/namespaces/${event.object.namespace}/events`;
    if (write.do === 'create') {
      await this.#create(path, event, write.atMs);
      return;
    }
    const series = { count: write.count, lastObservedTime: microTime(write.lastMs) };
    try {
      await client.request({
        method: 'PATCH',
        path: `${path}/${event.eventName}`,
        contentType: 'application/merge-patch+json',
        body: { series },
      });
    } catch (error) {
      // The event was never written, as its repetition came while it waited, or has expired since.
      if (!(error instanceof ApiError && error.status === 404)) throw error;
      await this.#create(path, event, write.lastMs, series);
    }
  }

  async #create(path: string, event: Named, atMs: number, series?: object): Promise<void> {
    const { client, instance } = this.#options;
    const { object, type, reason, note, eventName } = event;
    const { namespace, name, uid } = object;
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
      // An attempt whose answer was lost.
      if (!(error instanceof ApiError && error.reason === 'AlreadyExists')) throw error;
    }
  }

  #pause(error: ApiError, failures: number): Promise<void> {
    const { timers, random } = this.#options;
    const { retryAfterMs } = error;
    const delayMs = retryDelayMs({ failures, firstMs: 250, mostMs: 5_000, random, retryAfterMs });
    return new Promise((resolve) => {
      const callOff = timers.after(delayMs, resolve);
      this.#endPause = () => {
        callOff();
        resolve();
      };
    });
  }

  /** The same for no two events, of any replica. */
  #nameOf({ object }: RecordedEvent): string {
    const { clock, instance } = this.#options;
    this.#count += 1;
    const seed = [instance, clock.nowMs(), this.#count, object.uid].join('\0');
    const hash = createHash('sha256').update(seed).digest('hex').slice(0, 16);
    return `${object.name.slice(0, 230).replace(/[.-]+$/, '')}.${hash}`;
  }
}

function mayRepeat({ status }: ApiError): boolean {
  return status === 0 || status >= 500 || status === 429;
}

/** Between characters: the API counts bytes. */
function cutNote(note: string): string {
  if (Buffer.byteLength(note) <= longestNoteBytes) return note;
  let end = Math.min(note.length, longestNoteBytes - 3);
  while (Buffer.byteLength(note.slice(0, end)) > longestNoteBytes - 3) end -= 1;
  const last = note.charCodeAt(end - 1);
  const isHalf = last >= 0xd800 && last < 0xdc00;
  return `${note.slice(0, isHalf ? end - 1 : end)}...`;
}
