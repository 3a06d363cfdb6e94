/** The conditions that the API server has had, and whether webhooks and Kubernetes Events speak of them. */
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import type { Condition } from '../../control-plane/model/config-object.ts';
import { reasons } from '../../control-plane/model/reasons.ts';
import type { WebhookEvent } from '../../control-plane/webhooks/webhook-event.ts';

/** An answer takes up to half a second, and a watch shows a write sooner. */
const eventLagMs = 1_000;
/** An Event has times of the millisecond in which its clock was read. */
const roundingMs = 1;

/** A Kubernetes Event as a replica sends it. */
export interface SentEvent {
  metadata: { name: string };
  eventTime: string;
  reason: string;
  note: string;
  regarding: { uid: string; namespace: string; name: string };
  series?: { lastObservedTime: string };
}

/** One statement: how often a status newly made it, and until when. What a deleted object said counts as stored. */
interface Statement {
  count: number;
  untilMs: number;
}

type Problem = ['event with two ids' | 'event of what is not stored', string];

export class StoredConditions {
  readonly #nowMs: () => number;
  /** Until when each condition was stored, by `conditionKey`. */
  readonly #untilMs = new Map<string, number>();
  /** By `statementKey`. */
  readonly #statements = new Map<string, Statement>();
  /** The present keys by uid. */
  readonly #present = new Map<
    string,
    { conditions: ReadonlyMap<string, Condition>; statements: ReadonlySet<string> }
  >();
  /** Objects whose status somebody else wrote, by uid. */
  readonly #spoiled = new Set<string>();
  readonly #ids = new Map<string, string>();
  /** Names of Events by statement. */
  readonly #names = new Map<string, Set<string>>();
  /** How many Events spoke of conditions. */
  events = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  stored({ metadata: { uid = '', managedFields }, status }: ApiObject): void {
    const { conditions = [] } = (status ?? {}) as { conditions?: Condition[] };
    const before = this.#present.get(uid) ?? { conditions: new Map(), statements: new Set() };
    const now = {
      conditions: new Map(conditions.map((condition) => [conditionKey(uid, condition), condition])),
      statements: new Set(conditions.map((condition) => statementKey(uid, condition))),
    };
    for (const key of before.conditions.keys())
      if (!now.conditions.has(key)) this.#untilMs.set(key, this.#nowMs());
    for (const key of before.statements.difference(now.statements))
      this.#statements.get(key)!.untilMs = this.#nowMs();
    for (const [key, condition] of now.conditions) {
      this.#untilMs.set(key, Number.POSITIVE_INFINITY);
      const statement = statementKey(uid, condition);
      const { count } = this.#statements.get(statement) ?? { count: 0 };
      // `Ready` repeats another condition, and has no Event of its own.
      const isNews = condition.type !== 'Ready' && !before.conditions.has(key);
      this.#statements.set(statement, {
        count: isNews ? count + 1 : count,
        untilMs: Number.POSITIVE_INFINITY,
      });
    }
    this.#present.set(uid, now);
    const isOthers = JSON.stringify(managedFields ?? []).includes('"manager":"somebody"');
    if (isOthers) this.#spoiled.add(uid);
  }

  /** One change has one id, and its condition is the one that is stored. `knownMs`: the time of what the replica can know. */
  notified({ id, type, data }: WebhookEvent, replica: string, knownMs: number): Problem | undefined {
    if (type.endsWith('.removed')) return undefined;
    const { uid, generation, condition } = data;
    const stored = conditionKey(uid, { ...condition, observedGeneration: generation });
    const change = `${type} ${stored}`;
    const before = this.#ids.get(change) ?? id;
    this.#ids.set(change, id);
    if (before !== id) return ['event with two ids', `${change}: ${before} and ${id}`];
    const untilMs = this.#untilMs.get(stored);
    if (untilMs !== undefined && untilMs >= knownMs - eventLagMs) return undefined;
    const what = `${replica} reports ${stored} of ${data.namespace}/${data.name}, ${this.#when(untilMs)}`;
    return ['event of what is not stored', what];
  }

  /**
   * An Event speaks of a condition that was stored at its time, and each time that a status gets a condition has one Event at most.
   * `recordedMs`: its earliest and latest possible time, by the clock of the simulation.
   */
  recorded(event: SentEvent, replica: string, recordedMs: number): Problem | undefined {
    const { reason, note, regarding, metadata } = event;
    const what = `${replica} records ${reason} of ${regarding.namespace}/${regarding.name} (${note})`;
    const row = reasons[reason as keyof typeof reasons] as (typeof reasons)[keyof typeof reasons] | undefined;
    if (row === undefined) return ['event of what is not stored', `${what}, which is no reason`];
    if (reason === 'StatusOverwritten' && !this.#spoiled.has(regarding.uid))
      return ['event of what is not stored', `${what}, and nobody wrote its status`];
    if (row.of.length === 0) return undefined;
    this.events += 1;
    const statement = statementKey(regarding.uid, { reason, message: note });
    const found = this.#statements.get(statement);
    const isStored = found !== undefined && found.untilMs >= recordedMs - eventLagMs - roundingMs;
    if (!isStored) return ['event of what is not stored', `${what}, ${this.#when(found?.untilMs)}`];
    const names = this.#names.get(statement) ?? new Set();
    this.#names.set(statement, names.add(metadata.name));
    if (names.size <= found.count) return undefined;
    return [
      'event with two ids',
      `${what}: ${[...names].join(', ')}, and it was stored ${found.count} times`,
    ];
  }

  #when(untilMs: number | undefined): string {
    if (untilMs === undefined) return 'which was never stored';
    return `which was replaced ${(this.#nowMs() - untilMs) / 1_000} s ago`;
  }
}

/** A condition as a status has it, without its message. */
function conditionKey(
  uid: string,
  {
    type,
    status,
    reason,
    lastTransitionTime,
    observedGeneration,
  }: Pick<Condition, 'type' | 'status' | 'reason' | 'lastTransitionTime' | 'observedGeneration'>,
): string {
  return [uid, type, status, reason, lastTransitionTime, observedGeneration].join(' ');
}

/** What an Event can say of a condition. `Ready` says the same as another condition. */
function statementKey(uid: string, { reason, message }: Pick<Condition, 'reason' | 'message'>): string {
  return [uid, reason, message.slice(0, 1_000)].join(' ');
}
