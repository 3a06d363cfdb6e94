/**
 * All streams of limiters: which are admitted, which rules each of them gets, and the reports of all. It includes limiters that are
 * between two streams. It does not depend on gRPC.
 */
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { addressGroup } from '../../process/net/peer.ts';
import { FairQueue } from '../../process/queues/fair-queue.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { type FleetSnapshot, type LimiterReport, limiterIdentity } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { addressOf, type FleetsOfClients, type Identity } from './caller-identity.ts';
import type { DiscoveryForm } from './discovery-form.ts';
import { defaultClientLimitBytes, FleetResponses, SendTurns } from './fleet-response.ts';
import { type DiscoveryCall, LimiterStream, type StreamContext } from './limiter-stream.ts';

export interface LimiterStreamsOptions extends Telemetry {
  /** A name that differs between running replicas. */
  replicaName: string;
  /** Called when `limiters` has changed. */
  changed(): void;
  /** Called when a snapshot is sent to a limiter. */
  sent(limiter: LimiterReport): void;
  /** Calls back once the served rules are known to be no older than at the time of this call. */
  confirm(then: () => void): void;
  clock: Clock;
  timers: Timers;
  random(): number;
  /** The maximum number of streams of all clients together. Each stream is a limiter. */
  maxStreams: number;
  /** The time within which a limiter must request rules, and accept or reject them. Defaults to 30 s. */
  answerTimeoutMs?: number;
  /** Undefined if every client may request every fleet. Anonymous clients always may. */
  fleetsOfClients?: FleetsOfClients;
}

/**
 * Chosen: the maximum number of bytes that wait for the network at any time, so that a change of all fleets causes no burst of
 * memory.
 */
const sendingBytes = 32 * 1024 * 1024;
const sendingPatienceMs = 1_000;
const defaultAnswerTimeoutMs = 30_000;

export class LimiterStreams {
  readonly #options: LimiterStreamsOptions;
  readonly #responses: FleetResponses;
  readonly #context: StreamContext;
  readonly #streams = new Set<LimiterStream>();
  /** The streams that do not end, by address. */
  readonly #places = new FairQueue<LimiterStream>();
  readonly #departures = new UnansweredDepartures();
  /** Functions that cancel the waits for limiters that still count for a while. */
  readonly #callOffs = new Set<() => void>();
  readonly #tooMany: LogThrottle<string>;
  readonly #rejections: LogThrottle<{ peer: string; reason: string }>;
  /** An id that distinguishes this run from others of a replica with the same name. */
  readonly #run: string;
  #streamNumber = 0;
  #isCutOff = false;

