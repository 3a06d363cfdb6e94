/** Which limiters have which rules in force, from the order in which snapshots were served and the limiters' responses. */
import { isDeepStrictEqual } from 'node:util';
import {
  type Capabilities,
  capabilities,
  noCapabilities,
  supports,
} from '../../rules/language/capabilities.ts';
import type { ClusterDecision } from '../model/decision.ts';
import type { FleetSnapshot } from '../model/fleet-snapshot.ts';
import { neededFor, servedTo } from '../model/served-rules.ts';
import { changedKeys } from '../model/versioned-map.ts';
import type { FirstFew } from './conditions.ts';

interface FleetVersions {
  newest: FleetSnapshot;
  /** The time when it was first served. */
  newestMs: number;
  number: number;
  /** Served versions by capabilities, as a text. */
  served: Map<string, ServedVersions>;
}

/** The versions for limiters with the same capabilities. */
interface ServedVersions {
  has: Capabilities;
  newest: string;
  /** Numbers by version, in ascending order. */
  numbers: Map<string, number>;
}

interface Served {
  fleet: string;
  hash: string;
  since: FirstSnapshot;
}

/** The first snapshot from which on all snapshots of a fleet have the current rules of an object. */
export interface FirstSnapshot {
  number: number;
  /** The time when that snapshot was first served here, in milliseconds since 1970. */
  ms: number;
  /** The capabilities that a limiter needs for the rules. */
  needs: Capabilities;
}

/** Chosen: an hour at one change a second. A limiter that is further behind is counted as before. */
const versionsRemembered = 4096;

/**
 * Records which snapshots have the current rules of which objects. Versions are numbered as they appear, over all fleets, and no
 * number is used twice. An object's rules are in every snapshot of its fleet from their `since` number on. So a limiter has them
 * in force if its accepted version has no smaller number. A version that returns counts as new. The rules that limiters with
 * fewer capabilities get at the same time have the same number.
 */
export class VersionLedger {
  readonly #versionsRemembered: number;
  readonly #fleets = new Map<string, FleetVersions>();
  readonly #served = new Map<string, Served>();
  /** The outcomes of the last decision. */
  #outcomes: ClusterDecision['outcomes'] = new Map();
  #lastNumber = 0;

  /** The `versionsRemembered` of each fleet defaults to 4,096. */
  constructor(options: { versionsRemembered?: number } = {}) {
    this.#versionsRemembered = options.versionsRemembered ?? versionsRemembered;
  }

