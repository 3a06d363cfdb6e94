/** Keeps the statuses of RateLimitFleets true, once a second at most. Leaders only. */
import type { Clock, Timers } from '../../process/time/clock.ts';
import { Pace } from '../../process/time/pacing.ts';
import type { FleetStatus } from '../model/fleet-object.ts';
import type { VersionLedger } from '../reconcile/fleet-standing.ts';
import type { LimiterView } from '../reconcile/limiter-view.ts';
import { fleetStatus, sameFleetStatus } from './fleet-status.ts';
import type { FleetStore } from './fleet-store.ts';

export interface FleetKeeperOptions {
  store: Pick<FleetStore, 'fleets' | 'problemOf' | 'writeStatus'>;
  leads(): boolean;
  limiters: LimiterView;
  ledger: VersionLedger;
  clock: Clock;
  timers: Timers;
}

const gatherMs = 100;
const intervalMs = 1_000;
/** Chosen: so long what a watch shows may be older than what was written. */
const trustWrittenMs = 5_000;

export class FleetKeeper {
  readonly #options: FleetKeeperOptions;
  readonly #pace: Pace;
  readonly #written = new Map<string, { status: FleetStatus; atMs: number }>();

  constructor(options: FleetKeeperOptions) {
    this.#options = options;
    const { clock, timers } = options;
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, run: () => this.#evaluate() });
  }

  /** What is known of limiters or fleets has changed. */
  update(): void {
    this.#pace.ask();
  }

  stoppedLeading(): void {
    this.#written.clear();
  }

  close(): void {
    this.#pace.close();
  }

  #evaluate(): void {
    const { store, leads, limiters, ledger, clock } = this.#options;
    if (!leads()) return;
    const nowMs = clock.nowMs();
    for (const fleet of store.fleets) {
      const { name, status: shown } = fleet;
      const written = this.#written.get(name);
      const isLate = written !== undefined && nowMs - written.atMs < trustWrittenMs;
      const previous = isLate ? written.status : shown;
      const newest = ledger.newest(name);
      const problem = store.problemOf(name);
      const next = fleetStatus({ fleet, limiters: limiters.fleet(name), newest, problem, previous, nowMs });
      if (sameFleetStatus(next, previous)) continue;
      this.#written.set(name, { status: next, atMs: nowMs });
      store.writeStatus(name, next);
    }
  }
}
