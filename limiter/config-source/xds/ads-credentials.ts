/** How the server is known, and the limiter to it. Files are read anew for every connection, so that they can rotate. */
import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createSecureContext, getCACertificates } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials } from '@grpc/grpc-js';
import { tlsTarget } from '../../../process/grpc/grpc-js.ts';
import { errorText, systemErrorReason } from '../../../process/log/error-text.ts';
import { tokenProblem } from '../../../process/net/bearer-token.ts';
import { ConfigSourceError } from '../config-source.ts';

/** Paths of PEM files; empty ones are none. */
export interface AdsTls {
  /** The client's certificate; with its key, or neither. */
  certPath: string;
  keyPath: string;
  /** Trusted besides the usual authorities. */
  caPath: string;
  /** Name that the server's certificate must have instead of the host's; empty: the host's. */
  serverName: string;
  /** The setting that names each file, for messages. */
  fileSettings: Readonly<Record<'certPath' | 'keyPath' | 'caPath', string>>;
}

export interface AdsCredentials {
  credentials: ChannelCredentials;
  options: ChannelOptions;
}

/** `tls` undefined: none. Throws a ConfigSourceError that names the setting of a file that is missing or no PEM. */
export function adsCredentials(target: string, tls: AdsTls | undefined): AdsCredentials {
  if (tls === undefined) return { credentials: credentials.createInsecure(), options: {} };
  const ca = tls.caPath === '' ? undefined : authorities(tls);
  const { verify, options } = tlsTarget(target, tls.serverName);
  const context = createSecureContext({ ...(ca && { ca }), ...clientPair(tls) });
  return { credentials: credentials.createFromSecureContext(context, verify), options };
}

/** None where no certificate is set. */
function clientPair({ certPath, keyPath, fileSettings }: AdsTls): { cert?: Buffer; key?: Buffer } {
  if (certPath === '') return {};
  const { certPath: certSetting, keyPath: keySetting } = fileSettings;
  const pair = { cert: readBytes(certPath, certSetting), key: readBytes(keyPath, keySetting) };
  try {
    createSecureContext(pair);
    return pair;
  } catch (error) {
    const problem = `failed to load TLS key pair (${certPath},${keyPath}): ${errorText(error)}`;
    throw bad(`${certSetting} and ${keySetting}: ${problem}`, error);
  }
}

function authorities({ caPath, fileSettings }: AdsTls): string[] {
  const own = readBytes(caPath, fileSettings.caPath)
    .toString('latin1')
    .match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g);
  const problem = `${fileSettings.caPath}: failed to load the provided TLS CA certificate: ${caPath}`;
  if (own === null) throw bad(problem);
  try {
    // TLS would pass over what it cannot read.
    for (const pem of own) new X509Certificate(pem);
  } catch (error) {
    throw bad(`${problem}: ${errorText(error)}`, error);
  }
  return [...getCACertificates('default'), ...own];
}

/** White space around it is dropped. Throws a ConfigSourceError that names the setting, and does not show the token. */
export function readTokenFile(path: string): string {
  const setting = 'CONFIG_GRPC_XDS_TOKEN_FILE';
  const token = readBytes(path, setting).toString('latin1').trim();
  const problem = tokenProblem(token, 1);
  if (problem !== undefined) throw bad(`${setting}: failed to read the token in ${path}: ${problem}`);
  return token;
}

function readBytes(path: string, setting: string): Buffer {
  try {
    return readFileSync(path);
  } catch (error) {
    throw bad(`${setting}: failed to read file: ${path}: ${systemErrorReason(error)}`, error);
  }
}

function bad(message: string, cause?: unknown): ConfigSourceError {
  return new ConfigSourceError('bad-credentials', message, { cause });
}
