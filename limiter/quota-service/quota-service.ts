/** The quota service of one thread: its streams, the pools of the allocator that they share, and the bounds on all of them. */
import {
  type DuplexHandler,
  GrpcCode,
  type GrpcStatus,
  type MessageListener,
} from '../../process/grpc/handlers.ts';
import { FairQueue } from '../../process/queues/fair-queue.ts';
import type { Override } from '../../rules/override.ts';
import { tickMs } from '../allocate/allocator.ts';
import { type AssignmentQuery, type FoundAssignments, findAssignments } from './assignment-routes.ts';
import { BucketIds } from './bucket-ids.ts';
import type { QuotaRules } from './bucket-plans.ts';
import { type QuotaServiceOptions, QuotaStream, type StreamHost } from './quota-stream.ts';

/** Chosen: the time that a tick takes of a turn. An answer on a new connection waits for several turns. */
const turnMs = 0.5;
/** Chosen: a report of 100 bytes from each of as many buckets as one thread has. */
const maxWaitingBytes = 20_000_000;
/** Chosen: orders wait at most this long for further ones, because a response costs more than an order in it. Less than a tick. */
const heldMs = 200;

const status = {
  noRules: { code: GrpcCode.UNAVAILABLE, message: 'no rate limit configuration loaded' },
  stopping: { code: GrpcCode.UNAVAILABLE, message: 'this limiter is shutting down' },
  tooFast: {
    code: GrpcCode.RESOURCE_EXHAUSTED,
    message: 'reports arrive faster than this limiter can process them',
  },
  tooManyStreams: { code: GrpcCode.RESOURCE_EXHAUSTED, message: 'too many streams (RLQS_MAX_STREAMS)' },
  silent: { code: GrpcCode.DEADLINE_EXCEEDED, message: 'no report arrived in time (RLQS_SILENCE)' },
} satisfies Record<string, GrpcStatus>;

const deaf: MessageListener = { onMessage: () => {}, onEnd: () => {} };

export class QuotaService implements StreamHost {
  readonly options: QuotaServiceOptions;
  readonly ids: BucketIds;
  readonly #streams = new FairQueue<QuotaStream>();
  #epoch = 0;
  /** The bytes of messages that wait in all streams. */
  #waitingBytes = 0;
  #isTicking = false;
  /** Streams whose orders wait for further ones, and the time at which the first of them began to wait. */
  #held: QuotaStream[] = [];
  #heldMs = 0;
  #lookedMs: number;
  #isStopping = false;

  constructor(options: QuotaServiceOptions) {
    this.options = options;
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
    const rejection = this.#isStopping
      ? status.stopping
      : this.options.plans.hasRules
        ? undefined
        : status.noRules;
    if (rejection !== undefined) {
      this.options.stats.rejectedStream('unavailable');
      call.end(rejection);
      return deaf;
    }
    const stream = new QuotaStream(call, this);
    if (this.#streams.size >= this.options.bounds.streams) {
      const other = this.#streamToEnd(stream.group);
      if (other !== undefined) this.#streams.remove(other);
      (other ?? stream).reject('streams', status.tooManyStreams);
      if (other === undefined) return deaf;
    }
    this.#streams.add(stream);
    call.onClose(() => {
      this.#streams.remove(stream);
      stream.close();
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
    const { plans, clock, turns, silenceMs } = this.options;
    const nowMs = clock.nowMs();
    if (plans.overridesEnded(this.#lookedMs, nowMs)) this.#planAnew();
    this.#lookedMs = nowMs;
    if (!this.#isTicking) this.#tickInTurns();
    // Otherwise their messages may wait unread.
    if (turns.hasWaiting) return;
    for (const stream of this.#streams)
      if (stream.isSilent(silenceMs / tickMs)) stream.reject('silence', status.silent);
  }

  readonly #tickInTurns = (): void => {
    const { allocator, clock } = this.options;
    const endMs = clock.monotonicMs() + turnMs;
    const hasTime = (): boolean => clock.monotonicMs() < endMs;
    this.#isTicking = true;
    this.#isTicking = !allocator.tick(hasTime);
    if (this.#isTicking) setImmediate(this.#tickInTurns);
    this.#flush();
  };

  /** Sends the orders, unless a tick or the store may add some soon. */
  readonly #flush = (): void => {
    const { allocator, clock } = this.options;
    const isMoreComing = this.#isTicking || allocator.isAsking;
    if (isMoreComing && clock.monotonicMs() - this.#heldMs < heldMs) return;
    for (const stream of this.#held.splice(0)) stream.flush();
  };

  wait(bytes: number): void {
    this.#waitingBytes += bytes;
    if (this.#waitingBytes <= maxWaitingBytes || bytes <= 0) return;
    const most = [...this.#streams].reduce((max, one) => (one.waitingBytes > max.waitingBytes ? one : max));
    most.reject('reports', status.tooFast);
  }

  flushSoon(stream: QuotaStream): void {
    if (this.#held.length === 0) this.#heldMs = this.options.clock.monotonicMs();
    this.#held.push(stream);
    queueMicrotask(this.#flush);
  }

  /** Renews every assignment, then ends all streams. Accepts no further ones. */
  async drain(): Promise<void> {
    this.#isStopping = true;
    for (const stream of this.#streams) stream.renewBlanket();
    await this.options.allocator.drain();
    this.endAll();
  }

  /** Returns the assignments that operators ask for. */
  assignments({ domain, entries, max }: AssignmentQuery): FoundAssignments {
    const rows = [...this.#streams].flatMap((stream) => [...stream.assignments(domain)]);
    return findAssignments(rows, entries, max);
  }

  /** Ends the remaining streams. */
  endAll(): void {
    for (const stream of [...this.#streams]) stream.endWell();
  }

  /** Returns the newest stream of the address that has most; undefined if this address would have as many with one more. */
  #streamToEnd(group: string): QuotaStream | undefined {
    let own = 0;
    let max: ReadonlySet<QuotaStream> = new Set();
    for (const [name, streams] of this.#streams.groups()) {
      if (name === group) own = streams.size;
      if (streams.size > max.size) max = streams;
    }
    return own + 1 < max.size ? [...max].at(-1) : undefined;
  }

  #planAnew(): void {
    this.#epoch += 1;
    for (const stream of [...this.#streams]) stream.planAnew();
  }
}
