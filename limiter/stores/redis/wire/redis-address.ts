/** The address at which a node listens. */
export interface NodePlace {
  host: string;
  port: number;
}

/** Returns a name that is equal for equal places. */
export function placeName({ host, port }: NodePlace): string {
  return `${host}:${port}`;
}

/**
 * Returns REDIS_URL as logs and errors may show it: `*****` replaces credentials, in every item of a list. For any text, it masks too
 * much rather than too little.
 */
export function maskRedisUrl(url: string): string {
  // Commas do not separate items here, because a password may contain one.
  return url
    .split(/(?=rediss?:\/\/)/i)
    .map(maskItem)
    .join('');
}

function maskItem(item: string): string {
  const scheme = /^[a-z]+:\/\//i.exec(item)?.[0] ?? '';
  const hostAt = item.lastIndexOf('@');
  if (hostAt !== -1) return maskRest(`${scheme}*****`, item.slice(hostAt));
  // Without an `@`, the apparent host may be a password that lost its host.
  const [, authority = '', rest = ''] = /^([^/?]*)(.*)$/s.exec(item.slice(scheme.length)) ?? [];
  const isHost = scheme === '' || /^(?:\[[^\]]*\]|[^:]*)(?::\d*)?$/.test(authority.replace(/,$/, ''));
  if (scheme === '') return maskQuery(item);
  return maskRest(scheme, `${isHost ? authority : '*****'}${rest}`);
}

/** Masks a path that is not the number of a database. It may be a password that contained a `/`. */
function maskRest(start: string, rest: string): string {
  const [, authority = '', path = '', query = ''] = /^([^/?]*)([^?]*)(.*)$/s.exec(rest) ?? [];
  const isDb = /^(?:\/\d*)?,?$/.test(path);
  return maskQuery(`${start}${authority}${isDb ? path : '/*****'}${query}`);
}

/** Masks values of the query. Names may be escaped, so every value except that of `db` counts as a secret. */
function maskQuery(text: string): string {
  return text.replace(/([?&](?!db=\d+(?:$|[&,]))[^=&]*=)[^&]*/gi, '$1*****');
}

// The address of one Redis server and its login: REDIS_SOCKET_TYPE, REDIS_URL and REDIS_AUTH together.

/** A password, with or without a user. Without a user, it is the password of `default`. A user always has a password. */
interface Credentials {
  username: string | undefined;
  password: string | undefined;
}

export interface RedisAddress extends Credentials {
  endpoint: NodePlace | { path: string };
  /** The database, sent as SELECT after logging in. */
  db: number;
  /** The name in logs and errors. It contains no credentials. */
  label: string;
}

export interface RedisAddressSettings {
  socketType: 'tcp' | 'unix';
  /** `host:port`, `redis://[user:password@]host:port[/db][?username=&password=&db=]`, or the path of a unix socket. */
  url: string;
  /** `password` or `user:password`. Empty: the credentials in the URL, if any. */
  auth: string;
}

/** Parses the settings. Throws an Error that shows the URL masked. */
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

/** Parses `password` or `user:password`. An empty text has neither. */
function parseAuth(auth: string): Credentials {
  if (auth === '') return { username: undefined, password: undefined };
  const colon = auth.indexOf(':');
  if (colon === -1) return { username: undefined, password: auth };
  return { username: auth.slice(0, colon) || undefined, password: auth.slice(colon + 1) };
}

function parseHostPort(text: string, label: string): NodePlace {
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

/** Returns a hint: the part before the last `@` ends at these characters unless they are escaped. */
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

/** A master that sentinels know: REDIS_URL, REDIS_AUTH and REDIS_SENTINEL_AUTH together, for REDIS_TYPE=sentinel. */
export interface SentinelAddress {
  masterName: string;
  sentinels: readonly NodePlace[];
  /** The login to each sentinel. */
  sentinelAuth: Credentials;
  /** The login to the master. */
  username: string | undefined;
  password: string | undefined;
  db: number;
  /** The name of the group in logs and errors. It contains no credentials. */
  label: string;
}

export interface SentinelAddressSettings {
  /** `<master name>,<sentinel>,...`, a sentinel as `host:port` or `redis://[user:password@]host:port`. */
  url: string;
  /** The login to the master: `password` or `user:password`; empty: none. */
  auth: string;
  /** The login to the sentinels, in the same form. Empty: the login in the first sentinel's URL, if any. */
  sentinelAuth: string;
}

/** Parses the settings. Throws an Error that shows the URL masked. */
export function parseSentinelAddress(settings: SentinelAddressSettings): SentinelAddress {
  const label = maskRedisUrl(settings.url);
  const [masterName = '', ...items] = settings.url.split(',').map((item) => item.trim());
  if (masterName === '' || masterName.includes('://') || items.length === 0 || items.includes('')) {
    throw new Error(
      'Expected master name and a list of urls for the sentinels, in the format: ' +
        `<redis master name>,<sentinel1>,...,<sentineln>; it is "${label}"`,
    );
  }
  const parsed = items.map((url) =>
    parseRedisAddress({ socketType: 'tcp', url, auth: settings.sentinelAuth }),
  );
  const withDb = parsed.find(({ db }) => db !== 0);
  if (withDb !== undefined) {
    throw new Error(
      `Redis URL "${withDb.label}" has a database, which sentinels do not support; the master counts in database 0`,
    );
  }
  const sentinels = parsed.map(({ endpoint }) => endpoint as NodePlace);
  const { username, password } = parsed[0] as Credentials;
  const sentinelAuth = { username, password };
  return { masterName, sentinels, sentinelAuth, ...parseAuth(settings.auth), db: 0, label };
}

/** A cluster's seeds and the login to every node: REDIS_URL as a list, and REDIS_AUTH. */
export interface ClusterAddress extends Credentials {
  seeds: readonly NodePlace[];
  /** The name in logs and errors. It contains no credentials. */
  label: string;
}

/**
 * Parses `host:port,...`, where each item may be `redis://[user:password@]host:port`. All nodes get the same credentials: REDIS_AUTH,
 * or those of the first item. Throws an Error that shows the URL masked.
 */
export function parseClusterAddress(settings: { url: string; auth: string }): ClusterAddress {
  const label = maskRedisUrl(settings.url);
  const items = splitList(settings.url);
  const addresses = items.map((url) => parseRedisAddress({ socketType: 'tcp', url, auth: settings.auth }));
  const [first] = addresses;
  if (first === undefined) throw new Error('Redis URL is empty');
  if (addresses.some(({ db }) => db !== 0))
    throw new Error(`Redis URL "${label}" names a database, but a cluster has only database 0`);
  const seeds = addresses.map(({ endpoint }) => endpoint as NodePlace);
  return { seeds, username: first.username, password: first.password, label };
}

/** Splits a list at commas. A password may contain commas, so a URL ends only where another item begins after its host. */
function splitList(text: string): string[] {
  return text
    .split(/,(?=rediss?:\/\/|[^,@]*(?:,|$))/i)
    .map((item) => item.trim())
    .filter((item) => item !== '');
}
