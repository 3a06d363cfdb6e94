/** The listener for limiters: aggregated discovery in its state-of-the-world form, and the health service. */
import { randomBytes } from 'node:crypto';
import { Server, ServerCredentials } from '@grpc/grpc-js';
import { bind, type ListenAddress } from '../../process/bind.ts';
import type { Clock } from '../../process/clock.ts';
import { closeOrCut } from '../../process/close-or-cut.ts';
import { registerHealth } from '../../process/grpc/health-methods.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/raw-bytes.ts';
import { GrpcCode, type GrpcStatus } from '../../process/grpc/unary-handler.ts';
import type { HealthView } from '../../process/health.ts';
import { Seldom } from '../../process/seldom.ts';
import type { Timers } from '../../process/timers.ts';
import { type TlsFiles, watchTlsCredentials } from '../../process/tls-credentials.ts';
import type { FleetSnapshot } from '../model/fleet-snapshot.ts';
import type { LimiterReport } from '../model/limiter-report.ts';
import type { FleetsOfCertificates } from './fleet-permissions.ts';
import { type FleetResponse, usualClientLimitBytes } from './fleet-response.ts';
import { FleetResponses } from './fleet-responses.ts';
import { type DiscoveryCall, LimiterStream, type StreamContext } from './limiter-stream.ts';
import { SendTurns } from './send-turns.ts';
import { plainTransport, type TlsTransport, type Transport, tlsTransport } from './transport.ts';
import { UnansweredDepartures } from './unanswered-departures.ts';
import type { XdsListener } from './xds-listener.ts';

export interface XdsServerOptions {
  /** Different for every replica that runs. */
  replicaName: string;
  listener: XdsListener;
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
  /** How long a limiter may take to accept or refuse. Defaults to 30 s. */
  answerTimeoutMs?: number;
  /** How long streams may take to end at shutdown before they are cut. */
  shutdownGraceMs: number;
  /** Undefined: no TLS. */
  tls?: TlsFiles & { reloadIntervalMs?: number };
  /** Needs `clientCaFile`. Undefined: every client may ask for every fleet. */
  fleetsOfCertificates?: FleetsOfCertificates;
}

/** What one fleet is served. */
export interface ServedFleet {
  fleet: string;
  version: string;
  resources: number;
  /** Of the whole answer, without its nonce. */
  bytes: number;
  /** Whether clients with the usual limit of 4 MiB refuse it unread. */
  isOversize: boolean;
}

export interface XdsServer {
  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. */
  listen(address: ListenAddress): Promise<{ port: number }>;
  /** What every fleet has to have from now on; a fleet that is missing has no rules. Nothing is sent before the first call. */
  serve(fleets: ReadonlyMap<string, FleetSnapshot>): void;
  /** Of every stream that asked for rules, and of limiters that are between two streams: see `UnansweredDepartures`. */
  limiters(): LimiterReport[];
  /** In the order of the fleets' names; undefined before the first `serve`. */
  served(): ServedFleet[] | undefined;
  /** Ends all streams, so that limiters go to another replica; settles when they are gone, or were cut after the grace. */
  shutdown(): Promise<void>;
}

const discoveryService = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
const shuttingDown: GrpcStatus = {
  code: GrpcCode.UNAVAILABLE,
  message: 'this replica of the control plane is shutting down',
};

/** Ours. A request holds a node, a nonce and perhaps every error of a validator. */
const longestRequestBytes = 1024 * 1024;
/** Ours: what waits for the network at any time, so that a change of every fleet is no burst of memory. */
const sendingBytes = 32 * 1024 * 1024;
const sendingPatienceMs = 1_000;
const defaultAnswerTimeoutMs = 30_000;
/** Ours: a connection without a stream costs memory for nothing. */
const idleConnectionMs = 300_000;
/** Calls besides those of limiters, mostly of the health service. */
const otherStreams = 100;
const seldomMs = 60_000;

export function createXdsServer(options: XdsServerOptions): XdsServer {
  if (options.fleetsOfCertificates !== undefined && options.tls?.clientCaFile === undefined) {
    throw new Error('fleetsOfCertificates needs clientCaFile: without it no client shows a certificate');
  }
  return new GrpcXdsServer(options);
}

class GrpcXdsServer implements XdsServer {
  readonly #options: XdsServerOptions;
  readonly #grpc: Server;
  readonly #health: HealthService;
  readonly #responses: FleetResponses;
  readonly #context: StreamContext;
  readonly #streams = new Set<LimiterStream>();
  readonly #departures = new UnansweredDepartures();
  /** Of limiters that go on for a while. */
  readonly #callOffs = new Set<() => void>();
  readonly #tooMany: Seldom<string>;
  readonly #refusals: Seldom<{ peer: string; reason: string }>;
  readonly #handshakes: Seldom<{ peer: string; reason: string }>;
  /** Tells this run from others of a replica with the same name. */
  readonly #run = randomBytes(8).toString('hex');
  #streamNumber = 0;
  #transport: Transport | undefined;
  #closeCredentials = (): void => {};
  #shutdown: Promise<void> | undefined;

