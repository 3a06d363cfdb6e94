import { BlockingWorker } from './blocking-worker.ts';
import { machineLoad } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

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
const asker = new BlockingWorker<BlockingQuestion & { patienceMs: number }, BlockingAnswer | 'no answer'>(`
  const { request, Agent } = require('node:https');
  const agent = new Agent({ keepAlive: true });
  answer = ({ url, headers, ca, method, body, patienceMs }) => new Promise((resolve, reject) => {
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
    asked.setTimeout(patienceMs, () => {
      resolve('no answer');
      asked.destroy();
    });
    asked.end(body);
  });
`);

/** Asks, and keeps this thread until the answer is there, for `timeoutMs` at most, multiplied by the machine's load. */
export function blockingAsk(question: BlockingQuestion, timeoutMs = 30_000): BlockingAnswer {
  const patienceMs = Math.round(timeoutMs * machineLoad());
  const answer = asker.ask({ ...question, patienceMs });
  if (answer === 'no answer') throw outOfTime(new Error(`${question.url}: no answer in ${patienceMs} ms`));
  return answer;
}
