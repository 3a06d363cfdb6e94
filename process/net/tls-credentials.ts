/** PEM files of a TLS listener and of clients: reads them, and reports which file has a problem. */
import { constants, createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates, type SecureContextOptions } from 'node:tls';
import { watchFiles } from '../files/watched-files.ts';
import { errorText, systemErrorReason } from '../log/error-text.ts';
import type { Timers } from '../time/clock.ts';
import { minimumTlsVersion } from './minimum-tls.ts';

/** Names the file at fault without its path, which the reader adds. */
class PemError extends Error {
  override readonly name = 'PemError';
  readonly part: 'cert' | 'key' | 'ca';

  constructor(part: PemError['part'], problem: string) {
    super(problem);
    this.part = part;
  }
}

/** Reads the first certificate of a file, which is the server's own. @throws PemError */
function readCertificate(part: 'cert' | 'ca', text: string): X509Certificate {
  // Node takes an empty file, which may occur while it is being written, as no certificate: every handshake would fail.
  if (text.trim() === '') throw new PemError(part, 'the file is empty');
  if (!/-----BEGIN (X509 |TRUSTED )?CERTIFICATE-----/.test(text)) {
    throw new PemError(part, 'it contains no certificate (PEM)');
  }
  try {
    return new X509Certificate(text);
  } catch (error) {
    throw new PemError(part, `its certificate cannot be read: ${errorText(error)}`);
  }
}

/** @throws PemError */
function readPrivateKey(text: string): KeyObject {
  if (text.trim() === '') throw new PemError('key', 'the file is empty');
  if (!/-----BEGIN ([A-Z]+ )*PRIVATE KEY-----/.test(text)) {
    throw new PemError('key', 'it contains no private key (PEM)');
  }
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw new PemError(
      'key',
      'its key is encrypted, and there is no setting for a passphrase: store it without one (openssl pkey -in FILE -out FILE)',
    );
  }
  try {
    return createPrivateKey(text);
  } catch (error) {
    throw new PemError('key', `its key cannot be read: ${errorText(error)}`);
  }
}

/** Paths of PEM files. They are read again when they change. */
export interface TlsFiles {
  certFile: string;
  keyFile: string;
  /** The authorities for the certificates that clients must present; undefined: clients need none. */
  clientCaFile?: string;
}

/** The setting that names each file, for messages. */
export type TlsFileSettings = Readonly<Record<keyof TlsFiles, string>>;

export interface TlsCredentialsOptions {
  files: TlsFiles;
  /** Defaults to none: then messages begin with the path. */
  settings?: TlsFileSettings;
  timers: Timers;
  /** Defaults to 5 s. */
  reloadIntervalMs?: number | undefined;
  changed(credentials: SecureContextOptions): void;
  rejected(reason: string): void;
}

/** Resolves with the first credentials. Rejects with a WatchedFilesError that names the file at fault. */
export function watchTlsCredentials(
  options: TlsCredentialsOptions,
): Promise<{ first: SecureContextOptions; close(): void }> {
  const { files, settings, timers, reloadIntervalMs, changed, rejected } = options;
  const parts = files.clientCaFile === undefined ? fileOfPart.slice(0, 2) : fileOfPart;
  const named = parts.map(([, file]) => {
    const path = files[file] as string;
    return settings === undefined ? path : `${settings[file]}: ${path}`;
  });
  return watchFiles({
    paths: parts.map(([, file]) => files[file] as string),
    names: named,
    read: ([cert = '', key = '', ca]) => {
      try {
        return usable({ cert, key, ...(ca === undefined ? {} : { ca }) }, files.certFile);
      } catch (error) {
        if (!(error instanceof PemError)) throw error;
        throw new Error(`${named[parts.findIndex(([part]) => part === error.part)]}: ${error.message}`);
      }
    },
    timers,
    intervalMs: reloadIntervalMs,
    changed,
    rejected,
  });
}

const fileOfPart: readonly (readonly [PemError['part'], keyof TlsFiles])[] = [
  ['cert', 'certFile'],
  ['key', 'keyFile'],
  ['ca', 'clientCaFile'],
];

/**
 * Checks for an incomplete file, or a key that does not belong to the certificate, so that this is reported here and not at the
 * handshake.
 */
function usable(
  credentials: { cert: string; key: string; ca?: string },
  certFile: string,
): SecureContextOptions {
  const certificate = readCertificate('cert', credentials.cert);
  if (!certificate.checkPrivateKey(readPrivateKey(credentials.key))) {
    throw new PemError('key', `its key does not belong to the first certificate of ${certFile}`);
  }
  // OpenSSL accepts authorities without any certificate, and then trusts no client.
  if (credentials.ca !== undefined) readCertificate('ca', credentials.ca);
  try {
    createSecureContext(credentials);
  } catch (error) {
    throw new PemError('cert', `cannot be used with its key: ${errorText(error)}`);
  }
  return credentials;
}

/** Returns when credentials expire, by their first certificate. */
export function expiryOf({ cert }: SecureContextOptions): number {
  return Date.parse(readCertificate('cert', String(cert)).validTo);
}

/** Called with changes of the certificate of a listener. */
export interface CertificateListener {
  /** Called when the TLS files provide a certificate: the first, or another one. */
  certificateInUse(certificate: { expiresMs: number; isFirst: boolean }): void;
  /** Called when the new contents of the files are rejected and the previous certificate stays. */
  certificateRejected(problem: string): void;
}

/** The same as `watchTlsCredentials`, with reports of the certificates; `use` receives all but the first. */
export async function watchCertificate(
  options: Omit<TlsCredentialsOptions, 'changed' | 'rejected'>,
  listener: CertificateListener,
  use: (credentials: SecureContextOptions) => void,
): Promise<{ first: SecureContextOptions; close(): void }> {
  const watch = await watchTlsCredentials({
    ...options,
    changed: (credentials) => {
      use(credentials);
      listener.certificateInUse({ expiresMs: expiryOf(credentials), isFirst: false });
    },
    rejected: (problem) => listener.certificateRejected(problem),
  });
  listener.certificateInUse({ expiresMs: expiryOf(watch.first), isFirst: true });
  return watch;
}

/** The options of a listener, both when it opens and when the credentials change: TLS 1.2 or newer. */
export function listenerCredentials(credentials: SecureContextOptions): SecureContextOptions {
  // A resumed session would not be verified with authorities that changed since.
  const tickets = credentials.ca === undefined ? 0 : constants.SSL_OP_NO_TICKET;
  return {
    ...credentials,
    minVersion: minimumTlsVersion,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION | tickets,
  };
}

// TLS of clients.

/** Reads bytes, because TLS takes an empty text as no key. @throws Error: `<problem>: <the system's message>` */
export function readPemFile(path: string, problem: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw new Error(`${problem}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/** Returns the authorities of a PEM file and those that Node trusts. @throws Error that begins with `setting` */
export function trustedAuthorities(pem: string, path: string, setting: string): string[] {
  const problem = `${setting}failed to load the provided TLS CA certificate: ${path}`;
  const own = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  if (own === null) throw new Error(problem);
  try {
    // TLS would skip a certificate that it cannot read.
    for (const certificate of own) new X509Certificate(certificate);
  } catch (error) {
    throw new Error(`${problem}: ${errorText(error)}`, { cause: error });
  }
  return [...getCACertificates('default'), ...own];
}
