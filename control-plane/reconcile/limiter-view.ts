/** Joins the reports of all replicas about their limiters with the expectations of fleets. */

import { noCapabilities } from '../../rules/language/capabilities.ts';
import type { Endpoint, FleetExpectation } from '../model/config-object.ts';
import {
  hasNothing,
  isNewerStream,
  type LimiterReport,
  limiterIdentity,
  type RejectedResource,
  type ReplicaReport,
  type SnapshotNack,
  streamIdentity,
  versionInForce,
  versionOfNothing,
} from '../model/fleet-snapshot.ts';
import { defaultGraceSeconds } from '../model/object-models.ts';
import { type FleetLimiter, type FleetLimiters, FleetRollout, type VersionLedger } from './fleet-rollout.ts';

/** A limiter that is connected, or that may have rules in force although it left. */
interface SeenLimiter {
  /** See `streamIdentity`. */
  identity: string;
  /** Its newest report. */
  report: LimiterReport;
  /** The time since which it is connected, over all its streams. */
  joinedMs: number;
  /** The time since which it is not connected. Undefined while it is. */
  goneMs: number | undefined;
  /** The newest snapshot that it accepted, as far as its version was known. */
  accepted: number;
  /** See `FleetLimiter`. */
  claimed: number;
  /** The time since which it claims an unknown version. */
  unknownSinceMs: number | undefined;
  /** The last rejection that still applies. */
  rejection: SnapshotNack | undefined;
  /** The time since which it rejects snapshots. */
  rejectsSinceMs: number | undefined;
  hasAnswered: boolean;
  /** See `FleetLimiter`. */
  loading: FleetLimiter['loading'];
  /** The ids of streams that it has left and that a replica still reports, and the times until which they do not count. */
  former: ReadonlyMap<string, number>;
}

interface GoneLimiter extends SeenLimiter {
  goneMs: number;
}

/** The expectation for a fleet without an object. */
const defaultExpectation: FleetExpectation = {
  count: undefined,
  endpoints: undefined,
  graceMs: defaultGraceSeconds * 1_000,
  ignoresDisconnected: false,
};

const noStreams: ReadonlyMap<string, number> = new Map();

const emptyFleet = new FleetRollout({ limiters: [], coming: [], isShort: false, mayBeMore: false });

/**
 * Chosen: longer than limiters wait by default before they open a lost stream again. It is the time that a limiter may take for its first
 * answer, and that a new leader waits for the limiters of its predecessor. During this time, an unknown version counts as one that
 * another replica serves a moment earlier; after it, the version means nothing.
 */
export const reconnectGraceMs = 15_000;
/** Chosen: a limiter is connected before its pod is ready, and its report arrives within a second. */
const readyPatienceMs = 1_000;
/** Chosen: another replica has reported by then that a limiter left it, even after one failure. */
const leftPatienceMs = 2_000;
/**
 * Chosen: replicas decide a moment apart, so a limiter may accept a version that is not known here yet. After this time, a limiter with an
 * unknown version has other rules in force, even if it has just connected.
 */
const unknownPatienceMs = 1_000;

