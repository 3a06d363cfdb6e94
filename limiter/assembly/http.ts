/** From settings to the HTTP listener, and the token of the debug listener. */
import { watchFiles } from '../../process/files/watched-files.ts';
import type { HttpListener } from '../../process/http/http-server.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import { ApiListener, type HttpListenerOptions, type HttpTlsListener } from '../http/listener.ts';
import * as lines from '../log/lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import { createJsonStats, createRefusalStats } from '../stats/registry/limiter-stats.ts';
import {
  certificateListener,
  type ListenerParts,
  seldomMs,
  serverTls,
  shutdownGraceMs,
} from './connections.ts';
import type { LimiterContext } from './context.ts';

export function openHttp(
  context: LimiterContext,
  parts: ListenerParts & Pick<HttpListenerOptions, 'shouldRateLimit' | 'bounds' | 'onTooLarge'>,
): HttpListener {
  const { settings, health, timers, registry, log } = context;
  const { connections, tellsOfCertificates, ...rest } = parts;
  const tls = serverTls(settings, 'http');
  return new ApiListener({
    ...rest,
    health,
    maxBodyBytes: settings.httpMaxBodyBytes,
    closeGraceMs: shutdownGraceMs,
    connections: connections.http,
    onJsonRequest: createJsonStats(registry),
    onFault: (error) => lines.callFault(log, 'HTTP', error),
    tls: tls && { ...tls, timers, listener: tlsListener(context, tellsOfCertificates) },
  });
}

function tlsListener(context: LimiterContext, tellsOfCertificates: boolean): HttpTlsListener {
  const { registry, clock, log } = context;
  const count = createRefusalStats(registry, 'ratelimit.http', ['tls_handshake', 'tls_client_certificate']);
  const seldom = new Seldom<Parameters<HttpTlsListener['refused']>[0]>(
    clock,
    seldomMs,
    ({ reason: counter, peer, problem: reason }, times) => {
      const end = { listener: 'HTTP', peer, counter, reason, times };
      if (counter === 'tls_handshake') lines.handshakeFailed(log, end);
      else lines.certificateMissing(log, end);
    },
  );
  return {
    ...certificateListener(context, 'HTTP', tellsOfCertificates),
    refused: (refused) => {
      count(refused.reason);
      seldom.note(refused, `${refused.reason} ${refused.problem}`);
    },
  };
}

/** Chosen: as much as nobody guesses over a network. */
const leastCharacters = 16;

/** DEBUG_TOKEN_FILE: what the debug listener asks of whoever comes. */
export interface DebugToken {
  /** Undefined where there is none. */
  readonly current: string | undefined;
  /** Rejects with a WatchedFilesError when the file holds no good token. */
  start(): Promise<void>;
  close(): void;
}

export function followDebugToken({ settings, timers, log }: LimiterContext): DebugToken {
  const path = settings.debugTokenFile;
  const name = `${accessSettings.debugTokenFile.name}: ${path}`;
  let current: string | undefined;
  let close = (): void => {};
  const read = (text: string): string => {
    const token = text.trim();
    const problem = tokenProblem(token, leastCharacters);
    if (problem === undefined) return token;
    throw new Error(`${name}: ${problem}`);
  };
  return {
    get current() {
      return current;
    },
    start: async () => {
      if (path === '') return;
      const watch = await watchFiles({
        paths: [path],
        names: [name],
        read: ([text = '']) => read(text),
        timers,
        changed: (token) => {
          if (token !== current) lines.debugTokenRotated(log);
          current = token;
        },
        refused: (reason) => lines.debugTokenRefused(log, reason),
      });
      current = watch.first;
      close = watch.close;
    },
    close: () => close(),
  };
}
