import { isDeepStrictEqual } from 'node:util';
import type { Clock } from '../../process/time/process-clock.ts';

export interface SigningKeysOptions {
  /** At least one; the first is the secret, see `parseSigningSecrets`. */
  secrets: readonly string[];
  /** How long a secret that was replaced still signs beside its successors. */
  overlapMs: number;
  clock: Clock;
}

/** Ours: secrets that are replaced faster than the overlap ends do not make the header grow without end. */
const mostReplaced = 4;

/** The secrets that sign now, those just replaced among them, so that receivers may change theirs a little later. */
export class SigningKeys {
  readonly #overlapMs: number;
  readonly #clock: Clock;
  #secrets: readonly string[];
  #replaced: { secret: string; untilMs: number }[] = [];

  constructor({ secrets, overlapMs, clock }: SigningKeysOptions) {
    this.#secrets = secrets;
    this.#overlapMs = overlapMs;
    this.#clock = clock;
  }

  /** The one that receivers are given. */
  get current(): string {
    return this.#secrets[0] as string;
  }

  /** Newest first. */
  all(): string[] {
    const nowMs = this.#clock.monotonicMs();
    this.#replaced = this.#replaced.filter(({ untilMs }) => nowMs < untilMs);
    return [...this.#secrets, ...this.#replaced.map(({ secret }) => secret)];
  }

  /** Returns whether they are others than before. */
  replace(secrets: readonly string[]): boolean {
    if (isDeepStrictEqual(secrets, this.#secrets)) return false;
    const untilMs = this.#clock.monotonicMs() + this.#overlapMs;
    const leaving = this.#secrets.map((secret) => ({ secret, untilMs }));
    this.#replaced = [...leaving, ...this.#replaced]
      .filter(({ secret }) => !secrets.includes(secret))
      .slice(0, mostReplaced);
    this.#secrets = secrets;
    return true;
  }
}
