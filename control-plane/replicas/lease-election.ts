/** The election of the leader: what a candidate must do, and how it does it. */
import type { ProcessTime } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import type { LeaseApi, LeaseClaim, LeaseRecord } from './lease-api.ts';

export interface ElectionOptions {
  /** A text that differs for every process that runs at the same time. */
  identity: string;
  leaseDurationMs: number;
  /** The renewal deadline, shorter than leaseDurationMs. */
  renewDeadlineMs: number;
  /** The time between two writes of the leader, and after a failed request. Shorter than renewDeadlineMs. */
  retryPeriodMs: number;
}

type ElectionStep =
  | { do: 'read' }
  /** `over`: the current content of the Lease object. Undefined if there is none and it must be created. */
  | { do: 'write'; over: LeaseRecord | undefined; transitions: number; acquireTime: string | undefined }
  | { do: 'wait'; untilMs: number };

/**
 * One candidate's view of the Lease object that names the leader. Pure: it gets the results of reads, writes and watches, and returns the
 * next step. All times are on the candidate's own monotonic clock.
 *
 *                 read                  free, expired or its own: written
 *   unknown ───────────────> following ───────────────────────────────────> leading ──┐ written again every
 *      ^                       │   ^                                         │ ^  ^    │ retryPeriodMs
 *      └─── write failed ──────┘   └── another holds it, or renewDeadlineMs ──┘ │  └────┘
 *                                      since the last good write was sent       │ read: still its own
 *                                                    write failed: doubtful ────┘ (leading, reads before it writes)
 *
 * Never two leaders: a leader stops renewDeadlineMs after it *sent* its last good write. Another candidate saw that write no earlier,
 * waits for the Lease's whole duration from then on, and its write names the version that it saw, so it fails if there was a newer one.
 * The duration is longer than the deadline by more than clocks drift apart.
 */
export class ElectionState {
  readonly #options: ElectionOptions;
  /** The last record that was seen. Undefined if there is none. */
  #record: LeaseRecord | undefined;
  /** The time from which on a record of another holder is ignored. */
  #expiresMs = Number.NEGATIVE_INFINITY;
  /** Whether the record is known. False before the first read and after a failed write. */
  #isKnown = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  /** The time at which the last successful write was sent. Undefined while following. */
  #renewedMs: number | undefined;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }

  /** The holder of the Lease object in the record that was seen last. */
  get leader(): string | undefined {
    return this.#record?.holder || undefined;
  }

  leads(nowMs: number): boolean {
    return nowMs < this.leadsUntilMs;
  }

