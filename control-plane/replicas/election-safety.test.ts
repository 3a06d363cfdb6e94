/** Candidates with clocks of their own, on a network that delays and loses everything: there is never a second leader. */
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import type { LeaseRecord } from './lease-api.ts';
import { ElectionState } from './lease-election.ts';

const leaseDurationMs = 15_000;
const renewDeadlineMs = 10_000;

interface Event {
  atMs: number;
  run(): void;
}

/** One API server; what it holds changes in the order in which requests reach it. */
class Server {
  lease: LeaseRecord | undefined;
  #version = 0;

  /** Undefined: a conflict. */
  write(over: LeaseRecord | undefined, next: Omit<LeaseRecord, 'resourceVersion'>): LeaseRecord | undefined {
    if (over?.resourceVersion !== this.lease?.resourceVersion) return undefined;
    this.#version += 1;
    this.lease = { ...next, resourceVersion: String(this.#version) };
    return this.lease;
  }
}

class Candidate {
  readonly state: ElectionState;
  readonly identity: string;
  readonly #rate: number;
  readonly #offsetMs: number;
  isBusy = false;
  /** A process that stands still neither acts nor hears. */
  standsStillUntilMs = 0;

  constructor(identity: string, rate: number, offsetMs: number) {
    this.identity = identity;
    this.#rate = rate;
    this.#offsetMs = offsetMs;
    this.state = new ElectionState({ identity, leaseDurationMs, renewDeadlineMs, retryPeriodMs: 2_000 });
  }

  localMs(realMs: number): number {
    return this.#offsetMs + realMs * this.#rate;
  }
}

class World {
  readonly server = new Server();
  readonly candidates: Candidate[];
  /** Who has ever led, in order. */
  readonly leaders: string[] = [];
  nowMs = 0;
  readonly #random: () => number;
  readonly #troubled: boolean;
  readonly #events: Event[] = [];

  constructor(rates: readonly number[], seed: number, troubled: boolean) {
    this.#random = generator(seed);
    this.#troubled = troubled;
    this.candidates = rates.map((rate, index) => new Candidate(`c${index}`, rate, this.#random() * 1e6));
  }

  /** Moves time on by ticks in which every candidate may act; `check` runs after everything that happens. */
  run(untilMs: number, check: () => void): void {
    while (this.nowMs < untilMs) {
      this.nowMs += 100;
      for (let next = this.#takeDue(); next !== undefined; next = this.#takeDue()) {
        next.run();
        check();
      }
      for (const candidate of this.candidates) this.#act(candidate);
      check();
    }
  }

  leading(): string[] {
    return this.candidates
      .filter((candidate) => candidate.state.leads(candidate.localMs(this.nowMs)))
      .map(({ identity }) => identity);
  }

  #act(candidate: Candidate): void {
    if (this.#troubled && this.#random() < 0.002)
      candidate.standsStillUntilMs = this.nowMs + this.#random() * 30_000;
    if (candidate.isBusy || this.nowMs < candidate.standsStillUntilMs) return;
    const sentMs = candidate.localMs(this.nowMs);
    const step = candidate.state.next(sentMs);
    if (step.do === 'wait') return;
    candidate.isBusy = true;
    const arriveMs = this.nowMs + this.#delayMs();
    const lostAt = this.#troubled ? Math.floor(this.#random() * 10) : -1;
    this.#later(arriveMs, () => {
      const answer = lostAt === 0 ? undefined : this.#serve(candidate, step);
      this.#later(this.nowMs + this.#delayMs(), () => {
        candidate.isBusy = false;
        const nowMs = candidate.localMs(Math.max(this.nowMs, candidate.standsStillUntilMs));
        if (lostAt === 0 || lostAt === 1) candidate.state.failed(sentMs);
        else answer?.(sentMs, nowMs);
        this.#note();
      });
    });
  }

  #serve(
    candidate: Candidate,
    step: ReturnType<ElectionState['next']>,
  ): (sentMs: number, nowMs: number) => void {
    const { state } = candidate;
    if (step.do !== 'write') {
      const found = this.server.lease;
      return (_, nowMs) => state.read(found, nowMs);
    }
    const written = this.server.write(step.over, {
      holder: candidate.identity,
      durationMs: leaseDurationMs,
      acquireTime: undefined,
      transitions: step.transitions,
    });
    if (written === undefined) return () => state.conflicted();
    for (const other of this.candidates) this.#report(other, written);
    return (sentMs, nowMs) => state.written(written, sentMs, nowMs);
  }

  #report(other: Candidate, record: LeaseRecord): void {
    if (this.#troubled && this.#random() < 0.3) return;
    this.#later(this.nowMs + this.#delayMs(), () => {
      if (this.nowMs >= other.standsStillUntilMs) other.state.observed(record, other.localMs(this.nowMs));
    });
  }

  #note(): void {
    for (const leader of this.leading()) if (this.leaders.at(-1) !== leader) this.leaders.push(leader);
  }

  #delayMs(): number {
    if (!this.#troubled) return 5;
    return this.#random() < 0.8 ? this.#random() * 300 : this.#random() * 20_000;
  }

  #later(atMs: number, run: () => void): void {
    this.#events.push({ atMs, run });
  }

  #takeDue(): Event | undefined {
    const due = this.#events.filter(({ atMs }) => atMs <= this.nowMs).sort((a, b) => a.atMs - b.atMs)[0];
    if (due !== undefined) this.#events.splice(this.#events.indexOf(due), 1);
    return due;
  }
}

/** Numbers from 0 to 1 that follow from the seed: mulberry32. */
function generator(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Between the slowest and the fastest clock lies less than renewDeadlineMs to leaseDurationMs. */
const rates = fc.array(fc.double({ min: 0.85, max: 1.2, noNaN: true }), { minLength: 2, maxLength: 4 });

describe('an election', () => {
  it('never has two leaders, whatever is delayed, lost or paused', () => {
    let changes = 0;
    fc.assert(
      fc.property(rates, fc.integer(), (chosen, seed) => {
        const world = new World(chosen, seed, true);
        world.run(200_000, () => expect(world.leading().length).toBeLessThanOrEqual(1));
        changes += world.leaders.length;
      }),
      { numRuns: caseCount(100) },
    );
    expect(changes).toBeGreaterThan(caseCount(200));
  });

  it('has a leader that stays while nothing fails, and a new one within the duration of the Lease of a dead one', () => {
    fc.assert(
      fc.property(fc.integer(), (seed) => {
        const world = new World([1, 1, 1], seed, false);
        world.run(60_000, () => {});
        expect(world.leaders).toHaveLength(1);
        const dead = world.candidates.find(({ identity }) => identity === world.leaders[0]) as Candidate;
        dead.standsStillUntilMs = Number.POSITIVE_INFINITY;
        world.run(60_000 + leaseDurationMs + 200, () => {});
        expect(world.leaders).toHaveLength(2);
      }),
      { numRuns: caseCount(10) },
    );
  });
});
