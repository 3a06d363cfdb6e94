/** What is logged and counted of connections of gRPC callers, and of the certificate that is shown to them. */

import type { Logger } from '../../process/log/logger.ts';
import { SeldomByKind } from '../../process/log/seldom.ts';
import type { Clock } from '../../process/time/process-clock.ts';
import * as lines from '../log/lines.ts';
import { connectionRefusals, isTlsRefusal, type RefusedConnection } from '../sockets/refusals.ts';
import type { SocketServerListener } from '../sockets/socket-server.ts';
import { createCertificateStats, createConnectionStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

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
  const seldom = new SeldomByKind<RefusedConnection>(clock, seldomMs, (refused, times) =>
    tellOf(log, refused, times),
  );
  const certificates = tellsOfCertificates ? certificateListener(parts, grpcCertificate) : silent;
  return {
    ...certificates,
    refused: (refused) => {
      count(refused.reason);
      seldom.note(`${refused.reason} ${refused.problem}`, refused);
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
