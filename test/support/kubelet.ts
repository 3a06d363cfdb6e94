/** What a kubelet does for port-forward: the API server hands it a WebSocket, and it connects that to a port of this machine. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import type { ApiServer } from './api-server.ts';
import { createAuthority } from './certificates.ts';
import { findServer, opensslProgram } from './find-server.ts';

/**
 * A node of the cluster with this name, whose pods can be reached by port-forward until the test ends. `portOf` says which port of
 * this machine plays that of a pod, `weir-system/limiter-0`.
 */
export async function startKubelet(
  api: ApiServer,
  node: string,
  portOf: (pod: string, port: number) => number,
): Promise<void> {
  const openssl = findServer(opensslProgram);
  if ('missing' in openssl) throw new Error(openssl.missing);
  const { certFile, keyFile } = createAuthority(openssl.path, api.folder, `${node}-ca`).issue({
    name: node,
    alternativeNames: 'IP:127.0.0.1',
  });
  const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
  server.on('upgrade', (request, socket) => {
    const key = `${request.headers['sec-websocket-key']}258EAFA5-E914-47DA-95CA-C5AB0DC85B11`;
    const accept = createHash('sha1').update(key).digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\nSec-WebSocket-Protocol: v4.channel.k8s.io\r\n\r\n`,
    );
    const [, , namespace, pod] = request.url!.split(/[/?]/);
    forward(socket, portOf(`${namespace}/${pod}`, Number(/[?&]port=(\d+)/.exec(request.url!)?.[1])));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => void server.close());
  const status = {
    addresses: [{ type: 'InternalIP', address: '127.0.0.1' }],
    daemonEndpoints: { kubeletEndpoint: { Port: (server.address() as AddressInfo).port } },
  };
  const object = { apiVersion: 'v1', kind: 'Node', metadata: { name: node } };
  api.apply(JSON.stringify(object));
  api.patch('nodes', { name: `${node}/status` }, { status });
}

/** Two channels a port, of data and of errors; both begin with the number of the port. */
function forward(socket: Duplex, port: number): void {
  const name = Buffer.alloc(2);
  name.writeUInt16LE(port);
  const target = connect(port, '127.0.0.1');
  const send = (channel: number, bytes: Buffer) =>
    socket.write(frame(Buffer.concat([Buffer.of(channel), bytes])));
  for (const channel of [0, 1]) send(channel, name);
  target.on('data', (bytes: Buffer) => send(0, bytes));
  target.on('error', (error) => send(1, Buffer.from(error.message)));
  let held = Buffer.alloc(0);
  socket.on('data', (bytes: Buffer) => {
    held = Buffer.concat([held, bytes]);
    for (let read = unframed(held); read !== undefined; read = unframed(held)) {
      held = held.subarray(read.length);
      if (read.payload[0] === 0) target.write(read.payload.subarray(1));
    }
  });
  socket.on('error', () => target.destroy());
  socket.on('close', () => target.destroy());
}

/** RFC 6455, section 5.2: a whole binary message. */
function frame(payload: Buffer): Buffer {
  const long = payload.length > 125;
  const head = Buffer.alloc(long ? 10 : 2);
  head[0] = 0x82;
  head[1] = long ? 127 : payload.length;
  if (long) head.writeBigUInt64BE(BigInt(payload.length), 2);
  return Buffer.concat([head, payload]);
}

/** The first message, unmasked; undefined while it is not whole. Control frames have an empty payload here. */
function unframed(bytes: Buffer): { payload: Buffer; length: number } | undefined {
  if (bytes.length < 6) return undefined;
  const short = bytes[1]! & 127;
  const head = short === 127 ? 10 : short === 126 ? 4 : 2;
  if (bytes.length < head + 4) return undefined;
  const size =
    short === 127 ? Number(bytes.readBigUInt64BE(2)) : short === 126 ? bytes.readUInt16BE(2) : short;
  const length = head + 4 + size;
  if (bytes.length < length) return undefined;
  const mask = bytes.subarray(head, head + 4);
  const payload = Buffer.from(bytes.subarray(head + 4, length)).map((byte, index) => byte ^ mask[index % 4]!);
  return { payload: bytes[0] === 0x82 ? Buffer.from(payload) : Buffer.alloc(0), length };
}
