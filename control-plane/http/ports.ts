/**
 * The HTTP ports for operators and probes, the secret lookup, and admission: access rules of `/v1`, which only shows data, bounds on
 * connections, and listeners with TLS.
 */
import { hostname } from 'node:os';
import { ApiGuard, type ApiRejection } from '../../process/http/api-guard.ts';
import type { ApiRoute } from '../../process/http/api-route.ts';
import { ApiRouter } from '../../process/http/api-router.ts';
import {
  type HttpConnectionsOptions,
  httpRejections,
  httpRejectionTexts,
} from '../../process/http/http-connections.ts';
import { type HttpListener, HttpServer, type HttpServerOptions } from '../../process/http/http-server.ts';
import { LogThrottle, type ThrottledLine, throttledLine } from '../../process/log/log-throttle.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { type TlsFiles, watchTlsCredentials } from '../../process/net/tls-credentials.ts';
import { type FollowedToken, followTokenFile } from '../../process/net/token-file.ts';
import { LoopTurns } from '../../process/queues/loop-turns.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

/** Chosen: the shortest interval of lines about events that callers can cause. */
export const reportedMs = 1_000;

interface AdminContext extends Telemetry {
  settings: { readonly debugTokenFile: string; readonly debugAllowedHosts: readonly string[] };
  clock: Clock;
  timers: Timers;
}

/** Chosen: no path accepts a body. */
const maxBodyBytes = { bytes: 1024, setting: 'no request may be longer' };

export function openAdmin(
  { settings, clock, log, metrics }: AdminContext,
  parts: { token(): string | undefined; routes: readonly ApiRoute[]; onFault(error: unknown): void },
): ApiRouter {
  const throttle = new LogThrottle<ApiRejection>(
    clock,
    ({ address, reason, detail }, times) =>
      lines.adminRejected(log, { from: address, counter: reason, reason: detail, times }),
    reportedMs,
  );
  const guard = new ApiGuard({
    token: parts.token,
    hosts: { machine: hostname(), allowed: settings.debugAllowedHosts, setting: 'DEBUG_ALLOWED_HOSTS' },
    noChanges: 'the control plane accepts no changes by this API: change the objects in Kubernetes',
    clock,
    onRejected: (rejected) => {
      metrics.all.apiRejected.inc({ reason: rejected.reason });
      throttle.note(rejected, rejected.reason);
    },
  });
  return new ApiRouter({ guard, routes: parts.routes, maxBodyBytes, onFault: parts.onFault });
}

/** Reads DEBUG_TOKEN_FILE, and again when it changes. */
export function followDebugToken({ settings, timers, log }: AdminContext): FollowedToken {
  return followTokenFile({
    path: settings.debugTokenFile,
    setting: 'DEBUG_TOKEN_FILE',
    timers,
    rotated: () => lines.debugTokenRotated(log),
    rejected: (reason) => lines.debugTokenRejected(log, { reason }),
  });
}

/** Chosen: the bound of each port, far above the number of connections that API servers, probes, scrapers and operators open. */
const maxConnections = 1_000;
/** Chosen: the bound of all ports together, which is a twelfth of the memory that the chart allows, and eight of the largest reviews. */
const maxBufferedBytes = 64 * 1024 * 1024;

export interface CallerConnectionsOptions extends Telemetry {
  clock: Clock;
  timers: Timers;
}

export class CallerConnections {
  readonly #options: CallerConnectionsOptions;
  readonly #connectionMemory: ConnectionMemory;
  readonly #turns = new LoopTurns();
  readonly #wasCut: ThrottledLine<{ listener: string; peer: string; reason: string }>;

  constructor(options: CallerConnectionsOptions) {
    const { timers, metrics } = options;
    this.#options = options;
    for (const reason of httpRejections) metrics.all.httpRejected.inc({ reason }, 0);
    this.#connectionMemory = new ConnectionMemory({ maxBytes: maxBufferedBytes, timers });
    this.#wasCut = throttledLine(options, lines.callerConnectionCut);
  }

  /** Returns the bounds for one listener, by its name in logs. */
  of(listener: string): HttpConnectionsOptions {
    return {
      maxConnections,
      connectionMemory: this.#connectionMemory,
      turns: this.#turns,
      changed: () => {},
      rejected: (rejection, peer) => {
        this.#options.metrics.all.httpRejected.inc({ reason: rejection });
        this.#wasCut({ listener, peer, reason: httpRejectionTexts[rejection] }, rejection);
      },
    };
  }
}

export interface TlsListenerOptions
  extends Telemetry,
    Pick<HttpServerOptions, 'admit' | 'serve' | 'closeGraceMs' | 'connections'> {
  /** The name in log lines. */
  name: string;
  /** PEM files, which are read again when they change. Undefined for plain HTTP. */
  files: TlsFiles | undefined;
  timers: Timers;
  /** The interval at which files are checked. Defaults to 5 s. */
  reloadIntervalMs?: number | undefined;
  /** Called after the end. */
  closed(): void;
}

/** Opens a listener, which then has to `listen`. Rejects with a WatchedFilesError if the files are invalid at the start. */
export async function openTlsListener(options: TlsListenerOptions): Promise<HttpListener> {
  const { name, files, timers, reloadIntervalMs, log, metrics } = options;
  const { admit = () => true, serve, closeGraceMs, connections } = options;
  const handshakes = new LogThrottle<{ peer: string; reason: string }>(
    timers,
    (failure, times) => lines.handshakeFailed(log, { ...failure, times }),
    reportedMs,
  );
  const credentials =
    files &&
    (await watchTlsCredentials({
      files,
      timers,
      reloadIntervalMs,
      changed: (next) => {
        server.useTls(next);
        lines.certificateChanged(log, { listener: name });
      },
      rejected: (reason) => lines.certificateRejected(log, { listener: name, reason }),
    }));
  const server = new HttpServer({
    ...{ admit, serve, closeGraceMs, connections },
    ...(credentials && { tls: credentials.first }),
    onFault: (error) => {
      metrics.all.faults.inc();
      lines.fault(log, { call: name, error });
    },
    onHandshakeFailed: (peer, reason) => handshakes.note({ peer, reason }),
  });
  return {
    listen: (address) => server.listen(address),
    async close() {
      credentials?.close();
      await server.close();
      handshakes.close();
      options.closed();
    },
  };
}