  /** The time at which leading ends unless a write succeeds before. In the past while following. */
  get leadsUntilMs(): number {
    if (this.#renewedMs === undefined) return Number.NEGATIVE_INFINITY;
    return this.#renewedMs + this.#options.renewDeadlineMs;
  }

  next(nowMs: number): ElectionStep {
    if (nowMs < this.#notBeforeMs) return { do: 'wait', untilMs: this.#notBeforeMs };
    if (!this.#isKnown) return { do: 'read' };
    if (this.leads(nowMs)) return this.#nextOfLeader(nowMs);
    if (!this.#isFree() && nowMs < this.#expiresMs) return { do: 'wait', untilMs: this.#expiresMs };
    return this.#write();
  }

  /** Handles the server's answer to a read. Undefined: there is no such Lease object. */
  read(record: LeaseRecord | undefined, nowMs: number): void {
    this.#observe(record, nowMs);
    this.#isKnown = true;
    const isGone = record === undefined;
    if (!isGone && record.holder !== this.#options.identity) this.#renewedMs = undefined;
  }

  /** Adopts a record from a watch, which may be late. A leader and a running write get newer information from the server's answers. */
  observed(record: LeaseRecord | undefined, nowMs: number): void {
    if (this.#isKnown && !this.leads(nowMs)) this.#observe(record, nowMs);
  }

  /** The server accepted the write that was sent at `sentMs`. */
  written(record: LeaseRecord, sentMs: number, nowMs: number): void {
    this.#observe(record, nowMs);
    this.#isKnown = true;
    this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    this.#renewedMs = sentMs;
  }

  /** The write was based on an outdated version, so the Lease object is read again at once. */
  conflicted(): void {
    this.#isKnown = false;
  }

  /** A read or a write failed, but may have succeeded on the server. */
  failed(sentMs: number): void {
    this.#isKnown = false;
    this.#notBeforeMs = sentMs + this.#options.retryPeriodMs;
  }

  /** Ends leading. Returns the record to release, if there is one. */
  resign(nowMs: number): LeaseRecord | undefined {
    const held = this.leads(nowMs) ? this.#record : undefined;
    this.#renewedMs = undefined;
    return held;
  }

  #nextOfLeader(nowMs: number): ElectionStep {
    const renewMs = (this.#renewedMs as number) + this.#options.retryPeriodMs;
    return nowMs < renewMs ? { do: 'wait', untilMs: renewMs } : this.#write();
  }

  #write(): ElectionStep {
    const over = this.#record;
    const isOwn = over?.holder === this.#options.identity;
    return {
      do: 'write',
      over,
      transitions: over === undefined ? 0 : over.transitions + (isOwn ? 0 : 1),
      acquireTime: isOwn ? over.acquireTime : undefined,
    };
  }

  /** Returns whether there is no holder, or this candidate is the holder because of a write whose answer was lost. */
  #isFree(): boolean {
    return this.#record !== undefined && ['', this.#options.identity].includes(this.#record.holder);
  }

  /** A Lease object that was deleted still had a holder. The holder's time must pass as if the object existed. */
  #observe(record: LeaseRecord | undefined, nowMs: number): void {
    if (record !== undefined && record.resourceVersion !== this.#record?.resourceVersion) {
      this.#expiresMs = nowMs + (record.durationMs ?? this.#options.leaseDurationMs);
    }
    this.#record = record;
  }
}

export interface LeaseElectionOptions extends ElectionOptions, Telemetry, ProcessTime {
  leaseName: string;
  api: LeaseApi;
  startedLeading(): void;
  /** The Lease object could not be renewed in time, belongs to another candidate, or was released. */
  stoppedLeading(): void;
  /** A read or write of the Lease object failed and will be repeated. */
  failed(error: unknown): void;
}

/** Runs one candidate. It performs the steps of its ElectionState on a Lease object of the Kubernetes API. */
export class LeaseElection {
  readonly #options: LeaseElectionOptions;
  readonly #state: ElectionState;
  #request: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #isRunning = false;
  #wasLeading = false;
  #reportedLeader: string | undefined;

  constructor(options: LeaseElectionOptions) {
    this.#options = options;
    this.#state = new ElectionState(options);
  }

  /** Whether this process leads, by the clock. True only while no other candidate may lead. */
  get leads(): boolean {
    return this.#isRunning && this.#state.leads(this.#nowMs());
  }

  /** The holder of the Lease object, as far as this candidate knows. */
  get leader(): string | undefined {
    return this.#state.leader;
  }

  start(): void {
    this.#isRunning = true;
    this.#drive();
  }

  /** Adopts a record from a watch of the Lease object. Undefined if it was deleted. */
  observed(record: LeaseRecord | undefined): void {
    if (!this.#isRunning) return;
    this.#state.observed(record, this.#nowMs());
    this.#drive();
  }

  /** Stops leading and releases the Lease object, so that other candidates need not wait. */
  async close(): Promise<void> {
    this.#isRunning = false;
    this.#callOff?.();
    await this.#request;
    const held = this.#state.resign(this.#nowMs());
    this.#report();
    if (held === undefined) return;
    try {
      // A second is the shortest duration of a Lease object. A candidate that sees the release does not wait for it.
      await this.#options.api.claim(this.#claim({ ...held, holder: '', durationMs: 1000 }), held);
    } catch (error) {
      this.#options.failed(error);
    }
  }

  /** Takes the next step, unless a request is running, and sets the timer for the step after it. */
  #drive(): void {
    this.#report();
    this.#callOff?.();
    if (!this.#isRunning) return;
    const nowMs = this.#nowMs();
    let wakeMs = this.#state.leads(nowMs) ? this.#state.leadsUntilMs : Number.POSITIVE_INFINITY;
    if (this.#request === undefined) {
      const step = this.#state.next(nowMs);
      if (step.do === 'wait') wakeMs = Math.min(wakeMs, step.untilMs);
      else this.#take(step);
    }
    if (wakeMs === Number.POSITIVE_INFINITY) return;
    this.#callOff = this.#options.timers.after(Math.ceil(wakeMs - nowMs), () => this.#drive());
  }

  #take(step: Exclude<ElectionStep, { do: 'wait' }>): void {
    const sentMs = this.#nowMs();
    const request = step.do === 'read' ? this.#read() : this.#write(step, sentMs);
    this.#request = request
      .catch((error: unknown) => {
        this.#state.failed(sentMs);
        this.#options.failed(error);
      })
      .finally(() => {
        this.#request = undefined;
        this.#drive();
      });
  }

  async #read(): Promise<void> {
    const record = await this.#options.api.read(this.#options.leaseName);
    this.#state.read(record, this.#nowMs());
  }

  async #write(step: Extract<ElectionStep, { do: 'write' }>, sentMs: number): Promise<void> {
    const { identity, leaseDurationMs: durationMs, api } = this.#options;
    const written = await api.claim(this.#claim({ ...step, holder: identity, durationMs }), step.over);
    if (written === undefined) this.#state.conflicted();
    else this.#state.written(written, sentMs, this.#nowMs());
  }

  #claim(claim: { holder: string; durationMs: number } & Omit<LeaseClaim, 'name'>): LeaseClaim {
    const { holder, durationMs, transitions, acquireTime } = claim;
    return { name: this.#options.leaseName, holder, durationMs, transitions, acquireTime };
  }

  #report(): void {
    const { identity, log, metrics, startedLeading, stoppedLeading } = this.#options;
    const leads = this.leads;
    if (leads !== this.#wasLeading) {
      this.#wasLeading = leads;
      metrics.all.leader.set(leads ? 1 : 0);
      if (leads) lines.startedLeading(log, { replica: identity });
      else lines.stoppedLeading(log, { replica: identity });
      if (leads) startedLeading();
      else stoppedLeading();
    }
    const leader = this.#state.leader;
    if (leader === this.#reportedLeader) return;
    this.#reportedLeader = leader;
    if (leader === undefined) lines.leaderLost(log);
    else if (leader !== identity) lines.leaderChanged(log, { leader });
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
