/**
 * The reports of replicas about their limiters. Each replica publishes its own report in ConfigMaps, and reads the reports of all living
 * replicas.
 */
import { z } from 'zod';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { knownCapabilities } from '../../rules/language/capabilities.ts';
import type { KubernetesApi } from '../kubernetes/api.ts';
import { ResourceWatch } from '../kubernetes/watch.ts';
import type { LimiterReport, ReplicaReport } from '../model/fleet-snapshot.ts';
import { ruleSupportSchema } from '../model/rule-support.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import {
  type Codec,
  type ConfigMap,
  completeParts,
  jsonOfParts,
  newRevision,
  type Owner,
  partName,
  readPart,
  type SplitJson,
  type StoredConfigMap,
  selectorOf,
  splitJson,
} from './config-maps.ts';
import { type LeaseObject, type LeaseRecord, leaseRecord, ReplicaLiveness } from './leases.ts';
import { managedLabels, roleLabel } from './replica-name.ts';
import { type SharedFormat, SharedValues } from './shared-values.ts';

export interface ReplicaReportsOptions extends Telemetry {
  client: KubernetesApi;
  namespace: string;
  /** The replica whose report is passed to `publish`, and does not arrive through the API. */
  replica: string;
  clock: Clock;
  timers: Timers;
  random(): number;
  codec: Codec;
  /** The minimum time between the starts of two writes. Defaults to 250. */
  intervalMs?: number;
  /** See `encodeReport`. */
  maxPartBytes?: number;
  /** The first complete lists have arrived and were read. */
  listed(): void;
  /** Called when `living` may have changed. */
  changed(): void;
  /** Takes a record of any Lease object of the control plane, by name. */
  leaseChanged(name: string, record: LeaseRecord | undefined): void;
}

export interface SeenLease {
  name: string;
  isReplica: boolean;
  record: LeaseRecord;
}

/** The default for a Lease object without a duration. */
const defaultDurationMs = 5_000;

/**
 * The reports of all replicas about their limiters. It publishes the replica's own report: the first change at once, further changes at
 * most every 250 ms, with one write at a time. It watches the reports and Lease objects of all replicas, and counts the living ones.
 */
export class ReplicaReports {
  readonly #options: ReplicaReportsOptions;
  readonly #leases: ResourceWatch<SeenLease>;
  readonly #reports: SharedValues<StoredReport>;
  readonly #signs = new ReplicaLiveness();
  #own: ReplicaReport;
  /** A random text, so that two runs of a replica never count from the same number. */
  readonly #run: string;
  #count = 0;
  #owner: Owner | undefined;
  #reportedLeases: ReadonlyMap<string, SeenLease> = new Map();
  #callOff: (() => void) | undefined;
  /** The reasons why no news can arrive: an interrupted watch, or a Lease object of this replica that cannot be renewed. */
  readonly #deafFor = new Set<'watch' | 'renewal'>();
  #isListed = false;
  #isClosed = false;

