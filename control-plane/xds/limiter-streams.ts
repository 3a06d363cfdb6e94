/**
 * All streams of limiters: which have a place, what each is served, and what all of them report. Also limiters that are between two
 * streams. Knows nothing of gRPC.
 */
import { randomBytes } from 'node:crypto';
import { GrpcCode, type GrpcStatus } from '../../process/grpc/handlers.ts';
import { LogThrottle } from '../../process/log/log-throttle.ts';
import { addressGroup } from '../../process/net/peer.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { type FleetSnapshot, type LimiterReport, limiterIdentity } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { addressOf, type Identity } from './caller-identity.ts';
import type { DiscoveryForm } from './discovery-form.ts';
import type { FleetsOfClients } from './fleet-permissions.ts';
import { defaultClientLimitBytes, FleetResponses, SendTurns } from './fleet-response.ts';
import { type DiscoveryCall, LimiterStream, type StreamContext } from './limiter-stream.ts';

export interface LimiterStreamsOptions extends Telemetry {
  /** Different for every replica that runs. */
  replicaName: string;
  /** Called when `limiters` has changed. */
  changed(): void;
  /** A snapshot goes to a limiter. */
  sent(limiter: LimiterReport): void;
  clock: Clock;
  timers: Timers;
  /** The most streams of all clients together. Each stream is a limiter. */
  maxStreams: number;
  /** How long a limiter may take to ask for rules, and to accept or refuse them. Defaults to 30 s. */
  answerTimeoutMs?: number;
  /** Undefined: every client may ask for every fleet. An anonymous one always may. */
  fleetsOfClients?: FleetsOfClients;
}

/** Chosen: the most that waits for the network at any time, so that a change of every fleet is no burst of memory. */
const sendingBytes = 32 * 1024 * 1024;
const sendingPatienceMs = 1_000;
const defaultAnswerTimeoutMs = 30_000;

export class LimiterStreams {
  readonly #options: LimiterStreamsOptions;
  readonly #responses: FleetResponses;
  readonly #context: StreamContext;
  readonly #streams = new Set<LimiterStream>();
  readonly #places = new StreamPlaces();
  readonly #departures = new UnansweredDepartures();
  /** Functions that call off the waits for limiters that continue for a while. */
  readonly #callOffs = new Set<() => void>();
  readonly #tooMany: LogThrottle<string>;
  readonly #refusals: LogThrottle<{ peer: string; reason: string }>;
  /** Reports this run from others of a replica with the same name. */
  readonly #run = randomBytes(8).toString('hex');
  #streamNumber = 0;
  #isCutOff = false;

