/** From objects to what limiters are served: decides anew when objects have changed, and hands the snapshots on. */
import type { Clock, Timers } from '../process/time/clock.ts';
import type { Decision, KeptSpec } from './model/decision.ts';
import { nextKept } from './reconcile/candidate.ts';
import type { Decider } from './reconcile/decide.ts';
import { Pace } from './reconcile/status-queue.ts';
import type { VersionLedger } from './reconcile/version-ledger.ts';
import type { ObjectSource } from './source/kubernetes-source.ts';
import type { XdsServer } from './xds/xds-server.ts';

export interface DistributionOptions {
  source: Pick<ObjectSource, 'objects'>;
  decider: Decider;
  ledger: VersionLedger;
  xds: Pick<XdsServer, 'serve'>;
  clock: Clock;
  timers: Timers;
  decided(decision: Decision, durationMs: number): void;
}

/** Chosen: changes that come at once are decided at once. */
const gatherMs = 5;
/** Chosen: a storm of changes is decided ten times a second at most. */
const intervalMs = 100;

export class Distribution {
  readonly #options: DistributionOptions;
  readonly #pace: Pace;
  #kept: ReadonlyMap<string, KeptSpec> = new Map();
  #decision: Decision | undefined;
  #isListed = false;
  #hasKept = false;

  constructor(options: DistributionOptions) {
    const { clock, timers } = options;
    this.#options = options;
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, run: () => this.#decide() });
  }

  /** The newest one; undefined before the first complete list. */
  get decision(): Decision | undefined {
    return this.#decision;
  }

  /** By uid: what stays in force should an object's next spec not be accepted. */
  get kept(): ReadonlyMap<string, KeptSpec> {
    return this.#kept;
  }

  /** The first complete list of objects is in. */
  listed(): void {
    this.#isListed = true;
    this.changed();
  }

  changed(): void {
    if (this.#isListed && this.#hasKept) this.#pace.ask();
  }

  /** What outlived other processes. Nothing is decided before the first call; what is known here is as new or newer. */
  useKept(stored: ReadonlyMap<string, KeptSpec>): void {
    const kept = new Map(this.#kept);
    for (const [uid, spec] of stored) {
      if ((kept.get(uid)?.generation ?? 0) < spec.generation) kept.set(uid, spec);
    }
    this.#kept = kept;
    this.#hasKept = true;
    this.changed();
  }

  close(): void {
    this.#pace.close();
  }

  #decide(): void {
    const { source, decider, ledger, xds, clock } = this.#options;
    const startMs = clock.monotonicMs();
    const decision = decider.decide(source.objects(), this.#kept);
    this.#kept = nextKept(decision, this.#kept);
    this.#decision = decision;
    ledger.observe(decision);
    xds.serve(decision.fleets);
    this.#options.decided(decision, clock.monotonicMs() - startMs);
  }
}
