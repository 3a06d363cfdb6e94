import { BlockingWorker } from './blocking-worker.ts';

export interface BlockingQuestion {
  url: string;
  headers: Readonly<Record<string, string>>;
  /** PEM of the authority that the server's certificate is from. */
  ca: string;
  /** GET without one. */
  method?: string;
  body?: string;
}

export interface BlockingAnswer {
  status: number;
  /** The header `warning`, each of its lines; kubectl prints them. */
  warnings: string[];
  body: string;
}

/** It keeps its connections, so that an answer takes a millisecond. */
const asker = new BlockingWorker<BlockingQuestion, BlockingAnswer>(`
  const { request, Agent } = require('node:https');
  const agent = new Agent({ keepAlive: true });
  answer = ({ url, headers, ca, method, body }) => new Promise((resolve, reject) => {
    const asked = request(url, { headers, ca, method, agent }, (response) => {
      const chunks = [];
      response.on('data', (chunk) => chunks.push(chunk));
      response.on('error', reject);
      response.on('end', () => resolve({
        status: response.statusCode,
        warnings: response.headersDistinct.warning ?? [],
        body: Buffer.concat(chunks).toString(),
      }));
    });
    asked.on('error', (error) => reject(new Error(url + ': ' + error.message)));
    asked.setTimeout(30_000, () => asked.destroy(new Error('no answer in 30 s')));
    asked.end(body);
  });
`);

/** Asks, and keeps this thread until the answer is there. */
export function blockingAsk(question: BlockingQuestion): BlockingAnswer {
  return asker.ask(question);
}
