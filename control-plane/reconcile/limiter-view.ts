/** Joins the reports of all replicas about their limiters with the expectations of fleets. */

import { noCapabilities } from '../../rules/language/capabilities.ts';
import type { Endpoint, FleetExpectation } from '../model/config-object.ts';
import {
  type LimiterReport,
  limiterIdentity,
  type RejectedResource,
  type ReplicaReport,
  type SnapshotNack,
  versionOfNothing,
} from '../model/fleet-snapshot.ts';
import { defaultGraceSeconds } from '../model/object-models.ts';
import {
  type AbsentLimiter,
  type ConnectedLimiter,
  type FleetLimiters,
  FleetRollout,
  type VersionLedger,
} from './fleet-rollout.ts';

/** The state of a limiter that is remembered while it is connected. */
interface LastKnown {
  report: LimiterReport;
  /** The newest snapshot that it accepted, as far as its version was known. */
  accepted: number;
  /** The number of the version that it reports. Undefined if the version is unknown. */
  reported: number | undefined;
  /** Undefined if `reported` is certain. */
  doubt: ReportDoubt | undefined;
  /** The time since which it claims an unknown version. */
  unknownSinceMs: number | undefined;
  /** The time since which it rejects snapshots. */
  rejectsSinceMs: number | undefined;
  hasAnswered: boolean;
}

/**
 * A version returned after the limiter's replica had reported it. The replica may have sent the version in between, and then have
 * stopped before it could report that. Its next report or its next signs of life show that it did not.
 */
interface ReportDoubt {
  /** The last sign of life of the replica. */
  sign: number;
  signsLeft: number;
}

/** Chosen: a replica reports within 250 ms, and renews its Lease object less often. The first sign may have been on its way. */
const signsUntilCertain = 2;

/** A limiter that has answered and is no longer connected. */
interface Gone extends AbsentLimiter {
  report: LimiterReport;
  known: LastKnown;
}

/** The expectation for a fleet without an object. */
const defaultExpectation: FleetExpectation = {
  count: undefined,
  endpoints: undefined,
  graceMs: defaultGraceSeconds * 1_000,
  ignoresDisconnected: false,
};

const emptyFleet = new FleetRollout({
  connected: [],
  absent: [],
  coming: [],
  isShort: false,
  mayBeMore: false,
});

/**
 * Chosen: longer than limiters wait by default before they open a lost stream again. It is the time that a limiter may take for its first
 * answer, and that a new leader waits for the limiters of its predecessor. During this time, an unknown version counts as one that
 * another replica serves a moment earlier; after it, the version means nothing.
 */
export const reconnectGraceMs = 15_000;
/** Chosen: a limiter is connected before its pod is ready, and its report arrives within a second. */
const readyPatienceMs = 1_000;
/**
 * Chosen: replicas decide a moment apart, so a limiter may accept a version that is not known here yet. After this time, a limiter with an
 * unknown version has other rules in force, even if it has just connected.
 */
const unknownPatienceMs = 1_000;

/** The known state of limiters at one time. */
interface ViewParts {
  /** The last known states of connected limiters, by instance, or by id without an instance. */
  readonly lastKnown: ReadonlyMap<string, LastKnown>;
  /** Limiters that left, by instance, or by id without an instance. */
  readonly gone: ReadonlyMap<string, Gone>;
  /**
   * Times of joining by `limiterIdentity`, so that a limiter that reconnects repeatedly without a response counts as having
   * joined once.
   */
  readonly joinedMs: ReadonlyMap<string, number>;
  /** Times of readiness by fleet and key of an endpoint. */
  readonly readyMs: ReadonlyMap<string, number>;
  readonly fleets: ReadonlyMap<string, FleetRollout>;
  /** The time of the first look. Undefined before it. */
  readonly sinceMs: number | undefined;
  /** The time at which something changes without news. Infinity if nothing does. */
  readonly dueMs: number;
  /** The facts of the last look. Undefined before it, and while signs of life matter. */
  readonly facts: LimiterFacts | undefined;
}

/** The facts that one look at the limiters uses. */
export interface LimiterFacts {
  /** The reports of living replicas. */
  living: readonly ReplicaReport[];
  /** Expectations by fleet. */
  expectations?: ReadonlyMap<string, FleetExpectation> | undefined;
  /** The ledger that numbers the versions for these limiters. */
  ledger: VersionLedger;
  nowMs: number;
}

/** The limiters of all living replicas. A limiter counts once, regardless of where it is connected. Immutable. */
export class LimiterView {
  readonly #parts: ViewParts;

  private constructor(parts: ViewParts) {
    this.#parts = parts;
  }

