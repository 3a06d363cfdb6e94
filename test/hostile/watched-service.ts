/** The service behind a proxy: answers everything, and keeps what came. */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { createServer, type Server } from 'node:net';

export class WatchedService {
  /** The beginning of each piece of bytes that a connection brought. */
  readonly came: string[] = [];
  readonly #server: Server = createServer((socket) => {
    socket.on('error', () => {});
    socket.on('data', (chunk: Buffer) => {
      this.came.push(chunk.subarray(0, 300).toString('latin1'));
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 8\r\nConnection: close\r\n\r\nservice\n');
    });
  });

  async listen(): Promise<number> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    return (this.#server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    this.#server.close();
    await once(this.#server, 'close');
  }
}
