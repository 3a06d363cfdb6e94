/** TLS of a store's client: how the server is known, and the limiter to it. */
import { connect, isIP, type OnReadOpts, type Socket } from 'node:net';
import {
  type ConnectionOptions,
  connect as connectTls,
  createSecureContext,
  type SecureContext,
} from 'node:tls';
import { errorText } from '../../process/log/error-text.ts';
import { LastGood } from '../../process/net/last-good.ts';
import { readPemFile, trustedAuthorities } from '../../process/net/tls-credentials.ts';
import { oldestTls } from '../../process/net/tls-floor.ts';

/** Paths of PEM files; empty ones are none. */
export interface ClientTlsFiles {
  /** The limiter's certificate; with its key, or neither. */
  certPath: string;
  keyPath: string;
  /** Trusted besides the usual authorities. */
  caPath: string;
  /** Take a certificate of any name; its chain is verified all the same. */
  skipHostnameVerification: boolean;
  /** Begins the names of their settings, for errors. Defaults to none being named. */
  settingPrefix?: 'REDIS_TLS_' | 'MEMCACHE_TLS_';
}

interface Pem {
  cert: string;
  key: string;
  ca: string;
}

/** Files are read again for every connection, so that they can rotate; while they cannot be used, the last good ones are. */
export class ClientTls {
  readonly #files: ClientTlsFiles;
  readonly #context: LastGood<{ pem: Pem; context: SecureContext }>;

  /** `refused` gets the reason for which changed files are not used. Throws an Error on files that are missing or no PEM. The words are the Go service's. */
  constructor(files: ClientTlsFiles, refused: (reason: string) => void) {
    this.#files = files;
    this.#context = new LastGood((before) => {
      const pem = readFiles(files);
      const isSame = (['cert', 'key', 'ca'] as const).every((part) => pem[part] === before?.pem[part]);
      return isSame ? before! : { pem, context: secureContext(files, pem) };
    }, refused);
  }

  /** For `tls.connect`: what is copied from it is of this moment. */
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

/** The slip of the pen is the Go service's: people search for it. */
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
    minVersion: oldestTls,
    ...(caPath === '' ? {} : { ca: trustedAuthorities(ca, caPath, settingOf(files, 'CACERT')) }),
  } as const;
  if (certPath === '') return createSecureContext(authorities);
  try {
    // As bytes: TLS takes empty text for none, and would show no certificate while somebody writes the file.
    const pair = { cert: Buffer.from(cert, 'latin1'), key: Buffer.from(key, 'latin1') };
    return createSecureContext({ ...authorities, ...pair });
  } catch (error) {
    throw new Error(`${pairProblem(files)}: ${errorText(error)}`, { cause: error });
  }
}

const keepAliveMs = 30_000;

/**
 * Begins a connection to a store; with TLS it is open at `secureConnect`. `onread` as in Node's `net.connect`. It does not keep
 * the process alive: anyone who waits for an answer does.
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

/** What TLS says in plain words; its own text also names places in the library's source. */
export function tlsErrorText(error: Error): string | undefined {
  const { code, reason } = error as { code?: unknown; reason?: unknown };
  if (typeof code !== 'string' || !code.startsWith('ERR_SSL_') || typeof reason !== 'string')
    return undefined;
  return `TLS: ${reason}`;
}
