/** From settings to the HTTP listener, with what is logged and counted of TLS on it. */

import { watchFiles } from '../../process/files/watched-files.ts';
import type { CallerGate, CallTracer, RequestOrigin, UnaryHandler } from '../../process/grpc/handlers.ts';
import type { HealthView } from '../../process/grpc/health-service.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import type { HttpListener } from '../../process/http/http-server.ts';
import type { Logger } from '../../process/log/logger.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { RequestBounds, RequestTooLarge } from '../decide/request-bounds.ts';
import { createHttpListener, type HttpTls, type HttpTlsListener } from '../http/listener.ts';
import * as lines from '../log/lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';
import { createHttpTlsStats, createJsonStats } from '../stats/registry/limiter-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { certificateListener, seldomMs, silent } from './connections.ts';

export interface OpenedHttpParts {
  settings: LimiterSettings;
  shouldRateLimit: UnaryHandler;
  bounds: RequestBounds;
  onTooLarge(error: RequestTooLarge, origin: RequestOrigin): void;
  health: HealthView;
  clock: Clock;
  timers: Timers;
  registry: StatsRegistry;
  log: Logger;
  /** Bounds its connections. */
  connections: HttpConnectionsOptions;
  closeGraceMs: number;
  /** Undefined where tracing is off. */
  tracer: CallTracer | undefined;
  /** Undefined: whoever reaches the port may ask. */
  gate: CallerGate | undefined;
  /** Whether this thread counts and logs what becomes of the TLS files. */
  tellsOfCertificates: boolean;
}

export function openHttp(parts: OpenedHttpParts): HttpListener {
  const { settings, shouldRateLimit, health, registry, log, closeGraceMs, tracer, gate } = parts;
  return createHttpListener({
    shouldRateLimit,
    bounds: parts.bounds,
    onTooLarge: (error, origin) => parts.onTooLarge(error, origin),
    health,
    maxBodyBytes: settings.httpMaxBodyBytes,
    closeGraceMs,
    connections: parts.connections,
    onJsonRequest: createJsonStats(registry),
    onFault: (error) => lines.callFault(log, 'HTTP', error),
    tracer,
    gate,
    tls: settings.httpServerUseTls ? httpTls(parts) : undefined,
  });
}

function httpTls(parts: OpenedHttpParts): HttpTls {
  const { httpClientTlsCaCert, httpClientTlsSan, httpServerTlsCert, httpServerTlsKey } = parts.settings;
  return {
    certFile: httpServerTlsCert,
    keyFile: httpServerTlsKey,
    fileSettings: {
      certFile: accessSettings.httpServerTlsCert.name,
      keyFile: accessSettings.httpServerTlsKey.name,
      clientCaFile: accessSettings.httpClientTlsCaCert.name,
    },
    ...(httpClientTlsCaCert === '' ? {} : { clientCaFile: httpClientTlsCaCert }),
    ...(httpClientTlsSan === '' ? {} : { clientName: httpClientTlsSan }),
    timers: parts.timers,
    listener: tlsListener(parts),
  };
}

function tlsListener({ registry, clock, log, tellsOfCertificates }: OpenedHttpParts): HttpTlsListener {
  const count = createHttpTlsStats(registry, ['tls_handshake', 'tls_client_certificate']);
  const seldom = new Seldom<Parameters<HttpTlsListener['refused']>[0]>(
    clock,
    seldomMs,
    ({ reason: counter, peer, problem: reason }, times) => {
      const end = { listener: 'HTTP', peer, counter, reason, times };
      if (counter === 'tls_handshake') lines.handshakeFailed(log, end);
      else lines.certificateMissing(log, end);
    },
  );
  const certificate = { listener: 'HTTP', prefix: 'http_certs' } as const;
  return {
    ...(tellsOfCertificates ? certificateListener({ registry, clock, log }, certificate) : silent),
    refused: (refused) => {
      count(refused.reason);
      seldom.note(refused, `${refused.reason} ${refused.problem}`);
    },
  };
}

/** DEBUG_TOKEN_FILE: what the debug listener asks of whoever comes. */

/** Ours: as much as nobody guesses over a network. */
const leastCharacters = 16;

export class DebugToken {
  readonly #path: string;
  readonly #timers: Timers;
  readonly #log: Logger;
  #current: string | undefined;
  #close = (): void => {};

  constructor({ settings, timers, log }: { settings: LimiterSettings; timers: Timers; log: Logger }) {
    this.#path = settings.debugTokenFile;
    this.#timers = timers;
    this.#log = log;
  }

  /** Undefined where there is none. */
  get current(): string | undefined {
    return this.#current;
  }

  /** Rejects with a WatchedFilesError when the file holds no good token. */
  async start(): Promise<void> {
    if (this.#path === '') return;
    const { first, close } = await watchFiles({
      paths: [this.#path],
      names: [`${accessSettings.debugTokenFile.name}: ${this.#path}`],
      read: ([text = '']) => this.#read(text),
      timers: this.#timers,
      changed: (token) => {
        if (token !== this.#current) lines.debugTokenRotated(this.#log);
        this.#current = token;
      },
      refused: (reason) => lines.debugTokenRefused(this.#log, reason),
    });
    this.#current = first;
    this.#close = close;
  }

  close(): void {
    this.#close();
  }

  #read(text: string): string {
    const token = text.trim();
    const problem = tokenProblem(token, leastCharacters);
    if (problem === undefined) return token;
    throw new Error(`${accessSettings.debugTokenFile.name}: ${this.#path}: ${problem}`);
  }
}