  static readonly empty = new LimiterView({
    lastKnown: new Map(),
    gone: new Map(),
    joinedMs: new Map(),
    readyMs: new Map(),
    fleets: new Map(),
    sinceMs: undefined,
    dueMs: Number.POSITIVE_INFINITY,
    facts: undefined,
  });

  /** The time at which the view changes without news, so that the owner must look again. Infinity if it does not. */
  get dueMs(): number {
    return this.#parts.dueMs;
  }

  /**
   * Returns the next view. Call it when a report or an expectation has changed, and when the ledger has a new decision, because more
   * versions may then be known.
   */
  with(facts: LimiterFacts): LimiterView {
    if (facts.nowMs < this.dueMs && hasOnlySigns(facts, this.#parts.facts)) return this;
    return new LimiterView(new LimiterLook(this.#parts, facts).parts());
  }

  /** Returns the limiters of a fleet to which none is connected. */
  fleet(name: string): FleetRollout {
    return this.#parts.fleets.get(name) ?? emptyFleet;
  }
}

/** Returns whether nothing is news except signs of life. */
function hasOnlySigns(next: LimiterFacts, last: LimiterFacts | undefined): boolean {
  return (
    next.ledger === last?.ledger &&
    next.expectations === last.expectations &&
    next.living.length === last.living.length &&
    next.living.every(({ limiters }, index) => limiters === last.living[index]!.limiters)
  );
}

/** One look: turns the previous view and new facts into the next view. */
class LimiterLook {
  readonly #before: ViewParts;
  readonly #facts: LimiterFacts;
  readonly #sinceMs: number;
  readonly #gone: Map<string, Gone>;
  #lastKnown: ReadonlyMap<string, LastKnown>;
  #joinedMs: ReadonlyMap<string, number>;
  readonly #readyMs = new Map<string, number>();
  /** The last signs of life of other replicas, by the reports of their limiters. */
  readonly #signs: ReadonlyMap<LimiterReport, number>;
  #dueMs = Number.POSITIVE_INFINITY;

  constructor(before: ViewParts, facts: LimiterFacts) {
    this.#before = before;
    this.#facts = facts;
    this.#sinceMs = before.sinceMs ?? facts.nowMs;
    this.#gone = new Map(before.gone);
    this.#lastKnown = before.lastKnown;
    this.#joinedMs = before.joinedMs;
    this.#signs = new Map(
      facts.living.flatMap(({ limiters, sign }) =>
        sign === undefined ? [] : limiters.map((report) => [report, sign] as const),
      ),
    );
  }

  parts(): ViewParts {
    const { expectations = new Map<string, FleetExpectation>() } = this.#facts;
    const connected = this.#connected();
    const fleets = new Map<string, FleetRollout>();
    const reports = [...this.#lastKnown.values()].map(({ report }) => report);
    const present = Map.groupBy(reports, (report) => report.fleet);
    const gone = Map.groupBy(this.#gone, ([, { report }]) => report.fleet);
    for (const fleet of new Set([...connected.keys(), ...expectations.keys()])) {
      const states = connected.get(fleet) ?? [];
      const expectation = expectations.get(fleet) ?? defaultExpectation;
      const seen = { present: present.get(fleet) ?? [], gone: gone.get(fleet) ?? [] };
      const limiters = this.#limiters(fleet, { ...seen, states, expectation });
      const former = this.#before.fleets.get(fleet);
      fleets.set(fleet, former?.isOf(limiters) ? former : new FleetRollout(limiters, former));
    }
    // A fleet without an object and without connected limiters has no limiters until one returns.
    for (const [identity, { report, sinceMs }] of this.#gone) {
      const isForgotten = !fleets.has(report.fleet) && !this.#isBefore(sinceMs + defaultExpectation.graceMs);
      if (isForgotten) this.#gone.delete(identity);
    }
    return {
      lastKnown: this.#lastKnown,
      gone: this.#gone,
      joinedMs: this.#joinedMs,
      readyMs: this.#readyMs,
      fleets,
      sinceMs: this.#sinceMs,
      dueMs: this.#dueMs,
      facts: [...this.#lastKnown.values()].some(({ doubt }) => doubt) ? undefined : this.#facts,
    };
  }

  /** Returns connected limiters by fleet. Limiters that were connected before, but are not now, count as gone from now on. */
  #connected(): Map<string, ConnectedLimiter[]> {
    const { living, nowMs } = this.#facts;
    const lastKnown = new Map<string, LastKnown>();
    const joinedMs = new Map<string, number>();
    const states = new Map<string, ConnectedLimiter[]>();
    const streams = newestStreams(living);
    let left: ReadonlyMap<string, LastKnown> | undefined;
    for (const [identity, report] of streams) {
      const joiner = limiterIdentity(report);
      const sinceMs = this.#joinedMs.get(joiner) ?? nowMs;
      joinedMs.set(joiner, sinceMs);
      let last = this.#lastKnown.get(identity) ?? this.#gone.get(identity)?.known;
      // Without an instance, a limiter has another identity for each stream, and does not report its version. Its former stream may remain in
      // the report of a dead replica for a while.
      if (report.instance === undefined && last?.hasAnswered !== true) {
        left ??= this.#leftBehind(streams);
        last = left.get(joiner) ?? last;
      }
      const known = this.#known(report, last);
      lastKnown.set(identity, known);
      const list = states.get(report.fleet) ?? [];
      list.push(this.#state(known, sinceMs));
      states.set(report.fleet, list);
    }
    for (const [identity, known] of this.#lastKnown) {
      const { report, accepted, hasAnswered } = known;
      if (lastKnown.has(identity) || !hasAnswered) continue;
      const rejectedNames = new Set((report.refusal && rejectedBy(report.refusal))?.keys());
      const { name, capabilities } = report;
      const left = { accepted, hasNothing: hasNothing(report), sinceMs: nowMs, rejected: rejectedNames };
      this.#gone.set(identity, { report, known, name, capabilities, ...left });
    }
    for (const identity of lastKnown.keys()) this.#gone.delete(identity);
    this.#lastKnown = lastKnown;
    this.#joinedMs = joinedMs;
    return states;
  }

  /**
   * Returns, by `limiterIdentity`, the versions of limiters that have none of these streams, because they are gone or between two
   * streams.
   */
  #leftBehind(streams: ReadonlyMap<string, LimiterReport>): Map<string, LastKnown> {
    const gone = [...this.#gone.values()].map(({ known }) => known).reverse();
    const replaced = [...this.#lastKnown].flatMap(([id, known]) => (streams.has(id) ? [] : [known]));
    return new Map([...gone, ...replaced].map((known) => [limiterIdentity(known.report), known]));
  }

  #known(report: LimiterReport, last: LastKnown | undefined): LastKnown {
    const { nowMs } = this.#facts;
    const { fleet, refusal: rejection } = report;
    const acceptedVersion = versionInForce(report);
    const before = last?.report.fleet === fleet ? last : undefined;
    const number = this.#inForce(report);
    const isUnknown = acceptedVersion !== undefined && number === undefined;
    const unknownSinceMs = isUnknown ? (before?.unknownSinceMs ?? nowMs) : undefined;
    const keeps = unknownSinceMs === undefined || this.#isBefore(unknownSinceMs + reconnectGraceMs);
    const doubt = this.#doubt(report, number, before);
    const accepted = (doubt ? before?.accepted : number) ?? (keeps ? (before?.accepted ?? 0) : 0);
    return {
      report,
      accepted,
      reported: number,
      doubt,
      unknownSinceMs,
      rejectsSinceMs: rejection === undefined ? undefined : (before?.rejectsSinceMs ?? nowMs),
      hasAnswered: accepted > 0 || rejection !== undefined || before?.hasAnswered === true,
    };
  }

  /**
   * Returns the number of the version that the limiter certainly has in force. A version that returns has a new number, and was not sent
   * yet to limiters that received another version in between. They may have that version in force, or a part of it.
   */
  #inForce(report: LimiterReport): number | undefined {
    const { sentVersion, refusal: rejection } = report;
    const number = this.#numberOf(report, versionInForce(report));
    if (number === undefined) return undefined;
    const since = [sentVersion, rejection?.version].map(
      (version) => this.#numberOf(report, version) ?? number,
    );
    return Math.min(number, ...since);
  }

  /** The report of another replica that was not published again after the version returned is older than the return. */
  #doubt(
    report: LimiterReport,
    number: number | undefined,
    before: LastKnown | undefined,
  ): ReportDoubt | undefined {
    const sign = this.#signs.get(report);
    const { reported, doubt } = before ?? {};
    if (before?.report !== report || sign === undefined || number === undefined || reported === undefined)
      return undefined;
    if (number > reported) return { sign, signsLeft: signsUntilCertain };
    if (doubt === undefined || doubt.sign === sign) return doubt;
    return doubt.signsLeft === 1 ? undefined : { sign, signsLeft: doubt.signsLeft - 1 };
  }

  #state(
    { report, accepted, rejectsSinceMs = 0, unknownSinceMs, hasAnswered }: LastKnown,
    sinceMs: number,
  ): ConnectedLimiter {
    const hasUnknown = unknownSinceMs !== undefined && !hasNothing(report);
    const joinedMs = hasUnknown ? unknownSinceMs + unknownPatienceMs : sinceMs + reconnectGraceMs;
    const { name, isWeir, capabilities, refusal: rejection } = report;
    const number = this.#numberOf(report, rejection?.version);
    return {
      name,
      isWeir,
      sinceMs,
      accepted,
      hasNothing: hasNothing(report),
      capabilities,
      rejection:
        rejection === undefined || number === undefined
          ? undefined
          : { number, message: rejection.message, sinceMs: rejectsSinceMs, resources: rejectedBy(rejection) },
      isJoining: !hasAnswered && this.#isBefore(joinedMs),
    };
  }

  #limiters(
    fleet: string,
    {
      present,
      gone: goneBefore,
      states,
      expectation,
    }: {
      present: readonly LimiterReport[];
      gone: readonly [string, Gone][];
      states: readonly ConnectedLimiter[];
      expectation: FleetExpectation;
    },
  ): FleetLimiters {
    const { endpoints, count, ignoresDisconnected } = expectation;
    const gone = this.#stillGone(goneBefore, present);
    const absent: AbsentLimiter[] = [];
    const coming: string[] = [];
    if (endpoints === undefined) {
      const graceMs = ignoresDisconnected ? 0 : expectation.graceMs;
      for (const [identity, one] of gone) {
        if (this.#isBefore(one.sinceMs + graceMs)) absent.push(absentPart(one));
        else this.#gone.delete(identity);
      }
    } else {
      const there = new EndpointNames(present);
      const byReport = new Map([...gone.values()].map((one) => [one.report, one]));
      const left = new EndpointNames([...byReport.keys()]);
      for (const endpoint of endpoints) {
        const place = placeOf(fleet, endpoint);
        if (endpoint.isReady) this.#readyMs.set(place, this.#before.readyMs.get(place) ?? this.#facts.nowMs);
        if (endpoint.isTerminating || there.find(endpoint) !== undefined) continue;
        const report = left.find(endpoint);
        const before = report && byReport.get(report);
        const found = this.#absentAt(endpoint, { fleet, before, graceMs: expectation.graceMs });
        if (found === 'coming') coming.push(endpoint.name);
        else if (found !== undefined && !ignoresDisconnected) absent.push(found);
      }
      const isThere = endpointFinder(endpoints);
      for (const [identity, { report }] of gone) if (!isThere(report)) this.#gone.delete(identity);
    }
    const isShort = !ignoresDisconnected && states.length + absent.length < (count ?? 0);
    const isSeen = endpoints === undefined && count === undefined && !ignoresDisconnected;
    const mayBeMore = isSeen && this.#isBefore(this.#sinceMs + reconnectGraceMs);
    return { connected: states, absent, coming, isShort, mayBeMore };
  }

  /** A limiter that returned is not gone. It may return over another stream, or as a restarted container under the pod's name. */
  #stillGone(before: readonly [string, Gone][], present: readonly LimiterReport[]): Map<string, Gone> {
    const names = new Set(present.filter(({ instance }) => instance !== undefined).map(({ name }) => name));
    const identities = new Set(present.map(limiterIdentity));
    const gone = new Map<string, Gone>();
    for (const [identity, one] of before) {
      const isBack =
        one.report.instance === undefined ? identities.has(limiterIdentity(one.report)) : names.has(one.name);
      if (isBack) this.#gone.delete(identity);
      else gone.set(identity, one);
    }
    return gone;
  }

  /** Returns the limiter at an endpoint without a connection. Undefined if no limiter is expected there. */
  #absentAt(
    endpoint: Endpoint,
    { fleet, before, graceMs }: { fleet: string; before: Gone | undefined; graceMs: number },
  ): AbsentLimiter | 'coming' | undefined {
    const { name, isReady } = endpoint;
    if (!isReady) {
      if (before === undefined) return 'coming';
      return this.#isBefore(before.sinceMs + graceMs) ? absentPart(before) : undefined;
    }
    const sinceMs = this.#readyMs.get(placeOf(fleet, endpoint)) ?? this.#facts.nowMs;
    // If the endpoint became ready after the limiter left, the process may be a new one, with other rules.
    const isSame = before !== undefined && sinceMs <= before.sinceMs;
    if (!isSame && !this.#isBefore(sinceMs + readyPatienceMs))
      return {
        name,
        sinceMs,
        accepted: 0,
        hasNothing: false,
        capabilities: noCapabilities,
        rejected: new Set(),
      };
    return before === undefined ? 'coming' : absentPart(before);
  }

  #isBefore(untilMs: number): boolean {
    if (this.#facts.nowMs >= untilMs) return false;
    this.#dueMs = Math.min(this.#dueMs, untilMs);
    return true;
  }

  #numberOf({ fleet, capabilities }: LimiterReport, version: string | undefined): number | undefined {
    return this.#facts.ledger.numberOf(fleet, version, capabilities);
  }
}

function placeOf(fleet: string, { key }: Endpoint): string {
  return JSON.stringify([fleet, key]);
}

function absentPart({ report: _, known: __, ...limiter }: Gone): AbsentLimiter {
  return limiter;
}

/**
 * Returns whether the limiter has no rules. Weir's limiters report their version when they connect; for others without a version,
 * it is unknown.
 */
function hasNothing(report: LimiterReport): boolean {
  const version = versionInForce(report);
  return version === versionOfNothing || (version === undefined && report.isWeir);
}

/** Returns the version in force. If a limiter rejected a part of a snapshot, the rest is in force. */
function versionInForce({ acceptedVersion, refusal: rejection }: LimiterReport): string | undefined {
  return rejection?.resources === undefined ? acceptedVersion : rejection.version;
}

/** Returns reasons by names. */
function rejectedBy({ resources }: SnapshotNack): ReadonlyMap<string, string> | undefined {
  if (resources === undefined) return undefined;
  const found = rejectedOf.get(resources) ?? new Map(resources.map(({ name, message }) => [name, message]));
  rejectedOf.set(resources, found);
  return found;
}

/** Reasons by list. Limiters of a report with equal rejections share a list. */
const rejectedOf = new WeakMap<readonly RejectedResource[], ReadonlyMap<string, string>>();

/**
 * Returns whether the limiter runs at the endpoint: by the pod's uid, which the API server confirms, or else by name and address
 * together.
 */
function isAt({ podUid, name, address }: LimiterReport, endpoint: Endpoint): boolean {
  if (podUid !== undefined && endpoint.podUid !== undefined) return podUid === endpoint.podUid;
  return address !== undefined && name === endpoint.name && endpoint.addresses.includes(address);
}

/** Returns whether a limiter runs at one of these endpoints. */
function endpointFinder(endpoints: readonly Endpoint[]): (report: LimiterReport) => boolean {
  const uids = new Set(endpoints.map(({ podUid }) => podUid));
  const byName = Map.groupBy(endpoints, ({ name }) => name);
  return (report) => {
    if (report.podUid !== undefined && uids.has(report.podUid)) return true;
    return byName.get(report.name)?.some((endpoint) => isAt(report, endpoint)) ?? false;
  };
}

/** Names of limiters by the properties that `isAt` compares. */
class EndpointNames {
  readonly #byUid = new Map<string, LimiterReport>();
  readonly #byName = new Map<string, LimiterReport[]>();

