/** From objects to what limiters are served: decides anew when objects have changed, and hands the snapshots on. */
import type { Logger } from '../process/log/logger.ts';
import type { Clock, Timers } from '../process/time/clock.ts';
import { Pace } from '../process/time/pacing.ts';
import { kindOf, objectKey } from './model/config-object.ts';
import type { Decision, KeptSpec, Verdict } from './model/decision.ts';
import { noNewerFields } from './model/newer-fields.ts';
import { isEnd } from './model/reasons.ts';
import { type Decider, joinedKept, nextKept, type Policy } from './reconcile/decide.ts';
import type { VersionLedger } from './reconcile/fleet-standing.ts';
import type { ObjectSource } from './source/kubernetes-source.ts';
import type { SchemaStore } from './source/schema-store.ts';
import type { Telemetry } from './telemetry/control-plane-metrics.ts';
import * as lines from './telemetry/log-lines.ts';
import type { LimiterStreams } from './xds/limiter-streams.ts';

export interface DistributionOptions extends Telemetry {
  source: Pick<ObjectSource, 'objects'>;
  decider: Decider;
  /** Undefined while it is not known: nothing is decided before. */
  policy(): Policy | undefined;
  /** See `SchemaStore`; missing: there are no schemas. */
  schemas?: Pick<SchemaStore, 'confirms'> | undefined;
  ledger: VersionLedger;
  xds: Pick<LimiterStreams, 'serve' | 'cutOff'>;
  clock: Clock;
  timers: Timers;
  decided(): void;
}

/** Chosen: changes that come at once are decided at once. */
const gatherMs = 5;
/** Chosen: a storm of changes is decided ten times a second; two changes in a row are no storm, and each is decided at once. */
const intervalMs = 100;
const burst = 3;
/** Chosen: what happened meanwhile comes over a watch that is open again in far less. */
const catchUpMs = 1_000;

/** Timers hold no more than 24 days. */
const longestWaitMs = 86_400_000;

export class Distribution {
  readonly #options: DistributionOptions;
  readonly #pace: Pace;
  #kept: ReadonlyMap<string, KeptSpec> = new Map();
  #stored: ReadonlyMap<string, KeptSpec> = new Map();
  #decision: Decision | undefined;
  #isListed = false;
  #hasKept = false;
  /** When the source told of a change that no limiter was sent yet. */
  #unsentChangeMs: number | undefined;
  #callOffEnd = (): void => {};
  /** Fields that the log has named. */
  readonly #fieldsTold = new Set<string>();
  readonly #cutOffBy = new Set<'watch' | 'lease'>();
  #callOffReturn = (): void => {};
  #isCutOff = false;

  constructor(options: DistributionOptions) {
    const { clock, timers } = options;
    this.#options = options;
    this.#pace = new Pace({ clock, timers, gatherMs, intervalMs, burst, run: () => this.#decide() });
  }

  /** The newest one; undefined before the first complete list. */
  get decision(): Decision | undefined {
    return this.#decision;
  }

  /** By uid: what stays in force should an object's next spec not be accepted. */
  get kept(): ReadonlyMap<string, KeptSpec> {
    return this.#kept;
  }

  /** The first complete list of objects is in. */
  listed(): void {
    this.#isListed = true;
    this.changed();
  }

  changed(): void {
    this.#unsentChangeMs ??= this.#options.clock.monotonicMs();
    this.#ask();
  }

  /** What outlived other processes. Nothing is decided before the first call; what is known here is as new or newer. */
  useKept(stored: ReadonlyMap<string, KeptSpec>): void {
    this.#stored = stored;
    this.#join([...stored]);
    this.#hasKept = true;
    this.#ask();
  }

  /** Who may use what has changed, or is known from now on. */
  policyChanged(): void {
    this.#ask();
  }

  /** Whether the objects may be older than what the place has by now. */
  get isCutOff(): boolean {
    return this.#isCutOff;
  }

