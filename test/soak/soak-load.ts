/** 5,000 calls a second over 200 connections that come and go; every answer is judged. */
import type { SoakEvents } from './soak.ts';
import { type SoakCall, SoakCalls } from './soak-calls.ts';
import { SoakConnection } from './soak-connection.ts';

const perSecond = 5_000;
export const connectionCount = 200;
/** Calls of a connection before it goes: one to six seconds of them. */
const callsOfConnection = { min: 25, max: 150 };
/** Faults beyond so many are counted only. */
const maxFaults = 20;

export class SoakLoad {
  readonly calls: SoakCalls;
  readonly #port: number;
  readonly #random: () => number;
  readonly #connections = new Set<SoakConnection>();
  readonly #gone: (() => void)[] = [];
  /** While it is true, calls may fail: the store is away. */
  mayFail = false;
  answered = 0;
  failed = 0;
  faultCount = 0;
  opened = 0;
  readonly faults: string[] = [];
  #ended = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(port: number, random: () => number) {
    this.#port = port;
    this.#random = random;
    this.calls = new SoakCalls(random);
  }

  start(): void {
    const startMs = performance.now();
    let sent = 0;
    this.#timer = setInterval(() => {
      const due = Math.floor(((performance.now() - startMs) * perSecond) / 1000);
      while (this.#connections.size < connectionCount) this.#open();
      const takers = [...this.#connections].filter(({ takesCalls }) => takesCalls);
      for (; sent < due && takers.length > 0; sent++) this.#ask(takers);
      for (const connection of takers) connection.flush();
    }, 5);
  }

  /** Settles when every call is answered and every connection closed. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#timer = undefined;
    const gone = new Promise<void>((resolve) => this.#gone.push(resolve));
    for (const connection of this.#connections) connection.close();
    if (this.#connections.size > 0) await gone;
    for (const fault of this.calls.lostAllowances()) this.fault(fault);
  }

  get happened(): SoakEvents {
    const { newRules, reachedLimits } = this.calls;
    return { failedCalls: this.failed, newRules, reachedLimits, connectionsEnded: this.#ended };
  }

  fault(what: string): void {
    this.faultCount += 1;
    if (this.faults.length < maxFaults) this.faults.push(what);
  }

  #ask(takers: SoakConnection[]): void {
    const place = Math.floor(this.#random() * takers.length);
    const connection = takers[place] as SoakConnection;
    const call = this.calls.next();
    const seenVersion = this.calls.seenVersion;
    connection.call(call.template, (message) => this.#answered(call, message, seenVersion));
    if (!connection.takesCalls) {
      connection.flush();
      takers.splice(place, 1);
    }
  }

  #answered(call: SoakCall, message: Uint8Array | undefined, seenVersion: number): void {
    if (message === undefined) {
      this.failed += 1;
      call.failed += 1;
      if (!this.mayFail) this.fault(`a call of the kind ${call.kind} failed while the store was there`);
      return;
    }
    this.answered += 1;
    const fault = this.calls.judge(call, message, seenVersion);
    if (fault !== undefined) this.fault(fault);
  }

  #open(): void {
    const { min, max } = callsOfConnection;
    const connection = new SoakConnection({
      port: this.#port,
      calls: min + Math.floor(this.#random() * (max - min)),
      onGone: (gone, problem) => {
        this.#connections.delete(gone);
        // `stop` ends all connections; only those that ended under load count.
        if (this.#timer !== undefined) this.#ended += 1;
        if (problem !== undefined) this.fault(`a connection ended: ${problem}`);
        if (this.#connections.size === 0) for (const settle of this.#gone.splice(0)) settle();
      },
    });
    this.opened += 1;
    this.#connections.add(connection);
  }
}
