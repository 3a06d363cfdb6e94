import { once } from 'node:events';
import { type AddressInfo, createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { BindError, bind } from '../../process/net/bind.ts';
import { addressToShare, assertPortsCanBeShared, SharedPortsError } from './worker-pool.ts';

const host = '127.0.0.1';
const open: Server[] = [];
afterEach(() => {
  for (const server of open.splice(0)) server.close();
});

async function listener(reusePort: boolean, port = 0): Promise<number> {
  const server = createServer();
  open.push(server);
  server.listen({ host, port, reusePort });
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

const refusing = (code: string) => () =>
  Promise.reject(new BindError({ host, port: 0 }, Object.assign(new Error('x'), { code })));

describe('addressToShare', () => {
  it('chooses a port on which several can listen', async () => {
    const shared = await addressToShare({ host, port: 0 });
    expect(shared).toEqual({ host, port: expect.any(Number), reusePort: true });
    for (let i = 0; i < 2; i++) {
      const server = createServer();
      open.push(server);
      expect(await bind(server, shared)).toEqual({ port: shared.port });
    }
  });

  it.each([false, true])('rejects a port that another program uses and shares: %s', async (reusePort) => {
    const port = await listener(reusePort);
    await expect(addressToShare({ host, port })).rejects.toThrow(
      `cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`,
    );
  });
});

describe('assertPortsCanBeShared', () => {
  it('is content where they can', async () => {
    await assertPortsCanBeShared(host);
  });

  it.each(['ENOTSUP', 'ENOPROTOOPT', 'EINVAL'])('rejects a system that answers %s', async (code) => {
    await expect(assertPortsCanBeShared(host, refusing(code))).rejects.toThrow(
      new SharedPortsError(
        `LIMITER_WORKERS: threads cannot share a port on this system (${code}); set LIMITER_WORKERS=1 and run several limiters instead`,
      ),
    );
  });

  it('leaves an address that is taken to the program that listens on it', async () => {
    await assertPortsCanBeShared(host, refusing('EADDRNOTAVAIL'));
  });
});
