/** Which limiters have which rules in force: what was served in which order, and what limiters said of it. */
import { isDeepStrictEqual } from 'node:util';
import type { Decision } from '../model/decision.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import type { FirstFew } from './conditions.ts';

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

/**
 * Which snapshots hold the present rules of which objects. Versions are numbered as they appear, over all fleets, and no
 * number comes twice; an object's rules are in every snapshot of its fleet from their `since` number on. So a limiter
 * has them in force if the version that it accepted has no smaller number. A version that comes back counts as new.
 */
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

/** A limiter as far as statuses need it; numbers are those of the `VersionLedger`. */
interface LimiterState {
  name: string;
  isWeir: boolean;
  /** Of the snapshot that it has in force; 0: of none that is known. */
  accepted: number;
  /** Whether it has one in force that this process never served: rules that everybody had before may be in it. */
  hasUnknown: boolean;
  /** The newest snapshot that it refused since. */
  refusal: { number: number; message: string } | undefined;
}

/** Where the limiters of a fleet stand with the rules of one object. Lists are in the order of names. */
export interface Standing {
  total: number;
  inForce: number;
  /** Those that refused the rules. */
  refused: FirstFew<{ name: string; message: string }>;
  /** Those that have not answered yet. */
  pending: FirstFew<string>;
}

/** Chosen: enough to begin to look. */
const namesShown = 10;

/**
 * The limiters of one fleet. Objects whose rules came with the same snapshot share one answer, as do all objects that
 * every limiter has: 5,000 objects and 1,000 limiters take few looks at each limiter.
 */
export class FleetStanding {
  /** Limiters that are not Weir's. */
  readonly others: FirstFew<string>;
  readonly #states: readonly LimiterState[];
  readonly #leastAccepted: number;
  readonly #someUnknown: boolean;
  readonly #answers = new Map<string, Standing>();
  /** Given again where they still hold, so that what was derived from them holds too. */
  readonly #formerAnswers: ReadonlyMap<string, Standing>;

  /** `former` is the same fleet a moment ago. */
  constructor(states: readonly LimiterState[], former?: FleetStanding) {
    this.#states = states.toSorted(byName);
    this.#formerAnswers = former === undefined ? new Map() : former.#answers;
    this.#leastAccepted = states.reduce((least, { accepted }) => Math.min(least, accepted), Infinity);
    this.#someUnknown = states.some(({ hasUnknown }) => hasUnknown);
    const names = this.#states.filter(({ isWeir }) => !isWeir).map(({ name }) => name);
    this.others = formerIfSame(former?.others, firstFew(names));
  }

  /**
   * Of the rules that are in all snapshots from this number on. `wasInForce`: every limiter had them when this process
   * began to lead.
   */
  of(since: number, { wasInForce = false } = {}): Standing {
    // All that everybody has share the answer for 0, which everybody has.
    const least = since <= this.#leastAccepted ? 0 : since;
    const trustsUnknown = wasInForce && this.#someUnknown;
    const key = `${least} ${trustsUnknown}`;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = formerIfSame(this.#formerAnswers.get(key), this.#answer(least, trustsUnknown));
      this.#answers.set(key, answer);
    }
    return answer;
  }

  /** Whether these limiters would give the same answers. */
  isOf(states: readonly LimiterState[]): boolean {
    return isDeepStrictEqual(this.#states, states.toSorted(byName));
  }

  #answer(since: number, trustsUnknown: boolean): Standing {
    const refused: { name: string; message: string }[] = [];
    const pending: string[] = [];
    for (const { name, accepted, hasUnknown, refusal } of this.#states) {
      if (accepted >= since || (trustsUnknown && hasUnknown)) continue;
      if (refusal !== undefined && refusal.number >= since) refused.push({ name, message: refusal.message });
      else pending.push(name);
    }
    const total = this.#states.length;
    return {
      total,
      inForce: total - refused.length - pending.length,
      refused: firstFew(refused),
      pending: firstFew(pending),
    };
  }
}

function firstFew<T>(items: readonly T[]): FirstFew<T> {
  return { items: items.slice(0, namesShown), count: items.length };
}

function formerIfSame<T>(former: T | undefined, next: T): T {
  return former !== undefined && isDeepStrictEqual(former, next) ? former : next;
}

function byName(a: LimiterState, b: LimiterState): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}

/** The newest snapshot that a limiter accepted, as far as its version was known. */
interface LastKnown {
  fleet: string;
  accepted: number;
}

const nobody = new FleetStanding([]);

/** What all living replicas know of their limiters, joined: one limiter counts once, wherever it is connected. */
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