  constructor(options: ReplicaReportsOptions) {
    this.#options = options;
    const { client, namespace, clock, timers, random, log, metrics, replica } = options;
    this.#own = { replica, limiters: [] };
    this.#run = newRevision(clock, random);
    const reported = {
      unreachable: (reason: string) => lines.reportsUnreachable(log, { reason }),
      reachable: () => lines.reportsReachable(log),
      skipped: (name: string, reason: string) => lines.reportSkipped(log, { name, reason }),
    };
    this.#leases = new ResourceWatch<SeenLease>({
      client,
      clock,
      timers,
      random,
      resource: { group: 'coordination.k8s.io', version: 'v1', plural: 'leases', namespace },
      labelSelector: selectorOf(managedLabels()),
      read: (object) => ({ item: seenLease(object as unknown as LeaseObject) }),
      listener: {
        ...reported,
        listed: () => this.#leasesChanged(),
        changed: () => this.#leasesChanged(),
        unreachable: (reason) => {
          this.#hears('watch', false);
          reported.unreachable(reason);
        },
        reachable: () => {
          this.#hears('watch', true);
          reported.reachable();
        },
      },
    });
    this.#reports = new SharedValues<StoredReport>({
      ...options,
      role: 'limiters',
      format: reportFormat(options),
      intervalMs: options.intervalMs ?? 250,
      retry: { firstMs: 250, maxMs: 5_000 },
      owns: (key) => key === replica,
      mayWrite: () => true,
      read: (hasChanged) => {
        if (hasChanged) this.#changed();
        this.#listed();
      },
      lines: {
        ...reported,
        notStored: (_, error) => {
          metrics.all.reportsNotPublished.inc();
          lines.reportNotPublished(log, { error });
        },
      },
    });
  }

  get isListed(): boolean {
    return this.#isListed;
  }

  start(): void {
    this.#leases.start();
    void this.#reports.load();
  }

  /** Publishes the report of this replica. It applies here at once, regardless of the replica's Lease object. */
  publish(report: ReplicaReport): void {
    this.#own = report;
    this.#count += 1;
    this.#sync();
    this.#changed();
  }

  /** Sets the owner. Nothing is written before the first owner is known. The ConfigMaps are deleted with their owner. */
  ownedBy(owner: Owner): void {
    if (owner.uid === this.#owner?.uid) return;
    this.#owner = owner;
    this.#sync();
  }

  /** Called after a renewal of this replica's Lease object. While it fails, no replica counts as dead. */
  renewed(isRenewed: boolean): void {
    this.#hears('renewal', isRenewed);
  }

  /** Returns the report of this replica first, and then the others by name. */
  living(): ReplicaReport[] {
    const nowMs = this.#nowMs();
    const others = [...this.#reports.stored.values()]
      .map(({ report }) => report)
      .filter(({ replica }) => replica !== this.#own.replica && this.#signs.isAlive(replica, nowMs))
      .sort((a, b) => (a.replica < b.replica ? -1 : 1));
    return [this.#own, ...others];
  }

  /** The Lease objects and reports that dead replicas left, for cleaning up. Empty while the watches are silent. */
  remains(): { replica: string; leases: SeenLease[]; reports: StoredConfigMap[] }[] {
    if (this.#deafFor.size > 0) return [];
    const nowMs = this.#nowMs();
    const leases = [...this.#leases.items.values()].filter(({ isReplica }) => isReplica);
    const reports = this.#reports.maps;
    const names = new Set([
      ...leases.map(({ record }) => record.holder),
      ...reports.map(({ data }) => data['replica'] ?? ''),
    ]);
    return [...names]
      .filter((replica) => replica !== this.#own.replica && !this.#signs.isAlive(replica, nowMs))
      .map((replica) => ({
        replica,
        leases: leases.filter(({ record }) => record.holder === replica),
        reports: reports.filter(({ data }) => (data['replica'] ?? '') === replica),
      }));
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    this.#callOff?.();
    await Promise.all([this.#leases.close(), this.#reports.close()]);
  }

  /** Deletes the published reports, after `close`. */
  takeBack(): Promise<void> {
    return this.#reports.remove(this.#options.replica);
  }

  #sync(): void {
    const { replica } = this.#options;
    if (this.#owner === undefined) return;
    const revision = `${this.#run}-${this.#count}`;
    this.#reports.sync(new Map([[replica, { report: this.#own, revision, owner: this.#owner }]]));
  }

  #leasesChanged(): void {
    const items = new Map([...this.#leases.items.values()].map((lease) => [lease.name, lease]));
    let hasChanged = false;
    for (const lease of items.values()) if (this.#leaseSeen(lease)) hasChanged = true;
    for (const lease of this.#reportedLeases.values()) {
      if (!items.has(lease.name) && this.#leaseGone(lease)) hasChanged = true;
    }
    this.#reportedLeases = items;
    if (hasChanged) this.#changed();
    else this.#setTimer();
    this.#listed();
  }

  /** Returns whether this Lease object shows that a replica is alive again. */
  #leaseSeen({ name, record, isReplica }: SeenLease): boolean {
    const { resourceVersion, holder, durationMs = defaultDurationMs } = record;
    if (this.#reportedLeases.get(name)?.record.resourceVersion === resourceVersion) return false;
    this.#options.leaseChanged(name, record);
    return isReplica && this.#signs.see({ name: holder, resourceVersion, durationMs }, this.#nowMs());
  }

  /** Returns whether a living replica ended because of this. */
  #leaseGone({ name, record, isReplica }: SeenLease): boolean {
    this.#options.leaseChanged(name, undefined);
    return isReplica && this.#signs.remove(record.holder, this.#nowMs());
  }

  #listed(): void {
    if (this.#isListed || !this.#leases.isListed || !this.#reports.isRead || this.#isClosed) return;
    this.#isListed = true;
    this.#options.listed();
  }

  #hears(what: 'watch' | 'renewal', does: boolean): void {
    if (does) this.#deafFor.delete(what);
    else this.#deafFor.add(what);
    if (this.#deafFor.size > 0) this.#signs.becomeDeaf(this.#nowMs());
    else this.#signs.hearAgain(this.#nowMs());
    this.#setTimer();
  }

  #changed(): void {
    if (this.#isClosed) return;
    this.#setTimer();
    this.#options.changed();
  }

  /** Sets a timer for the time at which the next replica counts as dead. */
  #setTimer(): void {
    this.#callOff?.();
    this.#callOff = undefined;
    const nowMs = this.#nowMs();
    const dueMs = this.#signs.nextDeathMs(nowMs);
    if (this.#isClosed || dueMs === Number.POSITIVE_INFINITY) return;
    this.#callOff = this.#options.timers.after(Math.ceil(dueMs - nowMs), () => this.#changed());
  }

  #nowMs(): number {
    return this.#options.clock.monotonicMs();
  }
}

function seenLease(object: LeaseObject): SeenLease {
  const { name, labels = {} } = object.metadata;
  return { name, isReplica: labels[roleLabel] === 'replica', record: leaseRecord(object) };
}

/** Chosen, for each text from a limiter: the message of a rejection is for a condition, which people read. */
const longestMessage = 1_024;
const longestName = 253;

const jsonKey = 'report.json';

/** Returns the name of a replica's first ConfigMap. */
export function reportName(replica: string, part = 1): string {
  return partName(`weir-limiters-${replica}`, part);
}

/**
 * Shortens the texts of limiters to lengths that are acceptable for thousands of limiters. Merged reports are shortened in the same way
 * on every replica.
 */
export function boundedReport({ replica, limiters }: ReplicaReport): ReplicaReport {
  return { replica, limiters: limiters.map(boundedLimiter) };
}

/** A report in the form that `splitJson` stores, so that no limiter is ever seen twice or not at all. */
export function encodeReport(
  report: ReplicaReport,
  options: Pick<SplitJson, 'revision' | 'maxPartBytes' | 'codec'>,
): Promise<ConfigMap[]> {
  const { replica } = report;
  const json = reportJson(report);
  return splitJson({ ...options, name: reportName(replica), key: jsonKey, json, head: { replica } });
}

/** Limiters with equal rejections refer to one list. */
function reportJson({ replica, limiters }: ReplicaReport): string {
  const refused = [
    ...new Set(limiters.flatMap(({ refusal }) => (refusal?.resources ? [refusal.resources] : []))),
  ];
  if (refused.length === 0) return JSON.stringify({ replica, limiters });
  const numbers = new Map(refused.map((list, number) => [list, number]));
  const written = limiters.map((limiter) => {
    const { resources, ...refusal } = limiter.refusal ?? {};
    return resources ? { ...limiter, refusal: { ...refusal, refused: numbers.get(resources) } } : limiter;
  });
  return JSON.stringify({ replica, limiters: written, refused });
}

/** A report, and the ConfigMaps' owner. */
interface StoredReport {
  report: ReplicaReport;
  /** See `SplitJson`. */
  revision: string;
  owner: Owner | undefined;
}

/** The format of reports by replica, living or not. Reports of 10,000 limiters are compared by their revision. */
export function reportFormat({
  codec,
  maxPartBytes,
}: Pick<SplitJson, 'codec' | 'maxPartBytes'>): SharedFormat<StoredReport> {
  return {
    keyOf: (map) => (readPart(map) === undefined ? undefined : map.data['replica']),
    whole: (maps) => completeParts(maps.flatMap((map) => readPart(map) ?? []))?.map(({ map }) => map),
    keepsLast: true,
    decode: async (maps) => {
      const [{ data, owner }] = maps as [StoredConfigMap];
      return { report: await decodeReport(maps, codec), revision: data['revision']!, owner };
    },
    encode: async (_, { report, revision, owner }) => {
      const maps = await encodeReport(report, { revision, maxPartBytes, codec });
      return { maps: maps.map((map) => ({ ...map, owner })), isWhole: true };
    },
    isSame: (a, b) => a.revision === b.revision && a.owner?.uid === b.owner?.uid,
  };
}

/** Returns the report from all its ConfigMaps, in their order. Rejects if they are damaged. */
export async function decodeReport(maps: readonly ConfigMap[], codec: Codec): Promise<ReplicaReport> {
  const { replica } = maps[0]?.data ?? {};
  if (replica === undefined) throw new Error('a report has no parts');
  const parts = maps.flatMap((map) => readPart(map) ?? []);
  const report = reportSchema.parse(await jsonOfParts(parts, jsonKey, codec));
  return { replica, limiters: report.limiters.map((one) => limiterOf(one, report.refused)) };
}

const rejectedSchema = z.array(z.object({ name: z.string(), message: z.string() }));
const limiterSchema = z.object({
  id: z.string(),
  instance: z.string().optional(),
  name: z.string(),
  fleet: z.string(),
  isWeir: z.boolean(),
  /** Older replicas do not send it. */
  countsCompatibly: z.boolean().default(true),
  /** A replica of a newer version may list other values. */
  capabilities: z.array(z.string()).transform(knownCapabilities),
  ruleSupport: ruleSupportSchema.optional(),
  connectedMs: z.number(),
  podUid: z.string().optional(),
  address: z.string().optional(),
  acceptedVersion: z.string().optional(),
  /** Older replicas do not send it. */
  sentVersion: z.string().optional(),
  refusal: z
    .object({
      version: z.string(),
      message: z.string(),
      /** A field that only older replicas send. */
      resources: rejectedSchema.optional(),
      /** The number of a list in the report. Undefined if the whole snapshot is rejected. */
      refused: z.number().optional(),
    })
    .optional(),
});
/** The schema of reports. Fields that another version of this program adds are ignored. */
const reportSchema = z.object({
  limiters: z.array(limiterSchema),
  refused: z.array(rejectedSchema).default([]),
});

function limiterOf(
  parsed: z.infer<typeof limiterSchema>,
  lists: readonly z.infer<typeof rejectedSchema>[],
): LimiterReport {
  const { instance, acceptedVersion, refusal: stored, ...rest } = parsed;
  if (stored?.refused === undefined) return { ...rest, instance, acceptedVersion, refusal: stored };
  const { refused, ...refusal } = stored;
  return { ...rest, instance, acceptedVersion, refusal: { ...refusal, resources: lists[refused] } };
}

function boundedLimiter(limiter: LimiterReport): LimiterReport {
  const { refusal, name } = limiter;
  if (name.length <= longestName && (refusal?.message.length ?? 0) <= longestMessage) return limiter;
  return {
    ...limiter,
    name: cut(name, longestName),
    refusal: refusal && { ...refusal, message: cut(refusal.message, longestMessage) },
  };
}

function cut(text: string, length: number): string {
  return text.length <= length ? text : `${text.slice(0, length - 3)}...`;
}
