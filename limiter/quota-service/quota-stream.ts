/**
 * One call of `StreamRateLimitQuotas`: the buckets that a client reports, with a share of the allocator for each that a rule limits.
 * Its orders go out together: those of one message of reports, or of one tick.
 *
 *     message ──► waits for its turns ──► reports, one after the other
 *     rules, overrides, the end ──► the same turns ──► buckets, one after the other
 *
 *     first report ──► planned ──► blanket: answered with each report
 *                         ▲  └───► assigned: the allocator pushes grants, at any time
 *     rules, overrides ───┘        idle for RLQS_IDLE_REPORTS: abandoned, and forgotten
 */
import {
  type DuplexStream,
  GrpcCode,
  type GrpcStatus,
  type MessageListener,
  Right,
} from '../../process/grpc/handlers.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { LoopTurns, TurnTaker } from '../../process/queues/loop-turns.ts';
import type { Clock } from '../../process/time/clock.ts';
import type { Entry } from '../../rules/model.ts';
import type { Allocator } from '../allocate/allocator.ts';
import type { GrantedBucket, HitKind, Holder, Share } from '../allocate/terms.ts';
import { anonymousCaller } from '../callers/callers-file.ts';
import type { AssignmentRow } from './assignment-routes.ts';
import { type BucketBounds, BucketId, type BucketIds } from './bucket-ids.ts';
import type { BucketPlan, BucketPlans } from './bucket-plans.ts';
import type { QuotaClient } from './client-weights.ts';
import {
  type BucketReport,
  entriesOf,
  longestAnsweredBytes,
  longestIdBytes,
  type QuotaOrder,
  responseOf,
  textOf,
  UsageReports,
} from './quota-messages.ts';
import type { QuotaStats } from './quota-stats.ts';

export interface QuotaBounds extends BucketBounds {
  readonly streams: number;
}

export interface QuotaServiceOptions {
  readonly plans: BucketPlans;
  readonly allocator: Pick<Allocator, 'open' | 'change' | 'reset' | 'tick' | 'drain' | 'isAsking'>;
  readonly clock: Clock;
  /** Streams take turns with the connections of callers. */
  readonly turns: Pick<LoopTurns, 'isSpent' | 'wait' | 'hasWaiting'>;
  readonly stats: QuotaStats;
  readonly bounds: QuotaBounds;
  /** The TTL of blanket answers, and the one of the allocator. */
  readonly ttlSeconds: number;
  /** Reports without requests after which a bucket is abandoned. */
  readonly idleReports: number;
  /** A stream with buckets, or one that has sent nothing yet, is ended after this time without a message. */
  readonly silenceMs: number;
  weightOf(client: QuotaClient, entries: readonly Entry[]): number;
  /** Counts hits of a rule in shadow mode, as requests for the descriptor. */
  count(domain: string, entries: readonly Entry[], hits: number): void;
}

/** The parts that streams share. */
export interface StreamHost {
  readonly options: QuotaServiceOptions;
  /** The epoch of the rules and overrides in force. */
  readonly epoch: number;
  readonly ids: BucketIds;
  /** Counts bytes of a stream's messages that wait, or no longer do. There may be too many of them. */
  wait(bytes: number): void;
  /** Flushes a stream after the current work. The orders of one tick go out together, although it takes several turns. */
  flushSoon(stream: QuotaStream): void;
}

const status = {
  noDomain: { code: GrpcCode.INVALID_ARGUMENT, message: 'the first message must name a domain' },
  otherDomain: { code: GrpcCode.INVALID_ARGUMENT, message: 'a stream has only one domain: open another one' },
} satisfies Record<string, GrpcStatus>;

/** Chosen: a turn may have this many steps, so that few messages are spread over two turns, */
const stepsOfTurn = 128;
/** but takes no longer than this: an answer on a new connection waits for several turns. */
const turnMs = 2;

/** A stream's bucket: the holder of its share. There are many of them, so each field counts. */
export class StreamBucket implements Holder {
  readonly id: BucketId;
  readonly weight: number;
  treatment: BucketPlan;
  /** The share, if the bucket is assigned. */
  share: Share | undefined = undefined;
  idleReports = 0;
  readonly #stream: QuotaStream;

  constructor(stream: QuotaStream, id: BucketId, treatment: BucketPlan, weight: number) {
    this.#stream = stream;
    this.id = id;
    this.treatment = treatment;
    this.weight = weight;
  }