  constructor(options: XdsServerOptions) {
    const { clock, listener, maxStreams } = options;
    this.#options = options;
    this.#health = new HealthService(options.health, [discoveryService]);
    this.#responses = new FleetResponses(options.replicaName);
    this.#tooMany = new Seldom(clock, seldomMs, (peer, times) =>
      listener.tooManyStreams({ maxStreams, peer, times }),
    );
    this.#refusals = new Seldom(clock, seldomMs, (it, times) => listener.streamRefused({ ...it, times }));
    this.#handshakes = new Seldom(clock, seldomMs, (it, times) => listener.handshakeFailed({ ...it, times }));
    this.#context = this.#createContext();
    this.#grpc = this.#createGrpc();
  }

  async listen(address: ListenAddress): Promise<{ port: number }> {
    this.#transport = await this.#openTransport();
    try {
      return await bind(this.#transport.server, address);
    } catch (error) {
      this.#closeCredentials();
      throw error;
    }
  }

  serve(fleets: ReadonlyMap<string, FleetSnapshot>): void {
    const changed = this.#responses.update(fleets);
    for (const { fleet, version, bytes, isOversize } of changed) {
      if (!isOversize) continue;
      const sizes = { bytes: bytes.length, limitBytes: usualClientLimitBytes };
      this.#options.listener.oversize({ fleet, version, ...sizes });
    }
    for (const stream of this.#streams) stream.update();
  }

  limiters(): LimiterReport[] {
    const present = [...this.#streams].flatMap(({ report }) => report ?? []);
    return [...present, ...this.#departures.lingering(present, this.#options.clock.monotonicMs())];
  }

  served(): ServedFleet[] | undefined {
    return this.#responses
      .all()
      ?.map((response: FleetResponse) => ({ ...response, bytes: response.bytes.length }))
      .sort((a, b) => (a.fleet < b.fleet ? -1 : 1));
  }

  shutdown(): Promise<void> {
    this.#shutdown ??= this.#stop();
    return this.#shutdown;
  }

  #createContext(): StreamContext {
    const { clock, timers, listener, fleetsOfCertificates } = this.#options;
    return {
      clock,
      timers,
      listener,
      fleetsOfCertificates,
      responses: this.#responses,
      turns: new SendTurns({ timers, maxBytes: sendingBytes, patienceMs: sendingPatienceMs }),
      answerTimeoutMs: this.#options.answerTimeoutMs ?? defaultAnswerTimeoutMs,
      refuse: (peer, reason) => this.#refusals.note({ peer, reason }),
      cutConnection: (peer) => this.#transport?.cut(peer),
      closed: (stream) => this.#streams.delete(stream),
      leftUnanswered: (limiter) => this.#leftUnanswered(limiter),
      answered: (limiter) => this.#departures.answered(limiter),
    };
  }

  #leftUnanswered(limiter: LimiterReport): void {
    const { clock, timers, listener } = this.#options;
    const lingerMs = this.#departures.left(limiter, clock.monotonicMs());
    if (lingerMs === 0) return;
    const callOff = timers.after(lingerMs, () => {
      this.#callOffs.delete(callOff);
      listener.changed();
    });
    this.#callOffs.add(callOff);
    listener.changed();
  }

  #createGrpc(): Server {
    const { clock, listener, maxStreams, keepaliveIntervalMs, keepaliveTimeoutMs } = this.#options;
    const grpc = new Server({
      'grpc.max_receive_message_length': longestRequestBytes,
      'grpc.max_concurrent_streams': maxStreams + otherStreams,
      'grpc.keepalive_time_ms': keepaliveIntervalMs,
      'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
      'grpc.max_connection_idle_ms': idleConnectionMs,
      'grpc.enable_channelz': 0,
    });
    const onFault = (method: string, error: unknown): void => listener.fault(method, error);
    registerHealth(grpc, this.#health, { clock, onCall: () => {}, onFault });
    const method = `/${discoveryService}/StreamAggregatedResources`;
    grpc.register(method, (call: DiscoveryCall) => this.#open(call), encodeBytes, decodeBytes, 'bidi');
    return grpc;
  }

  #open(call: DiscoveryCall): void {
    const refusal = this.#streamRefusal(call.getPeer());
    if (refusal !== undefined) {
      call.emit('error', { code: refusal.code, details: refusal.message });
      return;
    }
    this.#streamNumber++;
    const noncePrefix = `${this.#run}.${this.#streamNumber}`;
    const id = `${this.#options.replicaName}/${noncePrefix}`;
    this.#streams.add(new LimiterStream(call, this.#context, { id, noncePrefix }));
  }

  #streamRefusal(peer: string): GrpcStatus | undefined {
    if (this.#shutdown !== undefined) return shuttingDown;
    const { maxStreams } = this.#options;
    if (this.#streams.size < maxStreams) return undefined;
    this.#tooMany.note(peer);
    const message = `this replica of the control plane serves at most ${maxStreams} streams`;
    return { code: GrpcCode.RESOURCE_EXHAUSTED, message };
  }

  async #openTransport(): Promise<Transport> {
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    const { tls, timers, listener } = this.#options;
    const options = {
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
        listener.certificateChanged();
      },
      refused: (reason) => listener.certificateRefused(reason),
    });
    this.#closeCredentials = credentials.close;
    transport = tlsTransport(credentials.first, options);
    return transport;
  }

  async #stop(): Promise<void> {
    this.#closeCredentials();
    for (const callOff of this.#callOffs) callOff();
    this.#health.stop();
    const transport = this.#transport;
    if (transport === undefined) return;
    for (const stream of this.#streams) stream.end(shuttingDown);
    await closeOrCut({
      close: (closed) => {
        transport.server.close(() => closed());
        this.#grpc.tryShutdown(() => {});
      },
      cut: () => transport.sockets.cut(),
      graceMs: this.#options.shutdownGraceMs,
    });
  }
}
