/** Opens the HTTP listener and the token of the debug listener from settings. */
import { hostname } from 'node:os';
import { throttledLine } from '../../process/log/log-throttle.ts';
import { type FollowedToken, followTokenFile } from '../../process/net/token-file.ts';
import {
  ApiListener,
  type CheckedHosts,
  type HttpListenerOptions,
  type HttpTlsListener,
} from '../http/listener.ts';
import { type ConnectionEnd, connectionLines } from '../log/connection-lines.ts';
import { lines } from '../log/lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import type { Latencies } from '../stats/registry/call-stats.ts';
import { createHttpStats, createRejectionStats } from '../stats/registry/limiter-stats.ts';
import { certificateListener, type ListenerParts, serverTls, shutdownGraceMs } from './connections.ts';
import type { LimiterContext } from './context.ts';

export function openHttp(
  context: LimiterContext,
  parts: ListenerParts &
    Pick<HttpListenerOptions, 'shouldRateLimit' | 'decide' | 'excess' | 'routes' | 'bounds' | 'tooLarge'> & {
      latencies: Latencies;
    },
): ApiListener {
  const { settings, health, timers, clock, registry, log } = context;
  const { connections, reportsCertificates, latencies, ...rest } = parts;
  const maxBodyBytes = settings.httpMaxBodyBytes;
  const tls = serverTls(settings, 'http');
  return new ApiListener({
    ...rest,
    health,
    maxBodyBytes,
    closeGraceMs: shutdownGraceMs,
    connections: connections.http,
    ...createHttpStats(registry),
    timing: {
      nowMs: () => clock.monotonicMs(),
      record: (durationMs) => latencies.record(durationMs),
    },
    onFault: (error) => lines.callFault(log, { call: 'HTTP', error }),
    hosts: checkedHosts(context),
    tls: tls && { ...tls, timers, listener: tlsListener(context, reportsCertificates) },
  });
}

/** Undefined if HTTP_ALLOWED_HOSTS is empty, because proxies and load balancers may send any host name. */
function checkedHosts(context: LimiterContext): CheckedHosts | undefined {
  const { settings, registry } = context;
  const count = createRejectionStats(registry, 'ratelimit.http', ['foreign_host']);
  const { httpAllowedHosts: allowed } = settings;
  if (allowed.length === 0) return undefined;
  const rejected = throttledLine(context, connectionLines.hostRejected);
  return {
    own: { machine: hostname(), allowed, setting: accessSettings.httpAllowedHosts.name },
    rejected: ({ peer, problem: reason }) => {
      count('foreign_host');
      rejected({ listener: 'HTTP', peer, counter: 'foreign_host', reason }, 'foreign_host');
    },
  };
}

function tlsListener(context: LimiterContext, reportsCertificates: boolean): HttpTlsListener {
  const { registry } = context;
  const count = createRejectionStats(registry, 'ratelimit.http', ['tls_handshake', 'tls_client_certificate']);
  const rejected = throttledLine(context, (log, end: ConnectionEnd) => {
    if (end.counter === 'tls_handshake') connectionLines.handshakeFailed(log, end);
    else connectionLines.certificateMissing(log, end);
  });
  return {
    ...certificateListener(context, 'HTTP', reportsCertificates),
    rejected: ({ reason: counter, peer, problem: reason }) => {
      count(counter);
      rejected({ listener: 'HTTP', peer, counter, reason }, `${counter} ${reason}`);
    },
  };
}

/** DEBUG_TOKEN_FILE: the token that the debug listener requires from every client. */
export function followDebugToken({ settings, timers, log }: LimiterContext): FollowedToken {
  return followTokenFile({
    path: settings.debugTokenFile,
    setting: accessSettings.debugTokenFile.name,
    timers,
    rotated: () => lines.debugTokenRotated(log),
    rejected: (reason) => lines.debugTokenRejected(log, { reason }),
  });
}
