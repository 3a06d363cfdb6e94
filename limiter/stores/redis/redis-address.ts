/** Where one Redis server is and how to log in: REDIS_SOCKET_TYPE, REDIS_URL and REDIS_AUTH read together. */
import { maskRedisUrl } from './mask-url.ts';

/** A user without a password there is not; a password without a user is that of `default`. */
export interface Credentials {
  username: string | undefined;
  password: string | undefined;
}

export interface RedisAddress extends Credentials {
  endpoint: { host: string; port: number } | { path: string };
  /** Sent as SELECT after logging in. */
  db: number;
  /** How logs and errors name it; holds no credentials. */
  label: string;
}

export interface RedisAddressSettings {
  socketType: 'tcp' | 'unix';
  /** `host:port`, `redis://[user:password@]host:port[/db][?username=&password=&db=]`, or the path of a unix socket. */
  url: string;
  /** `password` or `user:password`; empty: those of the URL, if any. */
  auth: string;
}

/** Throws an Error that shows the URL masked. */
export function parseRedisAddress(settings: RedisAddressSettings): RedisAddress {
  const { url } = settings;
  const label = maskRedisUrl(url);
  if (url === '') throw new Error('Redis URL is empty');
  const isUrl = /^[a-z]+:\/\//i.test(url);
  if (settings.socketType === 'unix') {
    if (isUrl) throw new Error(`Redis URL "${label}" needs the socket type tcp, not unix`);
    return { endpoint: { path: url }, ...parseAuth(settings.auth), db: 0, label };
  }
  if (!isUrl) return { endpoint: parseHostPort(url, label), ...parseAuth(settings.auth), db: 0, label };
  return parseUrl(url, settings.auth, label);
}

/** `password` or `user:password`; empty is neither. */
export function parseAuth(auth: string): Credentials {
  if (auth === '') return { username: undefined, password: undefined };
  const colon = auth.indexOf(':');
  if (colon === -1) return { username: undefined, password: auth };
  return { username: auth.slice(0, colon) || undefined, password: auth.slice(colon + 1) };
}

function parseHostPort(text: string, label: string): { host: string; port: number } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]+)\]|([^:@/\s]+)):(\d+)$/.exec(text) ?? [];
  const host = bracketed ?? plain;
  if (host === undefined) throw new Error(`Redis URL "${label}" is not host:port`);
  if (Number(port) < 1 || Number(port) > 65_535)
    throw new Error(`Redis URL "${label}" has a port outside 1..65535`);
  return { host, port: Number(port) };
}

function parseUrl(text: string, auth: string, label: string): RedisAddress {
  if (!/^redis:\/\//i.test(text))
    throw new Error(
      `Redis URL "${label}" has a scheme other than redis://${/^rediss:/i.test(text) ? '; for TLS set REDIS_TLS=true' : ''}`,
    );
  const url = URL.parse(text);
  if (url === null || url.hostname === '' || url.hash !== '' || /@/.test(url.pathname))
    throw new Error(
      `Redis URL "${label}" is not redis://[user:password@]host:port[/db]${passwordHint(text)}`,
    );
  const username = decode(url.username, label) || url.searchParams.get('username') || undefined;
  const password = decode(url.password, label) || url.searchParams.get('password') || undefined;
  const credentials = auth === '' ? { username, password } : parseAuth(auth);
  if (credentials.username !== undefined && credentials.password === undefined) {
    throw new Error(`Redis URL "${label}" has a user without a password`);
  }
  const host = url.hostname.replace(/^\[(.*)\]$/, '$1');
  const port = url.port === '' ? 6379 : Number(url.port);
  if (port === 0) throw new Error(`Redis URL "${label}" has a port outside 1..65535`);
  const db = parseDb(url.pathname.slice(1) || url.searchParams.get('db') || '0', label);
  return { endpoint: { host, port }, ...credentials, db, label };
}

/** What stands before the last `@` ends at these characters unless they are escaped. */
function passwordHint(text: string): string {
  const before = text.slice('redis://'.length, Math.max(0, text.lastIndexOf('@')));
  if (!/[#/?]/.test(before)) return '';
  return '; "#", "/" and "?" in a password must be percent-encoded, or set REDIS_AUTH';
}

function decode(text: string, label: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Error(`Redis URL "${label}" has credentials with a "%" that is not an escape`);
  }
}

function parseDb(text: string, label: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new Error(`Redis URL "${label}" has a database that is not a number`);
  return Number(text);
}
