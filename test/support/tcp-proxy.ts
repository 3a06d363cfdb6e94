import { once } from 'node:events';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { DelayLine } from './delay-line.ts';
import { freePort } from './free-port.ts';

/** A TCP proxy on loopback between a program and its server, which does to their connections what networks do. */
export class TcpProxy {
  readonly #server: Server;
  readonly #targetPort: () => number;
  readonly #sockets = new Set<Socket>();
  readonly #lines = new Set<DelayLine>();
  readonly port: number;
  /** Of what clients send, and of what the server sends. */
  #delayMs = 0;
  #backMs = 0;
  #swallows = false;
  /** How often `forget` was called: connections made before the last time pass nothing. */
  #forgotten = 0;

  private constructor(port: number, targetPort: () => number) {
    this.port = port;
    this.#targetPort = targetPort;
    this.#server = createServer((socket) => this.#join(socket));
  }

  /** A function is asked for each connection. */
  static async to(targetPort: number | (() => number)): Promise<TcpProxy> {
    const proxy = new TcpProxy(
      await freePort(),
      typeof targetPort === 'number' ? () => targetPort : targetPort,
    );
    await proxy.#listen();
    return proxy;
  }

  /** Each chunk arrives so much later from now on, either way, or `backMs` later where the server sends it. */
  delay(ms: number, backMs = ms): void {
    this.#delayMs = ms;
    this.#backMs = backMs;
  }

  /** Drops whatever is sent from now on and leaves connections open, as a firewall does that forgot them. */
  swallow(): void {
    this.#swallows = true;
  }

  /** Drops whatever is sent on the connections that are open, for good and without a word. New ones work. */
  forget(): void {
    this.#forgotten += 1;
  }

  /** Ends every connection with a reset. New ones are taken. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  /** Ends every connection and rejects new ones. */
  async refuse(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }

  /** Passes everything again. Connections whose bytes were dropped are reset, since their streams have holes. */
  async heal(): Promise<void> {
    this.delay(0);
    if (this.#swallows) this.cut();
    this.#swallows = false;
    if (!this.#server.listening) await this.#listen();
  }

  async close(): Promise<void> {
    for (const line of this.#lines) line.clear();
    if (this.#server.listening) await this.refuse();
    else this.cut();
  }

  async #listen(): Promise<void> {
    this.#server.listen(this.port, '127.0.0.1');
    await once(this.#server, 'listening');
  }

  #join(client: Socket): void {
    const server = connect(this.#targetPort(), '127.0.0.1');
    this.#pass(client, server, () => this.#delayMs);
    this.#pass(server, client, () => this.#backMs);
  }

  #pass(from: Socket, to: Socket, delayMs: () => number): void {
    const line = new DelayLine();
    const forgotten = this.#forgotten;
    this.#lines.add(line);
    this.#sockets.add(from);
    from.setNoDelay(true);
    from.on('data', (chunk) => {
      const passes = !this.#swallows && forgotten === this.#forgotten;
      if (passes) line.add(delayMs(), () => void (to.writable && to.write(chunk)));
    });
    from.on('error', () => {});
    from.on('close', () => {
      this.#sockets.delete(from);
      // After what was sent before it.
      line.add(delayMs(), () => {
        this.#lines.delete(line);
        to.destroySoon();
      });
    });
  }
}
