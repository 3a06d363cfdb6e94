import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import { Webhook } from 'standardwebhooks';
import { onTestFinished } from 'vitest';
import { freePort } from './free-port.ts';

export interface ReceivedDelivery {
  path: string;
  headers: IncomingHttpHeaders;
  body: string;
  id: string;
}

/** What the receiver does with a delivery; `hang` does not answer before `answerHanging`. */
export type ReceiverAnswer = number | 'hang' | { status: number; headers: Record<string, string> };

/** A webhook endpoint on loopback. It ends with the test. */
export class WebhookReceiver {
  readonly deliveries: ReceivedDelivery[] = [];
  /** Deliveries that are being answered now. */
  open = 0;
  maxOpen = 0;
  readonly #answers: ReceiverAnswer[] = [];
  readonly #hanging: ServerResponse[] = [];
  #common: ReceiverAnswer = 204;
  #server: Server | undefined;
  #port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.#port}/hook`;
  }

  get ids(): string[] {
    return this.deliveries.map(({ id }) => id);
  }

  /** Every delivery from now on gets this answer; before it those in `first`, one each. */
  answer(common: ReceiverAnswer, first: ReceiverAnswer[] = []): this {
    this.#common = common;
    this.#answers.splice(0, Infinity, ...first);
    return this;
  }

  /** Starts, or starts anew on the port it had. */
  async start(): Promise<this> {
    const server = createServer(async (request, response) => {
      this.open += 1;
      this.maxOpen = Math.max(this.maxOpen, this.open);
      response.on('close', () => {
        this.open -= 1;
      });
      const body = Buffer.concat(await request.toArray()).toString('utf8');
      const { headers, url: path = '' } = request;
      this.deliveries.push({ path, headers, body, id: String(headers['webhook-id']) });
      const answer = this.#answers.shift() ?? this.#common;
      if (answer === 'hang') this.#hanging.push(response);
      else if (typeof answer === 'number') response.writeHead(answer).end();
      else response.writeHead(answer.status, answer.headers).end('an answer with a body');
    });
    this.#port ||= await freePort();
    server.listen(this.#port, '127.0.0.1');
    await once(server, 'listening');
    this.#server = server;
    return this;
  }

  /** Takes what hangs, and everything from now on. */
  answerHanging(): void {
    this.answer(204);
    for (const response of this.#hanging.splice(0)) response.writeHead(204).end();
  }

  async stop(): Promise<void> {
    const server = this.#server;
    if (server === undefined) return;
    this.#server = undefined;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    await closed;
  }
}

export async function startReceiver(): Promise<WebhookReceiver> {
  const receiver = new WebhookReceiver();
  onTestFinished(() => receiver.stop());
  return receiver.start();
}

/** What a receiver with this secret reads in the delivery; throws when the signature is wrong. */
export function verified(secret: string, { body, headers }: ReceivedDelivery): unknown {
  return new Webhook(secret).verify(body, headers as Record<string, string>);
}
