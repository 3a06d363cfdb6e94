/**
 * How old a connection may become, so that callers that keep theirs for ever find new limiters after all:
 *
 *   open ──age, up to a tenth sooner or later──> draining (GOAWAY) ──grace──> cut
 */
export interface ConnectionAges {
  /** `Infinity`: never. */
  maxAgeMs: number;
  /** `Infinity`: its calls may take as long as they take. */
  graceMs: number;
}

export const noAges: ConnectionAges = { maxAgeMs: Infinity, graceMs: Infinity };

/** As gRPC's own servers spread it, so that connections opened together do not end together. */
const jitter = 0.1;

/** What is due now. */
export type AgeStep = 'nothing' | 'drain' | 'cut';

/** The age of one connection. Each step is due once. */
export class ConnectionAge {
  readonly #graceMs: number;
  #nextMs: number;
  #isDraining = false;

  /** `random` is from 0 to below 1. */
  constructor({ maxAgeMs, graceMs }: ConnectionAges, nowMs: number, random: number) {
    this.#graceMs = graceMs;
    this.#nextMs = nowMs + maxAgeMs * (1 - jitter + 2 * jitter * random);
  }

  due(nowMs: number): AgeStep {
    if (nowMs < this.#nextMs) return 'nothing';
    if (this.#isDraining) {
      this.#nextMs = Infinity;
      return 'cut';
    }
    this.#isDraining = true;
    this.#nextMs = nowMs + this.#graceMs;
    return 'drain';
  }
}
