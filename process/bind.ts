/** Opens a TCP listener, with one wording for every failure. No port is shared: a second process on it fails. */
import type { AddressInfo, Server } from 'node:net';
import { systemErrorReason } from './system-error.ts';

/** An empty host stands for every address of the machine; port 0 for any free port. */
export interface ListenAddress {
  host: string;
  port: number;
}

/** A listener could not be opened; the message names its address. */
export class BindError extends Error {
  override readonly name = 'BindError';
  readonly address: string;
  /** As the system names it, for example EADDRINUSE. */
  readonly code: string;

  constructor(address: ListenAddress, cause: NodeJS.ErrnoException) {
    const text = addressText(address);
    const code = cause.code ?? 'unknown';
    super(`cannot listen on ${text}: ${reason(cause)} (${code})`, { cause });
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

function listenOptions({ host, port }: ListenAddress): { port: number; host?: string } {
  return host === '' ? { port } : { port, host };
}

/** An address as users write it: IPv6 in brackets. */
export function addressText({ host, port }: ListenAddress): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
}

function reason(cause: NodeJS.ErrnoException): string {
  if (cause.code === 'ERR_SOCKET_BAD_PORT') return 'the port must be 0 to 65535';
  return systemErrorReason(cause);
}
