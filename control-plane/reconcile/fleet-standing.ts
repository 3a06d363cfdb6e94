/** Which limiters have which rules in force: what was served in which order, and what limiters said of it. */
import { isDeepStrictEqual } from 'node:util';
import type { Decision } from '../model/decision.ts';
import {
  type LimiterReport,
  limiterIdentity,
  type Refusal,
  type ReplicaReport,
} from '../model/fleet-snapshot.ts';
import type { FirstFew } from './conditions.ts';

interface FleetVersions {
  newest: string;
  /** When it was first served. */
  newestMs: number;
  /** In the order of their numbers. */
  numbers: Map<string, number>;
}

interface Served {
  fleet: string;
  hash: string;
  since: Since;
}

/** From which snapshot on the present rules of an object are in every snapshot of its fleet. */
export interface Since {
  number: number;
  /** When that one was first served here, in milliseconds since 1970. */
  ms: number;
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
  observe({ fleets, verdicts }: Decision, nowMs: number): void {
    for (const fleet of this.#fleets.keys()) if (!fleets.has(fleet)) this.#fleets.delete(fleet);
    for (const { fleet, version } of fleets.values()) this.#number(fleet, version, nowMs);
    const next = new Map<string, Served>();
    for (const [uid, { served }] of verdicts) {
      if (served === undefined) continue;
      const { fleet, hash } = served;
      const known = this.#served.get(uid);
      const isKnown = known?.fleet === fleet && known.hash === hash;
      next.set(uid, isKnown ? known : { fleet, hash, since: this.#newest(fleet) });
    }
    this.#served = next;
  }

  /** Undefined for a version that was never served here, or too long ago. */
  numberOf(fleet: string, version: string): number | undefined {
    return this.#fleets.get(fleet)?.numbers.get(version);
  }

  /** Undefined while none of its rules are served. */
  since(objectUid: string): Since | undefined {
    return this.#served.get(objectUid)?.since;
  }

  #number(fleet: string, version: string, nowMs: number): void {
    const known = this.#fleets.get(fleet);
    if (known?.newest === version) return;
    const versions = known ?? { newest: version, newestMs: nowMs, numbers: new Map() };
    versions.newest = version;
    versions.newestMs = nowMs;
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

  #newest(fleet: string): Since {
    const { newest, newestMs, numbers } = this.#fleets.get(fleet)!;
    return { number: numbers.get(newest)!, ms: newestMs };
  }
}

/** A limiter as far as statuses need it; numbers are those of the `VersionLedger`, times since 1970. */
interface LimiterState {
  name: string;
  isWeir: boolean;
  /** Since when it is there. */
  sinceMs: number;
  /** Of the snapshot that it has in force; 0: of none that is known. */
  accepted: number;
  /** The newest snapshot that it refused since it accepted one. `resources`: what of it, where it has the rest in force. */
  refusal:
    | { number: number; message: string; sinceMs: number; resources: ReadonlyMap<string, string> | undefined }
    | undefined;
  /** It has just come, and may still answer what it was sent first: until then nobody waits for it. */
  isJoining: boolean;
}

/** Where the limiters of a fleet stand with the rules of one object. Lists are in the order of names. */
export interface Standing {
  /** Without those that are joining, unless there are no others. */
  total: number;
  inForce: number;
  /** Those that refused the rules. */
  refused: FirstFew<{ name: string; sinceMs: number; message: string }>;
  /** Those that have not answered yet. */
  pending: FirstFew<{ name: string; sinceMs: number }>;
  /** Whether one of these has older rules in force, and not merely some that nobody knows. */
  hasOlder: boolean;
}

/** Chosen: enough to begin to look. */
const namesShown = 5;

/**
 * The limiters of one fleet. Objects whose rules came with the same snapshot share one answer, as do all objects that
 * every limiter has: 5,000 objects and 1,000 limiters take few looks at each limiter.
 */
export class FleetStanding {
  /** Whether some limiter is not Weir's. */
  readonly hasOthers: boolean;
  readonly #states: readonly LimiterState[];
  /** Those that count. */
  readonly #expected: readonly LimiterState[];
  readonly #leastAccepted: number;
  /** Resources that some limiter keeps out of a snapshot that it has in force. */
  readonly #keptOut: ReadonlySet<string>;
  readonly #answers = new Map<number | string, Standing>();
  /** Given again where they still hold, so that what was derived from them holds too. */
  readonly #formerAnswers: ReadonlyMap<number | string, Standing>;

  /** `former` is the same fleet a moment ago. */
  constructor(states: readonly LimiterState[], former?: FleetStanding) {
    this.#states = states.toSorted(byName);
    this.#formerAnswers = former === undefined ? new Map() : former.#answers;
    const settled = this.#states.filter(({ isJoining }) => !isJoining);
    this.#expected = settled.length > 0 ? settled : this.#states;
    this.#leastAccepted = this.#expected.reduce((least, { accepted }) => Math.min(least, accepted), Infinity);
    this.hasOthers = states.some(({ isWeir }) => !isWeir);
    this.#keptOut = new Set(this.#expected.flatMap(({ refusal }) => [...(refusal?.resources?.keys() ?? [])]));
  }

  /** Of the rules that are in all snapshots from this one on; of the resource with this name, as one may be refused alone. */
  of(since: Since, resource = ''): Standing {
    const isKeptOut = this.#keptOut.has(resource);
    // All that everybody has share the answer for 0, which everybody has.
    const isShared = !isKeptOut && since.number <= this.#leastAccepted;
    const { number, ms } = isShared ? { number: 0, ms: 0 } : since;
    const key = isKeptOut ? `${number} ${resource}` : number;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = formerIfSame(this.#formerAnswers.get(key), this.#answer(number, ms, resource));
      this.#answers.set(key, answer);
    }
    return answer;
  }

  /** Whether these limiters would give the same answers. */
  isOf(states: readonly LimiterState[]): boolean {
    return isDeepStrictEqual(this.#states, states.toSorted(byName));
  }

  #answer(since: number, servedMs: number, resource: string): Standing {
    const refused: { name: string; sinceMs: number; message: string }[] = [];
    const pending: { name: string; sinceMs: number }[] = [];
    let hasOlder = false;
    for (const { name, accepted, refusal, sinceMs } of this.#expected) {
      const keptOut = refusal?.resources?.get(resource);
      if (accepted >= since && keptOut === undefined) continue;
      if (refusal !== undefined && refusal.number >= since) {
        const message = keptOut ?? refusal.message;
        refused.push({ name, sinceMs: Math.max(servedMs, refusal.sinceMs), message });
      } else {
        pending.push({ name, sinceMs: Math.max(servedMs, sinceMs) });
        hasOlder ||= accepted > 0;
      }
    }
    const total = this.#expected.length;
    return {
      total,
      inForce: total - refused.length - pending.length,
      refused: firstFew(refused),
      pending: firstFew(pending),
      hasOlder,
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

/** What is remembered of a limiter while it is there. */
interface LastKnown {
  fleet: string;
  /** The newest snapshot that it accepted, as far as its version was known. */
  accepted: number;
  /** Since when it claims a version that nobody knows. */
  unknownSinceMs: number | undefined;
  /** Since when it refuses what it is sent. */
  refusesSinceMs: number | undefined;
}

const nobody = new FleetStanding([]);

/**
 * Chosen: longer than limiters wait by default before they open a lost stream again. So long a limiter may take for its
 * first answer, a leader waits for those of the leader before, and a version that this replica does not know is taken
 * for one that another replica serves a moment earlier; then it stands for nothing.
 */
export const patienceMs = 15_000;

/** What all living replicas know of their limiters, joined: one limiter counts once, wherever it is connected. */
export class LimiterView {
  readonly #ledger: VersionLedger;
  /** By instance, else by id. Only of limiters that are there: one that goes away is forgotten. */
  #lastKnown = new Map<string, LastKnown>();
  /** By `limiterIdentity`, so that who comes again and again without an answer has come once. */
  #joinedMs = new Map<string, number>();
  #fleets = new Map<string, FleetStanding>();
  #dueMs = Number.POSITIVE_INFINITY;

  constructor(ledger: VersionLedger) {
    this.#ledger = ledger;
  }

  /** When time alone changes what it says: `update` it again then. Infinity: never. */
  get dueMs(): number {
    return this.#dueMs;
  }

  /** Call when a report has changed, and when the ledger has observed a decision: more versions may be known then. */
  update(living: readonly ReplicaReport[], nowMs: number): void {
    this.#dueMs = Number.POSITIVE_INFINITY;
    const lastKnown = new Map<string, LastKnown>();
    const joinedMs = new Map<string, number>();
    const states = new Map<string, LimiterState[]>();
    for (const [identity, limiter] of newestStreams(living)) {
      const joiner = limiterIdentity(limiter);
      const sinceMs = this.#joinedMs.get(joiner) ?? nowMs;
      joinedMs.set(joiner, sinceMs);
      const known = this.#known(limiter, this.#lastKnown.get(identity), nowMs);
      lastKnown.set(identity, known);
      const list = states.get(limiter.fleet) ?? [];
      list.push(this.#state(limiter, known, { sinceMs, nowMs }));
      states.set(limiter.fleet, list);
    }
    this.#lastKnown = lastKnown;
    this.#joinedMs = joinedMs;
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

  #known(limiter: LimiterReport, last: LastKnown | undefined, nowMs: number): LastKnown {
    const { fleet, refusal } = limiter;
    const acceptedVersion = versionInForce(limiter);
    const before = last?.fleet === fleet ? last : undefined;
    const number = this.#numberOf(fleet, acceptedVersion);
    const isUnknown = acceptedVersion !== undefined && number === undefined;
    const unknownSinceMs = isUnknown ? (before?.unknownSinceMs ?? nowMs) : undefined;
    const keeps = unknownSinceMs === undefined || this.#isWithinPatience(unknownSinceMs, nowMs);
    return {
      fleet,
      accepted: number ?? (keeps ? (before?.accepted ?? 0) : 0),
      unknownSinceMs,
      refusesSinceMs: refusal === undefined ? undefined : (before?.refusesSinceMs ?? nowMs),
    };
  }

  #state(
    { name, fleet, isWeir, refusal }: LimiterReport,
    { accepted, refusesSinceMs = 0 }: LastKnown,
    { sinceMs, nowMs }: { sinceMs: number; nowMs: number },
  ): LimiterState {
    const number = this.#numberOf(fleet, refusal?.version);
    const hasAnswered = accepted > 0 || refusal !== undefined;
    return {
      name,
      isWeir,
      sinceMs,
      accepted,
      refusal:
        refusal === undefined || number === undefined
          ? undefined
          : { number, message: refusal.message, sinceMs: refusesSinceMs, resources: keptOut(refusal) },
      isJoining: !hasAnswered && this.#isWithinPatience(sinceMs, nowMs),
    };
  }

  #isWithinPatience(sinceMs: number, nowMs: number): boolean {
    const untilMs = sinceMs + patienceMs;
    if (nowMs >= untilMs) return false;
    this.#dueMs = Math.min(this.#dueMs, untilMs);
    return true;
  }

  #numberOf(fleet: string, version: string | undefined): number | undefined {
    return version === undefined ? undefined : this.#ledger.numberOf(fleet, version);
  }
}

/** Of a snapshot that it refused in part it has the rest in force. */
function versionInForce({ acceptedVersion, refusal }: LimiterReport): string | undefined {
  return refusal?.resources === undefined ? acceptedVersion : refusal.version;
}

/** Words by names. */
function keptOut({ resources }: Refusal): ReadonlyMap<string, string> | undefined {
  return resources && new Map(resources.map(({ name, message }) => [name, message]));
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
