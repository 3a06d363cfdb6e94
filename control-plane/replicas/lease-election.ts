/** Runs one candidate: carries out what its ElectionState says, on a Lease of the Kubernetes API. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { type ElectionOptions, ElectionState, type ElectionStep } from './election-state.ts';
import type { LeaseApi, LeaseClaim, LeaseRecord } from './lease-api.ts';

export interface LeaseElectionOptions extends ElectionOptions, Telemetry {
  leaseName: string;
  api: LeaseApi;
  clock: Clock;
  timers: Timers;
  startedLeading(): void;
  /** The Lease could not be renewed in time, is another's, or was released. */
  stoppedLeading(): void;
  /** A read or write of the Lease failed; it is tried again. */
  failed(error: unknown): void;
}

export class LeaseElection {
  readonly #options: LeaseElectionOptions;
  readonly #state: ElectionState;
  #request: Promise<void> | undefined;
  #callOff: (() => void) | undefined;
  #isRunning = false;
  #wasLeading = false;
  #toldLeader: string | undefined;

  constructor(options: LeaseElectionOptions) {
    this.#options = options;
    this.#state = new ElectionState(options);
  }

  /** By the clock: true only as long as no other candidate may lead. */
  get leads(): boolean {
    return this.#isRunning && this.#state.leads(this.#nowMs());
  }

  /** Who holds the Lease, as far as this candidate knows. */
  get leader(): string | undefined {
    return this.#state.leader;
  }

  start(): void {
    this.#isRunning = true;
    this.#drive();
  }

  /** What a watch of the Lease brought; undefined: it was deleted. */
  heard(record: LeaseRecord | undefined): void {
    if (!this.#isRunning) return;
    this.#state.heard(record, this.#nowMs());
    this.#drive();
  }

  /** Stops leading and releases the Lease, so that another one need not wait. */
  async close(): Promise<void> {
    this.#isRunning = false;
    this.#callOff?.();
    await this.#request;
    const held = this.#state.resign(this.#nowMs());
    this.#tell();
    if (held === undefined) return;
    try {
      // A second, the least that a Lease can say: whoever sees the release does not wait for it.
      await this.#options.api.claim(this.#claim({ ...held, holder: '', durationMs: 1000 }), held);
    } catch (error) {
      this.#options.failed(error);
    }
  }

  /** Takes the next step, unless a request is under way, and sets the timer for the one after. */
  #drive(): void {
    this.#tell();
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

  #tell(): void {
    const { identity, log, metrics, startedLeading, stoppedLeading } = this.#options;
    const leads = this.leads;
    if (leads !== this.#wasLeading) {
      this.#wasLeading = leads;
      metrics.leading(leads);
      if (leads) lines.startedLeading(log, identity);
      else lines.stoppedLeading(log, identity);
      if (leads) startedLeading();
      else stoppedLeading();
    }
    const leader = this.#state.leader;
    if (leader === this.#toldLeader) return;
    this.#toldLeader = leader;
    if (leader !== identity) lines.leaderChanged(log, leader);
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}
