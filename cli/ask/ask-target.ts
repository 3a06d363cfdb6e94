/** Whom `weir ask` asks, and what it shows there. */

import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { errorText } from '../../process/log/error-text.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import { type FlagTypes, type ParsedFlags, readGiven, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';

/** Where one connection goes. */
export type AskEndpoint = { host: string; port: number } | { path: string };

export interface AskAddress {
  /** As gRPC takes it. */
  target: string;
  /** Undefined for targets that only gRPC can resolve: several addresses, abstract sockets, `xds:`. */
  endpoint: AskEndpoint | undefined;
}

/** Reads `host:port`, the path of a Unix socket (`unix:/path`, or a path that shows itself by `/` or `.`), or a gRPC target. */
export function parseAddress(text: string): AskAddress {
  if (text === '') throw new UsageError('--dial-string is host:port, not ""');
  const url = /^https?:\/\/([^/]*)/.exec(text);
  if (url !== null) throw new UsageError(`--dial-string is host:port, not a URL: "${url[1]}" may do`);
  if (/^\.{0,2}\//.test(text)) return { target: `unix:${resolve(text)}`, endpoint: { path: resolve(text) } };
  const path = /^unix:(?:\/\/(?=\/))?(.+)$/s.exec(text)?.[1];
  if (path !== undefined) return { target: text, endpoint: { path } };
  const address = text.replace(/^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/, '');
  const match = /^(?:\[([^\]]+)\]|([^:/,[\]]+))(?::(\d+))?$/.exec(address);
  if (match === null) return { target: text, endpoint: undefined };
  // gRPC takes 443 where no port is named.
  const [, ipv6, host = ipv6 as string, port = '443'] = match;
  if (Number(port) >= 1 && Number(port) <= 65_535)
    return { target: text, endpoint: { host, port: Number(port) } };
  throw new UsageError(`--dial-string "${text}": a port is a whole number from 1 to 65535, not "${port}"`);
}

/** As people write it. */
export function endpointText(endpoint: AskEndpoint): string {
  if ('path' in endpoint) return endpoint.path;
  return `${endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host}:${endpoint.port}`;
}

/** What a TLS connection is made with, PEM. Without an authority those that Node knows; `cert` and `key` or neither. */
export type AskTls = Partial<Record<'ca' | 'cert' | 'key', Buffer | undefined>>;

/** As the Go client names them. */
export const askTlsFlags = {
  'grpc-use-tls': { type: 'boolean' },
  'grpc-server-ca-file': { type: 'string' },
  'grpc-cert-file': { type: 'string' },
  'grpc-key-file': { type: 'string' },
} as const satisfies FlagTypes;

/** Undefined without --grpc-use-tls, which the others need. @throws UsageError when a file is not what it must be. */
export function askTls(flags: ParsedFlags): AskTls | undefined {
  const files = ['grpc-server-ca-file', 'grpc-cert-file', 'grpc-key-file'] as const;
  if (!flags.on('grpc-use-tls')) {
    const idle = files.find((name) => flags.text(name) !== undefined);
    if (idle === undefined) return undefined;
    throw new UsageError(`--${idle} has no effect without --grpc-use-tls`);
  }
  const [ca, cert, key] = files.map((name) => {
    const path = flags.text(name);
    if (path === undefined) return undefined;
    const pem = readGiven(`--${name}: ${path}`, path);
    // OpenSSL takes authorities without any certificate among them, and then trusts nobody.
    if (!pem.includes('-----BEGIN ')) throw new UsageError(`--${name}: ${path}: is not PEM`);
    return pem;
  });
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--grpc-cert-file and --grpc-key-file need each other');
  }
  const checks = { '--grpc-server-ca-file': { ca }, '--grpc-cert-file and --grpc-key-file': { cert, key } };
  for (const [names, parts] of Object.entries(checks)) {
    try {
      createSecureContext(parts);
    } catch (error) {
      throw new UsageError(`${names}: ${errorText(error)}`);
    }
  }
  return { ca, cert, key };
}

/** The token of a file, else of the variable WEIR_TOKEN; undefined without either. Shown nowhere. */
export function askToken(path: string | undefined): string | undefined {
  const variable = io().env['WEIR_TOKEN'];
  if (path === undefined && !variable) return undefined;
  const from = path === undefined ? 'WEIR_TOKEN' : `--token-file: ${path}`;
  const token = (path === undefined ? `${variable}` : `${readGiven(from, path)}`).trim();
  const problem = tokenProblem(token, 1);
  if (problem === undefined) return token;
  throw new UsageError(`${from}: ${problem}`);
}
