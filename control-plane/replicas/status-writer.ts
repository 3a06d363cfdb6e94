/**
 * Writes statuses of objects to the API server: a single attempt, and the pump that writes a few statuses at a time until each is
 * written.
 */

import { Pump } from '../../process/queues/pump.ts';
import type { ProcessTime } from '../../process/time/clock.ts';
import { retryDelayMs } from '../../process/time/pacing.ts';
import { apiVersion } from '../../rules/language/kinds.ts';
import { ApiError, isTransient, type KubernetesApi, serverSideApply } from '../kubernetes/api.ts';
import { kindOf, objectKey, type StatusObject } from '../model/config-object.ts';
import type { WriteLedger } from '../model/write-ledger.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import type { StatusEntry, StatusQueue } from './status-queue.ts';

export type WriteOutcome =
  /** `version`: the version that the write created, if objects have versions. */
  | { is: 'written'; version?: string }
  /** The status is based on another version of the object, or on another object of its name. A new decision is needed. */
  | { is: 'outdated' }
  /** The object was deleted. */
  | { is: 'gone' }
  /** The server rejects this status until a person changes something. */
  | { is: 'refused'; error: ApiError }
  /** The same write may succeed soon: see `isTransient`. */
  | { is: 'failed'; error: ApiError };

export interface StatusWriterOptions {
  client: KubernetesApi;
  /** The timeout of one request. Defaults to 10,000. */
  timeoutMs?: number;
}

/**
 * Writes `status` of objects by server-side apply, which removes fields that it no longer has. Each status follows from a version
 * of the object, and only replaces the status of that version.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** Makes one attempt. */
  async write({ object, status }: StatusEntry): Promise<WriteOutcome> {
    const { client, timeoutMs = 10_000 } = this.#options;
    const { kind, plural } = kindOf(object);
    const { namespace, name, resourceVersion } = object;
    try {
      const { metadata } = await client.request<{ metadata: { resourceVersion: string } }>({
        ...serverSideApply,
        path: `/apis/${apiVersion}/namespaces/${namespace}/${plural}/${name}/status`,
        timeoutMs,
        body: { apiVersion, kind, metadata: { namespace, name, resourceVersion }, status },
      });
      return { is: 'written', version: metadata.resourceVersion };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) return { is: 'gone' };
      if (error.status === 409) return { is: 'outdated' };
      return { is: isTransient(error) ? 'failed' : 'refused', error };
    }
  }
}

/** Adds an attempt, or its result, to the ledger. */
type RecordWrite = (writes: WriteLedger<StatusObject>) => WriteLedger<StatusObject>;

export interface StatusPumpOptions extends Telemetry, ProcessTime {
  queue: Pick<StatusQueue, 'next' | 'nextDueMs' | 'done' | 'spared'>;
  writer: Pick<StatusWriter, 'write'>;
  /** Called before each write: whether this process leads. */
  mayWrite(): boolean;
  /** The maximum number of concurrent writes. Defaults to 8. */
  concurrency?: number;
  random(): number;
  written(entry: StatusEntry): void;
  /** Called before each attempt, and with the result of an attempt after which the object stays in flight. */
  record(change: RecordWrite): void;
  /** Called when another status of an object may be offered: its write has ended, with this result, or the pause after a rejection is over. */
  again(ended?: RecordWrite): void;
}

/** Chosen: the first wait after a rejection. It grows each time, so that rejected statuses do not use up the budget. */
const firstPauseMs = 5_000;
const maxPauseMs = 60_000;
/**
 * Chosen: the number of server errors after which a status counts as rejected, because the API server may answer so if a field
 * has the wrong type.
 */
const maxFaults = 6;

/** A pause after a rejection of one object, or of a namespace in which the right to write statuses of a kind is missing. */
interface Pause {
  rejections: number;
  /** Objects that wait. They remain in flight in the queue, but do not use a slot of the pump. */
  uids: Set<string>;
  /** When the pause is over, one write tests for all objects whether the API server accepts it now. */
  is: 'running' | 'over' | 'tried';
  overAtMs: number;
}

/** Compares the message of the API server's authorizer, because a webhook that rejects one object also answers with 403. */
export function lacksRight({ status, message }: ApiError): boolean {
  return (
    status === 403 && /cannot patch resource "ratelimit(configs|overrides|fleets)\/status"/.test(message)
  );
}

/** Returns the kind and namespace that one right to write statuses covers. */
function placeOf(object: StatusObject): string {
  return `${kindOf(object).plural} ${object.namespace}`;
}

export class StatusPump {
  readonly #options: StatusPumpOptions;
  readonly #pump: Pump<StatusEntry, ApiError>;
  /** Pauses by `placeOf`, or by uid. */
  readonly #pauses = new Map<string, Pause>();
  #isClosed = false;