  push(bucket: GrantedBucket): void {
    this.#stream.assign(this, bucket);
  }

  count(kind: HitKind, hits: number): void {
    this.#stream.count(this, kind, hits);
  }
}

export class QuotaStream implements MessageListener, TurnTaker {
  readonly group: string;
  readonly client: QuotaClient;
  readonly #call: DuplexStream;
  readonly #service: StreamHost;
  /** The caller or address whose bounds apply to its buckets. */
  readonly #bounded: string;
  /** The buckets, by the text of their ids. */
  readonly #buckets = new Map<string, StreamBucket>();
  /** The orders of the next response. */
  #orders: QuotaOrder[] = [];
  #domain = '';
  /** Ticks since its last message, without those of a limiter that is behind: its messages may wait unread. */
  #silentTicks = 0;
  /** The messages that wait, the oldest first, each with the time at which it arrived, and what is to be done between them. */
  readonly #waiting: ((() => void) | readonly [reports: UsageReports, cameMs: number])[] = [];
  waitingBytes = 0;
  /** The buckets that are to be planned again before the next report or, once the stream is closed, to be forgotten. */
  #unfinished: Iterator<StreamBucket, undefined> | undefined;
  #isEnding = false;
  #isClosed = false;
  /** Shares whose last assignments are not known to have arrived. */
  #unproven = new Set<Share>();
  #isProbing = false;

  constructor(call: DuplexStream, service: StreamHost) {
    this.#call = call;
    this.#service = service;
    this.client = {
      caller: call.caller?.name,
      address: call.origin?.peer ?? 'unknown',
      fields: call.fields ?? [],
    };
    const { caller, address } = this.client;
    this.group = addressGroup(address);
    this.#bounded =
      caller === undefined || caller === anonymousCaller ? `address ${this.group}` : `caller ${caller}`;
  }