  constructor(options: LimiterStreamsOptions) {
    const { clock, log, metrics, maxStreams, replicaName } = options;
    this.#options = options;
    this.#responses = new FleetResponses(replicaName);
    this.#tooMany = new LogThrottle(clock, (peer, times) => {
      metrics.streamsRefused('limit', times);
      lines.tooManyStreams(log, { maxStreams, peer, times });
    });
    this.#refusals = new LogThrottle(clock, (it, times) => {
      metrics.streamsRefused('request', times);
      lines.streamRefused(log, { ...it, times });
    });
    this.#context = this.#createContext();
  }

  get maxStreams(): number {
    return this.#options.maxStreams;
  }

  /** Takes the rules of every fleet from now on. A fleet that is missing has no rules. Nothing is sent before the first call. */
  serve(fleets: ReadonlyMap<string, FleetSnapshot>): void {
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
  }

  /**
   * Called when the served rules may be older than those of the API server. Limiters that have rules, perhaps from another
   * replica, then get nothing. Later, they get rules with the next call of `serve`.
   */
  cutOff(isCutOff: boolean): void {
    this.#isCutOff = isCutOff;
  }

  /** The reports of every stream that asked for rules, and of limiters that are between two streams: see `UnansweredDepartures`. */
  limiters(): LimiterReport[] {
    const present = [...this.#streams].flatMap(({ report }) => report ?? []);
    return [...present, ...this.#departures.lingering(present, this.#options.clock.monotonicMs())];
  }

  /** Returns whether what the fleet is served is longer than the usual client of gRPC takes. */
  isOversize(fleet: string): boolean {
    return this.#responses.get(fleet)?.isOversize ?? false;
  }

  /** Why there is no place for another stream, `pending` ones included; undefined: there is one, or there will be. */
  refusal(peer: string, pending: number): GrpcStatus | undefined {
    const { maxStreams } = this.#options;
    if (this.#places.size + pending < maxStreams) return undefined;
    this.#tooMany.note(peer);
    const message = `this replica of the control plane serves at most ${maxStreams} streams`;
    const refusal = { code: GrpcCode.RESOURCE_EXHAUSTED, message };
    const former = this.#places.roomFor(addressGroup(addressOf(peer)));
    if (former === undefined) return refusal;
    former.end({ ...refusal, message: `${message}, and most of them come from this address` });
    return undefined;
  }

  open(call: DiscoveryCall, identity: Identity, form: DiscoveryForm): void {
    this.#streamNumber++;
    const noncePrefix = `${this.#run}.${this.#streamNumber}`;
    const id = `${this.#options.replicaName}/${noncePrefix}`;
    const stream = new LimiterStream(call, this.#context, { identity, id, noncePrefix, form });
    this.#streams.add(stream);
    this.#places.add(stream);
  }

  /** See `LimiterStream.checkToken`. */
  checkTokens(staleness: Parameters<LimiterStream['checkToken']>[0]): void {
    for (const stream of this.#streams) stream.checkToken(staleness);
  }

  /** Ends all streams, and goes on with no limiter. */
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
      refuse: (peer, reason) => this.#refusals.note({ peer, reason }),
      ending: (stream) => this.#places.delete(stream),
      closed: (stream) => {
        this.#streams.delete(stream);
        this.#places.delete(stream);
      },
      leftUnanswered: (limiter) => this.#goOn(this.#departures.left(limiter, clock.monotonicMs())),
      renewing: (limiter) => this.#goOn(this.#departures.renewing(limiter, clock.monotonicMs())),
      answered: (limiter) => this.#departures.answered(limiter),
    };
  }

  /** A limiter that left stays among the limiters for so long. */
  #goOn(lingerMs: number): void {
    const { timers, changed } = this.#options;
    if (lingerMs === 0) return;
    const callOff = timers.after(lingerMs, () => {
      this.#callOffs.delete(callOff);
      changed();
    });
    this.#callOffs.add(callOff);
    changed();
  }
}

/** The streams of a replica by address. At the limit, an address that has many makes room for one that has few. */
class StreamPlaces {
  /** The newest is the last. */
  readonly #byGroup = new Map<string, Set<LimiterStream>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  add(taker: LimiterStream): void {
    const group = this.#byGroup.get(taker.group) ?? new Set();
    this.#byGroup.set(taker.group, group.add(taker));
    this.#size += 1;
  }

  delete(taker: LimiterStream): void {
    const group = this.#byGroup.get(taker.group);
    if (group?.delete(taker) !== true) return;
    this.#size -= 1;
    if (group.size === 0) this.#byGroup.delete(taker.group);
  }

  /**
   * The newest stream of the address that has most of them. Undefined where the newcomer's own address would then have as
   * many: it is refused instead.
   */
  roomFor(group: string): LimiterStream | undefined {
    let largest: ReadonlySet<LimiterStream> = new Set();
    for (const takers of this.#byGroup.values()) if (takers.size > largest.size) largest = takers;
    const own = this.#byGroup.get(group)?.size ?? 0;
    return own + 1 < largest.size ? [...largest].at(-1) : undefined;
  }
}

/** Chosen: clients wait 10 s between two streams. */
const lingerMs = 15_000;
/** Chosen: a limiter that was shown that its token has expired comes again at once. */
const renewalMs = 3_000;
/** Chosen: so soon after the first departure a second one makes it a habit. One alone may be the end of a process. */
const habitMs = 60_000;

interface Departure {
  report: LimiterReport;
  atMs: number;
  /** 0 when it does not go on. */
  untilMs: number;
}

/**
 * Limiters that leave, come back, and leave again without an answer to what they are sent: it is mostly longer than they
 * take. Between two streams such a limiter is not gone, and its rules are not in force: it goes on as a limiter that has
 * not answered, or every status of its fleet would change with each of its attempts. One that has to show a new token
 * goes on as it is for a moment. Pure.
 */
export class UnansweredDepartures {
  readonly #departures = new Map<string, Departure>();

  /** Returns how long the limiter goes on, 0 when it does not. */
  left(report: LimiterReport, nowMs: number): number {
    const key = limiterIdentity(report);
    const before = this.#departures.get(key);
    const isHabit = before !== undefined && nowMs - before.atMs < habitMs;
    this.#forget(nowMs);
    this.#departures.set(key, { report, atMs: nowMs, untilMs: isHabit ? nowMs + lingerMs : 0 });
    return isHabit ? lingerMs : 0;
  }

  /** Its stream was ended for its token: it goes on as it is until it comes again. Returns for how long. */
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

  /** It accepted or refused something. */
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
