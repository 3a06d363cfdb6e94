/**
 * Keeps a replica's ConfigMaps as its limiters are: the first change at once, further ones at most every 250 ms, one
 * write at a time, again after a failure, and anew when somebody deletes one.
 */
import type { Clock, Timers } from '../../process/time/clock.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import type { ReplicaReport } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { ConfigMapApi, Owner } from './config-maps.ts';
import { type Failure, Pump } from './pump.ts';
import { encodeReport, reportName } from './report-encoding.ts';

export interface ReportPublisherOptions extends Telemetry {
  replica: string;
  api: ConfigMapApi;
  clock: Clock;
  timers: Timers;
  random(): number;
  /** Between the starts of two writes. Defaults to 250. */
  intervalMs?: number;
  /** See `encodeReport`. */
  maxPartBytes?: number;
}

export class ReportPublisher {
  readonly #options: ReportPublisherOptions;
  /** No two runs of one replica may count from the same number. */
  readonly #run: string;
  #count = 0;
  #report: ReplicaReport | undefined;
  #owner: Owner | undefined;
  /** What is to be written differs from what was. */
  #isDue = false;
  #parts = 0;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  readonly #pump: Pump<ReplicaReport, Failure>;

  constructor(options: ReportPublisherOptions) {
    this.#options = options;
    this.#run = `${options.clock.nowMs().toString(36)}-${Math.floor(options.random() * 36 ** 6).toString(36)}`;
    this.#pump = new Pump({
      ...options,
      queue: {
        next: () => (this.#dueMs() === 0 ? this.#report : undefined),
        nextDueMs: () => this.#dueMs(),
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed,
      attempt: () => this.#write(),
      firstRetryMs: 250,
      mostRetryMs: 5_000,
    });
  }

  publish(report: ReplicaReport): void {
    this.#report = report;
    this.#ask();
  }

  /** Nothing is written before the first one is known; the ConfigMaps go when it does. */
  ownedBy(owner: Owner): void {
    if (owner.uid === this.#owner?.uid) return;
    this.#owner = owner;
    this.#ask();
  }

  /** Somebody deleted a ConfigMap. */
  deleted(name: string): void {
    const own = Array.from({ length: this.#parts }, (_, index) =>
      reportName(this.#options.replica, index + 1),
    );
    if (own.includes(name)) this.#ask();
  }

  /** Deletes what was written. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#pump.close();
    await this.#deleteParts(1);
  }

  #ask(): void {
    this.#isDue = this.#report !== undefined;
    this.#pump.wake();
  }

  /** Milliseconds until the report is to be written; undefined while there is nothing to write. */
  #dueMs(): number | undefined {
    if (!this.#isDue || this.#owner === undefined) return undefined;
    return Math.max(0, Math.ceil(this.#notBeforeMs - this.#options.clock.monotonicMs()));
  }

  async #write(): Promise<Failure | undefined> {
    const { clock, intervalMs = 250, log, metrics } = this.#options;
    const startMs = clock.monotonicMs();
    this.#isDue = false;
    try {
      await this.#writeParts();
      this.#notBeforeMs = startMs + intervalMs;
      return undefined;
    } catch (error) {
      metrics.reportNotPublished();
      lines.reportNotPublished(log, error);
      return error instanceof ApiError ? error : {};
    }
  }

  async #writeParts(): Promise<void> {
    const { api, maxPartBytes } = this.#options;
    const [report, owner] = [this.#report as ReplicaReport, this.#owner as Owner];
    this.#count += 1;
    const bound = maxPartBytes === undefined ? {} : { maxPartBytes };
    const maps = await encodeReport(report, { revision: `${this.#run}-${this.#count}`, ...bound });
    this.#parts = Math.max(this.#parts, maps.length);
    for (const map of maps) await api.apply(map, { role: 'limiters', owner });
    await this.#deleteParts(maps.length + 1);
  }

  async #deleteParts(first: number): Promise<void> {
    for (; this.#parts >= first; this.#parts -= 1) {
      await this.#options.api.delete(reportName(this.#options.replica, this.#parts));
    }
  }
}
