/** Asks a Node process that was started with `--inspect=127.0.0.1:0` about its memory. */
import type { ChildProgram } from './child-program.ts';

/** After garbage was collected, in bytes. */
export interface LiveMemory {
  heapUsed: number;
  arrayBuffers: number;
}

/** As much of its answers as is read here. */
interface Reply {
  id?: number;
  result?: { result?: { value?: LiveMemory } };
}

export class InspectedProcess {
  readonly #socket: WebSocket;
  readonly #waiting = new Map<number, (reply: Reply) => void>();
  #nextId = 1;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener('message', (event) => {
      const reply = JSON.parse(String(event.data)) as Reply;
      if (reply.id === undefined) return;
      this.#waiting.get(reply.id)?.(reply);
      this.#waiting.delete(reply.id);
    });
  }

  static async of(program: ChildProgram): Promise<InspectedProcess> {
    const [, address] = await program.printed(/Debugger listening on (ws:\S+)/);
    const socket = new WebSocket(address as string);
    await new Promise((resolve, reject) => {
      socket.addEventListener('open', resolve);
      socket.addEventListener('error', () => reject(new Error(`no inspector at ${address}`)));
    });
    return new InspectedProcess(socket);
  }

  async liveMemory(): Promise<LiveMemory> {
    // What the first collection lets go of may hold more that only a second one finds.
    for (let i = 0; i < 2; i++) await this.#send('HeapProfiler.collectGarbage');
    const reply = await this.#send('Runtime.evaluate', {
      expression: '(({ heapUsed, arrayBuffers }) => ({ heapUsed, arrayBuffers }))(process.memoryUsage())',
      returnByValue: true,
    });
    const memory = reply.result?.result?.value;
    if (memory === undefined) throw new Error(`the inspector says ${JSON.stringify(reply)}`);
    return memory;
  }

  close(): void {
    this.#socket.close();
  }

  #send(method: string, params: object = {}): Promise<Reply> {
    const id = this.#nextId++;
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#socket.send(JSON.stringify({ id, method, params }));
    });
  }
}
