/** The listener for limiters: aggregated discovery in both its forms, and the health service. */
import { randomBytes } from 'node:crypto';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { watchFiles } from '../../process/files/watched-files.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { GrpcCode, type GrpcStatus, statusText } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import { errorText } from '../../process/log/error-text.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { bind, closeOrCut, type ListenAddress } from '../../process/net/bind.ts';
import { addressGroup } from '../../process/net/peer.ts';
import { type TlsFiles, watchTlsCredentials } from '../../process/net/tls-credentials.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { connectionCuts } from '../model/connection-cuts.ts';
import { type FleetSnapshot, type LimiterReport, limiterIdentity } from '../model/fleet-snapshot.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import { addressOf, CallerIdentity, type Identity, parseTokens, type TokenNames } from './caller-identity.ts';
import {
  type DiscoveryForm,
  Incremental,
  longestRequestBytes,
  RefusedLists,
  StateOfTheWorld,
} from './discovery-form.ts';
import type { FleetsOfClients } from './fleet-permissions.ts';
import { FleetResponses, SendTurns, usualClientLimitBytes } from './fleet-response.ts';
import { registerHealth } from './health-calls.ts';
import { LimiterConnections, type LimiterConnectionsOptions } from './limiter-connections.ts';
import { type DiscoveryCall, LimiterStream, type StreamContext } from './limiter-stream.ts';
import { StreamPlaces } from './stream-places.ts';
import { type ReviewToken, TokenReviews } from './token-reviews.ts';
import { plainTransport, type TlsTransport, type Transport, tlsTransport } from './transport.ts';
import { watchUnfinishedMessages } from './unfinished-messages.ts';

export interface XdsServerOptions extends Telemetry {
  /** Different for every replica that runs. */
  replicaName: string;
  /** What `limiters` gives is different now. */
  changed(): void;
  /** A snapshot goes to a limiter. */
  sent(limiter: LimiterReport): void;
  clock: Clock;
  timers: Timers;
  /** What the health service says. */
  health: HealthView;
  /** Of all clients together; each is a limiter. */
  maxStreams: number;
  /** How often a connection is asked for a sign of life. */
  keepaliveIntervalMs: number;
  /** How long it may take for it before it is cut. */
  keepaliveTimeoutMs: number;
  /** How long a limiter may take to ask for rules, and to accept or refuse them. Defaults to 30 s. */
  answerTimeoutMs?: number;
  /** Bounds on connections; defaults to the usual ones. */
  connections?: Pick<LimiterConnectionsOptions, 'maxIdle' | 'maxHeldBytes'>;
  /** How long streams may take to end at shutdown before they are cut. */
  shutdownGraceMs: number;
  /** Undefined: no TLS. */
  tls?: TlsFiles & { reloadIntervalMs?: number };
  /** Tokens by which clients may prove who they are, see `parseTokens`. Undefined: none. */
  tokensFile?: { path: string; reloadIntervalMs?: number };
  /** Undefined: tokens of service accounts prove nothing. */
  serviceAccounts?: { audience: string; perSecond: number; review: ReviewToken };
  /** Serve who shows neither certificate nor token, too. */
  allowAnonymous: boolean;
  /** Undefined: every client may ask for every fleet. An anonymous one always may. */
  fleetsOfClients?: FleetsOfClients;
}

const discoveryService = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
const shuttingDown: GrpcStatus = {
  code: GrpcCode.UNAVAILABLE,
  message: 'this replica of the control plane is shutting down',
};

/** Chosen: what waits for the network at any time, so that a change of every fleet is no burst of memory. */
const sendingBytes = 32 * 1024 * 1024;
const sendingPatienceMs = 1_000;
const defaultAnswerTimeoutMs = 30_000;
/** Chosen: a connection without a stream costs memory for nothing. */
const idleConnectionMs = 300_000;
/** Calls besides those of limiters, mostly of the health service. */
const otherStreams = 100;
const seldomMs = 60_000;

