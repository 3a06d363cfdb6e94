/** What all living replicas know of their limiters, joined: one limiter counts once, wherever it is connected. */
import type { LimiterReport, ReplicaReport } from '../model/limiter-report.ts';
import { FleetStanding, type LimiterState } from './fleet-standing.ts';
import type { VersionLedger } from './version-ledger.ts';

/** The newest snapshot that a limiter accepted, as far as its version was known. */
interface LastKnown {
  fleet: string;
  accepted: number;
}

const nobody = new FleetStanding([]);

export class LimiterView {
  readonly #ledger: VersionLedger;
  /** By instance, else by id. Only of limiters that are there: one that goes away is forgotten. */
  #lastKnown = new Map<string, LastKnown>();
  #fleets = new Map<string, FleetStanding>();

  constructor(ledger: VersionLedger) {
    this.#ledger = ledger;
  }

  /** Call when a report has changed, and when the ledger has observed a decision: more versions may be known then. */
  update(living: readonly ReplicaReport[]): void {
    const limiters = newestStreams(living);
    const lastKnown = new Map<string, LastKnown>();
    const states = new Map<string, LimiterState[]>();
    for (const [identity, limiter] of limiters) {
      const state = this.#state(limiter, this.#lastKnown.get(identity));
      lastKnown.set(identity, { fleet: limiter.fleet, accepted: state.accepted });
      const list = states.get(limiter.fleet);
      if (list === undefined) states.set(limiter.fleet, [state]);
      else list.push(state);
    }
    this.#lastKnown = lastKnown;
    const fleets = new Map<string, FleetStanding>();
    for (const [fleet, list] of states) {
      const former = this.#fleets.get(fleet);
      fleets.set(fleet, former?.isOf(list) ? former : new FleetStanding(list, former));
    }
    this.#fleets = fleets;
  }

  /** Without limiters for a fleet that none belongs to. */
  fleet(name: string): FleetStanding {
    return this.#fleets.get(name) ?? nobody;
  }

  #state(limiter: LimiterReport, last: LastKnown | undefined): LimiterState {
    const { name, fleet, isWeir, acceptedVersion, refusal } = limiter;
    const before = last?.fleet === fleet ? last.accepted : 0;
    const known = this.#numberOf(fleet, acceptedVersion);
    const refused = this.#numberOf(fleet, refusal?.version);
    return {
      name,
      isWeir,
      accepted: known ?? before,
      hasUnknown: acceptedVersion !== undefined && known === undefined && before === 0,
      refusal:
        refusal === undefined || refused === undefined
          ? undefined
          : { number: refused, message: refusal.message },
    };
  }

  #numberOf(fleet: string, version: string | undefined): number | undefined {
    return version === undefined ? undefined : this.#ledger.numberOf(fleet, version);
  }
}

/** A limiter that moved may still be in the report of the replica that it left: its newest stream counts. */
function newestStreams(living: readonly ReplicaReport[]): Map<string, LimiterReport> {
  const newest = new Map<string, LimiterReport>();
  for (const { limiters } of living) {
    for (const limiter of limiters) {
      // Instances and ids are chosen by different people; the letter keeps them apart.
      const identity = limiter.instance === undefined ? `s ${limiter.id}` : `i ${limiter.instance}`;
      const other = newest.get(identity);
      if (other === undefined || isNewer(limiter, other)) newest.set(identity, limiter);
    }
  }
  return newest;
}

function isNewer(a: LimiterReport, b: LimiterReport): boolean {
  return a.connectedMs === b.connectedMs ? a.id > b.id : a.connectedMs > b.connectedMs;
}