  constructor(options: LimiterStreamsOptions) {
    const { clock, log, metrics, maxStreams, replicaName, random } = options;
    this.#options = options;
    this.#run = random().toString(36).slice(2);
    this.#responses = new FleetResponses(replicaName);
    this.#tooMany = new LogThrottle(clock, (peer, times) => {
      metrics.all.streamsRejected.inc({ reason: 'limit' }, times);
      lines.tooManyStreams(log, { maxStreams, peer, times });
    });
    this.#rejections = new LogThrottle(clock, (it, times) => {
      metrics.all.streamsRejected.inc({ reason: 'request' }, times);
      lines.streamRejected(log, { ...it, times });
    });
    this.#context = this.#createContext();
  }

  get maxStreams(): number {
    return this.#options.maxStreams;
  }

  /**
   * Serves these rules of every fleet from now on. A missing fleet has no rules. Nothing is sent before the first call. Returns the fleets
   * whose response is longer than a default gRPC client accepts.
   */
  serve(fleets: ReadonlyMap<string, FleetSnapshot>): Set<string> {
    const changed = this.#responses.update(fleets);
    for (const { fleet, version, wholeBytes, isOversize } of changed) {
      if (!isOversize) continue;
      const { log, metrics } = this.#options;
      metrics.all.oversize.inc();
      const sizes = { bytes: wholeBytes, limitBytes: defaultClientLimitBytes };
      lines.snapshotOversize(log, { fleet, version, ...sizes });
    }
    for (const stream of this.#streams) stream.update();
    this.#responses.forget();
    return new Set([...fleets.keys()].filter((fleet) => this.#responses.get(fleet)?.isOversize));
  }

  /**
   * Called when the served rules may be older than those of the API server. From then on, limiters that have rules, perhaps from another
   * replica, get nothing until the next call of `serve`.
   */
  cutOff(isCutOff: boolean): void {
    this.#isCutOff = isCutOff;
  }

  /** The reports of every stream that requested rules, and of limiters that are between two streams: see `UnansweredDepartures`. */
  limiters(): LimiterReport[] {
    const present = [...this.#streams].flatMap(({ report }) => report ?? []);
    return [...present, ...this.#departures.lingering(present, this.#options.clock.monotonicMs())];
  }

  /** Returns the reason why another stream is rejected, including `pending` ones in the count. Undefined if there is room, or will be. */
  rejection(peer: string, pending: number): GrpcStatus | undefined {
    const { maxStreams } = this.#options;
    if (this.#places.size + pending < maxStreams) return undefined;
    this.#tooMany.note(peer);
    const message = `this replica of the control plane serves at most ${maxStreams} streams`;
    const rejection = { code: GrpcCode.RESOURCE_EXHAUSTED, message };
    const former = this.#formerFor(addressGroup(addressOf(peer)));
    if (former === undefined) return rejection;
    former.end({ ...rejection, message: `${message}, and most of them come from this address` });
    return undefined;
  }

  /**
   * At the limit, an address with many streams makes room for an address with few. Returns the newest stream of the address with the
   * most streams. Returns undefined if the new stream's own address would then have as many, so that the new stream is rejected.
   */
  #formerFor(group: string): LimiterStream | undefined {
    const groups = new Map(this.#places.groups());
    let largest: ReadonlySet<LimiterStream> = new Set();
    for (const streams of groups.values()) if (streams.size > largest.size) largest = streams;
    const own = groups.get(group)?.size ?? 0;
    return own + 1 < largest.size ? [...largest].at(-1) : undefined;
  }

  open(call: DiscoveryCall, identity: Identity, form: DiscoveryForm): void {
    this.#streamNumber++;
    const noncePrefix = `${this.#run}.${this.#streamNumber}`;
    const stream = new LimiterStream(call, this.#context, { identity, noncePrefix, form });
    this.#streams.add(stream);
    this.#places.add(stream);
  }

  /** Checks tokens: see `LimiterStream.checkToken`. */
  checkTokens(staleness: Parameters<LimiterStream['checkToken']>[0]): void {
    for (const stream of this.#streams) stream.checkToken(staleness);
  }

  /** Ends all streams. No limiter counts any longer. */
  end(status: GrpcStatus): void {
    for (const callOff of this.#callOffs) callOff();
    for (const stream of this.#streams) stream.end(status);
  }

  #createContext(): StreamContext {
    const { clock, timers, answerTimeoutMs = defaultAnswerTimeoutMs } = this.#options;
    return {
      ...this.#options,
      answerTimeoutMs,
      responses: this.#responses,
      isCutOff: () => this.#isCutOff,
      turns: new SendTurns({ timers, maxBytes: sendingBytes, patienceMs: sendingPatienceMs }),
      reject: (peer, reason) => this.#rejections.note({ peer, reason }),
      ending: (stream) => this.#places.remove(stream),
      closed: (stream) => {
        this.#streams.delete(stream);
        this.#places.remove(stream);
      },
      leftUnanswered: (limiter) => this.#goOn(this.#departures.left(limiter, clock.monotonicMs())),
      renewing: (limiter) => this.#goOn(this.#departures.renewing(limiter, clock.monotonicMs())),
      answered: (limiter) => this.#departures.answered(limiter),
    };
  }

  /** A limiter that is about to leave still counts for this time. */
  #goOn(lingerMs: number): void {
    const { timers, changed } = this.#options;
    if (lingerMs === 0) return;
    const callOff = timers.after(lingerMs, () => {
      this.#callOffs.delete(callOff);
      changed();
    });
    this.#callOffs.add(callOff);
  }
}

/** Chosen: clients wait 10 s between two streams. */
const lingerMs = 15_000;
/** Chosen: a limiter returns at once after it was notified that its token has expired. */
const renewalMs = 3_000;
/** Chosen: a second departure this soon after the first counts as a pattern. A single departure may be the end of a process. */
const habitMs = 60_000;

interface Departure {
  report: LimiterReport;
  atMs: number;
  /** The time until which the stream counts. 0 if it does not count. */
  untilMs: number;
}

/**
 * Limiters that leave, return, and leave again without an ACK or NACK, mostly because the rules are too large for them. Between two
 * streams, such a limiter does not count as gone, and its rules do not count as in force. It counts as a limiter that has not answered.
 * Otherwise, every status of its fleet would change with each attempt. A limiter that must show a new token counts as unchanged for a
 * moment. Pure.
 */
export class UnansweredDepartures {
  readonly #departures = new Map<string, Departure>();

  /** Returns how long the limiter still counts; 0 if it does not. */
  left(report: LimiterReport, nowMs: number): number {
    const key = limiterIdentity(report);
    const before = this.#departures.get(key);
    const isHabit = before !== undefined && nowMs - before.atMs < habitMs;
    this.#forget(nowMs);
    this.#departures.set(key, { report, atMs: nowMs, untilMs: isHabit ? nowMs + lingerMs : 0 });
    return isHabit ? lingerMs : 0;
  }

  /** Called when a stream was ended because of its token. The limiter counts as unchanged until it returns. Returns how long it does. */
  renewing(report: LimiterReport, nowMs: number): number {
    this.#forget(nowMs);
    this.#departures.set(limiterIdentity(report), {
      report,
      atMs: Number.NEGATIVE_INFINITY,
      untilMs: nowMs + renewalMs,
    });
    return renewalMs;
  }

  #forget(nowMs: number): void {
    for (const [key, { atMs, untilMs }] of this.#departures) {
      if (nowMs - atMs >= habitMs && untilMs <= nowMs) this.#departures.delete(key);
    }
  }

  /** Called when the limiter has accepted or rejected a response. */
  answered(report: LimiterReport): void {
    if (this.#departures.size > 0) this.#departures.delete(limiterIdentity(report));
  }

  /** Returns the limiters that continue to count and are not connected. */
  lingering(present: readonly LimiterReport[], nowMs: number): LimiterReport[] {
    if (this.#departures.size === 0) return [];
    const there = new Set(present.map(limiterIdentity));
    return [...this.#departures].flatMap(([key, { report, untilMs }]) =>
      untilMs > nowMs && !there.has(key) ? report : [],
    );
  }
}
