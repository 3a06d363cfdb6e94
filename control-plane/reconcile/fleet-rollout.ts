/**
 * Determines which limiters have which rules in force, from the order in which snapshots were served and from the limiters' responses.
 */
import { isDeepStrictEqual } from 'node:util';
import {
  type Capabilities,
  capabilities,
  noCapabilities,
  supports,
} from '../../rules/language/capabilities.ts';
import type { ClusterDecision } from '../model/decision.ts';
import type { FleetSnapshot } from '../model/fleet-snapshot.ts';
import {
  type AccessVersions,
  EditSteps,
  noAccesses,
  noVersions,
  type ObjectVersions,
} from '../model/object-versions.ts';
import { neededFor, snapshotFor } from '../model/supported-rules.ts';
import { changedKeys, VersionedMap } from '../model/versioned-map.ts';
import type { FirstFew } from './conditions.ts';

interface FleetVersions {
  readonly newest: FleetSnapshot;
  /** The time when it was first served. */
  readonly newestMs: number;
  readonly number: number;
  /** Served versions by capabilities, as a text. */
  readonly served: ReadonlyMap<string, ServedVersions>;
}

/** The versions for limiters with the same capabilities. */
interface ServedVersions {
  readonly has: Capabilities;
  /** The versions in the ascending order of their numbers. */
  readonly versions: readonly string[];
  readonly numbers: VersionedMap<number>;
}

interface Served {
  fleet: string;
  hash: string;
  since: FirstSnapshot;
}

/** The first snapshot from which on all snapshots of a fleet contain the current rules of an object. */
export interface FirstSnapshot {
  number: number;
  /** The time when that snapshot was first served here, in milliseconds since 1970. */
  ms: number;
  /** The capabilities that a limiter needs for the rules. */
  needs: Capabilities;
}

/** Chosen: an hour at one change a second. A limiter that is further behind counts as having an unknown version. */
const defaultMaxVersions = 4096;

/** Edits since the decision before. */
export interface LedgerEdits {
  readonly uids: ReadonlySet<string>;
  /** The versions of these and all earlier edits. */
  readonly versions: ObjectVersions;
  /** The accesses to fleets. An edit of one, which may be the same again, counts for all objects of the fleet. */
  readonly accesses?: AccessVersions | undefined;
}

const noEdits: LedgerEdits = { uids: new Set(), versions: noVersions };

interface LedgerParts {
  /** The number of versions of each fleet that are remembered. */
  readonly maxVersions: number;
  readonly fleets: ReadonlyMap<string, FleetVersions>;
  readonly served: VersionedMap<Served>;
  /** The outcomes of the last decision. */
  readonly outcomes: ClusterDecision['outcomes'];
  readonly lastNumber: number;
  readonly steps: EditSteps;
}

/**
 * Records which snapshots have the current rules of which objects. Versions are numbered as they appear, over all fleets, and no
 * number is used twice. An object's rules are in every snapshot of its fleet from their `since` number on. So a limiter has them
 * in force if its accepted version has no smaller number. A version that returns, or is the same after an edit, counts as new. The rules
 * that limiters with fewer capabilities get at the same time have the same number. Immutable.
 */
export class VersionLedger {
  readonly #parts: LedgerParts;

  private constructor(parts: LedgerParts) {
    this.#parts = parts;
  }

  static empty(maxVersions = defaultMaxVersions): VersionLedger {
    const served = VersionedMap.of<Served>();
    const nothing = { fleets: new Map(), served, outcomes: new Map(), lastNumber: 0, steps: EditSteps.none };
    return new VersionLedger({ maxVersions, ...nothing });
  }

