import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { expect, it, onTestFinished } from 'vitest';
import { eventually } from './eventually.ts';
import { TcpProxy } from './tcp-proxy.ts';

/** A proxy to a server that sends back what it gets. */
async function proxyToEcho(): Promise<TcpProxy> {
  const echo = createServer((socket) => {
    socket.on('error', () => {});
    socket.pipe(socket);
  });
  echo.listen(0, '127.0.0.1');
  await once(echo, 'listening');
  const proxy = await TcpProxy.to((echo.address() as AddressInfo).port);
  onTestFinished(async () => {
    await proxy.close();
    echo.close();
  });
  return proxy;
}

/** What becomes of a word that is sent: it comes back, or the connection ends, or neither within the time. */
async function outcome(proxy: TcpProxy, meanwhile: () => unknown = () => {}, withinMs = 5000) {
  const socket = connect(proxy.port, '127.0.0.1');
  const ended = new Promise<string>((resolve) => {
    socket.on('error', (error) => resolve((error as NodeJS.ErrnoException).code ?? ''));
  });
  const answered = once(socket, 'data').then(String, () => ended);
  const silent = new Promise<string>((resolve) => setTimeout(() => resolve('nothing'), withinMs));
  socket.once('connect', () => {
    socket.write('word');
    meanwhile();
  });
  const result = await Promise.race([answered, ended, silent]);
  socket.destroy();
  return result;
}

it('passes bytes both ways', async () => {
  expect(await outcome(await proxyToEcho())).toBe('word');
});

it('delays them, either way', async () => {
  const proxy = await proxyToEcho();
  proxy.delay(100);
  const startedMs = performance.now();
  expect(await outcome(proxy)).toBe('word');
  expect(performance.now() - startedMs).toBeGreaterThan(190);
});

it('swallows them until it is healed', async () => {
  const proxy = await proxyToEcho();
  proxy.swallow();
  expect(await outcome(proxy, undefined, 100)).toBe('nothing');
  await proxy.heal();
  expect(await outcome(proxy)).toBe('word');
});

it('resets connections that it cuts, and takes new ones', async () => {
  const proxy = await proxyToEcho();
  proxy.delay(1000);
  expect(await outcome(proxy, () => setTimeout(() => proxy.cut(), 50))).toBe('ECONNRESET');
  await proxy.heal();
  expect(await outcome(proxy)).toBe('word');
});

it('refuses connections until it is healed, and listens on the same port then', async () => {
  const proxy = await proxyToEcho();
  const { port } = proxy;
  await proxy.refuse();
  expect(await outcome(proxy)).toBe('ECONNREFUSED');
  await proxy.heal();
  expect(proxy.port).toBe(port);
  expect(await outcome(proxy)).toBe('word');
});

it('forgets connections without ending them, and takes new ones', async () => {
  const proxy = await proxyToEcho();
  const socket = connect(proxy.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let received = '';
  socket.on('data', (chunk) => {
    received += String(chunk);
  });
  socket.write('word');
  await eventually(() => expect(received).toBe('word'));
  proxy.forget();
  socket.write('another');
  // What the forgotten one sent has gone through the proxy before that.
  expect(await outcome(proxy)).toBe('word');
  expect([received, socket.destroyed]).toEqual(['word', false]);
});
