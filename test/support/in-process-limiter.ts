import { EventEmitter } from 'node:events';
import { type LimiterHost, type ListeningPorts, runLimiter } from '../../limiter/main.ts';
import type { ShutdownSignal } from '../../process/time/shutdown.ts';
import { PrintedText } from './printed-text.ts';

/** What a test wants nearly always: loopback, any free port, counters in memory, nothing exported. */
const defaultEnv: Readonly<Record<string, string>> = {
  HOST: '127.0.0.1',
  PORT: '0',
  GRPC_HOST: '127.0.0.1',
  GRPC_PORT: '0',
  DEBUG_HOST: '127.0.0.1',
  DEBUG_PORT: '0',
  USE_STATSD: 'false',
  BACKEND_TYPE: 'memory',
};

export interface InProcessLimiterOptions
  extends Partial<
    Pick<LimiterHost, 'clock' | 'timers' | 'random' | 'resolveSrv' | 'onListening' | 'startThread'>
  > {
  /** Settings besides the usual ones, which they replace. */
  env: Readonly<Record<string, string>>;
}

export interface JsonAnswer {
  status: number;
  /** The header `weir-error`. */
  error: string | null;
  /** The response as proto3 JSON; undefined when the request was rejected. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
  body: any;
}

export interface TopJson {
  since: string;
  domainCount: number;
  domains: {
    domain: string;
    overLimit: number;
    missed: number;
    keys: {
      key: string;
      rule: string;
      shadowMode: boolean;
      atLeast: number;
      atMost: number;
      share: number;
    }[];
  }[];
}

/**
 * As `startLimiter`, in this process, for a quarter of what a program takes of a processor. It answers nobody while the test keeps this
 * thread, as `runWeir` does.
 */
export async function startLimiterHere({ env }: InProcessLimiterOptions): Promise<InProcessLimiter> {
  const limiter = await InProcessLimiter.start({
    env: { BACKEND_TYPE: 'redis', RUNTIME_WATCH_ROOT: 'false', ...env },
  });
  // Throws where it did not start.
  void limiter.ports;
  return limiter;
}

/** A limiter in this process, with what it is made of handed in. One at a time: library warnings are the process's. */
export class InProcessLimiter {
  /** What was logged, a line each, without its time. */
  readonly lines: string[] = [];
  /** The same as a program would show it. */
  readonly program = new PrintedText();
  /** What was written to standard output. */
  readonly output: string[] = [];
  /** The exit status. */
  readonly ended: Promise<number>;
  readonly #signals = new EventEmitter();
  #ports: ListeningPorts | undefined;
  #hasEnded = false;

  constructor(options: InProcessLimiterOptions, listening: () => void) {
    const { warn } = console;
    this.ended = runLimiter({
      ...options,
      env: { ...defaultEnv, ...options.env },
      signals: this.#signals,
      logDestination: {
        write: (line) => {
          this.lines.push(line.trimEnd().replace(/^time="[^"]*" /, ''));
          this.program.add(line);
        },
      },
      statsOutput: Object.assign(new EventEmitter(), {
        write: (text: string) => this.output.push(text) > 0,
        settled: () => Promise.resolve(),
      }),
      onListening: (ports) => {
        this.#ports = ports;
        listening();
      },
    }).finally(() => {
      this.#hasEnded = true;
      this.program.end();
      console.warn = warn;
    });
  }

  /** Resolves when its listeners are open, and also when it ended before. */
  static async start(options: InProcessLimiterOptions): Promise<InProcessLimiter> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const limiter = new InProcessLimiter(options, resolve);
    await Promise.race([promise, limiter.ended]);
    return limiter;
  }

  /** Throws, with the log, when it could not start. */
  get ports(): { grpc: number; http: number; debug: number } {
    if (this.#ports === undefined) throw new Error(`the limiter did not start:\n${this.lines.join('\n')}`);
    const { grpc, http, debug } = this.#ports;
    return { grpc: grpc.port, http: http.port, debug: debug?.port ?? 0 };
  }

  /** One decision over `/json`; each descriptor as its entries' keys and values. */
  async ask(domain: string, descriptors: Record<string, string>[], hitsAddend = 1): Promise<JsonAnswer> {
    const response = await fetch(`http://127.0.0.1:${this.ports.http}/json`, {
      method: 'POST',
      body: JSON.stringify({
        domain,
        descriptors: descriptors.map((entries) => ({
          entries: Object.entries(entries).map(([key, value]) => ({ key, value })),
        })),
        hitsAddend,
      }),
    });
    const isDecision = response.headers.get('content-type') === 'application/json';
    const body: unknown = isDecision ? await response.json() : void (await response.text());
    return { status: response.status, error: response.headers.get('weir-error'), body };
  }

  async healthStatus(): Promise<number> {
    return (await fetch(`http://127.0.0.1:${this.ports.http}/healthcheck`)).status;
  }

  /** Every statistic of `/stats` by name. */
  async stats(): Promise<Map<string, number>> {
    const text = await this.#debugPage('stats');
    return new Map(
      text
        .trimEnd()
        .split('\n')
        .map((line) => {
          const colon = line.lastIndexOf(': ');
          return [line.slice(0, colon), Number(line.slice(colon + 2))];
        }),
    );
  }

  async rlconfig(): Promise<string[]> {
    const text = await this.#debugPage('rlconfig');
    return text === '' ? [] : text.trimEnd().split('\n');
  }

  /** `/top` as JSON. */
  async top(query = ''): Promise<TopJson> {
    return JSON.parse(await this.#debugPage(`top?format=json&${query}`)) as TopJson;
  }

  signal(name: ShutdownSignal): void {
    this.#signals.emit(name);
  }

  /** Resolves with the exit status, also when it ended by itself. */
  stop(): Promise<number> {
    if (!this.#hasEnded) this.signal('SIGTERM');
    return this.ended;
  }

  async #debugPage(path: string): Promise<string> {
    return (await fetch(`http://127.0.0.1:${this.ports.debug}/${path}`)).text();
  }
}
