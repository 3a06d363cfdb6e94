/** The quota service of one thread: its streams, the pools of the allocator that they share, and the bounds on all of them. */
import {
  type DuplexHandler,
  GrpcCode,
  type GrpcStatus,
  type MessageListener,
} from '../../process/grpc/handlers.ts';
import { WaitingLine } from '../../process/time/loop-turns.ts';
import type { Override } from '../../rules/override.ts';
import type { Holder, Share, ShareView } from '../allocate/terms.ts';
import {
  type AssignmentQuestion,
  type FoundAssignments,
  findAssignments,
  type ShareOwner,
} from './assignments.ts';
import { BucketIds } from './bucket-ids.ts';
import { type AssignedTreatment, type QuotaRules, sameLimits } from './bucket-plans.ts';
import { type QuotaServiceOptions, QuotaStream, StreamBucket, type StreamHost } from './quota-stream.ts';
import { ReportTurns } from './report-turns.ts';

/** A pool of the allocator. */
interface Pool {
  treatment: AssignedTreatment;
  shares: number;
}

/** Chosen: the number of buckets that one turn of the event loop plans again, or does due work for. */
const bucketsOfTurn = 100;

const status = {
  noRules: { code: GrpcCode.UNAVAILABLE, message: 'no rate limit configuration loaded' },
  stopping: { code: GrpcCode.UNAVAILABLE, message: 'this limiter is shutting down' },
  tooManyStreams: { code: GrpcCode.RESOURCE_EXHAUSTED, message: 'too many streams (RLQS_MAX_STREAMS)' },
  silent: { code: GrpcCode.DEADLINE_EXCEEDED, message: 'no report came in time (RLQS_SILENCE)' },
} satisfies Record<string, GrpcStatus>;

const deaf: MessageListener = { onMessage: () => {}, onEnd: () => {} };

export class QuotaService implements StreamHost {
  readonly options: QuotaServiceOptions;
  readonly turns: ReportTurns;
  readonly ids: BucketIds;
  readonly #streams = new WaitingLine<QuotaStream>();
  readonly #pools = new Map<string, Pool>();
  #epoch = 0;
  /** Streams whose buckets must still be planned again. */
  #unplanned: QuotaStream[] = [];
  #isTicking = false;
  /** Streams that have ended, and may still have buckets. */
  readonly #closed: QuotaStream[] = [];
  #isForgetting = false;
  /** Pools whose last share was closed, and that the allocator may still have. */
  readonly #ended = new Set<string>();
  #lookedMs: number;
  #isStopping = false;

  constructor(options: QuotaServiceOptions) {
    this.options = options;
    this.turns = new ReportTurns(options.clock);
    this.ids = new BucketIds(options.bounds);
    this.#lookedMs = options.clock.nowMs();
  }

  get streams(): number {
    return this.#streams.size;
  }

  get epoch(): number {
    return this.#epoch;
  }

