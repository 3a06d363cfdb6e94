/**
 * Remembers the last owner of each domain, in ConfigMaps of the control plane's own namespace. Every replica reads them, and the
 * leader writes them. If you delete an object and create it again, its domain is still reserved for it, even if another object
 * has waited for the domain.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { Pace } from '../../process/time/pacing.ts';
import type { ClusterDecision, DomainRecord, DomainRecords } from '../model/decision.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type SharedFormat, SharedValues, type SharedValuesParts } from './shared-values.ts';

/** The key of the only value. */
const recordsKey = '';
/** Chosen: the first change is written at once, and all changes of the following second together. */
const gatherMs = 50;
const intervalMs = 1_000;

const recordsModel = z.record(
  z.string(),
  z.object({ namespaces: z.array(z.string()).min(1), heldUntilMs: z.number().exactOptional() }),
);

/**
 * Returns the next records, or `before` itself if nothing changes. A domain that became free is reserved for `releaseMs`, and its record
 * is then dropped. Pure.
 */
export function nextRecords(
  before: DomainRecords,
  { holders }: Pick<ClusterDecision, 'holders'>,
  { nowMs, releaseMs }: { nowMs: number; releaseMs: number },
): DomainRecords {
  const next = new Map<string, DomainRecord>();
  for (const [key, namespaces] of holders) {
    const record = before.get(key);
    const isSame = record?.heldUntilMs === undefined && isDeepStrictEqual(record?.namespaces, namespaces);
    next.set(key, isSame ? record! : { namespaces });
  }
  for (const [key, { namespaces, heldUntilMs = nowMs + releaseMs }] of before) {
    // A clock that was set back does not extend a reservation.
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

const format: SharedFormat<DomainRecords> = {
  prefix: 'weir-domains',
  file: 'domains.json',
  write: (records) => JSON.stringify(Object.fromEntries(records)),
  read: (json) => new Map(Object.entries(recordsModel.parse(json))),
  isSame: sameRecords,
};

export interface DomainRecordOptions extends SharedValuesParts, Pick<Telemetry, 'log'> {
  /** How long a domain that became free is reserved. */
  releaseMs: number;
  /** Called before each write. */
  mayWrite(): boolean;
  /** See `SharedValuesOptions`. */
  maxPartBytes?: number;
  /** Called when `records` has been replaced. */
  changed(): void;
}

export class DomainRecordStore {
  readonly #options: DomainRecordOptions;
  readonly #values: SharedValues<DomainRecords>;
  readonly #pace: Pace;
  #records: DomainRecords | undefined;
  /** The last content of the ConfigMaps. Undefined if there is no readable content. */
  #shown: DomainRecords | undefined;
  #decision: Pick<ClusterDecision, 'holders'> | undefined;
  /** The last decision of a leader, from its first decision on. */
  #wanted: DomainRecords | undefined;
  /** The holders that determine `#wanted`, unless the time changes it. */
  #settled: ClusterDecision['holders'] | undefined;
  #callOff = (): void => {};

  constructor(options: DomainRecordOptions) {
    const { log } = options;
    this.#options = options;
    this.#pace = new Pace({ ...options, gatherMs, intervalMs, run: () => this.#evaluate() });
    this.#values = new SharedValues({
      ...options,
      role: 'domains',
      intervalMs,
      format,
      read: () => this.#read(),
      lines: {
        unreachable: (reason) => lines.domainsUnreachable(log, { reason }),
        reachable: () => lines.domainsReachable(log),
        skipped: (name, reason) => lines.domainsSkipped(log, { name, reason }),
        notStored: (_, error) => lines.domainsNotStored(log, { error }),
      },
    });
  }

  /** The records. They are the same on all replicas, except for delays. Undefined before they are read. */
  get records(): DomainRecords | undefined {
    return this.#records;
  }

  start(): void {
    void this.#values.load();
  }

  /** Adopts the decision of a leader. Undefined if the record may be older than the objects, so that no domain becomes free. */
  decided(decision: Pick<ClusterDecision, 'holders'> | undefined): void {
    this.#decision = decision;
    if (decision === undefined) this.#callOff();
    else this.#pace.ask();
  }

  stoppedLeading(): void {
    this.#wanted = undefined;
    this.#settled = undefined;
    this.#values.sync(undefined);
    this.decided(undefined);
  }

  async close(): Promise<void> {
    this.#callOff();
    this.#pace.close();
    await this.#values.close();
  }

  /** If the stored record is missing or damaged, the known record stays in force. */
  #read(): void {
    const before = this.#records;
    const isMissing = this.#values.maps.size === 0;
    if (isMissing && this.#shown !== undefined && this.#shown.size > 0)
      lines.domainsMissing(this.#options.log);
    this.#shown = this.#values.stored.get(recordsKey);
    this.#records = this.#shown ?? before ?? new Map();
    if (before === undefined || !sameRecords(before, this.#records)) this.#options.changed();
    if (before === undefined) this.#pace.ask();
  }

  #evaluate(): void {
    const { clock, timers, releaseMs, mayWrite } = this.#options;
    this.#callOff();
    if (this.#decision === undefined || this.#records === undefined || !mayWrite()) return;
    const nowMs = clock.nowMs();
    const { holders } = this.#decision;
    const before = this.#wanted ?? this.#records;
    const isSettled = holders === this.#settled;
    this.#wanted = isSettled ? before : nextRecords(before, this.#decision, { nowMs, releaseMs });
    // An empty record is not stored if there was none.
    const isNothing = this.#wanted.size === 0 && this.#values.maps.size === 0;
    this.#values.sync(isNothing ? undefined : new Map([[recordsKey, this.#wanted]]));
    if (isSettled) return;
    const ends = [...this.#wanted.values()].flatMap(({ heldUntilMs }) => heldUntilMs ?? []);
    this.#settled = ends.length === 0 ? holders : undefined;
    if (ends.length === 0) return;
    const firstMs = ends.reduce((a, b) => Math.min(a, b));
    this.#callOff = timers.after(Math.max(1, firstMs - nowMs), () => this.#pace.ask());
  }
}
