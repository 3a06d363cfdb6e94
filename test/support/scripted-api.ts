/** An API server as a test scripts it, over HTTP: for answers and orders of events that a real one gives by chance alone. */
import { createServer, type ServerResponse } from 'node:http';
import { KubeConfig } from '@kubernetes/client-node';
import { onTestFinished } from 'vitest';
import { KubernetesClient, type KubernetesClientOptions } from '../../control-plane/kubernetes/client.ts';
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import { eventually } from './eventually.ts';
import { listenInTest } from './listen-in-test.ts';

export interface ApiWrite {
  method: string;
  path: string;
  query: URLSearchParams;
  body: Record<string, unknown>;
}

/** `lost`: the connection ends instead. */
export type ApiAnswer = { status: number; reason?: string; message?: string; body?: object } | 'lost';

export class ScriptedApi {
  /** In the order of their arrival, answered or not. */
  readonly writes: ApiWrite[] = [];
  /** How often each path was watched. */
  readonly watched = new Map<string, number>();
  /** What is listed, by path; empty lists elsewhere. */
  readonly lists = new Map<string, readonly ApiObject[]>();
  /** The answer to each write. */
  answer: (write: ApiWrite) => ApiAnswer | Promise<ApiAnswer> = () => ({ status: 200 });
  /** Paths that cannot be listed or watched: the status of the answer. */
  readonly problems = new Map<string, number>();
  /** Of lists and watches, by path: the newest query. */
  readonly queries = new Map<string, URLSearchParams>();
  readonly #watchers = new Map<string, ServerResponse>();

  /** Closed after the test under way. */
  static async start(
    options: Pick<KubernetesClientOptions, 'denied'> = {},
  ): Promise<{ api: ScriptedApi; client: KubernetesClient }> {
    const api = new ScriptedApi();
    const server = createServer(async (request, response) => {
      let text = '';
      for await (const chunk of request) text += chunk;
      const { pathname: path, searchParams: query } = new URL(request.url ?? '', 'http://api');
      const { method = '' } = request;
      if (method === 'GET') api.#read(path, query, response);
      else await api.#write({ method, path, query, body: JSON.parse(text || '{}') }, response);
    });
    const config = new KubeConfig();
    config.loadFromClusterAndUser(
      { name: 'c', server: `http://127.0.0.1:${await listenInTest(server)}`, skipTLSVerify: true },
      { name: 'u', token: 'token' },
    );
    const client = new KubernetesClient({ config, userAgent: 'weir-test', ...options });
    onTestFinished(() => client.close());
    return { api, client };
  }

  /** Sends an event of a watch that is open. */
  emit(path: string, type: 'ADDED' | 'MODIFIED' | 'DELETED', object: ApiObject): void {
    this.#watchers.get(path)?.write(`${JSON.stringify({ type, object })}\n`);
  }

  /** Whether a watch of the path is open. */
  isWatched(path: string): boolean {
    return this.#watchers.get(path)?.destroyed === false;
  }

  /** Ends all watches. */
  endWatches(): void {
    for (const response of this.#watchers.values()) response.destroy();
  }

  /** Settles when so many writes have arrived. */
  written(count: number): Promise<void> {
    return soon(() => {
      if (this.writes.length < count) throw new Error(`${this.writes.length} writes instead of ${count}`);
    });
  }

  #read(path: string, query: URLSearchParams, response: ServerResponse): void {
    this.queries.set(path, query);
    const problem = this.problems.get(path);
    if (problem !== undefined) {
      response.statusCode = problem;
      response.end(JSON.stringify({ code: problem, reason: '', message: `status ${problem}` }));
      return;
    }
    if (query.get('watch') === 'true') {
      this.watched.set(path, (this.watched.get(path) ?? 0) + 1);
      this.#watchers.set(path, response);
      response.flushHeaders();
      return;
    }
    const items = this.lists.get(path) ?? [];
    response.end(JSON.stringify({ kind: 'ThingList', metadata: { resourceVersion: '1' }, items }));
  }

  async #write(write: ApiWrite, response: ServerResponse): Promise<void> {
    this.writes.push(write);
    const answer = await this.answer(write);
    if (answer === 'lost') {
      response.destroy();
      return;
    }
    const { status, reason = '', message = '', body } = answer;
    response.statusCode = status;
    response.end(
      JSON.stringify(body ?? { code: status, reason, message, metadata: { resourceVersion: '2' } }),
    );
  }
}

/** Repeats an assertion until it holds, often, as requests over loopback take a millisecond. */
export function soon(assertion: () => void): Promise<void> {
  return eventually(assertion, { intervalMs: 5 });
}

/** Long enough for a request over loopback, where a test shows that none is made. */
export function aMoment(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 50));
}
