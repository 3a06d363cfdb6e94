/** The credentials of both sides. Their files are read again for every connection, so that they can be rotated. */
import { createSecureContext, type SecureContext } from 'node:tls';
import { type ChannelCredentials, type ChannelOptions, credentials } from '@grpc/grpc-js';
import { tlsTarget } from '../../../process/grpc/grpc-js.ts';
import { errorText } from '../../../process/log/error-text.ts';
import { tokenProblem } from '../../../process/net/bearer-token.ts';
import { LastGoodValue } from '../../../process/net/last-good.ts';
import { minimumTlsVersion } from '../../../process/net/minimum-tls.ts';
import { readPemFile, trustedAuthorities } from '../../../process/net/tls-credentials.ts';
import { ConfigSourceError } from '../config-source.ts';

/** Paths of PEM files; an empty path means no file. */
export interface AdsTls {
  /** The client's certificate. It needs its key, and the other way around. */
  certPath: string;
  keyPath: string;
  /** Authorities to trust in addition to the default ones. */
  caPath: string;
  /** The name that the server's certificate must contain. Empty: the name of the host. */
  serverName: string;
  /** The setting that names each file, for messages. */
  fileSettings: Readonly<Record<'certPath' | 'keyPath' | 'caPath', string>>;
}

export interface AdsCredentials {
  credentials: ChannelCredentials;
  options: ChannelOptions;
}

/** Creates the credentials for one server. If files cannot be used, they are reported once, and the last good ones stay in use. */
export class AdsTransport {
  readonly #target: string;
  readonly #serverName: string;
  readonly #context: LastGoodValue<SecureContext> | undefined;

  /** `tls`: undefined without TLS. @throws ConfigSourceError that names the setting of a file that is missing or not PEM */
  constructor(target: string, tls: AdsTls | undefined, rejected: (reason: string) => void) {
    this.#target = target;
    this.#serverName = tls?.serverName ?? '';
    this.#context = tls && orReject(() => new LastGoodValue(() => secureContext(tls), rejected));
  }

  /** The context created from the current files; undefined without TLS. */
  get secureContext(): SecureContext | undefined {
    return this.#context?.current();
  }

  /** Returns the credentials for one connection. */
  credentials(): AdsCredentials {
    const context = this.secureContext;
    if (context === undefined) return { credentials: credentials.createInsecure(), options: {} };
    const { verify, options } = tlsTarget(this.#target, this.#serverName);
    const verified = { ...verify, rejectUnauthorized: true };
    return { credentials: credentials.createFromSecureContext(context, verified), options };
  }
}

function secureContext(tls: AdsTls): SecureContext {
  return createSecureContext({ minVersion: minimumTlsVersion, ...authorities(tls), ...clientPair(tls) });
}

/** Returns an empty object if no certificate is set. */
function clientPair({ certPath, keyPath, fileSettings }: AdsTls): { cert?: Buffer; key?: Buffer } {
  if (certPath === '') return {};
  const { certPath: certSetting, keyPath: keySetting } = fileSettings;
  const pair = { cert: readFile(certPath, certSetting), key: readFile(keyPath, keySetting) };
  try {
    createSecureContext(pair);
    return pair;
  } catch (error) {
    const problem = `failed to load TLS key pair (${certPath},${keyPath}): ${errorText(error)}`;
    throw new Error(`${certSetting} and ${keySetting}: ${problem}`, { cause: error });
  }
}

function authorities({ caPath, fileSettings: { caPath: setting } }: AdsTls): { ca?: string[] } {
  if (caPath === '') return {};
  const pem = readFile(caPath, setting).toString('latin1');
  return { ca: trustedAuthorities(pem, caPath, `${setting}: `) };
}

/** Returns the token without white space around it. @throws ConfigSourceError that names the setting and does not show the token */
export function readTokenFile(path: string): string {
  const setting = 'CONFIG_GRPC_XDS_TOKEN_FILE';
  return orReject(() => {
    const token = readFile(path, setting).toString('latin1').trim();
    const problem = tokenProblem(token, 1);
    if (problem === undefined) return token;
    throw new Error(`${setting}: failed to read the token in ${path}: ${problem}`);
  });
}

function readFile(path: string, setting: string): Buffer {
  return readPemFile(path, `${setting}: failed to read file: ${path}`);
}

function orReject<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new ConfigSourceError('bad-credentials', errorText(error), { cause: error });
  }
}
