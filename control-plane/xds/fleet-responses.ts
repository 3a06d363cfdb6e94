import { type FleetSnapshot, fleetSnapshot } from '../model/fleet-snapshot.ts';
import { type FleetResponse, fleetResponse } from './fleet-response.ts';

/** What is served to every fleet. Knows nothing until the first `update`. */
export class FleetResponses {
  readonly #replicaName: string;
  readonly #empty: FleetResponse;
  #responses: ReadonlyMap<string, FleetResponse> | undefined;

  constructor(replicaName: string) {
    this.#replicaName = replicaName;
    this.#empty = fleetResponse(fleetSnapshot('', []), replicaName);
  }

  /** Encodes what changed, and returns that. */
  update(fleets: ReadonlyMap<string, FleetSnapshot>): FleetResponse[] {
    const next = new Map<string, FleetResponse>();
    const changed: FleetResponse[] = [];
    for (const [fleet, snapshot] of fleets) {
      const before = this.#responses?.get(fleet);
      const response =
        before?.version === snapshot.version ? before : fleetResponse(snapshot, this.#replicaName);
      if (response !== before) changed.push(response);
      next.set(fleet, response);
    }
    this.#responses = next;
    return changed;
  }

  /** Of a fleet that nothing is served to: no rules. Undefined before the first update. */
  get(fleet: string): FleetResponse | undefined {
    return this.#responses === undefined ? undefined : (this.#responses.get(fleet) ?? this.#empty);
  }

  /** In no order; undefined before the first update. */
  all(): FleetResponse[] | undefined {
    return this.#responses === undefined ? undefined : [...this.#responses.values()];
  }
}
