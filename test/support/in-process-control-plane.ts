import { EventEmitter } from 'node:events';

import type { ControlPlanePorts } from '../../control-plane/control-plane.ts';
import { type ControlPlaneHost, runControlPlane } from '../../control-plane/main.ts';
import { type HttpAnswer, httpAsk } from './http-ask.ts';
import { PrintedText } from './printed-text.ts';

/** What a test wants nearly always: loopback and any free port. */
const defaultEnv: Readonly<Record<string, string>> = {
  HOST: '127.0.0.1',
  PORT: '0',
  XDS_HOST: '127.0.0.1',
  XDS_PORT: '0',
  API_HOST: '127.0.0.1',
  API_PORT: '0',
};

export interface InProcessControlPlaneOptions
  extends Partial<Pick<ControlPlaneHost, 'clock' | 'timers' | 'random' | 'hostName'>> {
  /** Settings besides the usual ones, which they replace. */
  env: Readonly<Record<string, string>>;
}

/** A control plane in this process, with what it is made of handed in. */
export class InProcessControlPlane {
  /** What was logged, a line each, without its time. */
  readonly lines: string[] = [];
  /** The same as a program would show it. */
  readonly program = new PrintedText();
  /** The exit status. */
  readonly ended: Promise<number>;
  readonly #signals = new EventEmitter();
  #ports: ControlPlanePorts | undefined;
  #hasEnded = false;

  constructor(options: InProcessControlPlaneOptions, listening: () => void) {
    const { warn } = console;
    this.ended = runControlPlane({
      ...options,
      env: { ...defaultEnv, ...options.env },
      signals: this.#signals,
      logDestination: {
        write: (line) => {
          this.lines.push(line.trimEnd().replace(/^time="[^"]*" /, ''));
          this.program.add(line);
        },
      },
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
  static async start(options: InProcessControlPlaneOptions): Promise<InProcessControlPlane> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const controlPlane = new InProcessControlPlane(options, resolve);
    await Promise.race([promise, controlPlane.ended]);
    return controlPlane;
  }

  /** `api` is 0 while the secret lookup is closed, and so is `admission`. Throws, with the log, when it could not start. */
  get ports(): { xds: number; http: number; api: number; admission: number } {
    if (this.#ports === undefined) throw new Error(`it did not start:\n${this.lines.join('\n')}`);
    const { xds, http, api, admission } = this.#ports;
    return { xds: xds.port, http: http.port, api: api?.port ?? 0, admission: admission?.port ?? 0 };
  }

  /** Asks the listener for operators. */
  get(path: string): Promise<HttpAnswer> {
    return httpAsk(this.ports.http, path);
  }

  /** `/snapshot` as JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look at any part of it
  async snapshot(): Promise<any> {
    return JSON.parse((await this.get('/snapshot?format=json')).body);
  }

  /** The value of a metric as its line names it, labels included; undefined while there is none. */
  async metric(name: string): Promise<number | undefined> {
    const lines = (await this.get('/metrics')).body.split('\n');
    const line = lines.find((one) => one.startsWith(`weir_control_plane_${name} `));
    return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ') + 1));
  }

  /** Resolves with the exit status, also when it ended by itself. */
  stop(): Promise<number> {
    if (!this.#hasEnded) this.#signals.emit('SIGTERM');
    return this.ended;
  }
}
