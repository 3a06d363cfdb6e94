/**
 * Reports objects whose counters could meet in one key, as Kubernetes events on the younger one, while a limiter of their fleet
 * counts with compatible keys. Only leaders do this. It searches in a thread, so that it blocks nothing, when the served rules of
 * a fleet have changed, and reports each pair of objects once.
 */
import type { ProcessTime } from '../../process/time/clock.ts';
import { Pace } from '../../process/time/pacing.ts';
import { byAge, type ConfigObject, objectKey } from '../model/config-object.ts';
import type { ClusterDecision } from '../model/decision.ts';
import type { FleetSnapshot, ReplicaReport } from '../model/fleet-snapshot.ts';
import { reasons } from '../model/reasons.ts';
import type { EventRecorder, RecordedEvent } from '../replicas/event-recorder.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { shortened } from './conditions.ts';
import { type CollisionSearch, encodedObjects, type ObjectCollision } from './counter-collisions.ts';

export interface CollisionWatchOptions extends Pick<Telemetry, 'log'>, ProcessTime {
  /** See `searchInThread`. */
  search(objects: ReturnType<typeof encodedObjects>): CollisionSearch;
  events: Pick<EventRecorder, 'record'>;
}

/** Chosen: objects and limiters that arrive within this time are reviewed together. */
const gatherMs = 1_000;
/** Chosen: rules that change constantly use a thread at most this often. */
const intervalMs = 30_000;
/** Chosen: two events a second leave the recorder room for those of statuses. */
const reportIntervalMs = 500;
/** Chosen: ten other objects are enough to show the problem of one. */
const maxOfOneObject = 10;
/** Chosen, of pairs: those that wait to be reported, and those that were reported. */
const maxWaiting = 2_000;
const maxReported = 10_000;
const longestKeys = 200;

/** A round of decisions: see `Round`. */
interface DecidedRound {
  decision: ClusterDecision | undefined;
  world: { reports: readonly ReplicaReport[]; leads: boolean };
}

interface Notice {
  pair: string;
  older: ConfigObject;
  event: RecordedEvent;
}

export class CollisionWatch {
  readonly #options: CollisionWatchOptions;
  readonly #pace: Pace;
  /** The snapshot of each fleet at the last review. */
  readonly #looked = new Map<string, FleetSnapshot>();
  /** Reported pairs of uids, the oldest first. They are retained when this process stops leading, so that nothing is reported twice. */
  readonly #reported = new Set<string>();
  readonly #waiting = new Map<string, Notice>();
  readonly #reporting: Pace;
  #round: DecidedRound | undefined;
  #search: CollisionSearch | undefined;

  constructor(options: CollisionWatchOptions) {
    this.#options = options;
    this.#pace = new Pace({ ...options, gatherMs, intervalMs, run: () => void this.#look() });
    const pace = { gatherMs: 0, intervalMs: reportIntervalMs };
    this.#reporting = new Pace({ ...options, ...pace, run: () => this.#reportNext() });
  }

  /** Call it after a decision, when limiters report changes, or when this replica becomes the leader or ends to lead. */
  update(round: DecidedRound): void {
    this.#round = round;
    if (!round.world.leads) this.#stop();
    this.#ask();
  }

  close(): void {
    this.#round = undefined;
    this.#pace.close();
    this.#reporting.close();
    this.#stop();
  }

