/** The listener of the secret lookup: apart from all others, so that the network can keep it apart, too. */
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { errorText } from '../../process/error-text.ts';
import { type HttpListener, HttpServer } from '../../process/http/http-server.ts';
import type { Timers } from '../../process/timers.ts';
import { watchFiles } from '../../process/watched-files.ts';
import { parseApiToken } from './api-token.ts';
import { admit, answerSecret } from './secret-endpoint.ts';
import { openSecret, type SecretPlace } from './secret-place.ts';
import { SecretError } from './signing-secret.ts';

export interface SecretApiOptions {
  token: SecretPlace;
  /** Undefined while webhooks are off: every path answers 404. */
  signingSecret(): string | undefined;
  /** PEM files; without them callers speak plain HTTP. */
  tls?: { certFile: string; keyFile: string };
  timers: Timers;
  /** How often files are looked at. Defaults to 5 s. */
  intervalMs?: number;
  /** How long requests may take at the end before they are cut. */
  closeGraceMs: number;
  listener: SecretApiListener;
}

export interface SecretApiListener {
  tokenRotated(): void;
  /** The token's file holds no good token now; the one before stays valid. */
  tokenRefused(reason: string): void;
  certificateChanged(): void;
  /** The pair in the files cannot be used; the one before stays. */
  certificateRefused(reason: string): void;
  /** A request was answered with 500 because something threw. */
  fault(error: unknown): void;
}

/** Rejects with a SecretError or a WatchedFilesError when token or certificate are not good to begin with. It has yet to `listen`. */
export async function openSecretApi(options: SecretApiOptions): Promise<HttpListener> {
  const { listener } = options;
  const token = await openToken(options);
  const tls = await openCertificate(options, (pair) => {
    server.useTls(pair);
    listener.certificateChanged();
  }).catch((error: unknown) => {
    token.close();
    throw error;
  });
  const server = new HttpServer({
    admit: (request, response) => admit(request, response, token.current()),
    serve: (call) => answerSecret(call, options.signingSecret()),
    closeGraceMs: options.closeGraceMs,
    onFault: (error) => listener.fault(error),
    ...(tls === undefined ? {} : { tls: tls.first }),
  });
  return {
    listen: (address) => server.listen(address),
    close() {
      token.close();
      tls?.close();
      return server.close();
    },
  };
}

async function openToken(options: SecretApiOptions): Promise<{ current(): string; close(): void }> {
  const { listener } = options;
  let current = '';
  const opened = await openSecret({
    ...watchOptions(options),
    place: options.token,
    parse: parseApiToken,
    changed: (token) => {
      if (token === current) return;
      current = token;
      listener.tokenRotated();
    },
    refused: (reason) => listener.tokenRefused(reason),
  });
  current = opened.first;
  return { current: () => current, close: () => opened.close() };
}

async function openCertificate(
  options: SecretApiOptions,
  changed: (pair: SecureContextOptions) => void,
): Promise<{ first: SecureContextOptions; close(): void } | undefined> {
  if (options.tls === undefined) return undefined;
  return watchFiles({
    ...watchOptions(options),
    paths: [options.tls.certFile, options.tls.keyFile],
    read: ([cert = '', key = '']) => usablePair(cert, key),
    changed,
    refused: (reason) => options.listener.certificateRefused(reason),
  });
}

function watchOptions({ timers, intervalMs }: SecretApiOptions): { timers: Timers; intervalMs?: number } {
  return intervalMs === undefined ? { timers } : { timers, intervalMs };
}

function usablePair(cert: string, key: string): SecureContextOptions {
  try {
    createSecureContext({ cert, key });
    return { cert, key };
  } catch (error) {
    throw new SecretError(`not a certificate and its key: ${errorText(error)}`, { cause: error });
  }
}
