import { createServer, type Server } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { addressText, BindError, bind } from './bind.ts';

const opened: Server[] = [];
const server = (): Server => {
  const one = createServer();
  opened.push(one);
  return one;
};
afterEach(() => {
  for (const one of opened.splice(0)) one.close();
});

async function failure(address: { host: string; port: number }): Promise<BindError> {
  const error = await bind(server(), address).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(BindError);
  return error as BindError;
}

describe('bind', () => {
  it('says which port it got', async () => {
    const one = server();
    const { port } = await bind(one, { host: '127.0.0.1', port: 0 });
    expect(one.address()).toMatchObject({ address: '127.0.0.1', port });
  });

  it('takes an empty host for every address', async () => {
    const one = server();
    await bind(one, { host: '', port: 0 });
    expect(['::', '0.0.0.0']).toContain((one.address() as { address: string }).address);
  });

  it('rejects a port that is taken and names the address', async () => {
    const { port } = await bind(server(), { host: '127.0.0.1', port: 0 });
    const error = await failure({ host: '127.0.0.1', port });
    expect(error.message).toBe(`cannot listen on 127.0.0.1:${port}: address already in use (EADDRINUSE)`);
    expect(error.code).toBe('EADDRINUSE');
    expect(error.address).toBe(`127.0.0.1:${port}`);
  });

  it('rejects a port out of range', async () => {
    const error = await failure({ host: '127.0.0.1', port: 70_000 });
    expect(error.message).toBe(
      'cannot listen on 127.0.0.1:70000: the port must be 0 to 65535 (ERR_SOCKET_BAD_PORT)',
    );
  });

  it('rejects an address that is not of this machine', async () => {
    const error = await failure({ host: '192.0.2.1', port: 0 });
    expect(error.message).toBe('cannot listen on 192.0.2.1:0: address not available (EADDRNOTAVAIL)');
  });
});

describe('addressText', () => {
  it('puts IPv6 in brackets', () => {
    expect(addressText({ host: '::1', port: 80 })).toBe('[::1]:80');
    expect(addressText({ host: '', port: 80 })).toBe(':80');
  });
});
