/**
 * Whose each domain was last, in ConfigMaps of the control plane's own namespace: read by every replica, written by the
 * leader. Who deletes an object and creates it again finds its domain held, whoever has waited for it.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { errorText } from '../../process/log/error-text.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { Pace } from '../../process/time/pacing.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ApiError } from '../kubernetes/api-error.ts';
import { type Decision, type DomainRecord, type DomainRecords, domainKey } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import * as lines from '../telemetry/log-lines.ts';
import type { Codec } from './codec.ts';
import {
  ConfigMapApi,
  type FoundValue,
  jsonOfParts,
  newRevision,
  partedJson,
  readPart,
  type StoredConfigMap,
  WatchedValues,
  wholeOf,
} from './config-maps.ts';
import { type Failure, Pump } from './pump.ts';
import { type ObjectRole, roleLabel } from './replica-name.ts';

/** Of the first ConfigMap. */
const mapName = 'weir-domains';
const jsonKey = 'domains.json';
/** Chosen: what comes at once is written at once, and all of a second together. */
const gatherMs = 50;
const intervalMs = 1_000;

const recordsModel = z.record(
  z.string(),
  z.object({ namespaces: z.array(z.string()).min(1), heldUntilMs: z.number().exactOptional() }),
);

/** By `domainKey`: the namespaces whose objects are served. */
function holdersOf({ verdicts }: Decision): Map<string, string[]> {
  const holders = new Map<string, string[]>();
  for (const { object, served } of verdicts.values()) {
    if (served === undefined || object.kind !== undefined) continue;
    const key = domainKey(served);
    const namespaces = holders.get(key);
    if (namespaces === undefined) holders.set(key, [object.namespace]);
    else if (!namespaces.includes(object.namespace)) namespaces.push(object.namespace);
  }
  for (const namespaces of holders.values()) if (namespaces.length > 1) namespaces.sort();
  return holders;
}

/** `before` itself when nothing changes. What came free is held for `releaseMs`, and forgotten then. Pure. */
export function nextRecords(
  before: DomainRecords,
  decision: Decision,
  { nowMs, releaseMs }: { nowMs: number; releaseMs: number },
): DomainRecords {
  const next = new Map<string, DomainRecord>();
  const holders = holdersOf(decision);
  for (const [key, namespaces] of holders) {
    const record = before.get(key);
    const isSame = record?.heldUntilMs === undefined && isDeepStrictEqual(record?.namespaces, namespaces);
    next.set(key, isSame ? record! : { namespaces });
  }
  for (const [key, { namespaces, heldUntilMs = nowMs + releaseMs }] of before) {
    // A clock that was set back holds nothing for longer.
    const until = Math.min(heldUntilMs, nowMs + releaseMs);
    if (holders.has(key) || until <= nowMs) continue;
    next.set(
      key,
      before.get(key)?.heldUntilMs === until ? before.get(key)! : { namespaces, heldUntilMs: until },
    );
  }
  return sameRecords(next, before) ? before : next;
}

function sameRecords(a: DomainRecords, b: DomainRecords): boolean {
  if (a === b) return true;
  const isSame = ([key, record]: [string, DomainRecord]) => {
    const other = b.get(key);
    return record === other || isDeepStrictEqual(record, other);
  };
  return a.size === b.size && [...a].every(isSame);
}

export interface DomainRecordOptions extends Pick<Telemetry, 'log'> {
  client: KubernetesApi;
  namespace: string;
  /** How long a domain that came free is held. */
  releaseMs: number;
  /** Asked before each write. */
  mayWrite(): boolean;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** See `PartedJson`. */
  maxPartBytes?: number;
  /** `records` is another value. */
  changed(): void;
}

export class DomainRecordStore {
  readonly #options: DomainRecordOptions;
  readonly #api: ConfigMapApi;
  readonly #values: WatchedValues<DomainRecords>;
  readonly #pace: Pace;
  readonly #pump: Pump<DomainRecords, Failure>;
  #records: DomainRecords | undefined;
  /** What the ConfigMaps say; undefined: nothing that can be read. */
  #shown: DomainRecords | undefined;
  #decision: Decision | undefined;
  #wanted: DomainRecords | undefined;
  #notBeforeMs = Number.NEGATIVE_INFINITY;
  #isClosed = false;
  #callOff = (): void => {};

