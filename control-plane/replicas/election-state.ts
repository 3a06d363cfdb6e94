/**
 * One candidate's view of the Lease that names the leader. Pure: it is told what was read, written and heard, and
 * says what to do next. All times are on the candidate's own monotonic clock.
 *
 *                 read                  free, expired or its own: written
 *   unknown ───────────────> following ───────────────────────────────────> leading ──┐ written again every
 *      ^                       │   ^                                         │ ^  ^    │ retryPeriodMs
 *      └─── write failed ──────┘   └── another holds it, or renewDeadlineMs ──┘ │  └────┘
 *                                      since the last good write was sent       │ read: still its own
 *                                                    write failed: doubtful ────┘ (leading, reads before it writes)
 *
 * Never two leaders: a leader stops renewDeadlineMs after it *sent* its last good write. Another candidate saw that
 * write no earlier, waits for the Lease's whole duration from then on, and its write names the version that it saw,
 * so it fails if there was a newer one. The duration is longer than the deadline by more than clocks drift apart.
 */
import type { LeaseRecord } from './lease-api.ts';

export interface ElectionOptions {
  /** Another one for every process that runs at the same time. */
  identity: string;
  leaseDurationMs: number;
  /** Below leaseDurationMs. */
  renewDeadlineMs: number;
  /** Between two writes of the leader, and after a request that failed; below renewDeadlineMs. */
  retryPeriodMs: number;
}

export type ElectionStep =
  | { do: 'read' }
  /** `over`: what the Lease holds now; undefined: there is none, create it. */
  | { do: 'write'; over: LeaseRecord | undefined; transitions: number; acquireTime: string | undefined }
  | { do: 'wait'; untilMs: number };

export class ElectionState {
  readonly #options: ElectionOptions;
  /** As it was seen last; undefined: there is none. */
  #record: LeaseRecord | undefined;
  /** From when on a record of another holder counts for nothing. */
  #expiresMs = Number.NEGATIVE_INFINITY;
  /** False before the first read and after a failed write. */
  #isKnown = false;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  /** When the last good write was sent; undefined while following. */
  #renewedMs: number | undefined;

  constructor(options: ElectionOptions) {
    this.#options = options;
  }

  /** Who holds the Lease, as it was seen last. */
  get leader(): string | undefined {
    return this.#record?.holder || undefined;
  }

  leads(nowMs: number): boolean {
    return nowMs < this.leadsUntilMs;
  }

  /** When leading ends unless a write succeeds before; in the past while following. */
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

  /** The server's answer to a read; undefined: there is no such Lease. */
  read(record: LeaseRecord | undefined, nowMs: number): void {
    this.#observe(record, nowMs);
    this.#isKnown = true;
    const isGone = record === undefined;
    if (!isGone && record.holder !== this.#options.identity) this.#renewedMs = undefined;
  }

  /** What a watch brought, perhaps late. A leader and a write on its way learn more from the server's answers. */
  heard(record: LeaseRecord | undefined, nowMs: number): void {
    if (this.#isKnown && !this.leads(nowMs)) this.#observe(record, nowMs);
  }

  /** The server took the write that was sent at `sentMs`. */
  written(record: LeaseRecord, sentMs: number, nowMs: number): void {
    this.#observe(record, nowMs);
    this.#isKnown = true;
    this.#notBeforeMs = Number.NEGATIVE_INFINITY;
    this.#renewedMs = sentMs;
  }

  /** The write named a version that is no longer the server's: read at once. */
  conflicted(): void {
    this.#isKnown = false;
  }

  /** A read or a write failed, and may have succeeded all the same. */
  failed(sentMs: number): void {
    this.#isKnown = false;
    this.#notBeforeMs = sentMs + this.#options.retryPeriodMs;
  }

  /** Ends leading; returns what to release, if there is something. */
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

  /** Nobody holds it, or this candidate does: a write of its own whose answer was lost. */
  #isFree(): boolean {
    return this.#record !== undefined && ['', this.#options.identity].includes(this.#record.holder);
  }

  /** A Lease that somebody deleted was held all the same: its holder's time has to pass as if it were there. */
  #observe(record: LeaseRecord | undefined, nowMs: number): void {
    if (record !== undefined && record.resourceVersion !== this.#record?.resourceVersion) {
      this.#expiresMs = nowMs + (record.durationMs ?? this.#options.leaseDurationMs);
    }
    this.#record = record;
  }
}
