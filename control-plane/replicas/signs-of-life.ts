/**
 * Which replicas are alive: those whose Lease changed within its duration, by our own clock since we saw it. Pure.
 *
 *            seen                    duration passed
 *   (none) ───────> alive ─────────────────────────────> dead ──┐
 *                   ^   ^ │ seen again                    │      │ removed: forgotten
 *                   └───┼─┘                               │      v
 *                       └──────── seen with a change ─────┘   (none)
 *
 * While we hear nothing ourselves, nobody dies: silence is then no sign of anything. Afterwards everybody who was
 * alive has a whole duration to be seen.
 */
export interface SignOfLife {
  name: string;
  /** Of the Lease; the same one again is no sign. */
  resourceVersion: string;
  durationMs: number;
}

interface Life {
  resourceVersion: string;
  durationMs: number;
  untilMs: number;
}

export class SignsOfLife {
  readonly #lives = new Map<string, Life>();
  #deafSinceMs: number | undefined;

  /** Whether the replica came to life by it. */
  see({ name, resourceVersion, durationMs }: SignOfLife, nowMs: number): boolean {
    const life = this.#lives.get(name);
    if (life?.resourceVersion === resourceVersion) return false;
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.set(name, { resourceVersion, durationMs, untilMs: nowMs + durationMs });
    return !wasAlive;
  }

  /** Its Lease is gone. Whether the replica was alive. */
  remove(name: string, nowMs: number): boolean {
    const wasAlive = this.isAlive(name, nowMs);
    this.#lives.delete(name);
    return wasAlive;
  }

  isAlive(name: string, nowMs: number): boolean {
    const life = this.#lives.get(name);
    return life !== undefined && (this.#deafSinceMs ?? nowMs) < life.untilMs;
  }

  /** Alive or dead. */
  names(): string[] {
    return [...this.#lives.keys()];
  }

  /** When a replica died; undefined while it is alive, and for one that is not known. */
  diedMs(name: string, nowMs: number): number | undefined {
    return this.isAlive(name, nowMs) ? undefined : this.#lives.get(name)?.untilMs;
  }

  /** When the next one dies unless it is seen before; infinite when none is alive, or while we hear nothing. */
  nextDeathMs(nowMs: number): number {
    if (this.#deafSinceMs !== undefined) return Number.POSITIVE_INFINITY;
    const alive = [...this.#lives.values()]
      .map(({ untilMs }) => untilMs)
      .filter((untilMs) => untilMs > nowMs);
    return Math.min(Number.POSITIVE_INFINITY, ...alive);
  }

  /** From now on we hear nothing. */
  becomeDeaf(nowMs: number): void {
    this.#deafSinceMs ??= nowMs;
  }

  hearAgain(nowMs: number): void {
    const deafSinceMs = this.#deafSinceMs;
    if (deafSinceMs === undefined) return;
    this.#deafSinceMs = undefined;
    for (const life of this.#lives.values()) {
      if (life.untilMs > deafSinceMs) life.untilMs = nowMs + life.durationMs;
    }
  }
}
