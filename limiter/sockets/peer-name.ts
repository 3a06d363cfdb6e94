import { addressText } from '../../process/bind.ts';

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
