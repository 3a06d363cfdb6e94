/** What has to be there before limiters are sent to this replica, with the words for who asks why they are not. */
const parts = {
  source: 'the first complete list of RateLimitConfigs is not in',
  xds: 'the xDS listener is not open',
} as const;

export type ReadinessPart = keyof typeof parts;

export interface ReadinessView {
  /** Sentences; empty: ready. */
  readonly missing: readonly string[];
}

/** Once reached, a part stays so: a source that is away later does not make a replica unready, it serves what it has. */
export class Readiness implements ReadinessView {
  readonly #waitingFor = new Set(Object.keys(parts) as ReadinessPart[]);
  #isDraining = false;

  get missing(): readonly string[] {
    const missing: string[] = [...this.#waitingFor].map((part) => parts[part]);
    return this.#isDraining ? [...missing, 'this replica is ending'] : missing;
  }

  reached(part: ReadinessPart): void {
    this.#waitingFor.delete(part);
  }

  /** For good: the process is ending. */
  drain(): void {
    this.#isDraining = true;
  }
}
