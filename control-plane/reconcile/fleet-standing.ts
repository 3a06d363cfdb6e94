/** Which limiters have which rules in force: what was served in which order, and what limiters said of it. */
import { isDeepStrictEqual } from 'node:util';
import {
  type Capabilities,
  capabilities,
  noCapabilities,
  supports,
} from '../../rules/language/capabilities.ts';
import type { Decision } from '../model/decision.ts';
import type { FleetSnapshot } from '../model/fleet-snapshot.ts';
import { neededFor, servedTo } from '../model/served-rules.ts';
import { changedKeys } from '../model/versioned-map.ts';
import type { FirstFew } from './conditions.ts';

interface FleetVersions {
  newest: FleetSnapshot;
  /** When it was first served. */
  newestMs: number;
  number: number;
  /** By capabilities, as a text. */
  served: Map<string, ServedVersions>;
}

/** The versions for limiters with the same capabilities. */
interface ServedVersions {
  has: Capabilities;
  newest: string;
  /** By version, in the order of the numbers. */
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
  /** The capabilities that a limiter needs for the rules. */
  needs: Capabilities;
}

/** Chosen: at one change a second, an hour. A limiter that is further behind counts as it did before. */
const versionsRemembered = 4096;

/**
 * Which snapshots hold the present rules of which objects. Versions are numbered as they appear, over all fleets, and no
 * number comes twice; an object's rules are in every snapshot of its fleet from their `since` number on. So a limiter
 * has them in force if the version that it accepted has no smaller number. A version that comes back counts as new.
 * What limiters with fewer capabilities are served at the same time has the same number.
 */
export class VersionLedger {
  readonly #versionsRemembered: number;
  readonly #fleets = new Map<string, FleetVersions>();
  readonly #served = new Map<string, Served>();
  /** The outcomes of the last decision. */
  #outcomes: Decision['outcomes'] = new Map();
  #lastNumber = 0;

  /** `versionsRemembered` of each fleet defaults to 4,096. */
  constructor(options: { versionsRemembered?: number } = {}) {
    this.#versionsRemembered = options.versionsRemembered ?? versionsRemembered;
  }

