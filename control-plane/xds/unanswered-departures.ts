/** Limiters that are between two streams. */
import { type LimiterReport, limiterIdentity } from '../model/fleet-snapshot.ts';

/** Chosen: clients wait 10 s between two streams. */
const lingerMs = 15_000;
/** Chosen: a limiter that was shown that its token has expired comes again at once. */
const renewalMs = 3_000;
/** Chosen: so soon after the first departure a second one makes it a habit. One alone may be the end of a process. */
const habitMs = 60_000;

interface Departure {
  report: LimiterReport;
  atMs: number;
  /** 0 when it does not go on. */
  untilMs: number;
}

/**
 * Limiters that leave, come back, and leave again without an answer to what they are sent: it is mostly longer than they
 * take. Between two streams such a limiter is not gone, and its rules are not in force: it goes on as a limiter that has
 * not answered, or every status of its fleet would change with each of its attempts. One that has to show a new token
 * goes on as it is for a moment. Pure.
 */
export class UnansweredDepartures {
  readonly #departures = new Map<string, Departure>();

  /** Returns how long the limiter goes on, 0 when it does not. */
  left(report: LimiterReport, nowMs: number): number {
    const key = limiterIdentity(report);
    const before = this.#departures.get(key);
    const isHabit = before !== undefined && nowMs - before.atMs < habitMs;
    this.#forget(nowMs);
    this.#departures.set(key, { report, atMs: nowMs, untilMs: isHabit ? nowMs + lingerMs : 0 });
    return isHabit ? lingerMs : 0;
  }

  /** Its stream was ended for its token: it goes on as it is until it comes again. Returns for how long. */
  renewing(report: LimiterReport, nowMs: number): number {
    this.#forget(nowMs);
    this.#departures.set(limiterIdentity(report), {
      report,
      atMs: Number.NEGATIVE_INFINITY,
      untilMs: nowMs + renewalMs,
    });
    return renewalMs;
  }

  #forget(nowMs: number): void {
    for (const [key, { atMs, untilMs }] of this.#departures) {
      if (nowMs - atMs >= habitMs && untilMs <= nowMs) this.#departures.delete(key);
    }
  }

  /** It accepted or refused something. */
  answered(report: LimiterReport): void {
    if (this.#departures.size > 0) this.#departures.delete(limiterIdentity(report));
  }

  /** Returns the limiters that continue to count and are not connected. */
  lingering(present: readonly LimiterReport[], nowMs: number): LimiterReport[] {
    if (this.#departures.size === 0) return [];
    const there = new Set(present.map(limiterIdentity));
    return [...this.#departures].flatMap(([key, { report, untilMs }]) =>
      untilMs > nowMs && !there.has(key) ? report : [],
    );
  }
}
