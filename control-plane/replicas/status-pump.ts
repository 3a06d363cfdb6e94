/** Carries statuses from the queue to the API server: a few at a time, and each one again until it is written. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import { retryDelayMs } from '../../process/time/token-bucket.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { KubernetesClient } from '../kubernetes/client.ts';
import { type ConfigObject, type ConfigStatus, objectKey } from '../model/config-object.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { serverSideApply } from './replica-name.ts';

export interface StatusEntry {
  object: ConfigObject;
  status: ConfigStatus;
}

/** What waits, in which order and under which budget: see the reconciler's StatusQueue. */
export interface StatusEntries {
  next(nowMs: number): StatusEntry | undefined;
  /** Milliseconds until `next` has something; undefined when nothing waits. */
  nextDueMs(nowMs: number): number | undefined;
  /** The entry is off our hands: newer statuses of the object may come. */
  done(uid: string): void;
}

export interface StatusPumpOptions extends Telemetry {
  queue: StatusEntries;
  writer: { write(object: ConfigObject, status: ConfigStatus): Promise<WriteOutcome> };
  /** Asked before each write: whether this process leads. */
  mayWrite(): boolean;
  /** Writes under way at once. Defaults to 8. */
  concurrency?: number;
  clock: Clock;
  timers: Timers;
  random(): number;
  written(entry: StatusEntry): void;
  /** A status of an object whose last one the API server did not take may be offered again. */
  released(): void;
}

const firstRetryMs = 100;
const mostRetryMs = 5_000;
/** Chosen: how long an object whose status was refused waits, so that it does not use up the budget. */
const refusedPauseMs = 5_000;
/** Chosen: a status that the server answers with its own fault so often counts as refused; what is not typed right is. */
const mostFaults = 6;

export class StatusPump {
  readonly #options: StatusPumpOptions;
  readonly #running = new Set<Promise<void>>();
  /** What ends each wait at once. */
  readonly #waits = new Set<() => void>();
  #callOff: (() => void) | undefined;
  #isClosed = false;

  constructor(options: StatusPumpOptions) {
    this.#options = options;
  }

  /** Writes under way, those that wait for another attempt included. */
  get writing(): number {
    return this.#running.size;
  }

  /** Something was put into the queue, or this process leads from now on. */
  wake(): void {
    const { queue, clock, timers, mayWrite, concurrency = 8 } = this.#options;
    this.#callOff?.();
    this.#callOff = undefined;
    while (!this.#isClosed && mayWrite() && this.#running.size < concurrency) {
      const entry = queue.next(clock.nowMs());
      if (entry === undefined) break;
      this.#run(entry);
    }
    if (this.#isClosed || !mayWrite() || this.#running.size >= concurrency) return;
    const delayMs = queue.nextDueMs(clock.nowMs());
    if (delayMs !== undefined) this.#callOff = timers.after(Math.max(1, delayMs), () => this.wake());
  }

  /** This process no longer leads: nothing is tried again. Call `wake` when it leads anew. */
  stop(): void {
    this.#callOff?.();
    this.#callOff = undefined;
    for (const end of [...this.#waits]) end();
  }

  /** Settles when no write is under way any more. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.stop();
    await Promise.all(this.#running);
  }

  #run(entry: StatusEntry): void {
    const run = this.#deliver(entry).finally(() => {
      this.#running.delete(run);
      this.wake();
    });
    this.#running.add(run);
  }

  async #deliver(entry: StatusEntry): Promise<void> {
    const { writer, mayWrite, queue, metrics, written } = this.#options;
    const { uid } = entry.object;
    for (let failures = 1; mayWrite() && !this.#isClosed; failures += 1) {
      const outcome = await writer.write(entry.object, entry.status);
      if (outcome.is === 'written' || outcome.is === 'gone') {
        queue.done(uid);
        if (outcome.is === 'gone') return;
        metrics.statusWritten();
        written(entry);
        return;
      }
      const { is, error } = outcome;
      if (is === 'refused' || (error.status >= 500 && failures >= mostFaults)) {
        this.#failed(entry, error);
        this.#holdBack(entry);
        return;
      }
      await this.#pause(entry, error, failures);
    }
    queue.done(uid);
  }

  #pause(entry: StatusEntry, error: ApiError, failures: number): Promise<void> {
    const { random } = this.#options;
    const delayMs = retryDelayMs({
      failures,
      firstMs: firstRetryMs,
      mostMs: mostRetryMs,
      random,
      retryAfterMs: error.retryAfterMs,
    });
    this.#failed(entry, error, delayMs);
    return new Promise((resolve) => this.#wait(delayMs, resolve));
  }

  /** `retryInMs` undefined: this status is given up, a newer one of the object is tried. */
  #failed({ object }: StatusEntry, error: ApiError, retryInMs?: number): void {
    this.#options.metrics.statusWriteFailed();
    lines.statusNotWritten(this.#options.log, { object: objectKey(object), error, retryInMs });
  }

  /** Leaves the object's place in flight for a while, but none of ours. */
  #holdBack(entry: StatusEntry): void {
    const { queue, released } = this.#options;
    this.#wait(refusedPauseMs, () => {
      queue.done(entry.object.uid);
      released();
      this.wake();
    });
  }

  #wait(delayMs: number, then: () => void): void {
    const end = () => {
      callOff();
      this.#waits.delete(end);
      then();
    };
    const callOff = this.#options.timers.after(delayMs, end);
    this.#waits.add(end);
  }
}

export type WriteOutcome =
  | { is: 'written' }
  /** The object was deleted, perhaps created anew. */
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

/** Writes `status` of RateLimitConfigs by server-side apply: what is not in it any more goes. */
export class StatusWriter {
  readonly #options: StatusWriterOptions;

  constructor(options: StatusWriterOptions) {
    this.#options = options;
  }

  /** One attempt. */
  async write(object: ConfigObject, status: ConfigStatus): Promise<WriteOutcome> {
    const { namespace, name, uid } = object;
    const { client, timeoutMs = 10_000, writing } = this.#options;
    const settle = writing?.(object);
    let version: string | undefined;
    try {
      const { metadata } = await client.request<{ metadata: { uid: string; resourceVersion: string } }>({
        ...serverSideApply,
        path: `/apis/${apiVersion}/namespaces/${namespace}/ratelimitconfigs/${name}/status`,
        timeoutMs,
        body: { apiVersion, kind, metadata: { namespace, name }, status },
      });
      // The API compares no uid when a status is applied: what was created anew since is told by its own status.
      if (metadata.uid !== uid) return { is: 'gone' };
      version = metadata.resourceVersion;
      return { is: 'written' };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status === 404) return { is: 'gone' };
      return { is: mayRepeat(error) ? 'failed' : 'refused', error };
    } finally {
      settle?.(version);
    }
  }
}

export const apiVersion = 'ratelimit.weir.dev/v1alpha1';
export const kind = 'RateLimitConfig';

/** No answer, the server's own faults, and what another moment may allow: a conflict, a token that was replaced. */
function mayRepeat({ status }: ApiError): boolean {
  return status === 0 || status >= 500 || [401, 408, 409, 429].includes(status);
}
