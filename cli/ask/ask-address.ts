import { resolve } from 'node:path';
import { UsageError } from '../shared/flags.ts';

/** Where one connection goes. */
export type AskEndpoint = { host: string; port: number } | { path: string };

export interface AskAddress {
  /** As gRPC takes it. */
  target: string;
  /** Undefined for targets that only gRPC can resolve: several addresses, abstract sockets, `xds:`. */
  endpoint: AskEndpoint | undefined;
}

/** What gRPC takes where none is named. */
const defaultPort = 443;

/** Reads `host:port`, the path of a Unix socket (`unix:/path`, or a path that shows itself by `/` or `.`), or a gRPC target. */
export function parseAddress(text: string): AskAddress {
  if (text === '') throw new UsageError('--dial-string is host:port, not ""');
  const url = /^https?:\/\/([^/]*)/.exec(text);
  if (url !== null) throw new UsageError(`--dial-string is host:port, not a URL: "${url[1]}" may do`);
  if (/^\.{0,2}\//.test(text)) return { target: `unix:${resolve(text)}`, endpoint: { path: resolve(text) } };
  const socket = /^unix:(?:\/\/(?=\/))?(.+)$/s.exec(text)?.[1];
  if (socket !== undefined) return { target: text, endpoint: { path: socket } };
  return { target: text, endpoint: tcpEndpoint(text) };
}

function tcpEndpoint(text: string): AskEndpoint | undefined {
  const address = text.replace(/^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/, '');
  const match = /^(?:\[([^\]]+)\]|([^:/,[\]]+))(?::(\d+))?$/.exec(address);
  if (match === null) return undefined;
  const port = match[3] === undefined ? defaultPort : Number(match[3]);
  if (port < 1 || port > 65_535) {
    throw new UsageError(
      `--dial-string "${text}": a port is a whole number from 1 to 65535, not "${match[3]}"`,
    );
  }
  return { host: (match[1] ?? match[2]) as string, port };
}

/** As people write it. */
export function endpointText(endpoint: AskEndpoint): string {
  if ('path' in endpoint) return endpoint.path;
  return endpoint.host.includes(':')
    ? `[${endpoint.host}]:${endpoint.port}`
    : `${endpoint.host}:${endpoint.port}`;
}
