/**
 * One call of `StreamRateLimitQuotas`: the buckets that a client reports, with a share of the allocator for each that a rule limits.
 * Its orders go out together: those of one message of reports, or of one tick.
 *
 *     message ──► waits for its turns ──► reports, one after the other
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
import type { Clock } from '../../process/time/clock.ts';
import type { Entry } from '../../rules/model.ts';
import type { Allocating, Holder, Share } from '../allocate/terms.ts';
import type { ShareOwner } from './assignments.ts';
import type { AssignedTreatment, BucketPlans, Treatment } from './bucket-plans.ts';
import type { QuotaClient } from './client-weights.ts';
import {
  type BucketReport,
  entriesOf,
  longestIdBytes,
  type QuotaOrder,
  ResponseWriter,
  UsageReports,
} from './quota-messages.ts';
import type { QuotaStats } from './quota-stats.ts';
import type { ReportTaker, ReportTurns } from './report-turns.ts';

export interface QuotaBounds {
  /** Buckets of one stream, of one caller and in all. */
  readonly ofStream: number;
  readonly ofCaller: number;
  readonly inAll: number;
  readonly streams: number;
}

export interface QuotaServiceOptions {
  readonly plans: BucketPlans;
  readonly allocator: Allocating;
  readonly clock: Clock;
  readonly stats: QuotaStats;
  readonly bounds: QuotaBounds;
  /** Of assignments that the allocator does not make. */
  readonly ttlSeconds: number;
  /** Reports without requests after which a bucket is abandoned. */
  readonly idleReports: number;
  /** A stream with buckets, or one that said nothing yet, is ended after so long without a message. */
  readonly silenceMs: number;
  weightOf(client: QuotaClient, entries: readonly Entry[]): number;
  /** Counts hits of a rule in shadow mode, as requests for the descriptor. */
  count(domain: string, entries: readonly Entry[], hits: number): void;
}

/** What streams have in common. */
export interface StreamHost {
  readonly options: QuotaServiceOptions;
  readonly turns: ReportTurns;
  /** Of the rules and overrides in force. */
  readonly epoch: number;
  /** Takes room for one more bucket of a stream with so many; if there is none, says whose bound is reached. */
  takeRoom(caller: string | undefined, ofStream: number): 'stream' | 'caller' | 'all' | undefined;
  giveRoom(caller: string | undefined, buckets: number): void;
  openShare(treatment: AssignedTreatment, holder: Holder, nowMs: number): Share;
  keepShare(treatment: AssignedTreatment, nowMs: number): void;
  closeShare(share: Share, treatment: AssignedTreatment): void;
}

interface Bucket {
  readonly id: Uint8Array;
  /** The id, a character a byte. */
  readonly text: string;
  readonly key: string;
  readonly entries: readonly Entry[];
  treatment: Treatment;
  /** Of those that are assigned. */
  share: Share | undefined;
  /** Of the rules and overrides that its treatment is by. */
  epoch: number;
  idleReports: number;
}

const status = {
  noDomain: { code: GrpcCode.INVALID_ARGUMENT, message: 'the first message must name a domain' },
  otherDomain: { code: GrpcCode.INVALID_ARGUMENT, message: 'a stream is for one domain: open another one' },
  tooFast: {
    code: GrpcCode.RESOURCE_EXHAUSTED,
    message: 'reports come faster than this limiter takes them in',
  },
} satisfies Record<string, GrpcStatus>;

/** Whose share it is, for the allocator and for lists. */
export class BucketHolder implements Holder {
  readonly owner: ShareOwner;
  readonly weight: number;
  readonly push: Holder['push'];

  constructor(owner: ShareOwner, weight: number, push: Holder['push']) {
    this.owner = owner;
    this.weight = weight;
    this.push = push;
  }
}

export class QuotaStream implements MessageListener, ReportTaker {
  readonly group: string;
  readonly #call: DuplexStream;
  readonly #service: StreamHost;
  readonly #client: QuotaClient;
  readonly #buckets = new Map<string, Bucket>();
  /** The same by their ids as they came first. */
  readonly #byText = new Map<string, Bucket>();
  readonly #writer = new ResponseWriter();
  #domain = '';
  #heardMs: number;
  /** The oldest first, each with the time when it came. */
  readonly #waiting: (readonly [reports: UsageReports, cameMs: number])[] = [];
  waitingBytes = 0;
  #isEnding = false;
  #isFlushing = false;
  /** Shares whose assignments go out next. */
  #assigned: Share[] = [];
  #isProbing = false;

  constructor(call: DuplexStream, service: StreamHost) {
    this.#call = call;
    this.#service = service;
    this.#client = {
      caller: call.caller?.name,
      address: call.origin?.peer ?? 'unknown',
      fields: call.fields ?? [],
    };
    this.group = addressGroup(this.#client.address);
    this.#heardMs = service.options.clock.monotonicMs();
  }

