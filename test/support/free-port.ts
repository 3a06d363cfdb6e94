import { randomInt } from 'node:crypto';
import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';

/** Above the ports of documents and defaults, and below the ports that systems give to outgoing connections and to `listen(0)`. */
const firstPort = 20_000;
const lastPort = 32_000;

/**
 * Returns a TCP port of 127.0.0.1 on which no program listens. While this process runs, no other call on this machine returns the same
 * port, also in other processes. `distance`: the port that is so much higher is also free, and reserved.
 */
export async function freePort(distance = 0): Promise<number> {
  for (;;) {
    const port = randomInt(firstPort, lastPort - distance + 1);
    const ports = [...new Set([port, port + distance])];
    if (await reserveAll(ports)) return port;
  }
}

async function reserveAll(ports: readonly number[]): Promise<boolean> {
  const marks: Socket[] = [];
  for (const port of ports) {
    const mark = await markPort(port);
    if (mark !== undefined) marks.push(mark);
    if (mark === undefined || !(await isFree(port))) {
      for (const one of marks) one.close();
      return false;
    }
  }
  return true;
}

/**
 * Holds the UDP port of the same number until this process ends, which is how processes see each other's choices. UDP and TCP do
 * not share ports, so the mark is in no server's way. Returns undefined if another call holds it.
 */
async function markPort(port: number): Promise<Socket | undefined> {
  const mark = createSocket('udp4');
  mark.unref();
  mark.bind({ port, address: '127.0.0.1', exclusive: true });
  try {
    await once(mark, 'listening');
    return mark;
  } catch {
    mark.close();
    return undefined;
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
