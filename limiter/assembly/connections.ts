/** The shared parts of callers' connections: their bounds, TLS files, log lines and statistics. */
import type { CallerGate, CallTracer } from '../../process/grpc/handlers.ts';
import {
  type HttpConnectionsOptions,
  httpRejections,
  httpRejectionTexts,
} from '../../process/http/http-connections.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import type { Logger } from '../../process/log/logger.ts';
import { ConnectionMemory, type ThreadMemory } from '../../process/net/connection-memory.ts';
import { FlushTurn, LoopTurns } from '../../process/queues/loop-turns.ts';
import type { HttpTls } from '../http/listener.ts';
import { type ConnectionEnd, connectionLines as lines } from '../log/connection-lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import { grpcSettings } from '../settings/grpc-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import {
  connectionRejections,
  isTlsRejection,
  type RejectedConnection,
  type SocketServerListener,
} from '../sockets/socket-server.ts';
import type { TlsOptions } from '../sockets/tls-listener.ts';
import {
  createCertificateStats,
  createRejectionStats,
  registerConnectionMemoryStats,
} from '../stats/registry/limiter-stats.ts';
import type { LimiterContext } from './context.ts';

/** How long requests in flight may continue after the listeners have closed. */
export const shutdownGraceMs = 10_000;
const dayMs = 86_400_000;

/** The bounds that all connections of a thread share. */
export interface OpenedConnections {
  /** The memory held by connections of every listener. */
  connectionMemory: ConnectionMemory;
  /** The turns of the event loop in which requests over these connections are served. */
  turns: LoopTurns;
  /** The end of a turn, when answers that waited for the store are written, and single ops are sent to it. */
  flushTurn: FlushTurn;
  /** The options of each HTTP listener. */
  http: HttpConnectionsOptions;
}

/** `shared`: the memory of all threads; undefined if this is the only one. */
export function openConnections(
  { settings, registry, clock, timers, log }: LimiterContext,
  shared: ThreadMemory | undefined,
): OpenedConnections {
  const connectionMemory = new ConnectionMemory({ maxBytes: settings.connectionsMaxBytes, shared, timers });
  registerConnectionMemoryStats(registry, connectionMemory);
  const turns = new LoopTurns();
  let open = 0;
  const count = createRejectionStats(registry, 'ratelimit.http', httpRejections, () => open);
  const rejected = throttledLine({ log, clock }, lines.httpConnectionRejected);
  return {
    connectionMemory,
    turns,
    flushTurn: new FlushTurn(),
    http: {
      connectionMemory,
      turns,
      maxConnections: settings.httpMaxConnections,
      changed: (by) => {
        open += by;
      },
      rejected: (counter, peer) => {
        count(counter);
        rejected({ peer, counter, reason: httpRejectionTexts[counter] }, counter);
      },
    },
  };
}

/** The common parts of the gRPC and the HTTP listener of one thread. */
export interface ListenerParts {
  connections: OpenedConnections;
  /** Undefined if tracing is off. */
  tracer: CallTracer | undefined;
  /** Undefined: every caller that reaches the port is accepted. */
  gate: CallerGate | undefined;
  /** Whether this thread counts and logs changes of the TLS files. Of several threads that watch them, only one does. */
  reportsCertificates: boolean;
}

/** Undefined if the listener uses plain text. */
export function serverTls(
  settings: LimiterSettings,
  listener: 'grpc' | 'http',
): (TlsOptions & Pick<HttpTls, 'fileSettings'>) | undefined {
  if (!settings[`${listener}ServerUseTls`]) return undefined;
  const rows = { ...grpcSettings, ...accessSettings };
  const [certFile, keyFile] = [settings[`${listener}ServerTlsCert`], settings[`${listener}ServerTlsKey`]];
  const [clientCaFile, clientName] = [
    settings[`${listener}ClientTlsCaCert`],
    settings[`${listener}ClientTlsSan`],
  ];
  return {
    certFile,
    keyFile,
    fileSettings: {
      certFile: rows[`${listener}ServerTlsCert`].name,
      keyFile: rows[`${listener}ServerTlsKey`].name,
      clientCaFile: rows[`${listener}ClientTlsCaCert`].name,
    },
    ...(clientCaFile === '' ? {} : { clientCaFile }),
    ...(clientName === '' ? {} : { clientName }),
  };
}

/** The listener that logs and counts events of gRPC connections; `connections` returns how many are open. */
export function connectionListener(
  context: LimiterContext,
  { connections, reportsCertificates }: { connections: () => number; reportsCertificates: boolean },
): SocketServerListener {
  const { registry } = context;
  const count = createRejectionStats(registry, 'ratelimit_server.http2', connectionRejections, connections);
  const rejected = throttledLine(context, reportRejection);
  return {
    ...certificateListener(context, 'gRPC', reportsCertificates),
    rejected: ({ reason: counter, peer, problem: reason }) => {
      count(counter);
      rejected({ peer, counter, reason }, `${counter} ${reason}`);
    },
  };
}

interface EndOfRejected extends ConnectionEnd {
  counter: RejectedConnection['reason'];
}

function reportRejection(log: Logger, end: EndOfRejected): void {
  const { counter } = end;
  if (isTlsRejection(counter)) lines.handshakeFailed(log, end);
  else if (counter === 'unfinished_request') lines.requestUnfinished(log, end);
  else if (counter === 'too_many_bytes') lines.connectionUsedTooMuchMemory(log, end);
  else if (counter === 'idle_timeout') lines.connectionIdle(log, end);
  else lines.connectionRejected(log, end);
}

/** The listener that logs and counts changes of the server certificate, if this thread `reports` them. */
export function certificateListener(
  { registry, clock, log }: LimiterContext,
  listener: 'gRPC' | 'HTTP',
  reports: boolean,
): Pick<SocketServerListener, 'certificateInUse' | 'certificateRejected'> {
  if (!reports) return { certificateInUse: () => {}, certificateRejected: () => {} };
  let inUseUntilMs = 0;
  let wasLastRejected = false;
  const stats = createCertificateStats(registry, listener === 'gRPC' ? 'certs' : 'http_certs', {
    expiresAtSeconds: () => Math.floor(inUseUntilMs / 1000),
    wasLastRejected: () => wasLastRejected,
  });
  return {
    certificateInUse: ({ expiresMs, isFirst }) => {
      inUseUntilMs = expiresMs;
      const expires = new Date(expiresMs).toISOString();
      if (!isFirst) {
        stats.loaded();
        lines.certificateChanged(log, { listener, expires }, wasLastRejected);
      }
      wasLastRejected = false;
      const leftMs = expiresMs - clock.nowMs();
      if (leftMs <= 0) lines.certificateExpired(log, { listener, expires });
      else if (leftMs <= dayMs) lines.certificateExpiresSoon(log, { listener, expires });
    },
    certificateRejected: (reason) => {
      wasLastRejected = true;
      stats.failed();
      lines.certificateRejected(log, { listener, reason });
    },
  };
}
