import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';
import { machineLoad } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

/** Chosen: a guard against hangs, on a machine with nothing else to do. */
const patienceMs = 60_000;

/**
 * A thread that answers questions, while the one that asks waits, as for a program started with `spawnSync`. `program` has to set
 * `answer`, which takes a question and returns a promise; its functions get `data` as it was given here.
 */
export class BlockingWorker<Question, Answer> {
  readonly #program: string;
  readonly #data: unknown;
  #ask: ((question: Question) => { answer: Answer } | { error: string } | undefined) | undefined;

  constructor(program: string, data?: unknown) {
    this.#program = program;
    this.#data = data;
  }

  /** Starts the thread when it is asked first. @throws Error with the words of the thread's */
  ask(question: Question): Answer {
    this.#ask ??= this.#start();
    const reported = this.#ask(question);
    if (reported === undefined) {
      const bound = `${patienceMs} ms, multiplied by the load of the machine`;
      throw outOfTime(new Error(`a thread did not answer within ${bound}`));
    }
    if ('error' in reported) throw new Error(reported.error);
    return reported.answer;
  }

  #start(): (question: Question) => { answer: Answer } | { error: string } | undefined {
    const { port1, port2 } = new MessageChannel();
    const signal = new Int32Array(new SharedArrayBuffer(4));
    const worker = new Worker(
      `const { workerData: { port, signal, data } } = require('node:worker_threads');
      let answer;
      let asked = false;
      const report = (reported) => {
        if (!asked) return;
        asked = false;
        port.postMessage(reported);
        Atomics.store(signal, 0, 1);
        Atomics.notify(signal, 0);
      };
      const fail = (error) => report({ error: String(error?.stack ?? error) });
      // The thread would end, and the one that waits would wait on.
      process.on('uncaughtException', fail);
      ${this.#program}
      port.on('message', (question) => {
        asked = true;
        answer(question).then((answered) => report({ answer: answered }), fail);
      });`,
      {
        eval: true,
        workerData: { port: port2, signal, data: this.#data },
        transferList: [port2],
      },
    );
    worker.unref();
    port1.unref();
    return (question) => {
      Atomics.store(signal, 0, 0);
      port1.postMessage(question);
      Atomics.wait(signal, 0, 0, patienceMs * machineLoad());
      return receiveMessageOnPort(port1)?.message;
    };
  }
}
