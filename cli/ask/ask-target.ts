/** The address, TLS files and token of `weir ask`. */

import { isIP } from 'node:net';
import { resolve } from 'node:path';
import { createSecureContext } from 'node:tls';
import { errorText } from '../../process/log/error-text.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import { type ParsedFlags, readArgumentFile, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';

/** The address of one connection. */
export type AskEndpoint = { host: string; port: number } | { path: string };

export interface AskAddress {
  /** The target as gRPC accepts it. */
  target: string;
  /** Undefined for targets that only gRPC can resolve: several addresses, abstract sockets, `xds:`. */
  endpoint: AskEndpoint | undefined;
}

/** Reads `host:port`, the path of a Unix socket (`unix:/path`, or a path that starts with `/` or `.`), or a gRPC target. */
export function parseAddress(text: string): AskAddress {
  if (text === '') throw new UsageError('--dial-string is host:port, not ""');
  const url = /^https?:\/\/([^/]*)/.exec(text);
  if (url !== null) throw new UsageError(`--dial-string is host:port, not a URL: "${url[1]}" may do`);
  if (/^\.{0,2}\//.test(text)) return { target: `unix:${resolve(text)}`, endpoint: { path: resolve(text) } };
  const path = /^unix:(?:\/\/(?=\/))?(.+)$/s.exec(text)?.[1];
  if (path !== undefined) return { target: text, endpoint: { path } };
  if ([text, text.replace(/:\d+$/, '')].some((one) => isIP(one) === 6))
    throw new UsageError(`--dial-string "${text}": an IPv6 address is in brackets, as in [::1]:8081`);
  const address = text.replace(/^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/, '');
  const match = /^(?:\[([^\]]+)\]|([^:/,[\]]+))(?::(\d+))?$/.exec(address);
  if (match === null) return { target: text, endpoint: undefined };
  // gRPC uses port 443 if no port is named.
  const [, ipv6, host = ipv6 as string, port = '443'] = match;
  if (Number(port) >= 1 && Number(port) <= 65_535)
    return { target: text, endpoint: { host, port: Number(port) } };
  throw new UsageError(`--dial-string "${text}": a port is a whole number from 1 to 65535, not "${port}"`);
}

/** Formats an address for people. */
export function endpointText(endpoint: AskEndpoint): string {
  if ('path' in endpoint) return endpoint.path;
  return `${endpoint.host.includes(':') ? `[${endpoint.host}]` : endpoint.host}:${endpoint.port}`;
}

/** PEM files of a TLS connection. Without an authority, those of Node are trusted; `cert` and `key` go together. */
export type AskTls = Partial<Record<'ca' | 'cert' | 'key', Buffer | undefined>>;

/** Returns undefined without --grpc-use-tls, which the other flags need. @throws UsageError if a file is not PEM of the right kind */
export function askTls(flags: ParsedFlags): AskTls | undefined {
  const files = ['grpc-server-ca-file', 'grpc-cert-file', 'grpc-key-file'] as const;
  // The Go client's default is an empty path, so scripts pass it when they use no file.
  const pathOf = (name: (typeof files)[number]) => flags.text(name) || undefined;
  if (!flags.on('grpc-use-tls')) {
    const idle = files.find((name) => pathOf(name) !== undefined);
    if (idle === undefined) return undefined;
    throw new UsageError(`--${idle} has no effect without --grpc-use-tls`);
  }
  const [ca, cert, key] = files.map((name) => {
    const path = pathOf(name);
    if (path === undefined) return undefined;
    const pem = readArgumentFile(`--${name}: ${path}`, path);
    // OpenSSL accepts a file of authorities without any certificate, and then trusts no peer.
    if (!pem.includes('-----BEGIN ')) throw new UsageError(`--${name}: ${path}: is not PEM`);
    return pem;
  });
  if ((cert === undefined) !== (key === undefined)) {
    throw new UsageError('--grpc-cert-file and --grpc-key-file must be given together');
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

/** Returns the token of a file, or of the variable WEIR_TOKEN; undefined without either. It is never printed. */
export function askToken(path: string | undefined): string | undefined {
  const variable = io().env['WEIR_TOKEN'];
  if (path === undefined && !variable) return undefined;
  const from = path === undefined ? 'WEIR_TOKEN' : `--token-file: ${path}`;
  const token = (path === undefined ? `${variable}` : `${readArgumentFile(from, path)}`).trim();
  const problem = tokenProblem(token, 1);
  if (problem === undefined) return token;
  throw new UsageError(`${from}: ${problem}`);
}
