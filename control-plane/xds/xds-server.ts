/** The listener for limiters: aggregated discovery in both forms, and the health service. */
import type { Server as NetServer } from 'node:net';
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js';
import { watchFiles } from '../../process/files/watched-files.ts';
import { decodeBytes, encodeBytes } from '../../process/grpc/grpc-js.ts';
import { GrpcCode, type GrpcStatus, statusText } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health.ts';
import { HealthService } from '../../process/grpc/health-service.ts';
import { errorText } from '../../process/log/error-text.ts';
import { LogThrottle, type ThrottledLine, throttledLine } from '../../process/log/log-throttle.ts';
import { bind, closeOrCut, type ListenAddress } from '../../process/net/bind.ts';
import {
  listenerCredentials,
  type TlsFiles,
  watchTlsCredentials,
} from '../../process/net/tls-credentials.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { connectionCuts } from '../telemetry/metric-set.ts';
import { CallerIdentity, parseTokens, type TokenNames } from './caller-identity.ts';
import {
  type DiscoveryForm,
  Incremental,
  longestRequestBytes,
  RejectedLists,
  StateOfTheWorld,
} from './discovery-form.ts';
import { registerHealth } from './health-calls.ts';
import {
  type LimiterConnection,
  LimiterConnections,
  type LimiterConnectionsOptions,
  plainServer,
  tlsServer,
  watchUnfinishedMessages,
} from './limiter-connections.ts';
import type { CallListener, DiscoveryCall } from './limiter-stream.ts';
import type { LimiterStreams } from './limiter-streams.ts';
import { type ReviewToken, TokenReviews } from './token-reviews.ts';

export interface XdsServerOptions extends Telemetry {
  streams: LimiterStreams;
  clock: Clock;
  timers: Timers;
  /** The health to report. */
  health: HealthView;
  /** The interval at which a connection is checked for signs of life. */
  keepaliveIntervalMs: number;
  /** The time after which a connection without signs of life is cut. */
  keepaliveTimeoutMs: number;
  /** Bounds on connections. Defaults to those of `LimiterConnections`. */
  connections?: Pick<LimiterConnectionsOptions, 'maxIdle' | 'maxBufferedBytes'>;
  /** How long streams may continue at shutdown before they are cut. */
  shutdownGraceMs: number;
  /** Undefined for no TLS. */
  tls?: TlsFiles & { reloadIntervalMs?: number };
  /** Tokens that identify clients, see `parseTokens`. Undefined for none. */
  tokensFile?: { path: string; reloadIntervalMs?: number };
  /** Undefined if tokens of service accounts are not accepted. */
  serviceAccounts?: { audience: string; perSecond: number; review: ReviewToken };
  /** Whether clients without a certificate or token are served, too. */
  allowAnonymous: boolean;
}

type GrpcCall = ServerDuplexStream<Buffer, Buffer>;

const discoveryService = 'envoy.service.discovery.v3.AggregatedDiscoveryService';
const shuttingDown: GrpcStatus = {
  code: GrpcCode.UNAVAILABLE,
  message: 'this replica of the control plane is shutting down',
};

/** Chosen: a connection without a stream uses memory for no purpose. */
const idleConnectionMs = 300_000;
/** The number of other calls, mostly of the health service. */
const otherStreams = 100;

export class XdsServer {
  readonly #options: XdsServerOptions;
  readonly #grpc: Server;
  readonly #health: HealthService;
  readonly #identity: CallerIdentity;
  readonly #reviews: TokenReviews | undefined;
  readonly #connections: LimiterConnections;
  readonly #handshakes: LogThrottle<{ peer: string; reason: string }>;
  readonly #strangerRejected: ThrottledLine<{ peer: string; reason: string }>;
  readonly #reviewFailed: ThrottledLine<{ reason: string }>;
  readonly #wasCut: ThrottledLine<{ peer: string; reason: string }>;
  #server: NetServer | undefined;
  #closeCredentials = (): void => {};
  #closeTokens = (): void => {};
  /** Streams whose caller is not known yet, mostly because the API server reviews its token. */
  #unproven = 0;
  #shutdown: Promise<void> | undefined;

