/**
 * Which snapshots hold the present rules of which objects. Versions are numbered as they appear, over all fleets, and no
 * number comes twice; an object's rules are in every snapshot of its fleet from their `since` number on. So a limiter
 * has them in force if the version that it accepted has no smaller number. A version that comes back counts as new.
 */
import type { Decision } from '../model/decision.ts';

interface FleetVersions {
  newest: string;
  /** In the order of their numbers. */
  numbers: Map<string, number>;
}

interface Served {
  fleet: string;
  hash: string;
  since: number;
}

/** Chosen: at one change a second, an hour. A limiter that is further behind counts as it did before. */
const versionsRemembered = 4096;

export class VersionLedger {
  readonly #versionsRemembered: number;
  readonly #fleets = new Map<string, FleetVersions>();
  #served = new Map<string, Served>();
  #lastNumber = 0;

  /** `versionsRemembered` of each fleet defaults to 4,096. */
  constructor(options: { versionsRemembered?: number } = {}) {
    this.#versionsRemembered = options.versionsRemembered ?? versionsRemembered;
  }

  /** Call for every decision, on leaders and others, so that a new leader knows what limiters have. */
  observe({ fleets, verdicts }: Decision): void {
    for (const fleet of this.#fleets.keys()) if (!fleets.has(fleet)) this.#fleets.delete(fleet);
    for (const { fleet, version } of fleets.values()) this.#number(fleet, version);
    const next = new Map<string, Served>();
    for (const [uid, { served }] of verdicts) {
      if (served === undefined) continue;
      const { fleet, hash } = served;
      const known = this.#served.get(uid);
      const isKnown = known?.fleet === fleet && known.hash === hash;
      next.set(uid, isKnown ? known : { fleet, hash, since: this.#newestNumber(fleet) });
    }
    this.#served = next;
  }

  /** Undefined for a version that was never served here, or too long ago. */
  numberOf(fleet: string, version: string): number | undefined {
    return this.#fleets.get(fleet)?.numbers.get(version);
  }

  /** Number of the first snapshot with the object's present rules; undefined while none of its rules are served. */
  since(objectUid: string): number | undefined {
    return this.#served.get(objectUid)?.since;
  }

  #number(fleet: string, version: string): void {
    const known = this.#fleets.get(fleet);
    if (known?.newest === version) return;
    const versions = known ?? { newest: version, numbers: new Map() };
    versions.newest = version;
    versions.numbers.delete(version);
    versions.numbers.set(version, ++this.#lastNumber);
    if (versions.numbers.size > this.#versionsRemembered) {
      for (const oldest of versions.numbers.keys()) {
        versions.numbers.delete(oldest);
        break;
      }
    }
    this.#fleets.set(fleet, versions);
  }

  #newestNumber(fleet: string): number {
    const { newest, numbers } = this.#fleets.get(fleet)!;
    return numbers.get(newest)!;
  }
}
