/** Opens a TCP listener, with one wording for every failure. No port is shared, unless that is asked for: a second process on it fails. */
import { type AddressInfo, BlockList, isIP, type ListenOptions, type Server } from 'node:net';
import { systemErrorReason } from '../log/error-text.ts';

/** An empty host stands for every address of the machine; port 0 for any free port. */
export interface ListenAddress {
  host: string;
  port: number;
  /** Listeners that all say so share the port: the system deals the connections out among them (SO_REUSEPORT). */
  reusePort?: boolean;
}

/**
 * Connections that wait to be accepted, one in a turn of the loop: whoever finds no place tries again after a second. The
 * system has a bound of its own (`net.core.somaxconn`, 4,096 on Linux); Node's default is 511.
 */
const backlog = 4096;

/** Of a socket's path on Linux: 108 with the zero byte at its end. */
export const mostPathBytes = 107;

/** A socket in the file system. */
export interface UnixAddress {
  path: string;
  /** Its permissions: to connect is to write. */
  mode: number;
}

/** A listener could not be opened; the message names its address. */
export class BindError extends Error {
  override readonly name = 'BindError';
  readonly address: string;
  /** As the system names it, for example EADDRINUSE. */
  readonly code: string;

  /** `why` goes before what the system says. */
  constructor(address: ListenAddress | UnixAddress, cause: NodeJS.ErrnoException, why = reason(cause)) {
    const text = addressText(address);
    const code = cause.code ?? 'unknown';
    super(`cannot listen on ${text}: ${why} (${code})`, { cause });
    this.address = text;
    this.code = code;
  }
}

/** Resolves with the port really taken, or rejects with a BindError. A host name is bound at its first address. */
export function bind(server: Server, address: ListenAddress): Promise<{ port: number }> {
  return new Promise((resolve, reject) => {
    const onError = (error: Error): void => reject(new BindError(address, error));
    server.once('error', onError);
    try {
      server.listen(listenOptions(address), () => {
        server.off('error', onError);
        resolve({ port: (server.address() as AddressInfo).port });
      });
    } catch (error) {
      server.off('error', onError);
      onError(error as Error);
    }
  });
}

function listenOptions({ host, port, reusePort = false }: ListenAddress): ListenOptions {
  const options = reusePort ? { port, reusePort, backlog } : { port, backlog };
  return host === '' ? options : { ...options, host };
}

/** An address as users write it: IPv6 in brackets. */
export function addressText(address: ListenAddress | UnixAddress): string {
  if ('path' in address) return address.path;
  const { host, port } = address;
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

const loopback = new BlockList();
loopback.addSubnet('127.0.0.0', 8, 'ipv4');
loopback.addAddress('::1', 'ipv6');

/** Whether only this machine reaches what listens there. Of names only `localhost` is known. */
export function isLoopback(host: string): boolean {
  const version = isIP(host);
  if (version === 0) return host.toLowerCase() === 'localhost';
  return loopback.check(host, version === 4 ? 'ipv4' : 'ipv6');
}

function reason(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ERR_SOCKET_BAD_PORT') return 'the port must be 0 to 65535';
  return systemErrorReason(cause);
}