  constructor(options: XdsServerOptions) {
    const { clock, log, metrics } = options;
    this.#options = options;
    this.#health = new HealthService(options.health, [discoveryService]);
    this.#handshakes = new LogThrottle(clock, (it, times) => {
      metrics.all.handshakesFailed.inc(times);
      lines.handshakeFailed(log, { ...it, times });
    });
    this.#strangerRejected = throttledLine(options, lines.streamRejected);
    this.#reviewFailed = throttledLine(options, lines.tokenReviewFailed);
    this.#wasCut = throttledLine(options, lines.connectionCut);
    this.#connections = new LimiterConnections({
      ...options.connections,
      timers: options.timers,
      wasCut: (reason, peer) => {
        metrics.all.connectionsCut.inc({ reason });
        this.#wasCut({ peer, reason: connectionCuts[reason] }, reason);
      },
    });
    this.#reviews = this.#createReviews();
    this.#identity = this.#createIdentity();
    this.#grpc = this.#createGrpc();
  }

  /** Rejects with a BindError, or with a WatchedFilesError of the TLS files. */
  async listen(address: ListenAddress): Promise<{ port: number }> {
    try {
      await this.#openTokens();
      this.#server = await this.#openServer();
      return await bind(this.#server, address);
    } catch (error) {
      this.#closeTokens();
      this.#closeCredentials();
      throw error;
    }
  }

  /**
   * Ends all streams, so that limiters connect to another replica. Settles when the streams have ended, or were cut after the grace
   * period.
   */
  shutdown(): Promise<void> {
    this.#shutdown ??= this.#stop();
    return this.#shutdown;
  }

  #createGrpc(): Server {
    const { streams, keepaliveIntervalMs, keepaliveTimeoutMs } = this.#options;
    const grpc = new Server({
      'grpc.max_receive_message_length': longestRequestBytes,
      'grpc.max_concurrent_streams': streams.maxStreams + otherStreams,
      'grpc.keepalive_time_ms': keepaliveIntervalMs,
      'grpc.keepalive_timeout_ms': keepaliveTimeoutMs,
      'grpc.max_connection_idle_ms': idleConnectionMs,
      'grpc.enable_channelz': 0,
      interceptors: [watchUnfinishedMessages(this.#connections)],
    });
    registerHealth(grpc, this.#health);
    const rejected = new RejectedLists();
    const forms = {
      StreamAggregatedResources: () => new StateOfTheWorld(),
      DeltaAggregatedResources: () => new Incremental(rejected),
    };
    for (const [method, form] of Object.entries(forms)) {
      const open = (call: GrpcCall) => void this.#open(call, form());
      grpc.register(`/${discoveryService}/${method}`, open, encodeBytes, decodeBytes, 'bidi');
    }
    return grpc;
  }

  /** Opens a stream once its caller is known. Nothing of the stream is read before that. */
  async #open(call: GrpcCall, form: DiscoveryForm): Promise<void> {
    const rejection =
      this.#shutdown === undefined
        ? this.#options.streams.rejection(call.getPeer(), this.#unproven)
        : shuttingDown;
    if (rejection !== undefined) {
      call.emit('error', { code: rejection.code, details: rejection.message });
      return;
    }
    this.#unproven++;
    const found = await this.#identity.of(call);
    this.#unproven--;
    if (call.cancelled) return;
    const identity = this.#shutdown === undefined ? found : shuttingDown;
    if (!('code' in identity)) {
      const connection = this.#connections.of(call.getPeer());
      this.#options.streams.open(new GrpcDiscoveryCall(call, connection), identity, form);
      return;
    }
    const { code, message } = identity;
    if (identity !== shuttingDown) {
      this.#options.metrics.all.streamsRejected.inc({ reason: 'identity' });
      this.#strangerRejected({ peer: call.getPeer(), reason: message });
    }
    call.emit('error', { code, details: statusText(message) });
  }

  async #openServer(): Promise<NetServer> {
    const injector = this.#grpc.createConnectionInjector(ServerCredentials.createInsecure());
    const { tls, timers, log } = this.#options;
    const options = {
      connections: this.#connections,
      accept: (socket: Parameters<typeof injector.injectConnection>[0]) => injector.injectConnection(socket),
      handshakeFailed: (peer: string, reason: string) => this.#handshakes.note({ peer, reason }),
    };
    if (tls === undefined) return plainServer(options);
    const { reloadIntervalMs, ...files } = tls;
    const credentials = await watchTlsCredentials({
      files,
      timers,
      reloadIntervalMs,
      changed: (next) => {
        server.setSecureContext(listenerCredentials(next));
        lines.certificateChanged(log, { listener: 'xDS' });
      },
      rejected: (reason) => lines.certificateRejected(log, { listener: 'xDS', reason }),
    });
    this.#closeCredentials = credentials.close;
    const server = tlsServer(credentials.first, { ...options, mayShowNone: this.#hasOtherWays });
    return server;
  }

  /** A caller without a certificate may prove its identity with a token, or need not prove it. */
  get #hasOtherWays(): boolean {
    const { tokensFile, serviceAccounts, allowAnonymous } = this.#options;
    return allowAnonymous || tokensFile !== undefined || serviceAccounts !== undefined;
  }

  #createReviews(): TokenReviews | undefined {
    const { serviceAccounts, metrics, streams } = this.#options;
    if (serviceAccounts === undefined) return undefined;
    return new TokenReviews({
      ...this.#options,
      ...serviceAccounts,
      // Each limiter has a token, and will soon have a new one.
      maxKnown: 2 * streams.maxStreams,
      reviewed: (outcome) => metrics.all.tokenReviews.inc({ outcome }),
      failed: (reason) => this.#reviewFailed({ reason }),
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
      intervalMs: reloadIntervalMs,
      changed: (tokens) => {
        this.#identity.useTokens(tokens);
        this.#options.streams.checkTokens((identity) => this.#identity.staleness(identity));
        lines.secretRotated(log, { secret: 'XDS_TOKENS_FILE' });
      },
      rejected: (reason) => lines.secretRejected(log, { secret: 'XDS_TOKENS_FILE', reason }),
    });
    this.#closeTokens = opened.close;
    this.#identity.useTokens(opened.first);
  }

  async #stop(): Promise<void> {
    this.#closeCredentials();
    this.#closeTokens();
    this.#reviews?.close();
    this.#health.stop();
    this.#connections.close();
    this.#options.streams.end(shuttingDown);
    const server = this.#server;
    if (server === undefined) return;
    await closeOrCut({
      close: (closed) => {
        server.close(() => closed());
        this.#grpc.tryShutdown(() => {});
      },
      cut: () => this.#connections.sockets.cut(),
      graceMs: this.#options.shutdownGraceMs,
    });
  }
}