  /** See `LimiterStreams.cutOff`; `by` is what tells of it. Objects that are reachable again are the newest after a moment. */
  cutOff(by: 'watch' | 'lease', isCutOff: boolean): void {
    const { xds, timers } = this.#options;
    const tell = (): void => {
      this.#isCutOff = isCutOff;
      xds.cutOff(isCutOff);
    };
    if (isCutOff) {
      this.#cutOffBy.add(by);
      this.#callOffReturn();
      tell();
    } else if (this.#cutOffBy.delete(by) && this.#cutOffBy.size === 0) {
      this.#callOffReturn = timers.after(catchUpMs, () => {
        tell();
        this.#ask();
      });
    }
  }

  /** The first limiter is sent what came of a change. */
  sent(): void {
    if (this.#unsentChangeMs === undefined) return;
    this.#options.metrics.changePushed(this.#options.clock.monotonicMs() - this.#unsentChangeMs);
    this.#unsentChangeMs = undefined;
  }

  close(): void {
    this.#callOffReturn();
    this.#callOffEnd();
    this.#pace.close();
  }

  #ask(): void {
    const isReady = this.#isListed && this.#hasKept && this.#options.policy() !== undefined;
    if (isReady) this.#pace.ask();
  }

  #join(stored: readonly (readonly [uid: string, spec: KeptSpec])[]): void {
    if (stored.length === 0) return;
    const joined = stored.map(([uid, spec]) => [uid, joinedKept(this.#kept.get(uid), spec)] as const);
    this.#kept = new Map([...this.#kept, ...joined]);
  }

  /** Objects may be read later than what is stored of them. A decision that knew the object has forgotten its spec for good. */
  #isBehind(uid: string, generation: number): boolean {
    const known = this.#kept.get(uid);
    return known === undefined ? this.#decision?.verdicts.has(uid) !== true : known.generation < generation;
  }

  #decide(): void {
    const { source, decider, policy, ledger, xds, clock, metrics, log } = this.#options;
    const startMs = clock.monotonicMs();
    const last = this.#decision;
    const nowMs = clock.nowMs();
    this.#join([...this.#stored].filter(([uid, { generation }]) => this.#isBehind(uid, generation)));
    const decision = decider.decide(source.objects(), this.#kept, policy(), nowMs);
    // What newer schemas may say otherwise is not decided: the store asks again.
    const { doubts, ignored } = decision.newerFields ?? noNewerFields;
    if (this.#options.schemas?.confirms(doubts) === false) return;
    this.#awaitEnd(decision, nowMs);
    this.#kept = nextKept(decision, this.#kept);
    this.#decision = decision;
    ledger.observe(decision, nowMs);
    xds.serve(decision.fleets);
    const durationMs = clock.monotonicMs() - startMs;
    const changedFleets = metrics.decided(decision, durationMs);
    // Nothing will be sent because of what changed.
    if (changedFleets === 0) this.#unsentChangeMs = undefined;
    if (last === undefined || changedFleets > 0) {
      const { verdicts, fleets } = decision;
      lines.decided(log, { objects: verdicts.size, fleets: fleets.size, changedFleets, durationMs });
    }
    for (const field of ignored.difference(this.#fieldsTold)) {
      this.#fieldsTold.add(field);
      lines.fieldIgnored(log, field);
    }
    for (const [uid, verdict] of decision.verdicts) tellNews(log, verdict, last?.verdicts.get(uid));
    this.#options.decided();
  }

  /** A timer that is early asks for another one. */
  #awaitEnd({ dueMs }: Decision, nowMs: number): void {
    this.#callOffEnd();
    this.#callOffEnd = () => {};
    if (dueMs === undefined) return;
    const waitMs = Math.min(Math.max(1, Math.ceil(dueMs - nowMs)), longestWaitMs);
    this.#callOffEnd = this.#options.timers.after(waitMs, () => this.#ask());
  }
}

/** Of an object that is turned down, for another reason than before, or accepted again. */
function tellNews(log: Logger, { object, accepted, served }: Verdict, last: Verdict | undefined): void {
  const before = last?.accepted;
  const { generation } = object;
  const { kind } = kindOf(object);
  if (accepted.status) {
    if (before?.status === false) lines.objectAccepted(log, kind, objectKey(object), generation);
    return;
  }
  const { reason, message } = accepted;
  if (before?.status === false && before.message === message) return;
  if (isEnd(reason)) {
    lines.overrideEnded(log, objectKey(object), message);
    return;
  }
  const inForce = served?.generation;
  lines.objectRejected(log, kind, { object: objectKey(object), generation, inForce, reason, message });
}