  onMessage(message: Uint8Array): void {
    const { bounds, clock, stats } = this.#service.options;
    this.#heardMs = clock.monotonicMs();
    const reports = this.#read(() => new UsageReports(new Uint8Array(message), bounds.ofStream));
    if (reports === undefined || !this.#isForDomain(reports.domain)) return;
    if (reports.leftOut > 0) stats.deniedBuckets('message', this.#client, reports.leftOut);
    this.#waiting.push([reports, clock.nowMs()]);
    this.waitingBytes += reports.byteLength;
    this.#service.turns.wait(this, reports.byteLength);
  }

  onEnd(): void {
    this.#isEnding = true;
    if (this.waitingBytes === 0) this.endWell();
  }

  takeReports(most: number, endMs: number): number {
    const { clock, stats } = this.#service.options;
    const nowMs = clock.nowMs();
    this.#flushSoon();
    let taken = 0;
    for (let [first] = this.#waiting; first !== undefined && taken < most; [first] = this.#waiting) {
      if (taken > 0 && clock.monotonicMs() >= endMs) break;
      const [reports, cameMs] = first;
      const report = this.#read(() => reports.next());
      if (report !== undefined) {
        this.#report(report, nowMs, cameMs);
        taken += 1;
      } else if (this.#waiting.shift() !== undefined) this.waitingBytes -= reports.byteLength;
    }
    stats.reports(taken);
    if (this.#isEnding && this.waitingBytes === 0) this.endWell();
    return taken;
  }

  shed(): void {
    this.refuse('reports', status.tooFast);
  }

  /** Undefined, and the stream ended, where the bytes are no reports. */
  #read<Value>(read: () => Value): Value | undefined {
    try {
      return read();
    } catch (error) {
      this.refuse('message', {
        code: GrpcCode.INVALID_ARGUMENT,
        message: `cannot read the reports: ${(error as Error).message}`,
      });
      return undefined;
    }
  }

  /** Whether nothing came since then, of what should. */
  isSilentSince(sinceMs: number): boolean {
    return this.#heardMs < sinceMs && (this.#buckets.size > 0 || this.#domain === '');
  }

  refuse(reason: Parameters<QuotaStats['refusedStream']>[0], refusal: GrpcStatus): void {
    this.#service.options.stats.refusedStream(reason);
    this.#call.end(refusal);
  }

  /** What it holds stays charged. */
  close(): void {
    for (const bucket of this.#buckets.values()) this.#closeShare(bucket);
    this.#service.giveRoom(this.#client.caller, this.#buckets.size);
    this.#buckets.clear();
    this.#byText.clear();
    this.#service.turns.leave(this);
    this.#waiting.length = 0;
    this.waitingBytes = 0;
  }

  endWell(): void {
    this.#flush();
    this.#call.end();
  }

  renewBlanket(): void {
    this.#flushSoon();
    for (const bucket of this.#buckets.values()) this.#answerBlanket(bucket);
  }

  /** By the rules and overrides of now. Gives how many there are. */
  planAnew(nowMs: number): number {
    this.#flushSoon();
    for (const bucket of this.#buckets.values()) {
      if (bucket.epoch !== this.#service.epoch) this.#planBucket(bucket, nowMs);
    }
    return this.#buckets.size;
  }

  /** Its first message says which, and whether the caller may ask for it. */
  #isForDomain(domain: string): boolean {
    if (this.#domain !== '') {
      if (domain === '' || domain === this.#domain) return true;
      this.refuse('domain', status.otherDomain);
      return false;
    }
    const refusal = domain === '' ? status.noDomain : this.#call.caller?.refusal(domain, Right.ASK);
    if (refusal !== undefined) {
      this.refuse('domain', refusal);
      return false;
    }
    this.#domain = domain;
    return true;
  }

  #report(report: BucketReport, nowMs: number, cameMs: number): void {
    const { stats, idleReports } = this.#service.options;
    const bucket = this.#bucketOf(report, nowMs);
    if (bucket === undefined) return;
    const allowed = Math.min(report.allowed, mostHits);
    const denied = Math.min(report.denied, mostHits);
    if (bucket.epoch !== this.#service.epoch) this.#planBucket(bucket, nowMs);
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
    const beyond = share.report({ allowed, denied }, nowMs, cameMs);
    if (beyond > 0) stats.overReported(this.#client, treatment.rule.path, beyond);
    stats.used(treatment.limits, allowed - beyond, denied);
    stats.settle(this.#service.options.allocator, treatment.pool, treatment.rule.path);
  }

  /** Undefined where there is no room: then it is denied, and the client forgets it when it is idle. */
  #bucketOf({ id, allowed, denied }: BucketReport, nowMs: number): Bucket | undefined {
    // A client writes an id in the same way each time, as a rule.
    const text = latin1Slice.call(id);
    const known = this.#byText.get(text);
    if (known !== undefined) return known;
    const { stats, ttlSeconds } = this.#service.options;
    const isLong = id.length > longestIdBytes;
    const entries = isLong ? [] : this.#read(() => entriesOf(id));
    if (entries === undefined) return undefined;
    const key = keyOf(entries);
    const same = this.#buckets.get(key);
    if (same !== undefined && !isLong) return same;
    const full = isLong ? 'id_bytes' : this.#service.takeRoom(this.#client.caller, this.#buckets.size);
    if (full !== undefined) {
      stats.deniedBuckets(full, this.#client, 1);
      const isIdle = allowed === 0 && denied === 0;
      this.#writer.add(id, isIdle ? { kind: 'abandon' } : { kind: 'deny', ttlSeconds });
      return undefined;
    }
    const treatment = this.#treatmentOf(entries);
    const bucket: Bucket = {
      id: new Uint8Array(id),
      text,
      key,
      entries,
      treatment,
      share: undefined,
      epoch: this.#service.epoch,
      idleReports: 0,
    };
    this.#buckets.set(key, bucket);
    this.#byText.set(text, bucket);
    this.#begin(bucket, nowMs);
    return bucket;
  }

  #treatmentOf(entries: readonly Entry[]): Treatment {
    const { plans, stats } = this.#service.options;
    const treatment = plans.treatmentOf(this.#domain, entries);
    if (treatment.kind !== 'assigned' && treatment.obstacle !== undefined)
      stats.unassignable(treatment.rule?.path ?? this.#domain, treatment.obstacle, treatment.kind);
    return treatment;
  }

  #begin(bucket: Bucket, nowMs: number): void {
    const { treatment, entries } = bucket;
    if (treatment.kind !== 'assigned') return;
    const { caller, address } = this.#client;
    const owner = { domain: this.#domain, bucket: entries, caller, address, rule: treatment.rule.path };
    const weight = this.#service.options.weightOf(this.#client, entries);
    const holder = new BucketHolder(owner, weight, (assignment) =>
      this.#order(bucket, { kind: 'assign', assignment }),
    );
    bucket.share = this.#service.openShare(treatment, holder, nowMs);
  }

  #planBucket(bucket: Bucket, nowMs: number): void {
    const before = bucket.treatment;
    const treatment = this.#treatmentOf(bucket.entries);
    bucket.epoch = this.#service.epoch;
    if (before.kind === 'assigned' && treatment.kind === 'assigned' && before.pool === treatment.pool) {
      bucket.treatment = treatment;
      this.#service.keepShare(treatment, nowMs);
      return;
    }
    this.#closeShare(bucket);
    bucket.treatment = treatment;
    this.#begin(bucket, nowMs);
    // What it had ends now, and not when it reports the next time.
    bucket.share?.report({ allowed: 0, denied: 0 }, nowMs);
    this.#answerBlanket(bucket);
  }

  #closeShare(bucket: Bucket): void {
    const { share, treatment } = bucket;
    if (share === undefined || treatment.kind !== 'assigned') return;
    bucket.share = undefined;
    this.#service.closeShare(share, treatment);
  }

  #abandon(bucket: Bucket): void {
    this.#closeShare(bucket);
    this.#order(bucket, { kind: 'abandon' });
    this.#buckets.delete(bucket.key);
    this.#byText.delete(bucket.text);
    this.#service.giveRoom(this.#client.caller, 1);
    this.#service.options.stats.abandoned();
  }

  #countBlanket({ treatment }: Bucket, allowed: number, denied: number): void {
    if (treatment.kind === 'assigned') return;
    const { stats, count } = this.#service.options;
    const { counted, limits } = treatment;
    if (counted !== undefined && allowed > 0) count(this.#domain, counted.entries, allowed);
    stats.used(limits, allowed, denied);
  }

  #answerBlanket(bucket: Bucket): void {
    const { treatment } = bucket;
    if (treatment.kind === 'assigned') return;
    this.#order(bucket, { kind: treatment.kind, ttlSeconds: this.#service.options.ttlSeconds });
  }

  #order({ id, share }: Bucket, order: QuotaOrder): void {
    this.#flushSoon();
    if (order.kind === 'assign' && share !== undefined) this.#assigned.push(share);
    this.#writer.add(id, order);
  }

  /** With all that this turn of the event loop has to say. */
  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    queueMicrotask(() => this.#flush());
  }

  #flush(): void {
    this.#isFlushing = false;
    if (this.#writer.isEmpty) return;
    this.#call.send(this.#writer.finish());
    const shares = this.#assigned;
    this.#assigned = [];
    // One at a time, whatever a peer leaves without an answer.
    if (this.#isProbing || shares.length === 0) return;
    const sentMs = this.#service.options.clock.nowMs();
    this.#isProbing = this.#call.whenArrived(() => {
      this.#isProbing = false;
      // What waits was reported before.
      if (this.waitingBytes === 0) for (const share of shares) share.arrived(sentMs);
    });
  }
}

const latin1Slice = Buffer.prototype.latin1Slice;

/** Chosen: what one report counts at most, so that nothing that a client says is no number. */
const mostHits = 0xffff_ffff;

/** Of entries by their keys: the same for the same bucket id alone. */
function keyOf(entries: readonly Entry[]): string {
  let key = '';
  for (const { key: name, value } of entries) key += `${name.length}:${name}${value.length}:${value}`;
  return key;
}
