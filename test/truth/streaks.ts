/** How long something has been seen at every look without a break. */
export interface Look {
  atMs: number;
  /** Until then there may be no leader, or one that has just begun. */
  graceUntilMs: number;
  /** How long the test itself stood still since its beginning. */
  stalledMs: number;
}

interface Streak {
  sinceMs: number;
  stalledMs: number;
}

export class Streaks {
  #before = new Map<string, Streak>();
  #now = new Map<string, Streak>();

  /** Begins a look. What was not seen at the last one begins anew. */
  begin(): void {
    this.#before = this.#now;
    this.#now = new Map();
  }

  /** After a time in which nothing was seen. */
  forget(): void {
    this.#now.clear();
  }

  /** Sees it, and returns for how long, without the time of grace and the test's own stalls. */
  lasts(key: string, { atMs, graceUntilMs, stalledMs }: Look): number {
    const known = this.#before.get(key);
    const streak =
      known === undefined || atMs <= graceUntilMs
        ? { sinceMs: Math.max(atMs, graceUntilMs), stalledMs }
        : known;
    this.#now.set(key, streak);
    return Math.max(0, atMs - streak.sinceMs - (stalledMs - streak.stalledMs));
  }
}