  /** Call for every decision, on leaders and others, so that a new leader knows what limiters have. */
  observe(decision: Decision, nowMs: number): void {
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

  /** Undefined for a version that limiters with these capabilities were never served here, or too long ago. */
  numberOf(fleet: string, version: string | undefined, has: Capabilities): number | undefined {
    const known = this.#fleets.get(fleet);
    if (known === undefined) return undefined;
    const key = has.join();
    // If the first limiter with these capabilities comes, the present version alone is known.
    if (!known.served.has(key)) known.served.set(key, servedVersions(known, has));
    return version === undefined ? undefined : known.served.get(key)!.numbers.get(version);
  }

  /** Undefined while none of its rules are served. */
  since(objectUid: string): Since | undefined {
    return this.#served.get(objectUid)?.since;
  }

  /** Undefined for a fleet that nothing is served to. */
  newest(fleet: string): (Since & { version: string }) | undefined {
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

  #newest(fleet: string): Since {
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
export interface LimiterState {
  name: string;
  isWeir: boolean;
  /** Since when it is there. */
  sinceMs: number;
  /** The number of the snapshot that it has in force. 0: none that is known. */
  accepted: number;
  /** True if it has no rules in force at all. */
  hasNothing: boolean;
  capabilities: Capabilities;
  /** The newest snapshot that it refused since it accepted one. `resources`: what of it, where it has the rest in force. */
  refusal:
    | { number: number; message: string; sinceMs: number; resources: ReadonlyMap<string, string> | undefined }
    | undefined;
  /** It has just come, and may still answer what it was sent first: until then nobody waits for it. */
  isJoining: boolean;
}

/** A limiter that is expected and not connected. */
export interface AbsentLimiter {
  name: string;
  /** Since when nobody has heard of it. */
  sinceMs: number;
  /** The number of the snapshot that it had in force then. 0: none that is known. */
  accepted: number;
  hasNothing: boolean;
  capabilities: Capabilities;
  /** Resources that it had refused of that. */
  keptOut: ReadonlySet<string>;
}

/** The limiters of a fleet, there or not. */
export interface Limiters {
  connected: readonly LimiterState[];
  absent: readonly AbsentLimiter[];
  /** Neither connected nor expected yet: pods that are not ready. */
  coming: readonly string[];
  /** There should be more, whose names nobody knows. */
  isShort: boolean;
  /** Nothing but who was seen says who is expected, and this process looks for a moment only. */
  mayBeMore: boolean;
}

/** Where the limiters of a fleet stand with the rules of one object. Lists are in the order of names. */
export interface Standing {
  /** All that are expected: without those that are joining, unless there are no others. */
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

/** Chosen: enough to begin to look. */
const namesShown = 5;

/**
 * The limiters of one fleet. Objects whose rules came with the same snapshot share one answer, as do all objects that
 * every limiter has: 5,000 objects and 1,000 limiters take few looks at each limiter.
 */
export class FleetStanding {
  /** True if some limiter is not Weir's. */
  readonly hasOthers: boolean;
  readonly #limiters: Limiters;
  /** Connected limiters that count. */
  readonly #expected: readonly LimiterState[];
  readonly #leastAccepted: number;
  /** The capabilities of all of them. */
  readonly #supported: Capabilities;
  /** Resources that some limiter keeps out of a snapshot that it has in force. */
  readonly #keptOut: ReadonlySet<string>;
  readonly #answers = new Map<string, Standing>();
  /** Given again where they still hold, so that what was derived from them holds too. */
  readonly #formerAnswers: ReadonlyMap<string, Standing>;

  /** `former` is the same fleet a moment ago. */
  constructor(limiters: Limiters, former?: FleetStanding) {
    this.#limiters = sorted(limiters);
    this.#formerAnswers = former === undefined ? new Map() : former.#answers;
    const { connected, absent } = this.#limiters;
    const settled = connected.filter(({ isJoining }) => !isJoining);
    this.#expected = settled.length > 0 ? settled : connected;
    const all = [...this.#expected, ...absent];
    const none = Number.POSITIVE_INFINITY;
    this.#leastAccepted = all.reduce((least, { accepted }) => Math.min(least, accepted), none);
    this.#supported = all.reduce<Capabilities>(
      (common, { capabilities: own }) =>
        own === common ? common : common.filter((one) => own.includes(one)),
      capabilities,
    );
    this.hasOthers = connected.some(({ isWeir }) => !isWeir);
    // Limiters that refuse alike share what they refuse.
    const refused = new Set(this.#expected.map(({ refusal }) => refusal?.resources));
    this.#keptOut = new Set([
      ...[...refused].flatMap((resources) => [...(resources?.keys() ?? [])]),
      ...absent.flatMap(({ keptOut }) => [...keptOut]),
    ]);
  }

  /** Limiters that are on their way, or have not answered for the first time. */
  get joining(): string[] {
    const names = this.#limiters.connected.filter(({ isJoining }) => isJoining).map(({ name }) => name);
    return [...names, ...this.#limiters.coming];
  }

  /**
   * Returns the standing of the rules that are in all snapshots from this one on, or of the resource with this name, because a
   * limiter may reject a single one.
   */
  of(since: Since, resource = ''): Standing {
    const isKeptOut = this.#keptOut.has(resource);
    // All that everybody has share the answer for 0, which everybody has.
    const isShared = !isKeptOut && since.number <= this.#leastAccepted;
    const needs = supports(this.#supported, since.needs) ? noCapabilities : since.needs;
    const asked = isShared ? { number: 0, ms: 0, needs } : { ...since, needs };
    const key = `${asked.number} ${needs.join()} ${isKeptOut ? resource : ''}`;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = formerIfSame(this.#formerAnswers.get(key), this.#answer(asked, resource));
      this.#answers.set(key, answer);
    }
    return answer;
  }

  /** The standing of rules that every limiter has in force. */
  get shared(): Standing {
    return this.of({ number: 0, ms: 0, needs: noCapabilities });
  }

  /** Returns whether all objects that had the `shared` answer of `former` have it here, and it is the same. */
  isAtLeast(former: FleetStanding): boolean {
    return (
      this.hasOthers === former.hasOthers &&
      this.#leastAccepted >= former.#leastAccepted &&
      supports(this.#supported, former.#supported) &&
      this.#keptOut.isSubsetOf(former.#keptOut) &&
      this.shared === former.shared
    );
  }

  /** Returns whether some limiter may run rules of this resource that are in no snapshot from this one on. */
  mayRun(resource: string, sinceNumber: number): boolean {
    const { connected, absent, isShort } = this.#limiters;
    if (isShort || this.#keptOut.has(resource)) return true;
    return [...connected, ...absent].some(
      ({ accepted, hasNothing }) => !hasNothing && accepted < sinceNumber,
    );
  }

  /** All that are expected. */
  get total(): number {
    return this.#expected.length + this.#limiters.absent.length;
  }

  /** Returns whether these limiters would give the same answers. */
  isOf(limiters: Limiters): boolean {
    return isDeepStrictEqual(this.#limiters, sorted(limiters));
  }

  #answer({ number: since, ms: servedMs, needs }: Since, resource: string): Standing {
    const tooOld: { name: string; sinceMs: number }[] = [];
    const refused: { name: string; sinceMs: number; message: string }[] = [];
    const pending: { name: string; sinceMs: number }[] = [];
    let hasOlder = false;
    for (const limiter of this.#expected) {
      const { name, accepted, refusal, sinceMs } = limiter;
      const keptOut = refusal?.resources?.get(resource);
      const isTooOld = !supports(limiter.capabilities, needs);
      if (accepted >= since && keptOut === undefined && !isTooOld) continue;
      if (isTooOld) {
        tooOld.push({ name, sinceMs });
        hasOlder = true;
      } else if (refusal !== undefined && refusal.number >= since) {
        const message = keptOut ?? refusal.message;
        refused.push({ name, sinceMs: Math.max(servedMs, refusal.sinceMs), message });
      } else {
        pending.push({ name, sinceMs: Math.max(servedMs, sinceMs) });
        hasOlder ||= accepted > 0;
      }
    }
    const { absent, isShort, mayBeMore } = this.#limiters;
    const away = absent
      .filter(
        (one) => one.accepted < since || one.keptOut.has(resource) || !supports(one.capabilities, needs),
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

function sorted({ connected, absent, coming, ...rest }: Limiters): Limiters {
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
