import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface SpiedRequest {
  method: string;
  url: string;
  headers: IncomingHttpHeaders;
  /** As they came: name, value, name, value. */
  rawHeaders: string[];
  body: string;
}

/** A server that keeps what it is asked, bodies included, before it answers. */
export class HttpSpy {
  readonly received: SpiedRequest[] = [];
  readonly #server: Server;

  constructor(answer: (asked: SpiedRequest, response: ServerResponse) => void) {
    this.#server = createServer(async (question, response) => {
      const chunks: Buffer[] = [];
      for await (const chunk of question) chunks.push(chunk as Buffer);
      const { method = '', url = '', headers, rawHeaders } = question;
      const asked = { method, url, headers, rawHeaders, body: Buffer.concat(chunks).toString() };
      this.received.push(asked);
      answer(asked, response);
    });
  }

  get last(): SpiedRequest | undefined {
    return this.received.at(-1);
  }

  /** Of 127.0.0.1. */
  async listen(port: number): Promise<void> {
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  /** Nothing listens there any more; it may listen again. */
  async close(): Promise<void> {
    if (!this.#server.listening) return;
    this.#server.close();
    this.#server.closeAllConnections();
    await once(this.#server, 'close');
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }
}

/** Asks another server of this machine the same, and gives its answer back. */
export function relay(
  { method, url, rawHeaders, body }: SpiedRequest,
  response: ServerResponse,
  port: number,
): void {
  const asking = request({ port, host: '127.0.0.1', method, path: url, headers: rawHeaders }, (answer) => {
    response.writeHead(answer.statusCode ?? 0, answer.rawHeaders);
    answer.pipe(response);
  });
  asking.on('error', () => response.destroy());
  asking.end(body);
}