  readonly handler: DuplexHandler = (call) => {
    const refusal = this.#isStopping
      ? status.stopping
      : this.options.plans.hasRules
        ? undefined
        : status.noRules;
    if (refusal !== undefined) {
      this.options.stats.refusedStream('unavailable');
      call.end(refusal);
      return deaf;
    }
    const stream = new QuotaStream(call, this);
    if (this.#streams.size >= this.options.bounds.streams) {
      const other = this.#streamToEnd(stream.group);
      if (other !== undefined) this.#streams.remove(other);
      (other ?? stream).refuse('streams', status.tooManyStreams);
      if (other === undefined) return deaf;
    }
    this.#streams.add(stream);
    call.onClose(() => {
      stream.close();
      this.#streams.remove(stream);
      this.#closed.push(stream);
      if (!this.#isForgetting) this.#forgetInTurns();
    });
    return stream;
  };

  useRules(rules: QuotaRules): void {
    this.options.plans.useRules(rules);
    this.#planAnew();
  }

  useOverrides(overrides: readonly Override[]): void {
    this.options.plans.useOverrides(overrides);
    this.#planAnew();
  }

  /** Passes on that counters were reset. */
  forget(keys: readonly string[]): void {
    this.options.allocator.reset(keys);
  }

  /** Does the work of a tick. Called every `tickMs` of the allocator. */
  tick(): void {
    const { plans, clock, silenceMs } = this.options;
    const nowMs = clock.nowMs();
    if (plans.overridesEnded(this.#lookedMs, nowMs)) this.#planAnew();
    this.#lookedMs = nowMs;
    if (!this.#isTicking) this.#tickInTurns();
    const silentSinceMs = clock.monotonicMs() - silenceMs;
    for (const stream of this.#streams)
      if (stream.isSilentSince(silentSinceMs)) stream.refuse('silence', status.silent);
  }

  readonly #tickInTurns = (): void => {
    const { allocator, clock, stats } = this.options;
    const nowMs = clock.nowMs();
    let left = bucketsOfTurn;
    while (left > 0 && this.#unplanned.length > 0) left -= this.#unplanned.pop()!.planAnew(nowMs);
    this.#isTicking = left <= 0 || !allocator.tick(nowMs, left);
    if (this.#isTicking) {
      setImmediate(this.#tickInTurns);
      return;
    }
    for (const pool of this.#ended) {
      if (allocator.totals(pool) !== undefined) continue;
      this.#ended.delete(pool);
      stats.forget(pool);
    }
  };

  /** Forgets the buckets of closed streams in turns: a connection may end with a hundred streams, and each has thousands of buckets. */
  readonly #forgetInTurns = (): void => {
    let left = bucketsOfTurn;
    for (let stream = this.#closed.at(-1); stream !== undefined && left > 0; stream = this.#closed.at(-1)) {
      const forgotten = stream.forgetBuckets(left);
      if (forgotten < left) this.#closed.pop();
      left -= forgotten;
    }
    this.#isForgetting = this.#closed.length > 0;
    if (this.#isForgetting) setImmediate(this.#forgetInTurns);
  };

  /** Renews every assignment, then ends all streams. Accepts no further ones. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    const nowMs = this.options.clock.nowMs();
    for (const stream of this.#streams) stream.renewBlanket();
    await this.options.allocator.drain(nowMs);
    this.endAll();
  }

  /** Returns the assignments that operators ask for. */
  assignments(question: AssignmentQuestion): FoundAssignments {
    const ownerOf = ({ holder }: ShareView): ShareOwner | undefined =>
      holder instanceof StreamBucket ? holder.owner : undefined;
    return findAssignments(this.options.allocator, ownerOf, question);
  }

  /** Ends the remaining streams. */
  endAll(): void {
    for (const stream of [...this.#streams]) stream.endWell();
  }

  /** Opens a share. The pool uses the limits of the bucket that was planned last. */
  openShare(treatment: AssignedTreatment, holder: Holder, nowMs: number): Share {
    const { plans, allocator } = this.options;
    const terms = plans.termsOf(treatment);
    const pool = this.#pools.get(treatment.pool);
    if (pool !== undefined) {
      pool.shares += 1;
      this.#change(pool, treatment, nowMs);
    } else {
      this.#pools.set(treatment.pool, { treatment, shares: 1 });
      // The allocator still has the pool, under its earlier terms.
      if (this.#ended.delete(treatment.pool)) allocator.change(treatment.pool, terms, nowMs);
    }
    return allocator.open(treatment.pool, terms, holder, nowMs);
  }

  /** Updates the pool of a share whose bucket was planned again and stays in the same pool. */
  keepShare(treatment: AssignedTreatment, nowMs: number): void {
    this.#change(this.#pools.get(treatment.pool)!, treatment, nowMs);
  }

  closeShare(share: Share, { pool }: AssignedTreatment): void {
    share.close();
    const kept = this.#pools.get(pool)!;
    kept.shares -= 1;
    this.options.stats.settle(this.options.allocator, pool, kept.treatment.rule.path);
    if (kept.shares > 0) return;
    this.#pools.delete(pool);
    this.#ended.add(pool);
  }

  #change(pool: Pool, treatment: AssignedTreatment, nowMs: number): void {
    if (pool.treatment === treatment || sameLimits(pool.treatment, treatment)) return;
    pool.treatment = treatment;
    this.options.allocator.change(treatment.pool, this.options.plans.termsOf(treatment), nowMs);
  }

  /** Returns the newest stream of the address that has most; undefined if this address would have as many with one more. */
  #streamToEnd(group: string): QuotaStream | undefined {
    let own = 0;
    let most: ReadonlySet<QuotaStream> = new Set();
    for (const [name, streams] of this.#streams.groups()) {
      if (name === group) own = streams.size;
      if (streams.size > most.size) most = streams;
    }
    return own + 1 < most.size ? [...most].at(-1) : undefined;
  }

  #planAnew(): void {
    this.#epoch += 1;
    this.#unplanned = [...this.#streams];
  }
}