/** The known state of limiters at one time. */
interface ViewParts {
  /** Limiters by identity: those that are connected, and then the others, which left in this order. */
  readonly seen: ReadonlyMap<string, SeenLimiter>;
  /** Times of readiness by fleet and key of an endpoint. */
  readonly readyMs: ReadonlyMap<string, number>;
  readonly fleets: ReadonlyMap<string, FleetRollout>;
  /** The time of the first look. Undefined before it. */
  readonly sinceMs: number | undefined;
  /** The time at which something changes without news. Infinity if nothing does. */
  readonly dueMs: number;
  /** The facts of the last look. Undefined before it, and while a replica has to decide more before what it reports is certain. */
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
    seen: new Map(),
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
    if (facts.nowMs < this.dueMs && haveOnlyDecided(facts, this.#parts.facts)) return this;
    return new LimiterView(new LimiterLook(this.#parts, facts).parts());
  }

  /** Returns the limiters of a fleet to which none is connected. */
  fleet(name: string): FleetRollout {
    return this.#parts.fleets.get(name) ?? emptyFleet;
  }
}

/** Returns whether nothing is news except that replicas have decided more. */
function haveOnlyDecided(next: LimiterFacts, last: LimiterFacts | undefined): boolean {
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
  readonly #readyMs = new Map<string, number>();
  /** The numbers up to which reports of other replicas are certain, by report: see `VersionLedger.decidedAt`. */
  readonly #certain: ReadonlyMap<LimiterReport, number>;
  /** Limiters of the last look that have none of these streams, because they are gone or between two streams. */
  #leftBehind: ReadonlyMap<string, SeenLimiter> | undefined;
  #wereConnected: ReadonlyMap<string, SeenLimiter> | undefined;
  /** The ids of all reported streams. */
  #streamIds: ReadonlySet<string> | undefined;
  #dueMs = Number.POSITIVE_INFINITY;

  constructor(before: ViewParts, facts: LimiterFacts) {
    this.#before = before;
    this.#facts = facts;
    this.#sinceMs = before.sinceMs ?? facts.nowMs;
    this.#certain = new Map(
      facts.living.flatMap(({ limiters, decided }) => {
        if (decided === undefined) return [];
        const number = facts.ledger.decidedAt(decided);
        return limiters.map((report) => [report, number] as const);
      }),
    );
  }

  parts(): ViewParts {
    const { expectations = new Map<string, FleetExpectation>() } = this.#facts;
    const connected = this.#connected();
    const here = Map.groupBy(connected.values(), fleetOf);
    const gone = Map.groupBy(this.#gone(connected), fleetOf);
    const seen = new Map(connected);
    const fleets = new Map<string, FleetRollout>();
    for (const fleet of new Set([...here.keys(), ...gone.keys(), ...expectations.keys()])) {
      const expectation = expectations.get(fleet) ?? defaultExpectation;
      const present = here.get(fleet) ?? [];
      const left = stillGone(gone.get(fleet) ?? [], present);
      const { limiters, remembered } = this.#limiters(fleet, expectation, { present, left });
      for (const one of remembered) seen.set(one.identity, one);
      // A fleet without an object and without connected limiters has no limiters until one returns.
      if (present.length === 0 && !expectations.has(fleet)) continue;
      const former = this.#before.fleets.get(fleet);
      fleets.set(fleet, former?.isOf(limiters) ? former : new FleetRollout(limiters, former));
    }
    const isUncertain = [...connected.values()].some(({ claimed, accepted }) => claimed > accepted);
    return {
      seen,
      readyMs: this.#readyMs,
      fleets,
      sinceMs: this.#sinceMs,
      dueMs: this.#dueMs,
      facts: isUncertain ? undefined : this.#facts,
    };
  }

  #connected(): Map<string, SeenLimiter> {
    const streams = this.#newestStreams();
    const connected = new Map<string, SeenLimiter>();
    for (const [identity, report] of streams) {
      let last = this.#before.seen.get(identity);
      // Without an instance, a limiter has another identity for each stream, and does not report its version. Its former stream may remain in
      // the report of a dead replica for a while.
      if (report.instance === undefined && last?.hasAnswered !== true) {
        this.#leftBehind ??= this.#byLimiter((one) => !streams.has(one.identity));
        last = this.#leftBehind.get(limiterIdentity(report)) ?? last;
      }
      connected.set(identity, this.#seen(identity, report, last));
    }
    return connected;
  }

  /**
   * A limiter that moved may still be in the report of the replica that it left, if that replica is cut off. Its newest stream counts. A
   * stream that it left does not count for a while. By then, a replica that is cut off counts as dead. If the stream is still reported, the
   * clocks of the replicas differ, and it is the open one.
   */
  #newestStreams(): Map<string, LimiterReport> {
    const newest = new Map<string, LimiterReport>();
    for (const { limiters, decided } of this.#facts.living) {
      for (const limiter of limiters) {
        const identity = streamIdentity(limiter);
        const leftUntilMs = decided && this.#before.seen.get(identity)?.former.get(limiter.id);
        if (leftUntilMs !== undefined && this.#isBefore(leftUntilMs)) continue;
        const other = newest.get(identity);
        if (other === undefined || isNewerStream(limiter, other)) newest.set(identity, limiter);
      }
    }
    return newest;
  }

  /** Returns limiters that are not connected, in the order in which they left. */
  #gone(connected: ReadonlyMap<string, SeenLimiter>): GoneLimiter[] {
    return [...this.#before.seen.values()]
      .filter(
        (one) =>
          (one.hasAnswered || one.loading !== undefined || unknownRulesSinceMs(one) !== undefined) &&
          !connected.has(one.identity),
      )
      .map((one) => ({ ...one, goneMs: one.goneMs ?? this.#facts.nowMs }))
      .sort((a, b) => a.goneMs - b.goneMs);
  }

  /** Returns some limiters of the last look by `limiterIdentity`: of several, a connected one, or the one that left first. */
  #byLimiter(isChosen: (one: SeenLimiter) => boolean): ReadonlyMap<string, SeenLimiter> {
    const chosen = [...this.#before.seen.values()].filter(isChosen).reverse();
    return new Map(chosen.map((one) => [limiterIdentity(one.report), one]));
  }

  /** A limiter that reconnects repeatedly without a response counts as having joined once. */
  #joinedMs(report: LimiterReport, last: SeenLimiter | undefined): number {
    if (last !== undefined && last.goneMs === undefined) return last.joinedMs;
    this.#wereConnected ??= this.#byLimiter(({ goneMs }) => goneMs === undefined);
    return this.#wereConnected.get(limiterIdentity(report))?.joinedMs ?? this.#facts.nowMs;
  }

  #seen(identity: string, report: LimiterReport, last: SeenLimiter | undefined): SeenLimiter {
    const { nowMs } = this.#facts;
    const number = this.#inForce(report, last);
    const version = versionInForce(report) ?? report.sentVersion;
    const isUnknown = version !== undefined && this.#numberOf(report, version) === undefined;
    const unknownSinceMs = isUnknown ? (last?.unknownSinceMs ?? nowMs) : undefined;
    const keeps = unknownSinceMs === undefined || this.#isBefore(unknownSinceMs + reconnectGraceMs);
    // Without an answer, what it was sent over this stream may be in force, and may be older.
    const sent = this.#numberOf(report, report.sentVersion) ?? Number.POSITIVE_INFINITY;
    const claimed = number ?? (keeps ? Math.min(last?.accepted ?? 0, sent) : 0);
    // A limiter that rejected a part of a snapshot does not have that part after it has connected again.
    const rejection = report.refusal ?? (number === undefined && keeps ? last?.rejection : undefined);
    // It answers requests without limits once it has accepted that there are no rules.
    const hasVersion = number !== undefined || claimed > 0 || report.acceptedVersion === versionOfNothing;
    const hasAnswered = hasVersion || rejection !== undefined || last?.hasAnswered === true;
    return {
      identity,
      report,
      joinedMs: this.#joinedMs(report, last),
      goneMs: undefined,
      ...this.#confirmed(report, claimed),
      unknownSinceMs,
      rejection,
      rejectsSinceMs: rejection === undefined ? undefined : (last?.rejectsSinceMs ?? nowMs),
      hasAnswered,
      loading: hasAnswered ? undefined : this.#loading(report, last, unknownSinceMs),
      former: last === undefined ? noStreams : this.#former(report, last),
    };
  }

  #former(report: LimiterReport, { report: before, former }: SeenLimiter): SeenLimiter['former'] {
    const hasMoved = before.id !== report.id && isNewerStream(report, before);
    if (!hasMoved && former.size === 0) return former;
    this.#streamIds ??= new Set(this.#facts.living.flatMap(({ limiters }) => limiters.map(({ id }) => id)));
    const next = new Map(former);
    if (hasMoved) next.set(before.id, this.#facts.nowMs + reconnectGraceMs);
    for (const id of next.keys()) if (!this.#streamIds.has(id)) next.delete(id);
    return next;
  }

  /**
   * Returns the numbers of the first snapshot that the limiter was sent. Without its answer, the snapshot may be in force. An unknown one
   * may be so, too: the ledger forgets the versions of a fleet that gets no rules any more.
   */
  #loading(
    report: LimiterReport,
    last: SeenLimiter | undefined,
    unknownSinceMs: number | undefined,
  ): FleetLimiter['loading'] {
    const { sentVersion } = report;
    if (sentVersion === undefined) return undefined;
    const claimed = this.#numberOf(report, sentVersion);
    if (claimed !== undefined) return this.#confirmed(report, claimed);
    if (last?.loading !== undefined || unknownSinceMs === undefined) return last?.loading;
    const mayBeKnownSoon =
      sentVersion !== versionOfNothing && this.#isBefore(unknownSinceMs + unknownPatienceMs);
    return mayBeKnownSoon ? undefined : { claimed: 0, accepted: 0 };
  }

  /** A claimed number counts only as far as the replica of the report has decided. */
  #confirmed(report: LimiterReport, claimed: number): Pick<SeenLimiter, 'accepted' | 'claimed'> {
    return { claimed, accepted: Math.min(claimed, this.#certain.get(report) ?? claimed) };
  }

  /**
   * Returns the number of the version that the limiter has in force according to its replica. A version that returns has a new number, and
   * was not sent yet to limiters that received another version in between. They may have that version in force, or a part of it. If this
   * process never served the version in between, the limiter has at least what it had before.
   */
  #inForce(report: LimiterReport, last: SeenLimiter | undefined): number | undefined {
    const { sentVersion, refusal: rejection } = report;
    const number = this.#numberOf(report, versionInForce(report));
    if (number === undefined) return undefined;
    const sent = sentVersion === undefined ? number : (this.#numberOf(report, sentVersion) ?? last?.accepted);
    return Math.min(number, sent ?? 0, this.#numberOf(report, rejection?.version) ?? number);
  }

  #state(seen: SeenLimiter): FleetLimiter {
    const { report, joinedMs, goneMs, accepted, claimed, rejection, rejectsSinceMs = 0 } = seen;
    const unknownMs = unknownRulesSinceMs(seen);
    const answersUntilMs =
      unknownMs === undefined ? joinedMs + reconnectGraceMs : unknownMs + unknownPatienceMs;
    const isJoining = goneMs === undefined && !seen.hasAnswered && this.#isBefore(answersUntilMs);
    const { name, isWeir, capabilities } = report;
    const loading = goneMs !== undefined || isJoining ? seen.loading : undefined;
    return {
      name,
      isWeir,
      state: goneMs !== undefined ? 'away' : isJoining ? 'joining' : 'connected',
      sinceMs: goneMs ?? joinedMs,
      ...(goneMs !== undefined && loading !== undefined ? loading : { accepted, claimed }),
      loading,
      hasNothing: loading === undefined && hasNothing(report),
      capabilities,
      rejection: rejection && {
        number: this.#numberOf(report, rejection.version) ?? 0,
        message: rejection.message,
        sinceMs: rejectsSinceMs,
        resources: rejectedBy(rejection),
      },
    };
  }

  /** Returns the limiters of a fleet, and those that are remembered although they are gone. */
  #limiters(
    fleet: string,
    expectation: FleetExpectation,
    { present, left }: { present: readonly SeenLimiter[]; left: readonly GoneLimiter[] },
  ): { limiters: FleetLimiters; remembered: readonly GoneLimiter[] } {
    const { endpoints, count, ignoresDisconnected } = expectation;
    const graceMs = ignoresDisconnected ? 0 : expectation.graceMs;
    const endpointOf = endpoints && endpointFinder(endpoints);
    // The Service says whether a limiter without an answer has rules, because such a limiter is ready.
    const remembered = left.filter((one) =>
      endpointOf
        ? one.hasAnswered && endpointOf(one.report) !== undefined
        : this.#isBefore(one.goneMs + graceMs),
    );
    const limiters = [...present, ...(endpointOf ? [] : remembered)].map((one) => this.#state(one));
    const coming: string[] = [];
    const there = new Set(present.map(({ report }) => endpointOf?.(report)));
    const before = new Map(remembered.map((one) => [endpointOf?.(one.report), one]));
    for (const endpoint of endpoints ?? []) {
      const { name, isReady, isTerminating } = endpoint;
      const place = JSON.stringify([fleet, endpoint.key]);
      const readyMs = isReady ? (this.#before.readyMs.get(place) ?? this.#facts.nowMs) : undefined;
      if (readyMs !== undefined) this.#readyMs.set(place, readyMs);
      if (isTerminating || there.has(endpoint)) continue;
      const found = this.#awayAt(name, before.get(endpoint), { readyMs, graceMs: expectation.graceMs });
      if (found === 'coming') coming.push(name);
      else if (found !== undefined && !ignoresDisconnected) limiters.push(found);
    }
    const isShort = !ignoresDisconnected && limiters.length < (count ?? 0);
    const isSeen = endpoints === undefined && count === undefined && !ignoresDisconnected;
    const mayBeMore = isSeen && this.#isBefore(this.#sinceMs + reconnectGraceMs);
    return { limiters: { limiters, coming, isShort, mayBeMore }, remembered };
  }

  /**
   * Returns the limiter at an endpoint without a connection. Undefined if no limiter is expected there. `before`: the limiter that left
   * it. `readyMs`: undefined if the endpoint is not ready.
   */
  #awayAt(
    name: string,
    before: GoneLimiter | undefined,
    { readyMs, graceMs }: { readyMs: number | undefined; graceMs: number },
  ): FleetLimiter | 'coming' | undefined {
    if (readyMs === undefined) {
      if (before === undefined) return 'coming';
      return this.#isBefore(before.goneMs + graceMs) ? this.#state(before) : undefined;
    }
    // If the endpoint became ready after the limiter left, the process may be a new one, with other rules. The time at which it left is known
    // only roughly. An endpoint that was ready at the first look has been so for an unknown time.
    const isSame = before !== undefined && readyMs <= Math.max(this.#sinceMs, before.goneMs - leftPatienceMs);
    if (isSame || this.#isBefore(readyMs + readyPatienceMs)) return before ? this.#state(before) : 'coming';
    const unknown = {
      accepted: 0,
      claimed: 0,
      hasNothing: false,
      capabilities: noCapabilities,
      rejection: undefined,
    };
    return { name, isWeir: true, state: 'away', sinceMs: readyMs, ...unknown };
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

/** Returns the time since which a limiter reports rules of an unknown version. Undefined if it does not. */
function unknownRulesSinceMs({ report, unknownSinceMs }: SeenLimiter): number | undefined {
  return hasNothing(report) ? undefined : unknownSinceMs;
}

function fleetOf({ report }: SeenLimiter): string {
  return report.fleet;
}

/** A limiter that returned is not gone. It may return over another stream, or as a restarted container under the pod's name. */
function stillGone(gone: readonly GoneLimiter[], present: readonly SeenLimiter[]): readonly GoneLimiter[] {
  if (gone.length === 0) return gone;
  const reports = present.map(({ report }) => report);
  const names = new Set(reports.filter(({ instance }) => instance !== undefined).map(({ name }) => name));
  const limiters = new Set(reports.map(limiterIdentity));
  return gone.filter(({ report }) =>
    report.instance === undefined ? !limiters.has(limiterIdentity(report)) : !names.has(report.name),
  );
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
 * Returns a function that finds the endpoint of a limiter: by the pod's uid, which the API server confirms, or else by name and address
 * together.
 */
function endpointFinder(endpoints: readonly Endpoint[]): (report: LimiterReport) => Endpoint | undefined {
  const byUid = new Map(endpoints.map((endpoint) => [endpoint.podUid, endpoint]));
  const byName = Map.groupBy(endpoints, ({ name }) => name);
  return ({ podUid, name, address }) => {
    const ofPod = podUid === undefined ? undefined : byUid.get(podUid);
    if (ofPod !== undefined || address === undefined) return ofPod;
    return byName.get(name)?.find((endpoint) => {
      const isOtherPod = podUid !== undefined && endpoint.podUid !== undefined;
      return !isOtherPod && endpoint.addresses.includes(address);
    });
  };
}
