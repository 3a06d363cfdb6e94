/** TLS of a store's client: how it verifies the server, and how the limiter identifies itself. */
import { connect, isIP, type OnReadOpts, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  connect as connectTls,
  createSecureContext,
  type SecureContext,
} from 'node:tls';
import { errorText } from '../../process/log/error-text.ts';
import { LastGoodValue } from '../../process/net/last-good.ts';
import { minimumTlsVersion } from '../../process/net/minimum-tls.ts';
import { readPemFile, trustedAuthorities } from '../../process/net/tls-credentials.ts';

/** Paths of PEM files. An empty path means none. */
export interface ClientTlsFiles {
  /** The limiter's certificate, which needs its key. */
  certPath: string;
  keyPath: string;
  /** Authorities that are trusted in addition to the default ones. */
  caPath: string;
  /** Accepts a certificate with any name. Its chain is still verified. */
  skipHostnameVerification: boolean;
  /** The prefix that the names of the settings have in errors. By default, errors name no settings. */
  settingPrefix?: 'REDIS_TLS_' | 'MEMCACHE_TLS_';
}

interface Pem {
  cert: string;
  key: string;
  ca: string;
}

/** Reads the files again for every connection, so that they can be rotated. While they are unusable, the last good ones apply. */
export class ClientTls {
  readonly #files: ClientTlsFiles;
  readonly #context: LastGoodValue<{ pem: Pem; context: SecureContext }>;

  /**
   * `rejected` receives the reason if changed files are unusable. @throws Error if files are missing or not PEM, with the text of the Go
   * service
   */
  constructor(files: ClientTlsFiles, rejected: (reason: string) => void) {
    this.#files = files;
    this.#context = new LastGoodValue((before) => {
      const pem = readFiles(files);
      const isSame = (['cert', 'key', 'ca'] as const).every((part) => pem[part] === before?.pem[part]);
      return isSame ? before! : { pem, context: secureContext(files, pem) };
    }, rejected);
  }

  /** Returns the options for `tls.connect`, from the current files. */
  get options(): ConnectionOptions {
    const context = () => this.#context.current().context;
    return {
      rejectUnauthorized: true,
      get secureContext() {
        return context();
      },
      ...(this.#files.skipHostnameVerification ? { checkServerIdentity: () => undefined } : {}),
    };
  }
}

function readFiles(files: ClientTlsFiles): Pem {
  const { certPath, keyPath, caPath } = files;
  const read = (path: string, problem: string): string =>
    path === '' ? '' : readPemFile(path, problem).toString('latin1');
  return {
    cert: read(certPath, pairProblem(files)),
    key: read(keyPath, pairProblem(files)),
    ca: read(caPath, `${settingOf(files, 'CACERT')}failed to read file: ${caPath}`),
  };
}

/** The typo is copied from the Go service, because people search for this text. */
function pairProblem(files: ClientTlsFiles): string {
  const setting = settingOf(files, 'CLIENT_CERT and _KEY');
  return `${setting}failed lo load TLS key pair (${files.certPath},${files.keyPath})`;
}

function settingOf({ settingPrefix }: ClientTlsFiles, name: string): string {
  return settingPrefix === undefined ? '' : `${settingPrefix}${name}: `;
}

function secureContext(files: ClientTlsFiles, { cert, key, ca }: Pem): SecureContext {
  const { certPath, caPath } = files;
  const authorities = {
    minVersion: minimumTlsVersion,
    ...(caPath === '' ? {} : { ca: trustedAuthorities(ca, caPath, settingOf(files, 'CACERT')) }),
  } as const;
  if (certPath === '') return createSecureContext(authorities);
  try {
    // The text is converted to bytes. An empty text, which may occur while the file is being written, would mean no certificate to TLS.
    const pair = { cert: Buffer.from(cert, 'latin1'), key: Buffer.from(key, 'latin1') };
    return createSecureContext({ ...authorities, ...pair });
  } catch (error) {
    throw new Error(`${pairProblem(files)}: ${errorText(error)}`, { cause: error });
  }
}

const keepAliveMs = 30_000;

/**
 * Begins a connection to a store. A TLS connection is open at `secureConnect`. `onread` is the option of Node's `net.connect`. The
 * connection does not keep the process alive, but a caller that waits for an answer does.
 */
export function dial(
  endpoint: { host: string; port: number } | { path: string },
  tls: ClientTls | undefined,
  onread?: OnReadOpts,
): Socket {
  const options = { ...endpoint, ...(onread === undefined ? {} : { onread }) };
  const named = 'host' in endpoint && isIP(endpoint.host) === 0 ? { servername: endpoint.host } : {};
  const socket = tls === undefined ? connect(options) : connectTls({ ...options, ...named, ...tls.options });
  socket.unref();
  socket.setNoDelay(true);
  socket.setKeepAlive(true, keepAliveMs);
  return socket;
}

/** Describes a TLS error in plain words. OpenSSL's own text also contains positions in its source. */
export function tlsErrorText(error: Error): string | undefined {
  const { code, reason } = error as { code?: unknown; reason?: unknown };
  if (typeof code !== 'string' || !code.startsWith('ERR_SSL_') || typeof reason !== 'string')
    return undefined;
  return `TLS: ${reason}`;
}