  constructor(options: StatusPumpOptions) {
    this.#options = options;
    const { queue, mayWrite, concurrency = 8 } = options;
    this.#pump = new Pump({
      ...options,
      concurrency,
      mayRun: () => mayWrite() && !this.#isClosed,
      attempt: (entry, failures) => this.#write(entry, failures),
      failed: (entry, error, retryInMs) => this.#failed(entry, error, retryInMs),
      givenUp: ({ object }) => queue.done(object.uid),
      firstRetryMs: 100,
      maxRetryMs: 5_000,
    });
  }

  /**
   * The number of statuses that wait because the API server rejected them, or because the right to write statuses in their namespace is
   * missing.
   */
  get paused(): number {
    return [...this.#pauses.values()].reduce((sum, { uids }) => sum + uids.size, 0);
  }

  /** Called when the queue has a new entry, or this process leads from now on. */
  wake(): void {
    this.#pump.wake();
  }

  /** Stops retries when this process no longer leads. Call `wake` when it leads again. */
  stop(): void {
    this.#pump.endWaits();
    for (const key of this.#pauses.keys()) this.#endPause(key);
  }

  /** Settles when no write is in progress. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#pump.close();
  }

  async #write(entry: StatusEntry, failures: number): Promise<ApiError | undefined> {
    const { writer, queue, clock, metrics, written, record, again } = this.#options;
    const { uid } = entry.object;
    const place = placeOf(entry.object);
    const pause = failures === 1 ? this.#pauses.get(place) : undefined;
    if (pause?.is === 'over') pause.is = 'tried';
    else if (pause !== undefined) {
      pause.uids.add(uid);
      queue.spared();
      return undefined;
    }
    record((writes) => writes.begun(entry));
    const outcome = await writer.write(entry);
    const ended: RecordWrite = (writes) => writes.ended(entry, outcome, clock.nowMs());
    if ('error' in outcome) {
      const { is, error } = outcome;
      if (is === 'failed' && (error.status < 500 || failures < maxFaults)) return error;
      record(ended);
      this.#rejected(entry, error);
      return undefined;
    }
    this.#endPause(place);
    this.#endPause(uid);
    queue.done(uid);
    if (outcome.is === 'gone') {
      record(ended);
      return undefined;
    }
    metrics.all.statusWrites.inc({ outcome: outcome.is });
    if (outcome.is === 'written') written(entry);
    again(ended);
    return undefined;
  }

  /** `retryInMs`: undefined if the pump does not retry this status, but only a newer one of the object. */
  #failed({ object }: StatusEntry, error: ApiError, retryInMs?: number): void {
    this.#options.metrics.all.statusWrites.inc({ outcome: 'failed' });
    lines.statusNotWritten(this.#options.log, { object: objectKey(object), error, retryInMs });
  }

  #rejected(entry: StatusEntry, error: ApiError): void {
    const { clock, random, log } = this.#options;
    const { namespace, uid } = entry.object;
    const isOfAll = lacksRight(error);
    const place = placeOf(entry.object);
    const key = isOfAll ? place : uid;
    const before = this.#pauses.get(key);
    if (isOfAll) this.#options.metrics.all.statusWrites.inc({ outcome: 'failed' });
    else {
      this.#failed(entry, error);
      this.#endPause(place);
    }
    if (before?.is === 'running') {
      before.uids.add(uid);
      return;
    }
    const failures = (before?.rejections ?? 0) + 1;
    const pauseMs = retryDelayMs({ failures, firstMs: firstPauseMs, maxMs: maxPauseMs, random });
    const { plural } = kindOf(entry.object);
    if (isOfAll) lines.statusesForbidden(log, { plural, namespace, error, retryInMs: pauseMs });
    const uids = new Set(before?.uids).add(uid);
    const pause: Pause = {
      rejections: failures,
      uids,
      is: 'running',
      overAtMs: clock.monotonicMs() + pauseMs,
    };
    this.#forgetOld();
    this.#pauses.set(key, pause);
    this.#pump.later(pauseMs, () => {
      pause.is = 'over';
      this.#release(pause);
    });
  }

  /** Forgets old pauses, because the state of objects that were not written again is unknown. */
  #forgetOld(): void {
    const longAgoMs = this.#options.clock.monotonicMs() - maxPauseMs;
    for (const [key, { is, overAtMs }] of this.#pauses)
      if (is === 'over' && overAtMs < longAgoMs) this.#pauses.delete(key);
  }

  #endPause(key: string): void {
    const pause = this.#pauses.get(key);
    if (pause === undefined) return;
    this.#pauses.delete(key);
    this.#release(pause);
  }

  #release({ uids }: Pause): void {
    const { queue, again } = this.#options;
    if (uids.size === 0) return;
    for (const uid of uids) queue.done(uid);
    uids.clear();
    again();
    this.wake();
  }
}
