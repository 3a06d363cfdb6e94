import type { FleetExpectation } from '../../control-plane/model/config-object.ts';
import type { ReplicaReport } from '../../control-plane/model/fleet-snapshot.ts';
import { type FleetRollout, VersionLedger } from '../../control-plane/reconcile/fleet-rollout.ts';
import { LimiterView } from '../../control-plane/reconcile/limiter-view.ts';

/** The limiters as a replica sees them from look to look. */
export class SeenLimiters {
  ledger: VersionLedger;
  view = LimiterView.empty;

  constructor(ledger = VersionLedger.empty()) {
    this.ledger = ledger;
  }

  update(
    living: readonly ReplicaReport[],
    nowMs: number,
    expectations?: ReadonlyMap<string, FleetExpectation>,
  ): void {
    this.ledger = this.ledger.followedBy(living.flatMap(({ limiters }) => limiters));
    this.view = this.view.with({ living, expectations, ledger: this.ledger, nowMs });
  }

  fleet(name: string): FleetRollout {
    return this.view.fleet(name);
  }

  get dueMs(): number {
    return this.view.dueMs;
  }
}
