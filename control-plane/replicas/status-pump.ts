/** Statuses of RateLimitConfigs on their way to the API server: one attempt, and the pump that tries a few at a time until each is written. */

import type { Clock, Timers } from '../../process/time/clock.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import { type ConfigObject, type ConfigStatus, objectKey, withStatus } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { Pump } from './pump.ts';
import { serverSideApply } from './replica-name.ts';

export const apiVersion = 'ratelimit.weir.dev/v1alpha1';
export const kind = 'RateLimitConfig';

export type WriteOutcome =
  /** `version`: the one that the write made, where objects have versions. */
  | { is: 'written'; version?: string }
  /** The object is not the version any more that the status follows from, or another one of its name: decide again. */
  | { is: 'outdated' }
  /** The object was deleted. */
  | { is: 'gone' }
  /** The server will not take this status, however often it is sent. */
  | { is: 'refused'; error: ApiError }
  /** Worth another attempt. */
  | { is: 'failed'; error: ApiError };

export interface StatusWriterOptions {
  client: KubernetesClient;
  /** Of one request; defaults to 10,000. */
  timeoutMs?: number;
  /** Called before each attempt; what it returns is called after it, with the version that was written if that is known. */
  writing?(object: ConfigObject): (resourceVersion?: string) => void;
}

/**
 * Writes `status` of RateLimitConfigs by server-side apply: what is not in it any more goes. Each follows from a version of
 * the object, and is not written over another one.
 */
export class StatusWriter {
  readonly #options: StatusWriterOptions;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** One attempt. */
  async write(object: ConfigObject, status: ConfigStatus): Promise<WriteOutcome> {
    const { namespace, name, resourceVersion } = object;
    const { client, timeoutMs = 10_000, writing } = this.#options;
    const settle = writing?.(object);
    let version: string | undefined;
    try {
      const { metadata } = await client.request<{ metadata: { resourceVersion: string } }>({
        ...serverSideApply,
        path: `/apis/${apiVersion}/namespaces/${namespace}/ratelimitconfigs/${name}/status`,
        timeoutMs,
        body: { apiVersion, kind, metadata: { namespace, name, resourceVersion }, status },
      });
      version = metadata.resourceVersion;
      return { is: 'written', version };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) return { is: 'gone' };
      if (error.status === 409) return { is: 'outdated' };
      return { is: mayRepeat(error) ? 'failed' : 'refused', error };
    } finally {
      settle?.(version);
    }
  }
}

/** No answer, the server's own faults, and what another moment may allow: a token that was replaced. */
function mayRepeat({ status }: ApiError): boolean {
  return status === 0 || status >= 500 || [401, 408, 429].includes(status);
}

export interface StatusEntry {
  object: ConfigObject;
  status: ConfigStatus;
}

/** What waits, in which order and under which budget: see the reconciler's StatusQueue. */
export interface StatusEntries {
  next(nowMs: number): StatusEntry | undefined;
  /** Milliseconds until `next` has something; undefined when nothing waits. */
  nextDueMs(nowMs: number): number | undefined;
  /** The entry is off our hands: newer statuses of the object may come, and follow from `now`. */
  done(uid: string, now?: ConfigObject): void;
  /** What waits for the object is not to be written. */
  withdraw(uid: string): void;
}

export interface StatusPumpOptions extends Telemetry {
  queue: StatusEntries;
  writer: Pick<StatusWriter, 'write'>;
  /** Asked before each write: whether this process leads. */
  mayWrite(): boolean;
  /** Writes under way at once. Defaults to 8. */
  concurrency?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  /** `version`: the one that the write made. */
  written(entry: StatusEntry, version: string | undefined): void;
  /** The object has changed; `mayBeWritten`: perhaps by an attempt of this entry that had no answer. */
  outdated(entry: StatusEntry, mayBeWritten: boolean): void;
  /** A status of an object whose last one the API server did not take may be offered again. */
  released(): void;
}

/** Chosen: how long an object whose status was refused waits, so that it does not use up the budget. */
const refusedPauseMs = 5_000;
/** Chosen: a status that the server answers with its own fault so often counts as refused; what is not typed right is. */
const mostFaults = 6;

export class StatusPump {
  readonly #options: StatusPumpOptions;
  readonly #pump: Pump<StatusEntry, ApiError>;
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
      mostRetryMs: 5_000,
    });
  }

  /** Something was put into the queue, or this process leads from now on. */
  wake(): void {
    this.#pump.wake();
  }

  /** This process no longer leads: nothing is tried again. Call `wake` when it leads anew. */
  stop(): void {
    this.#pump.endWaits();
  }

  /** Settles when no write is under way any more. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.#pump.close();
  }

  async #write(entry: StatusEntry, failures: number): Promise<ApiError | undefined> {
    const { writer, queue, metrics, written, outdated } = this.#options;
    const outcome = await writer.write(entry.object, entry.status);
    const { uid } = entry.object;
    if (outcome.is === 'written') {
      const { version } = outcome;
      queue.done(uid, withStatus(entry.object, { status: entry.status, version }));
      metrics.all.statusWrites.inc({ outcome: 'written' });
      written(entry, version);
      return undefined;
    }
    if (outcome.is === 'outdated' || outcome.is === 'gone') {
      queue.withdraw(uid);
      queue.done(uid);
      if (outcome.is === 'gone') return undefined;
      metrics.all.statusWrites.inc({ outcome: 'outdated' });
      outdated(entry, failures > 1);
      return undefined;
    }
    const { is, error } = outcome;
    if (is === 'failed' && (error.status < 500 || failures < mostFaults)) return error;
    this.#failed(entry, error);
    this.#holdBack(entry);
    return undefined;
  }

  /** `retryInMs` undefined: this status is given up, a newer one of the object is tried. */
  #failed({ object }: StatusEntry, error: ApiError, retryInMs?: number): void {
    this.#options.metrics.all.statusWrites.inc({ outcome: 'failed' });
    lines.statusNotWritten(this.#options.log, { object: objectKey(object), error, retryInMs });
  }

  /** Leaves the object's place in flight for a while, but none of ours. */
  #holdBack(entry: StatusEntry): void {
    const { queue, released } = this.#options;
    this.#pump.later(refusedPauseMs, () => {
      queue.done(entry.object.uid);
      released();
      this.wake();
    });
  }
}
