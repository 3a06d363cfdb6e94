/** Who a peer is: by name, and by the address that stands for all its connections. */
import { isIPv6 } from 'node:net';
import { addressText } from './bind.ts';

/** What a peer on a Unix socket is called: it has no address. */
export const unixPeer = 'unix socket';

/** Undefined when the connection is gone: the system has forgotten it then. */
export function peerName(peer: {
  remoteAddress?: string | undefined;
  remotePort?: number | undefined;
}): string | undefined {
  const { remoteAddress: host, remotePort: port } = peer;
  return host === undefined || port === undefined ? undefined : addressText({ host, port });
}

/** Who stands behind an address: itself, of IPv6 its /64, which one machine usually has to itself. */
export function addressGroup(remoteAddress: string | undefined): string {
  if (remoteAddress === undefined) return '';
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(remoteAddress);
  if (mapped !== null) return mapped[1] as string;
  if (!isIPv6(remoteAddress)) return remoteAddress;
  const [head = '', tail] = remoteAddress.split('%', 1)[0]!.split('::') as [string, string?];
  const before = head === '' ? [] : head.split(':');
  // An IPv4 address at the end stands for two parts.
  const after = tail === undefined || tail === '' ? 0 : tail.split(':').length + (tail.includes('.') ? 1 : 0);
  const missing = tail === undefined ? 0 : 8 - before.length - after;
  const parts = [...before, ...new Array<string>(missing).fill('0'), ...(tail ?? '').split(':')];
  return `${parts.slice(0, 4).map(shortest).join(':')}::/64`;
}

function shortest(part: string): string {
  return Number.parseInt(part, 16).toString(16);
}