export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #grpc: Server;
  readonly #health: HealthService;
  readonly #responses: FleetResponses;
  readonly #identity: CallerIdentity;
  readonly #reviews: TokenReviews | undefined;
  readonly #context: StreamContext;
  readonly #streams = new Set<LimiterStream>();
  readonly #places = new StreamPlaces<LimiterStream>();
  readonly #connections: LimiterConnections;
  readonly #departures = new UnansweredDepartures();
  /** Of limiters that go on for a while. */
  readonly #callOffs = new Set<() => void>();
  readonly #tooMany: Seldom<string>;
  readonly #refusals: Seldom<{ peer: string; reason: string }>;
  readonly #handshakes: Seldom<{ peer: string; reason: string }>;
  readonly #strangers: Seldom<{ peer: string; reason: string }>;
  readonly #reviewFailures: Seldom<string>;
  readonly #cuts: Seldom<{ peer: string; reason: string }>;
  /** Tells this run from others of a replica with the same name. */
  readonly #run = randomBytes(8).toString('hex');
  #streamNumber = 0;
  #transport: Transport | undefined;
  #closeCredentials = (): void => {};
  #closeTokens = (): void => {};
  /** Streams whose token the API server is asked about. */
  #unproven = 0;
  #shutdown: Promise<void> | undefined;
  #isCutOff = false;

  constructor(options: XdsServerOptions) {
    const { clock, log, metrics, maxStreams } = options;
    this.#options = options;
    this.#health = new HealthService(options.health, [discoveryService]);
    this.#responses = new FleetResponses(options.replicaName);
    this.#tooMany = new Seldom(clock, seldomMs, (peer, times) => {
      metrics.streamsRefused('limit', times);
      lines.tooManyStreams(log, { maxStreams, peer, times });
    });
    this.#refusals = new Seldom(clock, seldomMs, (it, times) => {
      metrics.streamsRefused('request', times);
      lines.streamRefused(log, { ...it, times });
    });
    this.#handshakes = new Seldom(clock, seldomMs, (it, times) => {
      metrics.all.handshakesFailed.inc(times);
      lines.handshakeFailed(log, { ...it, times });
    });
    this.#strangers = new Seldom(clock, seldomMs, (it, times) => lines.streamRefused(log, { ...it, times }));
    this.#reviewFailures = new Seldom(clock, seldomMs, (reason, times) =>
      lines.tokenReviewFailed(log, { reason, times }),
    );
    this.#cuts = new Seldom(clock, seldomMs, (it, times) => lines.connectionCut(log, { ...it, times }));
    this.#connections = new LimiterConnections({
      ...options.connections,
      timers: options.timers,
      wasCut: (reason, peer) => {
        metrics.all.connectionsCut.inc({ reason });
        this.#cuts.note({ peer, reason: connectionCuts[reason] }, reason);
      },
    });
    this.#reviews = this.#createReviews();
    this.#identity = this.#createIdentity();
    this.#context = this.#createContext();
    this.#grpc = this.#createGrpc();
  }

  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. */
  async listen(address: ListenAddress): Promise<{ port: number }> {
    try {
      await this.#openTokens();
      this.#transport = await this.#openTransport();
      return await bind(this.#transport.server, address);
    } catch (error) {
      this.#closeTokens();
      this.#closeCredentials();
      throw error;
    }
  }

  /** What every fleet has to have from now on; a fleet that is missing has no rules. Nothing is sent before the first call. */
  serve(fleets: ReadonlyMap<string, FleetSnapshot>): void {
    const changed = this.#responses.update(fleets);
    for (const { fleet, version, wholeBytes, isOversize } of changed) {
      if (!isOversize) continue;
      const { log, metrics } = this.#options;
      metrics.all.oversize.inc();
      const sizes = { bytes: wholeBytes, limitBytes: usualClientLimitBytes };
      lines.snapshotOversize(log, { fleet, version, ...sizes });
    }
    for (const stream of this.#streams) stream.update();
  }

  /**
   * What is served may be older than what the API server has: limiters that hold rules, from another replica perhaps, are sent
   * nothing. When it no longer is, they are with the next call of `serve`.
   */
  cutOff(isCutOff: boolean): void {
    this.#isCutOff = isCutOff;
  }

  /** Of every stream that asked for rules, and of limiters that are between two streams: see `UnansweredDepartures`. */
  limiters(): LimiterReport[] {
    const present = [...this.#streams].flatMap(({ report }) => report ?? []);
    return [...present, ...this.#departures.lingering(present, this.#options.clock.monotonicMs())];
  }

  /** Whether what the fleet is served is longer than the usual client of gRPC takes. */
  isOversize(fleet: string): boolean {
    return this.#responses.get(fleet)?.isOversize ?? false;
  }

  /** Ends all streams, so that limiters go to another replica; settles when they are gone, or were cut after the grace. */
  shutdown(): Promise<void> {
    this.#shutdown ??= this.#stop();
    return this.#shutdown;
  }

  #createContext(): StreamContext {
    const { clock, timers, answerTimeoutMs = defaultAnswerTimeoutMs } = this.#options;
    return {
      ...this.#options,
      answerTimeoutMs,
      identity: this.#identity,
      responses: this.#responses,
      isCutOff: () => this.#isCutOff,
      turns: new SendTurns({ timers, maxBytes: sendingBytes, patienceMs: sendingPatienceMs }),
      refuse: (peer, reason) => this.#refusals.note({ peer, reason }),
      hold: (peer, bytes) => this.#connections.hold(peer, bytes),
      cutConnection: (peer) => this.#connections.cut(peer),
      ending: (stream) => this.#places.delete(stream),
      closed: (stream) => {
        this.#streams.delete(stream);
        this.#places.delete(stream);
        this.#connections.countStream(stream.peer, -1);
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

  #createGrpc(): Server {
    const { log, metrics, maxStreams, keepaliveIntervalMs, keepaliveTimeoutMs } = this.#options;
    const grpc = new Server({
      'grpc.max_receive_message_length': longestRequestBytes,
      'grpc.max_concurrent_streams': maxStreams + otherStreams,
      'grpc.keepalive_time_ms': keepaliveIntervalMs,
      'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
      'grpc.max_connection_idle_ms': idleConnectionMs,
      'grpc.enable_channelz': 0,
      interceptors: [watchUnfinishedMessages((peer, bytes) => this.#connections.hold(peer, bytes))],
    });
    registerHealth(grpc, this.#health, (method, error) => {
      metrics.all.faults.inc();
      lines.fault(log, method, error);
    });
    const refused = new RefusedLists();
    const forms = {
      StreamAggregatedResources: () => new StateOfTheWorld(),
      DeltaAggregatedResources: () => new Incremental(refused),
    };
    for (const [method, form] of Object.entries(forms)) {
      const open = (call: DiscoveryCall) => this.#open(call, form());
      grpc.register(`/${discoveryService}/${method}`, open, encodeBytes, decodeBytes, 'bidi');
    }
    return grpc;
  }

  #open(call: DiscoveryCall, form: DiscoveryForm): void {
    const refusal = this.#streamRefusal(call.getPeer());
    if (refusal !== undefined) {
      call.emit('error', { code: refusal.code, details: refusal.message });
      return;
    }
    const identity = this.#identity.of(call);
    if (identity instanceof Promise) void this.#openProven(call, form, identity);
    else this.#openAs(call, form, identity);
  }

  /** Nothing of the stream is read meanwhile. */
  async #openProven(
    call: DiscoveryCall,
    form: DiscoveryForm,
    pending: Promise<Identity | GrpcStatus>,
  ): Promise<void> {
    this.#unproven++;
    const identity = await pending;
    this.#unproven--;
    if (call.cancelled) return;
    this.#openAs(call, form, this.#shutdown === undefined ? identity : shuttingDown);
  }

  #openAs(call: DiscoveryCall, form: DiscoveryForm, identity: Identity | GrpcStatus): void {
    if ('code' in identity) {
      const { code, message } = identity;
      if (identity !== shuttingDown) {
        this.#options.metrics.streamsRefused('identity', 1);
        this.#strangers.note({ peer: call.getPeer(), reason: message });
      }
      call.emit('error', { code, details: statusText(message) });
      return;
    }
    this.#streamNumber++;
    const noncePrefix = `${this.#run}.${this.#streamNumber}`;
    const id = `${this.#options.replicaName}/${noncePrefix}`;
    const stream = new LimiterStream(call, this.#context, { identity, id, noncePrefix, form });
    this.#connections.countStream(stream.peer, 1);
    this.#streams.add(stream);
    this.#places.add(stream);
  }

  #streamRefusal(peer: string): GrpcStatus | undefined {
    if (this.#shutdown !== undefined) return shuttingDown;
    const { maxStreams } = this.#options;
    if (this.#places.size + this.#unproven < maxStreams) return undefined;
    this.#tooMany.note(peer);
    const message = `this replica of the control plane serves at most ${maxStreams} streams`;
    const refusal = { code: GrpcCode.RESOURCE_EXHAUSTED, message };
    const former = this.#places.roomFor(addressGroup(addressOf(peer)));
    if (former === undefined) return refusal;
    former.end({ ...refusal, message: `${message}, and most of them come from this address` });
    return undefined;
  }

  async #openTransport(): Promise<Transport> {
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    const { tls, timers, log } = this.#options;
    const options = {
      connections: this.#connections,
      accept: (socket: Parameters<typeof injector.injectConnection>[0]) => injector.injectConnection(socket),
      handshakeFailed: (peer: string, reason: string) => this.#handshakes.note({ peer, reason }),
    };
    if (tls === undefined) return plainTransport(options);
    const { reloadIntervalMs, ...files } = tls;
    let transport: TlsTransport | undefined;
    const credentials = await watchTlsCredentials({
      files,
      timers,
      ...(reloadIntervalMs === undefined ? {} : { reloadIntervalMs }),
      changed: (next) => {
        transport?.useCredentials(next);
        lines.certificateChanged(log, 'xDS');
      },
      refused: (reason) => lines.certificateRefused(log, 'xDS', reason),
    });
    this.#closeCredentials = credentials.close;
    transport = tlsTransport(credentials.first, { ...options, mayShowNone: this.#hasOtherWays });
    return transport;
  }

  /** Whoever shows no certificate may prove who it is by a token, or need not. */
  get #hasOtherWays(): boolean {
    const { tokensFile, serviceAccounts, allowAnonymous } = this.#options;
    return allowAnonymous || tokensFile !== undefined || serviceAccounts !== undefined;
  }

  #createReviews(): TokenReviews | undefined {
    const { serviceAccounts, metrics, maxStreams } = this.#options;
    if (serviceAccounts === undefined) return undefined;
    return new TokenReviews({
      ...this.#options,
      ...serviceAccounts,
      // Each limiter has a token, and another one soon.
      mostKnown: 2 * maxStreams,
      reviewed: (outcome) => metrics.tokenReviewed(outcome),
      failed: (reason) => this.#reviewFailures.note(reason),
    });
  }

  #createIdentity(): CallerIdentity {
    const { tls, tokensFile, allowAnonymous } = this.#options;
    return new CallerIdentity({
      certificates: tls?.clientCaFile !== undefined,
      tokens: tokensFile === undefined ? undefined : new Map(),
      reviews: this.#reviews,
      allowAnonymous,
    });
  }

  async #openTokens(): Promise<void> {
    const { tokensFile, timers, log } = this.#options;
    if (tokensFile === undefined) return;
    const { path, reloadIntervalMs } = tokensFile;
    const name = `XDS_TOKENS_FILE: ${path}`;
    const opened = await watchFiles<TokenNames>({
      paths: [path],
      names: [name],
      read: ([text = '']) => {
        try {
          return parseTokens(text);
        } catch (error) {
          throw new Error(`${name}: ${errorText(error)}`, { cause: error });
        }
      },
      timers,
      ...(reloadIntervalMs === undefined ? {} : { intervalMs: reloadIntervalMs }),
      changed: (tokens) => {
        this.#identity.useTokens(tokens);
        for (const stream of this.#streams) stream.checkToken();
        lines.secretRotated(log, 'XDS_TOKENS_FILE');
      },
      refused: (reason) => lines.secretRefused(log, 'XDS_TOKENS_FILE', reason),
    });
    this.#closeTokens = opened.close;
    this.#identity.useTokens(opened.first);
  }

  async #stop(): Promise<void> {
    this.#closeCredentials();
    this.#closeTokens();
    this.#reviews?.close();
    for (const callOff of this.#callOffs) callOff();
    this.#health.stop();
    this.#connections.close();
    const transport = this.#transport;
    if (transport === undefined) return;
    for (const stream of this.#streams) stream.end(shuttingDown);
    await closeOrCut({
      close: (closed) => {
        transport.server.close(() => closed());
        this.#grpc.tryShutdown(() => {});
      },
      cut: () => this.#connections.sockets.cut(),
      graceMs: this.#options.shutdownGraceMs,
    });
  }
}

/** Chosen: clients wait 10 s between two streams. */
const lingerMs = 15_000;
/** Chosen: a limiter that was told that its token has expired comes again at once. */
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

  /** Those that go on and are not there. */
  lingering(present: readonly LimiterReport[], nowMs: number): LimiterReport[] {
    if (this.#departures.size === 0) return [];
    const there = new Set(present.map(limiterIdentity));
    return [...this.#departures].flatMap(([key, { report, untilMs }]) =>
      untilMs > nowMs && !there.has(key) ? report : [],
    );
  }
}