  /**
   * Returns the ledger with a decision. Call it for every decision, on leaders and others, so that a new leader knows which rules
   * limiters have.
   */
  with({ fleets: snapshots, outcomes }: ClusterDecision, nowMs: number, edits = noEdits): VersionLedger {
    const { maxVersions, served, steps } = this.#parts;
    const { versions, accesses = noAccesses } = edits;
    const ofAccess = changedKeys(accesses, steps.accesses);
    const edited = new Set<string | undefined>(ofAccess);
    for (const uid of edits.uids) edited.add(outcomes.get(uid)?.served?.fleet);
    const fleets = new Map<string, FleetVersions>();
    let { lastNumber } = this.#parts;
    for (const [fleet, snapshot] of snapshots) {
      const next = numbered(snapshot, this.#parts.fleets.get(fleet), {
        number: lastNumber + 1,
        nowMs,
        maxVersions,
        isEdited: edited.has(fleet),
      });
      fleets.set(fleet, next);
      lastNumber = Math.max(lastNumber, next.number);
    }
    const changed = new Map<string, Served | undefined>();
    const ofFleets = ofAccess.size === 0 ? [] : [...served].filter(([, one]) => ofAccess.has(one.fleet));
    const changedOutcomes = changedKeys(outcomes, this.#parts.outcomes);
    for (const uid of changedOutcomes.union(new Map(ofFleets))) {
      const { fleet, hash, needs } = outcomes.get(uid)?.served ?? {};
      const known = served.get(uid);
      if (fleet === undefined || hash === undefined || needs === undefined) changed.set(uid, undefined);
      else if (known?.fleet !== fleet || known.hash !== hash || edits.uids.has(uid) || ofAccess.has(fleet))
        changed.set(uid, { fleet, hash, since: { ...newestOf(fleets.get(fleet)!), ms: nowMs, needs } });
    }
    const parts = { maxVersions, fleets, served: served.with(changed), outcomes, lastNumber };
    const step = { number: lastNumber, versions, accesses };
    return new VersionLedger({ ...parts, steps: steps.with(step, maxVersions) });
  }

  /**
   * Returns the number of the newest snapshot whose edits a replica has decided. Of what limiters have that are connected to it, only rules
   * up to this number are certain. Later edits may have reached it, and their rules its limiters, one after the other and unseen by this
   * process.
   */
  decidedAt(versions: ObjectVersions): number {
    return this.#parts.steps.reachedBy(versions);
  }