/** A discovery stream on `@grpc/grpc-js`. */
class GrpcDiscoveryCall implements DiscoveryCall {
  readonly peer: string;
  readonly #call: GrpcCall;
  readonly #connection: LimiterConnection | undefined;

  constructor(call: GrpcCall, connection: LimiterConnection | undefined) {
    this.peer = call.getPeer();
    this.#call = call;
    this.#connection = connection;
    connection?.countStream(1);
  }

  follow(listener: CallListener): void {
    let isClosed = false;
    const close = (): void => {
      if (!isClosed) this.#connection?.countStream(-1);
      isClosed = true;
    };
    this.#call.on('data', (bytes: Buffer) => listener.received(bytes));
    this.#call.on('end', () => listener.finished());
    // One of both comes first, depending on which side ends the stream.
    this.#call.on('cancelled', () => {
      close();
      listener.givenUp();
    });
    this.#call.on('close', () => {
      close();
      listener.closed();
    });
  }

  send(bytes: Buffer, taken: () => void): void {
    this.#call.write(bytes, taken);
  }

  end(): void {
    this.#call.end();
  }

  fail({ code, message }: GrpcStatus): void {
    this.#call.emit('error', { code, details: statusText(message) });
  }

  cut(): void {
    this.#connection?.destroy();
  }

  hold(bytes: number): void {
    this.#connection?.hold(bytes);
  }
}