  #stop(): void {
    this.#search?.stop();
    this.#looked.clear();
    this.#waiting.clear();
  }

  #ask(): void {
    if (this.#search === undefined && this.#due() !== undefined) this.#pace.ask();
  }

  /** Returns a fleet to review that is not in `done`. */
  #due(done?: ReadonlySet<string>): { snapshot: FleetSnapshot; limiter: string } | undefined {
    const { decision, world } = this.#round ?? {};
    if (decision === undefined || !world?.leads) return undefined;
    for (const fleet of this.#looked.keys()) if (!decision.fleets.has(fleet)) this.#looked.delete(fleet);
    for (const { limiters } of world.reports) {
      for (const { countsCompatibly, fleet, name } of limiters) {
        const snapshot = countsCompatibly && !done?.has(fleet) ? decision.fleets.get(fleet) : undefined;
        if (snapshot !== undefined && this.#looked.get(fleet) !== snapshot)
          return { snapshot, limiter: name };
      }
    }
    return undefined;
  }

  async #look(): Promise<void> {
    if (this.#search !== undefined) return;
    const done = new Set<string>();
    for (let due = this.#due(done); due !== undefined; due = this.#due(done)) {
      const { snapshot, limiter } = due;
      const { fleet } = snapshot;
      done.add(fleet);
      this.#looked.set(fleet, snapshot);
      const { objects, rules } = this.#servedTo(fleet);
      try {
        this.#search = this.#options.search(encodedObjects(rules));
        this.#take(await this.#search.found, objects, limiter);
      } catch (error) {
        // The fleet is reviewed again when it has changed.
        if (this.#looked.has(fleet)) lines.fleetNotReviewed(this.#options.log, { fleet, error });
      }
      this.#search = undefined;
    }
    // A fleet may have changed during the review.
    this.#ask();
  }

  /** Sorts older objects first. */
  #servedTo(fleet: string): { objects: ConfigObject[]; rules: Uint8Array[] } {
    const served = [...(this.#round?.decision?.outcomes.values() ?? [])]
      .filter(({ object, served }) => object.kind === undefined && served?.fleet === fleet)
      .sort((a, b) => byAge(a.object, b.object));
    return {
      objects: served.map(({ object }) => object),
      rules: served.map((outcome) => outcome.served!.bytes),
    };
  }

  #take(found: readonly ObjectCollision[], objects: readonly ConfigObject[], limiter: string): void {
    if (!this.#round?.world.leads) return;
    const perObject = new Map<string, number>();
    for (const collision of found) {
      const notice = noticeOf(collision, objects, limiter);
      const { uid } = notice.event.object;
      const count = (perObject.get(uid) ?? 0) + 1;
      perObject.set(uid, count);
      if (this.#reported.has(notice.pair)) this.#remember(notice.pair);
      else if (count <= maxOfOneObject && this.#waiting.size < maxWaiting) {
        this.#waiting.set(notice.pair, notice);
      }
    }
    this.#reporting.ask();
  }

  #reportNext(): void {
    const [notice] = this.#waiting.values();
    if (notice === undefined) return;
    this.#waiting.delete(notice.pair);
    const outcomes = this.#round?.decision?.outcomes;
    // A deleted object is no longer a problem.
    if (outcomes?.has(notice.older.uid) && outcomes.has(notice.event.object.uid)) {
      this.#remember(notice.pair);
      this.#options.events.record(notice.event);
    }
    this.#reporting.ask();
  }

  #remember(pair: string): void {
    this.#reported.delete(pair);
    this.#reported.add(pair);
    const [oldest] = this.#reported;
    if (this.#reported.size > maxReported && oldest !== undefined) this.#reported.delete(oldest);
  }
}

/** The rules of another namespace are not reported. */
function noticeOf(
  { first, second }: ObjectCollision,
  objects: readonly ConfigObject[],
  limiter: string,
): Notice {
  const [old, young] = first.object <= second.object ? [first, second] : [second, first];
  const older = objects[old.object]!;
  const object = objects[young.object]!;
  const [oldKeys, youngKeys] = [shortened(old.keys, longestKeys), shortened(young.keys, longestKeys)];
  const other = older.namespace === object.namespace ? `${oldKeys} of ` : 'a rule of ';
  const pair =
    older.uid === object.uid
      ? `The rules ${oldKeys} and ${youngKeys} could count`
      : `The rule ${youngKeys} and ${other}${objectKey(older)} could count`;
  const note = `${pair} in one key, as the limiter ${shortened(limiter, longestKeys)} has compatible keys: with COUNTER_KEYS=unambiguous no two counters meet`;
  return {
    pair: `${older.uid} ${object.uid}`,
    older,
    event: { object, type: reasons.CountersCanMeet.event, reason: 'CountersCanMeet', note },
  };
}
