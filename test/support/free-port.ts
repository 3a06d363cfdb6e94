import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Below the ports that systems give to outgoing connections: none of those takes one before its server does. */
const firstPort = 15_000;
const lastPort = 32_000;
const given = new Set<number>();

/**
 * A TCP port of 127.0.0.1 on which nothing listened a moment ago; another each time. `distance`: the port so much above it is free,
 * too, and given with it.
 */
export async function freePort(distance = 0): Promise<number> {
  for (;;) {
    const port = randomInt(firstPort, lastPort - distance + 1);
    const ports = [...new Set([port, port + distance])];
    if (ports.some((one) => given.has(one))) continue;
    for (const one of ports) given.add(one);
    const free = await Promise.all(ports.map(isFree));
    if (free.every(Boolean)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  server.listen(port, '127.0.0.1');
  try {
    await once(server, 'listening');
  } catch {
    return false;
  }
  server.close();
  await once(server, 'close');
  return true;
}
