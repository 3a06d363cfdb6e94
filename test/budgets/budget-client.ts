import { Agent, request } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';

export interface BudgetAnswer {
  status: number;
  // biome-ignore lint/suspicious/noExplicitAny: JSON of a limiter, which the suites of the API hold to its document.
  body: any;
}

export interface BudgetRetries {
  limiterAway: number;
  storeAway: number;
}

/** Chosen: as a service that shares few connections among all its requests. */
const connections = 32;
const askMs = 20_000;
const untilAnsweredMs = 120_000;

/** Asks one limiter after the other over HTTP, and again where one does not answer or its store is away. */
export class BudgetClient {
  readonly #ports: readonly number[];
  readonly #agents: readonly Agent[];
  #turn = 0;
  /** Questions that were asked once more, by the reason: the limiter did not answer, or answered without its store. */
  readonly retries: BudgetRetries = { limiterAway: 0, storeAway: 0 };

  constructor(ports: readonly number[]) {
    this.#ports = ports;
    this.#agents = ports.map(() => new Agent({ keepAlive: true, maxSockets: connections }));
  }

  /** An answer that is not an error of a server. */
  async ask(path: string, question?: object): Promise<BudgetAnswer> {
    const untilMs = performance.now() + untilAnsweredMs;
    for (;;) {
      const answer = await this.askOnce(path, question).catch((error: Error) => error);
      if (!(answer instanceof Error) && answer.status < 500) return answer;
      if (performance.now() > untilMs)
        throw new Error(
          `no answer to ${path}: ${answer instanceof Error ? answer.message : JSON.stringify(answer.body)}`,
        );
      this.retries[answer instanceof Error ? 'limiterAway' : 'storeAway'] += 1;
      await sleep(50 + Math.random() * 200);
    }
  }

  askOnce(path: string, question?: object): Promise<BudgetAnswer> {
    const turn = this.#turn++ % this.#ports.length;
    const body = question === undefined ? undefined : JSON.stringify(question);
    return new Promise((resolve, reject) => {
      const asked = request(
        {
          host: '127.0.0.1',
          port: this.#ports[turn],
          path,
          agent: this.#agents[turn],
          timeout: askMs,
          ...(body !== undefined && {
            method: 'POST',
            headers: { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(body) },
          }),
        },
        (response) => {
          const chunks: Buffer[] = [];
          response.on('data', (chunk: Buffer) => chunks.push(chunk));
          response.on('error', reject);
          response.on('end', () => {
            const { statusCode: status = 0 } = response;
            try {
              resolve({ status, body: JSON.parse(Buffer.concat(chunks).toString()) });
            } catch (error) {
              reject(error);
            }
          });
        },
      );
      asked.on('timeout', () => asked.destroy(new Error(`no answer in ${askMs} ms`)));
      asked.on('error', reject);
      asked.end(body);
    });
  }

  close(): void {
    for (const agent of this.#agents) agent.destroy();
  }
}
