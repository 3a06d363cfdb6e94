import { X509Certificate } from 'node:crypto';
import { createSecureContext, type SecureContextOptions } from 'node:tls';
import { errorText } from './error-text.ts';
import type { Timers } from './timers.ts';
import { watchFiles } from './watched-files.ts';

/** Paths of PEM files. They are read again when they change. */
export interface TlsFiles {
  certFile: string;
  keyFile: string;
  /** Authorities of the certificates that clients then must show; undefined: clients need none. */
  clientCaFile?: string;
}

export interface TlsCredentialsOptions {
  files: TlsFiles;
  timers: Timers;
  /** Defaults to 5 s. */
  reloadIntervalMs?: number;
  changed(credentials: SecureContextOptions): void;
  refused(reason: string): void;
}

/** Resolves with the first credentials; rejects with a WatchedFilesError that names the files. */
export function watchTlsCredentials(
  options: TlsCredentialsOptions,
): Promise<{ first: SecureContextOptions; close(): void }> {
  const { files, timers, reloadIntervalMs, changed, refused } = options;
  const { certFile, keyFile, clientCaFile } = files;
  return watchFiles({
    paths: [certFile, keyFile, ...(clientCaFile === undefined ? [] : [clientCaFile])],
    read: ([cert = '', key = '', ca]) => usable({ cert, key, ...(ca === undefined ? {} : { ca }) }),
    timers,
    ...(reloadIntervalMs === undefined ? {} : { intervalMs: reloadIntervalMs }),
    changed,
    refused,
  });
}

/** A file that is half written, or a key that is not the certificate's, is told here rather than at the handshake. */
function usable(credentials: { cert: string; key: string; ca?: string }): SecureContextOptions {
  // Node takes an empty file, as it is for a moment while somebody writes it, for none: every handshake would fail.
  for (const part of ['cert', 'key'] as const) {
    if (credentials[part] === '') throw new Error(`not a certificate and its key: the ${part} is empty`);
  }
  try {
    createSecureContext(credentials);
  } catch (error) {
    throw new Error(`not a certificate and its key: ${errorText(error)}`);
  }
  // OpenSSL takes authorities without a certificate among them, and then trusts nobody.
  if (credentials.ca !== undefined) {
    try {
      new X509Certificate(credentials.ca);
    } catch (error) {
      throw new Error(`no certificate of an authority: ${errorText(error)}`);
    }
  }
  return credentials;
}
