import type { ServiceError } from '@grpc/grpc-js';
import {
  type RateLimitResponse,
  RateLimitResponse_Code,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { counterName, domain, plannedCounter } from './counter-plan.ts';
import { GeneratorStalls } from './generator-stalls.ts';

/** BY_MODE: STORE_FAILURE_MODE may have said so without counting. */
export type Outcome = 'OK' | 'OVER_LIMIT' | 'BY_MODE' | 'ERROR';

export interface Answer {
  /** As `counterName` spells it. */
  counter: string;
  limit: number;
  askedMs: number;
  tookMs: number;
  outcome: Outcome;
  /** The proxy was shown that it may pass, by whomever. */
  admitted: boolean;
  /** Of an error. */
  message: string;
}

export interface FaultLoadOptions {
  /** Of the limiter's gRPC listener. */
  port: number;
  perSecond: number;
  keyPadding?: string | undefined;
  /** STORE_FAILURE_MODE. */
  mode?: string | undefined;
}

const connections = 4;
const intervalMs = 5;
/** What is due for longer is left out. A generator that sent all of it on a busy machine would find no time to read answers. */
const maxBehindMs = 50;

/** Requests on a schedule, whether or not those before were answered, each numbered and recorded with its answer. */
export class FaultLoad {
  readonly answers: Answer[] = [];
  readonly stalls = new GeneratorStalls();
  readonly #options: FaultLoadOptions;
  readonly #clients: LimiterClient[];
  readonly #underWay = new Set<Promise<void>>();
  #timer: NodeJS.Timeout | undefined;
  #sent = 0;

  constructor(options: FaultLoadOptions) {
    this.#options = options;
    this.#clients = Array.from({ length: connections }, () => new LimiterClient(options.port));
  }

  get sent(): number {
    return this.#sent;
  }

  /** The latest answers, the last one last. */
  latest(count: number): readonly Answer[] {
    return this.answers.slice(-count);
  }

  /** Begins to send, or goes on after `pause`. */
  start(): void {
    this.stalls.stop();
    this.stalls.start();
    let nextMs = performance.now();
    this.#timer = setInterval(() => {
      const nowMs = performance.now();
      nextMs = Math.max(nextMs, nowMs - maxBehindMs);
      for (; nextMs < nowMs; nextMs += 1000 / this.#options.perSecond) this.#send();
    }, intervalMs);
  }

  /** Sends no more, and resolves when everything is answered. */
  async pause(): Promise<void> {
    clearInterval(this.#timer);
    await Promise.all(this.#underWay);
    this.stalls.stop();
  }

  close(): void {
    clearInterval(this.#timer);
    this.stalls.stop();
    for (const client of this.#clients) client.close();
  }

  #send(): void {
    const call = this.#ask(this.#sent);
    this.#sent += 1;
    this.#underWay.add(call);
    void call.finally(() => this.#underWay.delete(call));
  }

  async #ask(request: number): Promise<void> {
    const planned = plannedCounter(request, this.#options.keyPadding);
    const client = this.#clients[request % connections] as LimiterClient;
    const askedMs = performance.now();
    const { key, value, limit } = planned;
    const decided = await client.ask({ domain, descriptors: [{ entries: [{ key, value }] }] }).then(
      (response) => this.#decided(response),
      (error: ServiceError) => ({
        outcome: 'ERROR' as const,
        admitted: false,
        message: error.details ?? error.message,
      }),
    );
    const tookMs = performance.now() - askedMs;
    this.answers.push({ counter: counterName(planned), limit, askedMs, tookMs, ...decided });
  }

  #decided(response: RateLimitResponse): Pick<Answer, 'outcome' | 'admitted' | 'message'> {
    const admitted = response.overallCode === RateLimitResponse_Code.OK;
    const byMode =
      (this.#options.mode === 'allow' && response.statuses[0]?.currentLimit === undefined) ||
      (this.#options.mode === 'deny' && !admitted);
    const counted = admitted ? 'OK' : 'OVER_LIMIT';
    return { outcome: byMode ? 'BY_MODE' : counted, admitted, message: '' };
  }
}
