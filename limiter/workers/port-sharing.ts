import { createServer } from 'node:net';
import { BindError, bind, type ListenAddress } from '../../process/net/process-bind.ts';

/** What systems without SO_REUSEPORT for TCP, or without its dealing out of connections, answer. */
const notSupported = new Set(['ENOTSUP', 'ENOPROTOOPT', 'EINVAL']);

export class SharedPortsError extends Error {
  override readonly name = 'SharedPortsError';
}

/** Opens a listener and closes it again; rejects with a BindError. */
export type TryListener = (address: ListenAddress) => Promise<{ port: number }>;

export const tryListener: TryListener = async (address) => {
  const server = createServer();
  const bound = await bind(server, address);
  await new Promise<void>((resolve) => server.close(() => resolve()));
  return bound;
};

/** Rejects with a SharedPortsError where several threads cannot listen on one port. */
export async function assertPortsCanBeShared(host: string, open: TryListener = tryListener): Promise<void> {
  try {
    await open({ host, port: 0, reusePort: true });
  } catch (error) {
    // Whatever else is wrong with the address is told when it is listened on.
    if (!(error instanceof BindError) || !notSupported.has(error.code)) return;
    throw new SharedPortsError(
      `LIMITER_WORKERS: threads cannot share a port on this system (${error.code}); set LIMITER_WORKERS=1 and run several limiters instead`,
    );
  }
}

/**
 * The address for listeners that share it, its port chosen. Rejects with a BindError when anybody else has it: those
 * who share a port would let another limiter in without a word.
 */
export async function addressToShare(address: ListenAddress): Promise<ListenAddress> {
  const { port } = await tryListener(address);
  return { ...address, port, reusePort: true };
}