  onMessage(message: Uint8Array): void {
    const { bounds, clock, stats, turns } = this.#service.options;
    this.#silentTicks = 0;
    const reports = this.#read(() => new UsageReports(new Uint8Array(message), bounds.ofStream));
    if (reports === undefined || !this.#isForDomain(reports.domain)) return;
    if (reports.leftOut > 0) stats.deniedBuckets('message', this.client, reports.leftOut);
    this.#waiting.push([reports, clock.monotonicMs()]);
    this.#wait(reports.byteLength);
    if (this.#waiting.length === 1) this.#work();
    else turns.wait(this, 'much');
  }

  onEnd(): void {
    this.#isEnding = true;
    if (this.waitingBytes === 0) this.endWell();
  }

  /** Takes a turn now, or waits for one. */
  #work(): void {
    const { turns } = this.#service.options;
    if (turns.isSpent()) turns.wait(this, 'much');
    else this.takeTurn();
  }

  /** Takes some steps. One message may have thousands of reports, a stream as many buckets, and callers of all methods wait meanwhile. */
  takeTurn(): void {
    const { clock, turns } = this.#service.options;
    const endMs = clock.monotonicMs() + turnMs;
    for (let steps = 1; this.#step(); steps += 1) {
      if (steps < stepsOfTurn && clock.monotonicMs() < endMs) continue;
      turns.wait(this, 'much');
      break;
    }
    if (this.#isEnding && !this.#isClosed && this.waitingBytes === 0) this.endWell();
  }

  /** Finishes a bucket, or takes in a report. Returns whether there was one. */
  #step(): boolean {
    const bucket = this.#unfinished?.next().value;
    if (bucket !== undefined) {
      if (this.#isClosed) this.#forget(bucket);
      else this.#planBucket(bucket);
      return true;
    }
    const [first] = this.#waiting;
    if (first === undefined) return false;
    if (typeof first === 'function') {
      first();
      this.#waiting.shift();
      return true;
    }
    const [reports, cameMs] = first;
    const report = this.#read(() => reports.next());
    if (report !== undefined) {
      this.#service.options.stats.reports();
      this.#report(report, cameMs);
    } else if (this.#waiting.shift() !== undefined) this.#wait(-reports.byteLength);
    return true;
  }

  #wait(bytes: number): void {
    this.waitingBytes += bytes;
    this.#service.wait(bytes);
  }

  /** Returns what was read. If the bytes are no reports, ends the stream and returns undefined. */
  #read<Value>(read: () => Value): Value | undefined {
    try {
      return read();
    } catch (error) {
      this.reject('message', {
        code: GrpcCode.INVALID_ARGUMENT,
        message: `cannot read the reports: ${(error as Error).message}`,
      });
      return undefined;
    }
  }

  /** Called at each of these ticks. Returns whether the stream has sent nothing for more than `max` of them although it should. */
  isSilent(max: number): boolean {
    this.#silentTicks += 1;
    return this.#silentTicks > max && (this.#buckets.size > 0 || this.#domain === '');
  }

  reject(reason: Parameters<QuotaStats['rejectedStream']>[0], rejection: GrpcStatus): void {
    this.#service.options.stats.rejectedStream(reason);
    this.#call.end(rejection);
  }

  /** Stops taking in reports, and forgets all buckets. What they hold stays charged. */
  close(): void {
    this.#isClosed = true;
    this.#waiting.length = 0;
    this.#wait(-this.waitingBytes);
    this.#unfinished = this.#buckets.values();
    this.#work();
  }

  endWell(): void {
    this.flush();
    this.#call.end();
  }

  renewBlanket(): void {
    for (const bucket of this.#buckets.values()) this.#answerBlanket(bucket);
  }

  /** Plans all buckets by the current rules and overrides. */
  planAnew(): void {
    this.#unfinished = this.#buckets.values();
    this.#work();
  }

  /** Whether a message belongs to the stream's domain, which the first message names, and the caller may ask for it. */
  #isForDomain(domain: string): boolean {
    if (this.#domain !== '') {
      if (domain === '' || domain === this.#domain) return true;
      this.reject('domain', status.otherDomain);
      return false;
    }
    const rejection = domain === '' ? status.noDomain : this.#call.caller?.rejection(domain, Right.ASK);
    if (rejection !== undefined) {
      this.reject('domain', rejection);
      return false;
    }
    this.#domain = domain;
    return true;
  }

  #report(report: BucketReport, cameMs: number): void {
    const { stats, idleReports } = this.#service.options;
    const bucket = this.#bucketOf(report);
    if (bucket === undefined) return;
    const { allowed, denied } = report;
    this.#planBucket(bucket);
    bucket.idleReports = allowed === 0 && denied === 0 ? bucket.idleReports + 1 : 0;
    if (bucket.idleReports >= idleReports) {
      this.#abandon(bucket);
      return;
    }
    const { treatment, share } = bucket;
    if (share === undefined || treatment.kind !== 'assigned') {
      this.#countBlanket(bucket, allowed, denied);
      this.#answerBlanket(bucket);
      return;
    }
    const beyond = share.report(report, cameMs);
    if (beyond > 0) stats.overReported(this.client, treatment.rule.path, beyond);
    stats.used(treatment.limits, allowed - beyond, denied);
  }

  /** Counts hits of a bucket's share. */
  count({ treatment }: StreamBucket, kind: HitKind, hits: number): void {
    this.#service.options.stats.hits(treatment.rule?.path ?? '', kind, hits);
  }

  /** Lists the shares of its buckets. */
  *assignments(domain: string): Iterable<AssignmentRow> {
    if (domain !== this.#domain) return;
    const { caller = null, address } = this.client;
    for (const { id, share, treatment } of this.#buckets.values()) {
      if (share === undefined) continue;
      const rule = treatment.rule?.path ?? '';
      yield { ...share.view(), ...{ rule, bucket: id.entries, caller, address } };
    }
  }

  /** Returns the bucket. Without room it returns undefined: the bucket is denied, and the client abandons it when it is idle. */
  #bucketOf({ id, allowed, denied }: BucketReport): StreamBucket | undefined {
    const known = this.#buckets.get(id);
    if (known !== undefined) return known;
    const { stats } = this.#service.options;
    const entries = id.length > longestAnsweredBytes ? [] : this.#read(() => entriesOf(id));
    if (entries === undefined) return undefined;
    // The id may have been written in another way: its entries in another order, or values that are not UTF-8.
    const text = textOf(entries);
    const own = this.#buckets.get(text);
    if (own !== undefined && id.length <= longestIdBytes) return own;
    const room = { caller: this.#bounded, domain: this.#domain, ofStream: this.#buckets.size };
    const taken = id.length > longestIdBytes ? 'id_bytes' : this.#service.ids.take(room, entries, text);
    if (taken instanceof BucketId) return this.#begin(taken);
    stats.deniedBuckets(taken, this.client, 1);
    const isIdle = allowed === 0 && denied === 0;
    if (id.length <= longestAnsweredBytes) this.#order(text, isIdle ? 'abandon' : 'deny');
    return undefined;
  }

  #begin(id: BucketId): StreamBucket {
    const { options } = this.#service;
    const weight = options.weightOf(this.client, id.entries);
    const bucket = new StreamBucket(this, id, this.#treatmentOf(id), weight);
    this.#buckets.set(id.text, bucket);
    this.#openShare(bucket);
    return bucket;
  }

  #treatmentOf(id: BucketId): BucketPlan {
    const { options, epoch } = this.#service;
    const treatment = id.treatment(options.plans, epoch);
    if (treatment.kind !== 'assigned' && treatment.obstacle !== undefined)
      options.stats.unassignable(treatment.rule?.path ?? this.#domain, treatment.obstacle, treatment.kind);
    return treatment;
  }

  #openShare(bucket: StreamBucket): void {
    const { treatment } = bucket;
    if (treatment.kind !== 'assigned') return;
    const { pool, terms } = treatment;
    bucket.share = this.#service.options.allocator.open(pool, terms, bucket);
  }

  /** Plans the bucket by the current rules and overrides. */
  #planBucket(bucket: StreamBucket): void {
    const before = bucket.treatment;
    if (bucket.id.isPlanned(before, this.#service.epoch)) return;
    const treatment = this.#treatmentOf(bucket.id);
    if (before.kind === 'assigned' && treatment.kind === 'assigned' && before.pool === treatment.pool) {
      bucket.treatment = treatment;
      this.#service.options.allocator.change(treatment.pool, treatment.terms);
      return;
    }
    closeShare(bucket);
    bucket.treatment = treatment;
    this.#openShare(bucket);
    // The current assignment ends now, and not with the next report.
    bucket.share?.report({ allowed: 0, denied: 0 });
    this.#answerBlanket(bucket);
  }

  #forget(bucket: StreamBucket): void {
    closeShare(bucket);
    this.#buckets.delete(bucket.id.text);
    this.#service.ids.leave(this.#bounded, bucket.id);
  }

  #abandon(bucket: StreamBucket): void {
    this.#forget(bucket);
    this.#order(bucket.id.text, 'abandon');
    this.#service.options.stats.abandoned();
  }

