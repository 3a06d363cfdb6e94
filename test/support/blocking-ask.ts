import { MessageChannel, receiveMessageOnPort, Worker } from 'node:worker_threads';

export interface BlockingQuestion {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** PEM of the authority that the server's certificate is from. */
  ca: string;
}

export interface BlockingAnswer {
  status: number;
  body: string;
}

/** The thread keeps its connections, so that an answer takes a millisecond. */
const program = `
  const { request, Agent } = require('node:https');
  const { parentPort, workerData: { port, signal } } = require('node:worker_threads');
  const agent = new Agent({ keepAlive: true });
  const tell = (told) => {
    port.postMessage(told);
    Atomics.store(signal, 0, 1);
    Atomics.notify(signal, 0);
  };
  port.on('message', ({ url, headers, ca }) => {
    const asked = request(url, { headers, ca, agent }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', (error) => tell({ error: error.message }));
      response.on('end', () => tell({ status: response.statusCode, body: Buffer.concat(chunks).toString() }));
    });
    asked.on('error', (error) => tell({ error: error.message }));
    asked.setTimeout(30_000, () => asked.destroy(new Error('no answer in 30 s')));
    asked.end();
  });
`;

type Told = BlockingAnswer | { error: string };

let asker: ((question: BlockingQuestion) => Told) | undefined;

/** Asks by GET, and keeps this thread until the answer is there, as a program started with `spawnSync` does. */
export function blockingAsk(question: BlockingQuestion): BlockingAnswer {
  asker ??= startAsker();
  const told = asker(question);
  if ('error' in told) throw new Error(`${question.url}: ${told.error}`);
  return told;
}

function startAsker(): (question: BlockingQuestion) => Told {
  const { port1, port2 } = new MessageChannel();
  const signal = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(program, {
    eval: true,
    workerData: { port: port2, signal },
    transferList: [port2],
  });
  worker.unref();
  port1.unref();
  return (question) => {
    Atomics.store(signal, 0, 0);
    port1.postMessage(question);
    Atomics.wait(signal, 0, 0);
    return (receiveMessageOnPort(port1) as { message: Told }).message;
  };
}