  constructor(options: DomainRecordOptions) {
    const { client, namespace, log } = options;
    this.#options = options;
    this.#api = new ConfigMapApi({ client, namespace, timeoutMs: 10_000 });
    this.#pace = new Pace({ ...options, gatherMs, intervalMs, run: () => this.#evaluate() });
    this.#pump = new Pump({
      ...options,
      queue: {
        next: () => (this.#dueMs() === 0 ? this.#wanted : undefined),
        nextDueMs: () => this.#dueMs(),
      },
      concurrency: 1,
      mayRun: () => !this.#isClosed && this.#values.isRead && options.mayWrite(),
      attempt: () => this.#write(),
      firstRetryMs: 500,
      mostRetryMs: 30_000,
    });
    this.#values = new WatchedValues({
      ...options,
      labels: { [roleLabel]: 'domains' satisfies ObjectRole },
      find: (maps) => this.#find(maps),
      read: () => this.#read(),
      unreachable: (reason) => lines.domainsUnreachable(log, reason),
      reachable: () => lines.domainsReachable(log),
      skipped: (key, reason) => lines.domainsSkipped(log, key, reason),
    });
  }

  /** The same for all replicas, but for the time that news travels; undefined before they are read. */
  get records(): DomainRecords | undefined {
    return this.#records;
  }

  start(): void {
    this.#values.start();
  }

  /** Of a leader; undefined: it may be older than the objects, so nothing comes free by it. */
  decided(decision: Decision | undefined): void {
    this.#decision = decision;
    if (decision === undefined) this.#callOff();
    else this.#pace.ask();
  }

  stoppedLeading(): void {
    this.#wanted = undefined;
    this.decided(undefined);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#callOff();
    this.#pace.close();
    await Promise.all([this.#values.close(), this.#pump.close()]);
  }

  #find(maps: readonly StoredConfigMap[]): FoundValue<DomainRecords>[] {
    if (maps.length === 0) return [];
    const whole = wholeOf(maps.flatMap((map) => readPart(map) ?? []));
    const decode = async (): Promise<DomainRecords | undefined> => {
      try {
        const records = recordsModel.parse(await jsonOfParts(whole!, jsonKey, this.#options.codec));
        return new Map(Object.entries(records));
      } catch (error) {
        lines.domainsSkipped(this.#options.log, mapName, errorText(error));
        return undefined;
      }
    };
    return [
      {
        key: mapName,
        version: whole?.map(({ map }) => (map as StoredConfigMap).resourceVersion).join(),
        decode,
      },
    ];
  }

  /** What is missing or damaged leaves in force what was known. */
  #read(): void {
    if (this.#isClosed) return;
    const before = this.#records;
    const isMissing = this.#values.maps.length === 0;
    if (isMissing && this.#shown !== undefined && this.#shown.size > 0)
      lines.domainsMissing(this.#options.log);
    [this.#shown] = this.#values.values;
    this.#records = this.#shown ?? before ?? new Map();
    if (before === undefined || !sameRecords(before, this.#records)) this.#options.changed();
    if (before === undefined) this.#pace.ask();
    this.#pump.wake();
  }

  #evaluate(): void {
    const { clock, timers, releaseMs, mayWrite } = this.#options;
    this.#callOff();
    if (this.#decision === undefined || this.#records === undefined || !mayWrite()) return;
    const nowMs = clock.nowMs();
    this.#wanted = nextRecords(this.#wanted ?? this.#records, this.#decision, { nowMs, releaseMs });
    this.#pump.wake();
    const ends = [...this.#wanted.values()].flatMap(({ heldUntilMs }) => heldUntilMs ?? []);
    if (ends.length === 0) return;
    const firstMs = ends.reduce((a, b) => Math.min(a, b));
    this.#callOff = timers.after(Math.max(1, firstMs - nowMs), () => this.#pace.ask());
  }

  /** Milliseconds until something is to be written; undefined: nothing is. */
  #dueMs(): number | undefined {
    if (this.#wanted === undefined) return undefined;
    const isShown = this.#shown === undefined ? this.#isNothing() : sameRecords(this.#shown, this.#wanted);
    if (isShown) return undefined;
    return Math.max(0, Math.ceil(this.#notBeforeMs - this.#options.clock.monotonicMs()));
  }

  #isNothing(): boolean {
    return this.#wanted!.size === 0 && this.#values.maps.length === 0;
  }

  async #write(): Promise<Failure | undefined> {
    const { clock, random, log, maxPartBytes, codec } = this.#options;
    const wanted = this.#wanted;
    // The lead was lost since the last attempt: the next decision says what is to be stored.
    if (wanted === undefined) return undefined;
    this.#notBeforeMs = clock.monotonicMs() + intervalMs;
    const json = JSON.stringify(Object.fromEntries(wanted));
    const revision = newRevision(clock, random);
    try {
      const maps = await partedJson({ name: mapName, key: jsonKey, json, revision, maxPartBytes, codec });
      for (const map of maps) await this.#api.apply(map, { role: 'domains' });
      const names = new Set(maps.map(({ name }) => name));
      const surplus = this.#values.maps.filter(({ name }) => !names.has(name));
      for (const { name } of surplus) await this.#api.delete(name);
      return undefined;
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      lines.domainsNotStored(log, error);
      return error;
    }
  }
}