  /** Returns the ledger that numbers the versions for limiters with these capabilities. At first, it knows only their current version. */
  followedBy(limiters: Iterable<{ fleet: string; capabilities: Capabilities }>): VersionLedger {
    const fleets = new Map(this.#parts.fleets);
    let isNews = false;
    for (const { fleet, capabilities: has } of limiters) {
      const known = fleets.get(fleet);
      const key = has.join();
      if (known === undefined || known.served.has(key)) continue;
      fleets.set(fleet, { ...known, served: new Map(known.served).set(key, servedVersions(known, has)) });
      isNews = true;
    }
    return isNews ? new VersionLedger({ ...this.#parts, fleets }) : this;
  }

  /**
   * Returns undefined for a version that was never served here to limiters with these capabilities, or too long ago. See `followedBy`.
   */
  numberOf(fleet: string, version: string | undefined, has: Capabilities): number | undefined {
    if (version === undefined) return undefined;
    return this.#parts.fleets.get(fleet)?.served.get(has.join())?.numbers.get(version);
  }

  /** Returns the uids of objects for which `since` differs from that of an earlier ledger. */
  changedSince(before: VersionLedger): ReadonlySet<string> {
    return changedKeys(this.#parts.served, before.#parts.served);
  }

  /** Returns undefined while none of the object's rules are served. */
  since(objectUid: string): FirstSnapshot | undefined {
    return this.#parts.served.get(objectUid)?.since;
  }

  /** Returns undefined for a fleet to which nothing is served. */
  newest(fleet: string): (FirstSnapshot & { version: string }) | undefined {
    const known = this.#parts.fleets.get(fleet);
    return known && { ...newestOf(known), version: known.newest.version };
  }
}

/**
 * Returns the versions of a fleet with its newest snapshot. If this snapshot is the same as before for all limiters, and no object of the
 * fleet was edited, it gets no new number.
 */
function numbered(
  newest: FleetSnapshot,
  known: FleetVersions | undefined,
  {
    number,
    nowMs,
    maxVersions,
    isEdited,
  }: { number: number; nowMs: number; maxVersions: number; isEdited: boolean },
): FleetVersions {
  if (known === undefined) {
    const first = { newest, newestMs: nowMs, number };
    const sets = [noCapabilities, capabilities];
    return { ...first, served: new Map(sets.map((has) => [has.join(), servedVersions(first, has)])) };
  }
  if (known.newest === newest && !isEdited) return known;
  const sets = [...known.served].map(([key, one]) => ({
    key,
    one,
    version: snapshotFor(newest, one.has).version,
  }));
  const isSame = sets.every(({ one, version }) => one.versions.at(-1) === version);
  if (isSame && !isEdited) return { ...known, newest };
  const newestMs = known.newest.version === newest.version ? known.newestMs : nowMs;
  const served = new Map(
    sets.map(({ key, one, version }) => [key, renumbered(one, version, number, maxVersions)]),
  );
  return { newest, newestMs, number, served };
}

function renumbered(
  { has, versions, numbers }: ServedVersions,
  version: string,
  number: number,
  maxVersions: number,
): ServedVersions {
  const others = numbers.has(version) ? versions.filter((one) => one !== version) : versions;
  const dropped = others.slice(0, Math.max(0, others.length + 1 - maxVersions));
  const changes = dropped.map((one): [string, undefined] => [one, undefined]);
  return {
    has,
    versions: [...others.slice(dropped.length), version],
    numbers: numbers.with(new Map<string, number | undefined>([...changes, [version, number]])),
  };
}

function newestOf({ newest, newestMs, number }: FleetVersions): FirstSnapshot {
  return { number, ms: newestMs, needs: neededFor(newest) };
}

function servedVersions(
  { newest, number }: Pick<FleetVersions, 'newest' | 'number'>,
  has: Capabilities,
): ServedVersions {
  const { version } = snapshotFor(newest, has);
  return { has, versions: [version], numbers: VersionedMap.of([[version, number]]) };
}

/** A limiter of a fleet, with the properties that statuses need. Numbers are those of the `VersionLedger`; times are since 1970. */
export interface FleetLimiter {
  name: string;
  isWeir: boolean;
  /**
   * `joining`: it has just connected and may still answer its first snapshot. Until then, statuses do not wait for it. `away`: it is
   * expected but not connected.
   */
  state: 'connected' | 'joining' | 'away';
  /** The time since which it is connected, or not connected. */
  sinceMs: number;
  /** The number of the snapshot that it has in force, as far as it has reported one; 0 if none is known. */
  accepted: number;
  /** The same if its replica has not sent it anything since its last report. */
  claimed: number;
  /**
   * The same for the first snapshot that it was sent, while it has not answered. It has either that snapshot in force or nothing, so
   * statuses of newer rules wait for it even while it is joining.
   */
  loading?: { accepted: number; claimed: number } | undefined;
  /** Whether it has no rules in force at all. */
  hasNothing: boolean;
  capabilities: Capabilities;
  /** The newest snapshot that it rejected after the last one it accepted. `resources`: the rejected part, if the rest is in force. */
  rejection:
    | { number: number; message: string; sinceMs: number; resources: ReadonlyMap<string, string> | undefined }
    | undefined;
}

/** The limiters of a fleet. */
export interface FleetLimiters {
  limiters: readonly FleetLimiter[];
  /** Limiters that are neither connected nor expected yet: pods that are not ready. */
  coming: readonly string[];
  /** Whether more limiters are expected whose names are unknown. */
  isShort: boolean;
  /** Whether there may be more limiters, because only connected limiters are expected and this process has just started. */
  mayBeMore: boolean;
}

/** How far the limiters of a fleet have applied the rules of one object. Lists are sorted by name. */
export interface RolloutProgress {
  /** The number of all expected limiters. Limiters that are joining do not count, unless there are no others. */
  total: number;
  /** The number of expected limiters that are connected. */
  connected: number;
  inForce: number;
  /** The limiters that rejected the rules. */
  rejected: FirstFew<{ name: string; sinceMs: number; message: string }>;
  /** The limiters that do not support them. */
  tooOld: FirstFew<{ name: string; sinceMs: number }>;
  /** The capabilities that they would need. */
  needs: Capabilities;
  /** The limiters that have not answered yet. */
  pending: FirstFew<{ name: string; sinceMs: number }>;
  /** Whether all that is missing are reports of replicas that have decided the last edit. */
  isUnconfirmed: boolean;
  /** The limiters that are not connected, and may have other rules in force. */
  away: FirstFew<{ name: string; sinceMs: number }>;
  isShort: boolean;
  mayBeMore: boolean;
  /** Whether a connected limiter has older rules in force, and not merely unknown ones. */
  hasOlder: boolean;
}

/** Chosen: enough to start an investigation. */
const namesShown = 5;

/**
 * The limiters of one fleet. Objects whose rules came with the same snapshot share one answer, and so do all objects whose rules every
 * limiter has. So 5,000 objects and 1,000 limiters need few lookups for each limiter.
 */
export class FleetRollout {
  /** Whether a limiter is not Weir's. */
  readonly hasOthers: boolean;
  /** The number of all expected limiters. */
  readonly total: number;
  readonly #limiters: FleetLimiters;
  /** The limiters that count. */
  readonly #expected: readonly FleetLimiter[];
  /** The joining limiters that count for rules that are newer than their first snapshot. */
  readonly #loading: readonly FleetLimiter[];
  readonly #connected: number;
  readonly #minAccepted: number;
  /** The capabilities of all of them. */
  readonly #supported: Capabilities;
  /** Resources that a limiter rejects from a snapshot that it otherwise has in force. */
  readonly #rejected: ReadonlySet<string>;
  readonly #answers = new Map<string, RolloutProgress>();
  /** Answers that are returned again while they are valid, so that values derived from them stay valid, too. */
  readonly #formerAnswers: ReadonlyMap<string, RolloutProgress>;

  /** `former`: the same fleet a moment ago. */
  constructor(fleet: FleetLimiters, former?: FleetRollout) {
    this.#limiters = sorted(fleet);
    this.#formerAnswers = former === undefined ? new Map() : former.#answers;
    const { limiters } = this.#limiters;
    const isSettled = limiters.some(({ state }) => state === 'connected');
    this.#expected = isSettled ? limiters.filter(({ state }) => state !== 'joining') : limiters;
    this.#loading = isSettled ? limiters.flatMap(asLoaded) : [];
    this.total = this.#expected.length;
    this.hasOthers = limiters.some(({ isWeir, state }) => !isWeir && state !== 'away');
    // Limiters with equal rejections share one list.
    const lists = new Set<ReadonlyMap<string, string>>();
    let connected = 0;
    let minAccepted = Number.POSITIVE_INFINITY;
    let supported: Capabilities = capabilities;
    for (const { state, accepted, rejection, capabilities: own } of this.#expected) {
      if (state !== 'away') connected += 1;
      minAccepted = Math.min(minAccepted, accepted);
      if (own !== supported) supported = supported.filter((one) => own.includes(one));
      if (rejection?.resources !== undefined) lists.add(rejection.resources);
    }
    for (const { accepted } of this.#loading) minAccepted = Math.min(minAccepted, accepted);
    this.#connected = connected;
    this.#minAccepted = minAccepted;
    this.#supported = supported;
    this.#rejected = new Set([...lists].flatMap((resources) => [...resources.keys()]));
  }

  /** Names of limiters that are expected soon, or that have not sent their first answer. */
  get joining(): string[] {
    const { limiters, coming } = this.#limiters;
    return [...limiters.filter(({ state }) => state === 'joining').map(({ name }) => name), ...coming];
  }

  /**
   * Returns how far limiters have applied the rules that are in all snapshots from this one on. With `resource`, returns it for the
   * resource of this name, because a limiter may reject a part of a snapshot.
   */
  of(since: FirstSnapshot, resource?: string): RolloutProgress {
    const isRejected = resource === undefined ? this.#rejected.size > 0 : this.#rejected.has(resource);
    // Rules that all limiters have share the answer for 0, the number that all limiters have reached.
    const isShared = !isRejected && since.number <= this.#minAccepted;
    const needs = supports(this.#supported, since.needs) ? noCapabilities : since.needs;
    const asked = isShared ? { number: 0, ms: 0, needs } : { ...since, needs };
    // Two successors of a round may give one number to snapshots of different times.
    const part = resource === undefined ? 'all' : `of ${resource}`;
    const key = `${asked.number} ${asked.ms} ${needs.join()} ${isRejected ? part : ''}`;
    let answer = this.#answers.get(key);
    if (answer === undefined) {
      answer = formerIfSame(this.#formerAnswers.get(key), this.#answer(asked, resource));
      this.#answers.set(key, answer);
    }
    return answer;
  }

  /** The progress of rules that every limiter has in force. */
  get shared(): RolloutProgress {
    return this.of({ number: 0, ms: 0, needs: noCapabilities }, '');
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

  /** Returns whether a limiter may run rules of this resource that are in no snapshot from this one on. */
  mayRun(resource: string, sinceNumber: number): boolean {
    const { limiters, isShort } = this.#limiters;
    if (isShort || this.#rejected.has(resource)) return true;
    return limiters.some(({ accepted, hasNothing }) => !hasNothing && accepted < sinceNumber);
  }

  /** Returns whether these limiters would lead to the same answers. */
  isOf(limiters: FleetLimiters): boolean {
    return isDeepStrictEqual(this.#limiters, sorted(limiters));
  }

  #answer({ number: since, ms: servedMs, needs }: FirstSnapshot, resource?: string): RolloutProgress {
    const tooOld: { name: string; sinceMs: number }[] = [];
    const rejecting: { name: string; sinceMs: number; message: string }[] = [];
    const pending: { name: string; sinceMs: number }[] = [];
    const away: { name: string; sinceMs: number }[] = [];
    let hasOlder = false;
    let unconfirmed = 0;
    const loading = this.#loading.filter(({ accepted }) => accepted < since);
    for (const limiter of [...this.#expected, ...loading]) {
      const { name, state, accepted, rejection, sinceMs } = limiter;
      const rejected = rejectedText(rejection, resource);
      const isTooOld = !supports(limiter.capabilities, needs);
      if (accepted >= since && rejected === undefined && !isTooOld) continue;
      if (state === 'away') away.push({ name, sinceMs });
      else if (isTooOld) {
        tooOld.push({ name, sinceMs });
        hasOlder = true;
      } else if (rejection !== undefined && rejection.number >= since) {
        const message = rejected ?? rejection.message;
        rejecting.push({ name, sinceMs: Math.max(servedMs, rejection.sinceMs), message });
      } else {
        pending.push({ name, sinceMs: Math.max(servedMs, sinceMs) });
        if (limiter.claimed >= since) unconfirmed += 1;
        else hasOlder ||= accepted > 0;
      }
    }
    const total = this.total + loading.length;
    const { isShort, mayBeMore } = this.#limiters;
    const isOtherwiseDone = rejecting.length + tooOld.length + away.length === 0 && !isShort && !mayBeMore;
    return {
      total,
      connected: this.#connected + loading.length,
      inForce: total - rejecting.length - tooOld.length - pending.length - away.length,
      rejected: firstFew(rejecting),
      tooOld: firstFew(tooOld),
      needs,
      pending: firstFew(pending),
      isUnconfirmed: isOtherwiseDone && unconfirmed > 0 && unconfirmed === pending.length,
      away: firstFew(away),
      isShort,
      mayBeMore,
      hasOlder,
    };
  }
}

/** Returns the limiter's message about a resource, or about any part of a snapshot that it otherwise has in force. */
function rejectedText(
  rejection: FleetLimiter['rejection'],
  resource: string | undefined,
): string | undefined {
  if (rejection?.resources === undefined) return undefined;
  return resource === undefined ? rejection.message : rejection.resources.get(resource);
}

function sorted({ limiters, coming, ...rest }: FleetLimiters): FleetLimiters {
  return { ...rest, limiters: limiters.toSorted(byName), coming: coming.toSorted() };
}

/** Returns a joining limiter as if it had accepted its first snapshot. */
function asLoaded(limiter: FleetLimiter): FleetLimiter[] {
  const { state, loading } = limiter;
  return state === 'joining' && loading !== undefined ? [{ ...limiter, ...loading }] : [];
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