  #countBlanket({ treatment }: StreamBucket, allowed: number, denied: number): void {
    if (treatment.kind === 'assigned') return;
    const { stats, count } = this.#service.options;
    const { counted, limits } = treatment;
    if (counted !== undefined && allowed > 0) count(this.#domain, counted.entries, allowed);
    stats.used(limits, allowed, denied);
  }

  #answerBlanket({ id, treatment: { kind } }: StreamBucket): void {
    if (kind !== 'assigned') this.#order(id.text, kind);
  }

  /** Sends what a share may use. */
  assign({ id, share }: StreamBucket, bucket: GrantedBucket): void {
    if (share !== undefined) this.#unproven.add(share);
    this.#order(id.text, bucket);
  }

  /** Adds an order to the next response. */
  #order(id: string, strategy: QuotaOrder['strategy']): void {
    if (this.#orders.length === 0) this.#service.flushSoon(this);
    this.#orders.push({ id, strategy });
  }

  /** Sends the orders. */
  flush(): void {
    if (this.#orders.length === 0) return;
    this.#call.send(responseOf(this.#orders, this.#service.options.ttlSeconds));
    this.#orders = [];
    if (!this.#isProbing) this.#probe();
  }

  /** Asks the peer whether everything that was sent has arrived. Only one question at a time, in case the peer never answers. */
  #probe(): void {
    if (this.#unproven.size === 0) return;
    const shares = this.#unproven;
    const sentMs = this.#service.options.clock.monotonicMs();
    this.#isProbing = this.#call.whenArrived(() => {
      this.#isProbing = false;
      const reportArrival = (): void => {
        for (const share of shares) share.arrived(sentMs);
      };
      // Clients sent the waiting messages before.
      if (this.waitingBytes === 0) reportArrival();
      else this.#waiting.push(reportArrival);
      // Orders that wait would be sent after this question. The next one is then asked behind them.
      if (this.#orders.length === 0) this.#probe();
    });
    if (this.#isProbing) this.#unproven = new Set();
  }
}

function closeShare(bucket: StreamBucket): void {
  bucket.share?.close();
  bucket.share = undefined;
}