  /** Observes a decision. Call it for every decision, on leaders and others, so that a new leader knows which rules limiters have. */
  observe(decision: ClusterDecision, nowMs: number): void {
    const { fleets, outcomes } = decision;
    for (const fleet of this.#fleets.keys()) if (!fleets.has(fleet)) this.#fleets.delete(fleet);
    for (const snapshot of fleets.values()) this.#number(snapshot, nowMs);
    for (const uid of changedKeys(outcomes, this.#outcomes)) {
      const served = outcomes.get(uid)?.served;
      if (served === undefined) {
        this.#served.delete(uid);
        continue;
      }
      const { fleet, hash, needs } = served;
      const known = this.#served.get(uid);
      const isKnown = known?.fleet === fleet && known.hash === hash;
      if (!isKnown) this.#served.set(uid, { fleet, hash, since: { ...this.#newest(fleet), needs } });
    }
    this.#outcomes = outcomes;
  }

  /** Returns undefined for a version that limiters with these capabilities were never served here, or too long ago. */
  numberOf(fleet: string, version: string | undefined, has: Capabilities): number | undefined {
    const known = this.#fleets.get(fleet);
    if (known === undefined) return undefined;
    const key = has.join();
    // For the first limiter with these capabilities, only the current version is known.
    if (!known.served.has(key)) known.served.set(key, servedVersions(known, has));
    return version === undefined ? undefined : known.served.get(key)!.numbers.get(version);
  }

  /** Returns undefined while none of the object's rules are served. */
  since(objectUid: string): FirstSnapshot | undefined {
    return this.#served.get(objectUid)?.since;
  }

  /** Returns undefined for a fleet to which nothing is served. */
  newest(fleet: string): (FirstSnapshot & { version: string }) | undefined {
    const known = this.#fleets.get(fleet);
    return known && { ...this.#newest(fleet), version: known.newest.version };
  }

  #number(newest: FleetSnapshot, nowMs: number): void {
    const { fleet, version } = newest;
    const known = this.#fleets.get(fleet);
    const sets = [...(known?.served.values() ?? [])];
    const versions = sets.map(({ has }) => servedTo(newest, has).version);
    if (known !== undefined && sets.every((one, i) => one.newest === versions[i])) {
      known.newest = newest;
      return;
    }
    const number = ++this.#lastNumber;
    const newestMs = known?.newest.version === version ? known.newestMs : nowMs;
    const next = { newest, newestMs, number, served: known?.served ?? new Map<string, ServedVersions>() };
    this.#fleets.set(fleet, next);
    for (const [i, one] of sets.entries()) this.#renumber(one, versions[i]!, number);
    if (known === undefined)
      for (const has of [noCapabilities, capabilities])
        next.served.set(has.join(), servedVersions(next, has));
  }

  #renumber(served: ServedVersions, version: string, number: number): void {
    const { numbers } = served;
    served.newest = version;
    numbers.delete(version);
    numbers.set(version, number);
    const [oldest] = numbers.keys();
    if (numbers.size > this.#versionsRemembered) numbers.delete(oldest!);
  }

  #newest(fleet: string): FirstSnapshot {
    const { newest, newestMs, number } = this.#fleets.get(fleet)!;
    return { number, ms: newestMs, needs: neededFor(newest) };
  }
}

function servedVersions(
  { newest, number }: Pick<FleetVersions, 'newest' | 'number'>,
  has: Capabilities,
): ServedVersions {
  const { version } = servedTo(newest, has);
  return { has, newest: version, numbers: new Map([[version, number]]) };
}

/** A limiter that is connected, as far as statuses need it; numbers are those of the `VersionLedger`, times since 1970. */
export interface ConnectedLimiter {
  name: string;
  isWeir: boolean;
  /** The time since which it is connected. */
  sinceMs: number;
  /** The number of the snapshot that it has in force. 0: none that is known. */
  accepted: number;
  /** True if it has no rules in force at all. */
  hasNothing: boolean;
  capabilities: Capabilities;
  /** The newest snapshot that it rejected since it accepted one. `resources`: the rejected part, if the rest is in force. */
  refusal:
    | { number: number; message: string; sinceMs: number; resources: ReadonlyMap<string, string> | undefined }
    | undefined;
  /** Whether it has just connected and may still answer its first snapshot. Until then, no status waits for it. */
  isJoining: boolean;
}

/** A limiter that is expected and not connected. */
export interface AbsentLimiter {
  name: string;
  /** The time since which it was not heard of. */
  sinceMs: number;
  /** The number of the snapshot that it had in force then. 0: none that is known. */
  accepted: number;
  hasNothing: boolean;
  capabilities: Capabilities;
  /** Resources that it rejected from its version. */
  rejected: ReadonlySet<string>;
}

/** The limiters of a fleet, there or not. */
export interface FleetLimiters {
  connected: readonly ConnectedLimiter[];
  absent: readonly AbsentLimiter[];
  /** Limiters that are neither connected nor expected yet: pods that are not ready. */
  coming: readonly string[];
  /** Whether there should be more limiters, whose names are unknown. */
  isShort: boolean;
  /** Whether there may be more limiters, because only connected ones are known to be expected, and this process has just started. */
  mayBeMore: boolean;
}

/** The standing of the limiters of a fleet with the rules of one object. Lists are sorted by name. */
export interface RolloutProgress {
  /** The number of all expected limiters, without those that are joining, unless there are no others. */
  total: number;
  /** The number of these that are connected. */
  connected: number;
  inForce: number;
  /** The limiters that rejected the rules. */
  refused: FirstFew<{ name: string; sinceMs: number; message: string }>;
  /** The limiters that do not support them. */
  tooOld: FirstFew<{ name: string; sinceMs: number }>;
  /** The capabilities that they would need. */
  needs: Capabilities;
  /** The limiters that have not answered yet. */
  pending: FirstFew<{ name: string; sinceMs: number }>;
  /** The limiters that are not connected, and may have other rules in force. */
  away: FirstFew<{ name: string; sinceMs: number }>;
  isShort: boolean;
  mayBeMore: boolean;
  /** True if a connected limiter has older rules in force, and not merely unknown ones. */
  hasOlder: boolean;
}

/** Chosen: enough to start an investigation. */
const namesShown = 5;

/**
 * The limiters of one fleet. Objects whose rules came with the same snapshot share one answer, and so do all objects that every
 * limiter has. So 5,000 objects and 1,000 limiters need few lookups for each limiter.
 */
export class FleetRollout {
  /** True if some limiter is not Weir's. */
  readonly hasOthers: boolean;
  readonly #limiters: FleetLimiters;
  /** Connected limiters that count. */
  readonly #expected: readonly ConnectedLimiter[];
  readonly #minAccepted: number;
  /** The capabilities of all of them. */
  readonly #supported: Capabilities;
  /** Resources that some limiter rejects from a snapshot that it has in force. */
  readonly #rejected: ReadonlySet<string>;
  readonly #answers = new Map<string, RolloutProgress>();
  /** Answers that are returned again while they hold, so that values derived from them also hold. */
  readonly #formerAnswers: ReadonlyMap<string, RolloutProgress>;

