/** The bounds that all connections of a process share, with what is logged and counted of them. One for each thread. */

import {
  type HttpConnectionsOptions,
  type HttpRefusal,
  httpRefusals,
  httpRefusalTexts,
} from '../../process/http/http-connections.ts';
import type { Logger } from '../../process/log/logger.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { HeldBytes, type SharedHoldings } from '../../process/net/held-bytes.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { LoopTurns } from '../../process/time/loop-turns.ts';
import type { ConnectionEnd } from '../log/connection-lines.ts';
import * as lines from '../log/lines.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import {
  connectionRefusals,
  isTlsRefusal,
  type RefusedConnection,
  type SocketServerListener,
} from '../sockets/socket-server.ts';
import {
  createCertificateStats,
  createConnectionStats,
  createHttpConnectionStats,
  registerHeldStats,
} from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

export interface OpenedConnections {
  /** What connections of every listener hold. */
  held: HeldBytes;
  /** In which what comes over them is served. */
  turns: LoopTurns;
  /** Of each HTTP listener. */
  http: HttpConnectionsOptions;
}

export interface ConnectionsParts {
  settings: Pick<LimiterSettings, 'connectionsMaxBytes' | 'httpMaxConnections'>;
  /** With those of the other threads; undefined where this one is alone. */
  shared: SharedHoldings | undefined;
  registry: StatsRegistry;
  clock: Clock;
  timers: Timers;
  log: Logger;
}

/** Whatever any peer can make happen is logged at most so often. */
const httpSeldomMs = 60_000;

export function openConnections(parts: ConnectionsParts): OpenedConnections {
  const { settings, shared, registry, clock, timers, log } = parts;
  const held = new HeldBytes({ maxBytes: settings.connectionsMaxBytes, shared, timers });
  registerHeldStats(registry, held);
  const turns = new LoopTurns();
  let open = 0;
  const count = createHttpConnectionStats(registry, httpRefusals, () => open);
  const seldom = new Seldom<Omit<ConnectionEnd, 'times'>>(clock, httpSeldomMs, (end, times) =>
    lines.httpConnectionRefused(log, { ...end, times }),
  );
  return {
    held,
    turns,
    http: {
      held,
      turns,
      maxConnections: settings.httpMaxConnections,
      changed: (by) => {
        open += by;
      },
      refused: (counter: HttpRefusal, peer) => {
        count(counter);
        seldom.note({ peer, counter, reason: httpRefusalTexts[counter] }, counter);
      },
    },
  };
}

/** What is logged and counted of connections of gRPC callers, and of the certificate that is shown to them. */

export interface ConnectionListenerParts {
  registry: StatsRegistry;
  clock: Clock;
  log: Logger;
  /** How many are open. */
  connections: () => number;
  /** Whether this one counts and logs what becomes of the TLS files: of several threads that watch them, one does. */
  tellsOfCertificates: boolean;
}

/** Whatever any peer can make happen is logged at most so often. */
export const seldomMs = 60_000;
const dayMs = 86_400_000;

type CertificateListener = Pick<SocketServerListener, 'certificateInUse' | 'certificateRefused'>;

export function connectionListener(parts: ConnectionListenerParts): SocketServerListener {
  const { registry, clock, log, connections, tellsOfCertificates } = parts;
  const count = createConnectionStats(registry, connectionRefusals, connections);
  const seldom = new Seldom<RefusedConnection>(clock, seldomMs, (refused, times) =>
    tellOf(log, refused, times),
  );
  const certificates = tellsOfCertificates ? certificateListener(parts, grpcCertificate) : silent;
  return {
    ...certificates,
    refused: (refused) => {
      count(refused.reason);
      seldom.note(refused, `${refused.reason} ${refused.problem}`);
    },
  };
}

/** Whose certificate it is: in words, and in its statistics' names. */
export interface ListenersCertificate {
  listener: 'gRPC' | 'HTTP';
  prefix: 'certs' | 'http_certs';
}

const grpcCertificate: ListenersCertificate = { listener: 'gRPC', prefix: 'certs' };

export const silent: CertificateListener = { certificateInUse: () => {}, certificateRefused: () => {} };

function tellOf(
  log: Logger,
  { reason: counter, peer, problem: reason }: RefusedConnection,
  times: number,
): void {
  const end = { peer, counter, reason, times };
  if (isTlsRefusal(counter)) lines.handshakeFailed(log, end);
  else if (counter === 'unfinished_request') lines.requestUnfinished(log, end);
  else if (counter === 'too_many_bytes') lines.connectionHeldTooMuch(log, end);
  else if (counter === 'idle_timeout') lines.connectionIdle(log, end);
  else lines.connectionRefused(log, end);
}

/** Of the listener that it names. */
export function certificateListener(
  { registry, clock, log }: Pick<ConnectionListenerParts, 'registry' | 'clock' | 'log'>,
  { listener, prefix }: ListenersCertificate,
): CertificateListener {
  let inUseUntilMs = 0;
  let lastWasRefused = false;
  const stats = createCertificateStats(registry, prefix, {
    expiresAtSeconds: () => Math.floor(inUseUntilMs / 1000),
    lastWasRefused: () => lastWasRefused,
  });
  return {
    certificateInUse: ({ expiresMs, isFirst }) => {
      inUseUntilMs = expiresMs;
      const expires = new Date(expiresMs).toISOString();
      if (!isFirst) {
        stats.loaded();
        lines.certificateChanged(log, listener, expires, lastWasRefused);
      }
      lastWasRefused = false;
      const leftMs = expiresMs - clock.nowMs();
      if (leftMs <= 0) lines.certificateExpired(log, listener, expires);
      else if (leftMs <= dayMs) lines.certificateExpiresSoon(log, listener, expires);
    },
    certificateRefused: (reason) => {
      lastWasRefused = true;
      stats.failed();
      lines.certificateRefused(log, listener, reason);
    },
  };
}
