import type { ChildProgram } from '../support/child-program.ts';

/** Of Node, for a limiter whose memory is to be looked at: an inspector on any free port of loopback. */
export const inspectArguments: readonly string[] = ['--inspect=127.0.0.1:0'];

/** The heap of a limiter that was started with `inspectArguments`, by Node's inspector. */
export class LimiterMemory {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (reply: InspectorReply) => void>();
  #calls = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', ({ data }) => {
      const reply = JSON.parse(String(data)) as InspectorReply;
      if (reply.id === undefined) return;
      this.#waiting.get(reply.id)?.(reply);
      this.#waiting.delete(reply.id);
    });
    socket.addEventListener('close', () => {
      for (const answer of this.#waiting.values()) answer({ error: { message: 'the inspector is gone' } });
    });
  }

  static async of(program: ChildProgram): Promise<LimiterMemory> {
    const [, url] = await program.printed(/Debugger listening on (ws:\S+)/);
    const socket = new WebSocket(url as string);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error(`cannot reach the inspector ${url}`)));
    });
    return new LimiterMemory(socket);
  }

  /** What is in use once everything that can go is gone. */
  async usedBytes(): Promise<number> {
    // What finalizers and weak references held goes with the second.
    await this.#call('HeapProfiler.collectGarbage');
    await this.#call('HeapProfiler.collectGarbage');
    const { usedSize } = (await this.#call('Runtime.getHeapUsage')) as { usedSize: number };
    return usedSize;
  }

  close(): void {
    this.#socket.close();
  }

  async #call(method: string): Promise<unknown> {
    this.#calls += 1;
    const id = this.#calls;
    const reply = await new Promise<InspectorReply>((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method }));
    });
    if (reply.error !== undefined) throw new Error(`${method}: ${reply.error.message}`);
    return reply.result;
  }
}

interface InspectorReply {
  id?: number;
  result?: unknown;
  error?: { message: string };
}
