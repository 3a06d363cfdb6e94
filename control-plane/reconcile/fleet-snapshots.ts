import { type FleetSnapshot, fleetSnapshot, type Resource } from '../model/fleet-snapshot.ts';

interface Made {
  resources: ReadonlySet<Resource>;
  snapshot: FleetSnapshot;
}

/** Makes snapshots of fleets, and gives the last one again as long as a fleet's resources stay the same. */
export class FleetSnapshots {
  #last = new Map<string, Made>();

  /** By fleet; a fleet without resources has none. */
  make(resourcesByFleet: ReadonlyMap<string, readonly Resource[]>): Map<string, FleetSnapshot> {
    const next = new Map<string, Made>();
    for (const [fleet, resources] of resourcesByFleet) {
      const last = this.#last.get(fleet);
      const isSame =
        last?.resources.size === resources.length &&
        resources.every((resource) => last.resources.has(resource));
      next.set(
        fleet,
        isSame ? last : { resources: new Set(resources), snapshot: fleetSnapshot(fleet, resources) },
      );
    }
    this.#last = next;
    return new Map([...next].map(([fleet, { snapshot }]) => [fleet, snapshot]));
  }
}