  constructor(reports: readonly LimiterReport[]) {
    for (const report of reports) {
      if (report.podUid !== undefined) this.#byUid.set(report.podUid, report);
      const same = this.#byName.get(report.name);
      if (same === undefined) this.#byName.set(report.name, [report]);
      else same.push(report);
    }
  }

  find(endpoint: Endpoint): LimiterReport | undefined {
    const { podUid, name } = endpoint;
    const byUid = podUid === undefined ? undefined : this.#byUid.get(podUid);
    return byUid ?? this.#byName.get(name)?.find((report) => isAt(report, endpoint));
  }
}

/** A limiter that moved may still be in the report of the replica that it left. Its newest stream counts. */
function newestStreams(living: readonly ReplicaReport[]): Map<string, LimiterReport> {
  const newest = new Map<string, LimiterReport>();
  for (const { limiters } of living) {
    for (const limiter of limiters) {
      const identity = streamIdentity(limiter);
      const other = newest.get(identity);
      if (other === undefined || isNewer(limiter, other)) newest.set(identity, limiter);
    }
  }
  return newest;
}

/**
 * Identifies the limiter of a stream. A client chooses its instance itself. A client that claims the instance of another limiter,
 * for another fleet, from another address or with the token of another pod, counts as one more limiter, and does not replace the
 * other. Instances and ids have different origins, so the letter separates them.
 */
function streamIdentity({ id, instance, fleet, podUid, address }: LimiterReport): string {
  return instance === undefined
    ? `s ${id}`
    : `i ${JSON.stringify([instance, fleet, podUid ?? ['at', address]])}`;
}

function isNewer(a: LimiterReport, b: LimiterReport): boolean {
  return a.connectedMs === b.connectedMs ? a.id > b.id : a.connectedMs > b.connectedMs;
}