  /** `former`: the same fleet a moment ago. */
  constructor(limiters: FleetLimiters, former?: FleetRollout) {
    this.#limiters = sorted(limiters);
    this.#formerAnswers = former === undefined ? new Map() : former.#answers;
    const { connected, absent } = this.#limiters;
    const settled = connected.filter(({ isJoining }) => !isJoining);
    this.#expected = settled.length > 0 ? settled : connected;
    const all = [...this.#expected, ...absent];
    const none = Number.POSITIVE_INFINITY;
    this.#minAccepted = all.reduce((min, { accepted }) => Math.min(min, accepted), none);
    this.#supported = all.reduce<Capabilities>(
      (common, { capabilities: own }) =>
        own === common ? common : common.filter((one) => own.includes(one)),
      capabilities,
    );
    this.hasOthers = connected.some(({ isWeir }) => !isWeir);
    // Limiters with equal rejections share one list.
    const refused = new Set(this.#expected.map(({ refusal }) => refusal?.resources));
    this.#rejected = new Set([
      ...[...refused].flatMap((resources) => [...(resources?.keys() ?? [])]),
      ...absent.flatMap(({ rejected }) => [...rejected]),
    ]);
  }

  /** Names of limiters that are expected soon, or have not answered for the first time. */
  get joining(): string[] {
    const names = this.#limiters.connected.filter(({ isJoining }) => isJoining).map(({ name }) => name);
    return [...names, ...this.#limiters.coming];
  }

  /**
   * Returns the standing of the rules that are in all snapshots from this one on, or of the resource with this name, because a
   * limiter may reject a single one.
   */
  of(since: FirstSnapshot, resource = ''): RolloutProgress {
    const isRejected = this.#rejected.has(resource);
    // Rules that all limiters have share the answer for 0, which all limiters have.
    const isShared = !isRejected && since.number <= this.#minAccepted;
    const needs = supports(this.#supported, since.needs) ? noCapabilities : since.needs;
    const asked = isShared ? { number: 0, ms: 0, needs } : { ...since, needs };
    const key = `${asked.number} ${needs.join()} ${isRejected ? resource : ''}`;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = formerIfSame(this.#formerAnswers.get(key), this.#answer(asked, resource));
      this.#answers.set(key, answer);
    }
    return answer;
  }

  /** The standing of rules that every limiter has in force. */
  get shared(): RolloutProgress {
    return this.of({ number: 0, ms: 0, needs: noCapabilities });
  }

  /** Returns whether all objects that had the `shared` answer of `former` have it here, and it is the same. */
  isAtLeast(former: FleetRollout): boolean {
    return (
      this.hasOthers === former.hasOthers &&
      this.#minAccepted >= former.#minAccepted &&
      supports(this.#supported, former.#supported) &&
      this.#rejected.isSubsetOf(former.#rejected) &&
      this.shared === former.shared
    );
  }

  /** Returns whether some limiter may run rules of this resource that are in no snapshot from this one on. */
  mayRun(resource: string, sinceNumber: number): boolean {
    const { connected, absent, isShort } = this.#limiters;
    if (isShort || this.#rejected.has(resource)) return true;
    return [...connected, ...absent].some(
      ({ accepted, hasNothing }) => !hasNothing && accepted < sinceNumber,
    );
  }

  /** The number of all expected limiters. */
  get total(): number {
    return this.#expected.length + this.#limiters.absent.length;
  }

  /** Returns whether these limiters would give the same answers. */
  isOf(limiters: FleetLimiters): boolean {
    return isDeepStrictEqual(this.#limiters, sorted(limiters));
  }

  #answer({ number: since, ms: servedMs, needs }: FirstSnapshot, resource: string): RolloutProgress {
    const tooOld: { name: string; sinceMs: number }[] = [];
    const refused: { name: string; sinceMs: number; message: string }[] = [];
    const pending: { name: string; sinceMs: number }[] = [];
    let hasOlder = false;
    for (const limiter of this.#expected) {
      const { name, accepted, refusal, sinceMs } = limiter;
      const rejected = refusal?.resources?.get(resource);
      const isTooOld = !supports(limiter.capabilities, needs);
      if (accepted >= since && rejected === undefined && !isTooOld) continue;
      if (isTooOld) {
        tooOld.push({ name, sinceMs });
        hasOlder = true;
      } else if (refusal !== undefined && refusal.number >= since) {
        const message = rejected ?? refusal.message;
        refused.push({ name, sinceMs: Math.max(servedMs, refusal.sinceMs), message });
      } else {
        pending.push({ name, sinceMs: Math.max(servedMs, sinceMs) });
        hasOlder ||= accepted > 0;
      }
    }
    const { absent, isShort, mayBeMore } = this.#limiters;
    const away = absent
      .filter(
        (one) => one.accepted < since || one.rejected.has(resource) || !supports(one.capabilities, needs),
      )
      .map(({ name, sinceMs }) => ({ name, sinceMs }));
    const connected = this.#expected.length;
    const total = connected + absent.length;
    return {
      total,
      connected,
      inForce: total - refused.length - tooOld.length - pending.length - away.length,
      refused: firstFew(refused),
      tooOld: firstFew(tooOld),
      needs,
      pending: firstFew(pending),
      away: firstFew(away),
      isShort,
      mayBeMore,
      hasOlder,
    };
  }
}

function sorted({ connected, absent, coming, ...rest }: FleetLimiters): FleetLimiters {
  return {
    ...rest,
    connected: connected.toSorted(byName),
    absent: absent.toSorted(byName),
    coming: coming.toSorted(),
  };
}

function firstFew<T>(items: readonly T[]): FirstFew<T> {
  return { items: items.slice(0, namesShown), count: items.length };
}

function formerIfSame<T>(former: T | undefined, next: T): T {
  return former !== undefined && isDeepStrictEqual(former, next) ? former : next;
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : a.name > b.name ? 1 : 0;
}
