/**
 * The destination of webhooks: the URL of an endpoint, its name without secrets, and the allowed addresses. An address is checked when a
 * connection to it is opened, so that a name that resolves to another address a moment later cannot evade the check.
 */
import { lookup as dnsLookup, type LookupAddress, type LookupAllOptions } from 'node:dns';
import { BlockList, isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector } from 'undici';

type Subnet = readonly [address: string, prefix: number];

/**
 * Networks that are not allowed, by kind. The first matching kind describes an address. Private networks are not listed, because
 * receivers inside the cluster use them.
 */
const localSubnets: Readonly<Record<string, readonly Subnet[]>> = {
  'a loopback address': [
    ['127.0.0.0', 8],
    ['::1', 128],
  ],
  'an unspecified address': [
    ['0.0.0.0', 8],
    ['::', 128],
  ],
  'a link-local address': [
    ['169.254.0.0', 16],
    ['fe80::', 10],
  ],
  // Addresses of Alibaba, Azure and Oracle, and of Amazon and Google over IPv6. Over IPv4, those two are link-local.
  'an address of a cloud metadata service': [
    ['100.100.100.200', 32],
    ['168.63.129.16', 32],
    ['192.0.0.192', 32],
    ['fd00:ec2::254', 128],
    ['fd20:ce::254', 128],
  ],
  // RFC 8215. Each network chooses where the IPv4 address is in it, so no part of it can be allowed.
  'an address of local-use NAT64': [['64:ff9b:1::', 48]],
  'a multicast or broadcast address': [
    ['224.0.0.0', 4],
    ['255.255.255.255', 32],
    ['ff00::', 8],
  ],
};
/**
 * IPv6 networks whose last 32 bits are an IPv4 address: IPv4-compatible, SIIT and NAT64. RFC 4291, 2765 and 6052. `BlockList`
 * handles IPv4-mapped ones.
 */
const embeddingPrefixes = ['::', '::ffff:0:', '64:ff9b::'];

const localKinds = Object.entries(localSubnets).map(([kind, subnets]) => [kind, blockList(subnets)] as const);

function blockList(subnets: readonly Subnet[]): BlockList {
  const list = new BlockList();
  for (const [address, prefix] of subnets) {
    const isIPv6 = address.includes(':');
    list.addSubnet(address, prefix, isIPv6 ? 'ipv6' : 'ipv4');
    if (isIPv6) continue;
    for (const embedding of embeddingPrefixes) list.addSubnet(embedding + address, 96 + prefix, 'ipv6');
  }
  return list;
}

/** Returns the kind of local address, in words, or undefined for an address to which webhooks may always be posted. */
export function localAddressKind(address: string): string | undefined {
  const [plain = ''] = address.split('%', 1);
  const family = isIP(plain) === 6 ? 'ipv6' : 'ipv4';
  return localKinds.find(([, list]) => list.check(plain, family))?.[0];
}

/** The target has no address to which webhooks may be posted. */
export class LocalTargetError extends Error {
  constructor(target: string, address: string) {
    const resolved = target === address ? target : `${target} resolves to ${address}, which`;
    super(`${resolved} is ${localAddressKind(address)}: set WEBHOOK_ALLOW_LOCAL=true to post there`);
  }
}

/** The part of `dns.lookup` that is used here. */
export type ResolveAll = (
  hostname: string,
  options: LookupAllOptions,
  callback: (error: NodeJS.ErrnoException | null, found: LookupAddress[]) => void,
) => void;

/** Does the same as `dns.lookup`, without local addresses. Fails with a LocalTargetError if no other address is left. */
export function lookupWithoutLocal(resolve: ResolveAll): LookupFunction {
  return (hostname, options, callback) => {
    const answered = (error: NodeJS.ErrnoException | null, found: LookupAddress[]): void => {
      const allowed =
        error === null ? found.filter(({ address }) => localAddressKind(address) === undefined) : [];
      const [first] = allowed;
      if (error !== null) callback(error, '');
      else if (first === undefined) callback(new LocalTargetError(hostname, found[0]?.address ?? ''), '');
      else if (options.all === true) callback(null, allowed);
      else callback(null, first.address, first.family);
    };
    resolve(hostname, { ...options, all: true }, answered);
  };
}

/** Opens connections to allowed addresses only, and keeps them open for further events. */
export function webhookAgent({ allowLocal }: { allowLocal: boolean }): Agent {
  if (allowLocal) return new Agent();
  const connect = buildConnector({ lookup: lookupWithoutLocal(dnsLookup) });
  return new Agent({
    connect: (options, callback) => {
      // A literal address needs no lookup.
      const literal = options.hostname.replace(/^\[|\]$/g, '');
      if (isIP(literal) !== 0 && localAddressKind(literal) !== undefined)
        callback(new LocalTargetError(literal, literal), null);
      else connect(options, callback);
    },
  });
}

export interface WebhookEndpoint {
  /** The URL without credentials, which `fetch` does not accept in a URL. */
  url: string;
  /** The header `authorization`, from the URL's credentials. */
  authorization: string | undefined;
  /** The label for logs, metrics and errors. Credentials, query and parts of the path that may be secret are masked. */
  label: string;
}

/** Returns the problem of an item of WEBHOOK_URLS, without its text, which may contain a password. Undefined if the item is valid. */
export function webhookUrlProblem(text: string): string | undefined {
  const url = URL.parse(text);
  if (url === null) return 'is not a URL such as https://host/path';
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'must begin with https:// or http://';
  if (url.hash !== '') return 'must not have a fragment (#...)';
  if (!isDecodable(url.username) || !isDecodable(url.password))
    return 'has credentials with a damaged escape';
  return undefined;
}

/** Throws the error of `webhookUrlProblem`. */
export function parseEndpoint(text: string): WebhookEndpoint {
  const problem = webhookUrlProblem(text);
  if (problem !== undefined) throw new Error(`a webhook URL ${problem}`);
  const url = new URL(text);
  const { username, password } = url;
  const label = maskedUrl(url);
  url.username = '';
  url.password = '';
  const hasCredentials = username !== '' || password !== '';
  return { url: url.href, authorization: hasCredentials ? basic(username, password) : undefined, label };
}

/** Encodes basic authentication. RFC 7617. */
function basic(username: string, password: string): string {
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  return `Basic ${Buffer.from(credentials).toString('base64')}`;
}

function maskedUrl(url: URL): string {
  const hasCredentials = url.username !== '' || url.password !== '';
  const path = url.pathname.split('/').map(maskedSegment).join('/');
  const query = url.search === '' ? '' : '?*****';
  return `${url.protocol}//${hasCredentials ? '*****@' : ''}${url.host}${path}${query}`;
}

/**
 * Masks a segment. Many receivers have a token in the path, which may be short. So only versions, and words that occur in most paths, are
 * shown.
 */
function maskedSegment(segment: string): string {
  return /^(?:|api|events?|hooks?|in|incoming|services|triggers?|weir|webhooks?|workflows|v\d{1,3})$/i.test(
    segment,
  )
    ? segment
    : '*****';
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
