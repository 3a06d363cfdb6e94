import type { ServerProgram } from '../support/find-server.ts';
import type { LimiterProcess } from '../support/limiter-process.ts';
import type { FaultLoad } from './fault-load.ts';

/** One thing that happens to a store while a limiter counts in it. */
export interface FaultCase {
  /** Names it on the command line of `npm run faults` and in the table. */
  name: string;
  /** What is done, in a sentence for the table. */
  what: string;
  /** The case that guards the same in the gate, where this one does not run: `npm run faults` runs both. */
  guardedBy?: string;
  /** What it runs besides the limiter. */
  needs: readonly ServerProgram[];
  bounds: FaultBounds;
  /** An exhausted limit may reject hits without counting them: they are not lost. Defaults to false. */
  rejectsUncounted?: boolean;
  /** Appended to every key: makes keys of any length. */
  keyPadding?: string;
  /** Starts the store, which is empty. */
  prepare(place: CasePlace): Promise<StoreInDanger>;
}

export interface CasePlace {
  /** Files of this run; removed after it. */
  folder: string;
  /** Path of a program that the case needs. */
  program(needed: ServerProgram): string;
}

export interface StoreInDanger {
  /** Settings of the limiter: which store, and all that differs from `defaultSettings`. */
  env: Record<string, string>;
  /** Does the fault and ends it. The load runs before, meanwhile and after. */
  act(scene: FaultScene): Promise<void>;
  /** Resolves when the store has all that the limiter owes it, where that takes longer than its last answer. */
  settled?(limiter: LimiterProcess): Promise<void>;
  /** What the store holds at the end, by counter as `counterName` spells it. */
  held(): Promise<ReadonlyMap<string, number>>;
  stop(): Promise<void>;
}

export interface FaultScene {
  load: FaultLoad;
  limiter: LimiterProcess;
  /** Waits as long as the fault is to last. */
  outage(): Promise<void>;
}

/** What must hold of the figures; where a number is missing, 0. `Infinity`: not bounded, and `what` says why. */
export interface FaultBounds {
  slowestMs: number;
  /** Requests that failed at least: the fault was felt. */
  minErrors?: number;
  /** Answers given by STORE_FAILURE_MODE or without the store at least. */
  minByMode?: number;
  /** Requests that may fail at most. Defaults to Infinity. */
  errors?: number;
  overAdmitted?: number;
  lost?: number;
  countedTwice?: number;
  /** Times that the breaker opened at least. */
  minOpened?: number;
  /** Times that it may open at most. Defaults to Infinity. */
  opened?: number;
}

/** REDIS_TIMEOUT of every case that does not say otherwise. */
export const timeoutMs = 2000;

/** What a busy machine may add to an answer. */
export const allowanceMs = 500;

export const slowestMs = timeoutMs + allowanceMs;

/** Settings of every case; its own come on top. */
export const defaultSettings: Readonly<Record<string, string>> = {
  REDIS_SOCKET_TYPE: 'tcp',
  REDIS_TIMEOUT: `${timeoutMs}ms`,
  // On standard output each call would be a line.
  USE_PROMETHEUS: 'true',
  PROMETHEUS_ADDR: '127.0.0.1:0',
};
