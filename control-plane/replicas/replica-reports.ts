/**
 * The reports of replicas about their limiters. Each replica publishes its own report in ConfigMaps, and reads the reports of all living
 * replicas.
 */
import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { knownCapabilities } from '../../rules/language/capabilities.ts';
import { group } from '../../rules/language/kinds.ts';
import { ResourceWatch } from '../kubernetes/watch.ts';
import { type LimiterReport, type ReplicaReport, ruleSupportSchema } from '../model/fleet-snapshot.ts';
import { noVersions, type ObjectVersions } from '../model/object-versions.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';
import { type LeaseObject, type LeaseRecord, leaseRecord, ReplicaLiveness } from './lease-api.ts';
import { managedLabels, type Owner, roleLabel, type StoredConfigMap, selectorOf } from './own-objects.ts';
import { type SharedFormat, SharedValues, type SharedValuesParts } from './shared-values.ts';

export interface ReplicaReportsOptions extends SharedValuesParts, Telemetry {
  /** The replica whose report is passed to `publish`, and does not arrive through the API. */
  replica: string;
  /** The minimum time between the starts of two writes. Defaults to 250. */
  intervalMs?: number;
  /** See `SharedValuesOptions`. */
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
  /** The text of the replica's `ReportProgress`. */
  progress: string | undefined;
}

/**
 * How far a replica had decided while a report was its newest. Its Lease object shows that, because a report of limiters that do not change
 * is not published again.
 */
interface ReportProgress {
  /** An id that differs for every report of every process. */
  id: string;
  decided: ObjectVersions;
}

const progressAnnotation = `${group}/report`;

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
  /** The beginning of ids. A process may have the name of its predecessor. */
  readonly #run: string;
  #count = 0;
  #progress: ReportProgress = { id: '', decided: noVersions };
  #owner: Owner | undefined;
  #callOff: (() => void) | undefined;
  /** The reasons why no news can arrive: an interrupted watch, or a Lease object of this replica that cannot be renewed. */
  readonly #deafFor = new Set<'watch' | 'renewal'>();
  #isListed = false;
  #isClosed = false;

  constructor(options: ReplicaReportsOptions) {
    this.#options = options;
    const { client, namespace, clock, timers, random, log, metrics, replica } = options;
    this.#own = { replica, limiters: [] };
    this.#run = random().toString(36).slice(2);
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
      itemShown: (now, before) => this.#leaseShown(now, before),
      listener: {
        ...reported,
        changed: () => {
          this.#changed();
          this.#listed();
        },
        unreachable: (reason) => {
          this.hears('watch', false);
          reported.unreachable(reason);
        },
        reachable: () => {
          this.hears('watch', true);
          reported.reachable();
        },
      },
    });
    this.#reports = new SharedValues<StoredReport>({
      ...options,
      role: 'limiters',
      format: reportFormat,
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

  start(): void {
    this.#leases.start();
    void this.#reports.load();
  }

  /** Publishes the report of this replica. It applies here at once, regardless of the replica's Lease object. */
  publish(limiters: readonly LimiterReport[], decided: ObjectVersions): void {
    const isSame = this.#count > 0 && isDeepStrictEqual(limiters, this.#own.limiters);
    if (!isSame) this.#count += 1;
    this.#progress = { id: `${this.#run}.${this.#count}`, decided };
    if (isSame) return;
    this.#own = { ...this.#own, limiters };
    this.#sync();
    this.#changed();
  }

  /** The annotations of this replica's Lease object. */
  get progress(): Readonly<Record<string, string>> {
    return { [progressAnnotation]: JSON.stringify(this.#progress) };
  }

  /** Sets the owner. Nothing is written before the first owner is known. The ConfigMaps are deleted with their owner. */
  ownedBy(owner: Owner): void {
    if (owner.uid === this.#owner?.uid) return;
    this.#owner = owner;
    this.#sync();
  }

  /** Returns the report of this replica first, and then the others by name. */
  living(): ReplicaReport[] {
    const nowMs = this.#nowMs();
    const leases = new Map(
      [...this.#leases.items.values()].flatMap(({ isReplica, record, progress }) =>
        isReplica ? [[record.holder, progress] as const] : [],
      ),
    );
    const others = [...this.#reports.stored.values()]
      .filter(
        ({ report: { replica } }) => replica !== this.#own.replica && this.#signs.isAlive(replica, nowMs),
      )
      .map(({ report, progress }) => {
        const { replica } = report;
        return { ...report, decided: newerProgress(progress, leases.get(replica)).decided };
      })
      .sort((a, b) => (a.replica < b.replica ? -1 : 1));
    return [this.#own, ...others];
  }

  /** The Lease objects and reports that dead replicas left, for cleaning up. Empty while the watches are silent. */
  remains(): { replica: string; leases: SeenLease[]; reports: readonly StoredConfigMap[] }[] {
    if (this.#deafFor.size > 0) return [];
    const nowMs = this.#nowMs();
    const leases = [...this.#leases.items.values()].filter(({ isReplica }) => isReplica);
    const reports = this.#reports.maps;
    const names = new Set([...leases.map(({ record }) => record.holder), ...reports.keys()]);
    return [...names]
      .filter((replica) => replica !== this.#own.replica && !this.#signs.isAlive(replica, nowMs))
      .map((replica) => ({
        replica,
        leases: leases.filter(({ record }) => record.holder === replica),
        reports: reports.get(replica) ?? [],
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
    if (this.#owner === undefined) return;
    const stored = { report: this.#own, progress: this.#progress, owner: this.#owner };
    this.#reports.sync(new Map([[this.#own.replica, stored]]));
  }

  /** Returns whether a replica has become alive or has ended, or has decided more. */
  #leaseShown(now: SeenLease | undefined, before: SeenLease | undefined): boolean {
    const { name, record, isReplica } = (now ?? before)!;
    const { resourceVersion, holder, durationMs = defaultDurationMs } = record;
    if (now?.record.resourceVersion === before?.record.resourceVersion) return false;
    this.#options.leaseChanged(name, now?.record);
    if (!isReplica) return false;
    const nowMs = this.#nowMs();
    if (now === undefined) return this.#signs.remove(holder, nowMs);
    const isNew = this.#signs.see({ name: holder, resourceVersion, durationMs }, nowMs);
    this.#setTimer();
    return holder !== this.#own.replica && (isNew || now.progress !== before?.progress);
  }

  #listed(): void {
    if (this.#isListed || !this.#leases.isListed || !this.#reports.isRead || this.#isClosed) return;
    this.#isListed = true;
    this.#options.listed();
  }

  /** While this process hears nothing from a watch, or cannot renew its Lease object, no replica counts as dead. */
  hears(what: 'watch' | 'renewal', does: boolean): void {
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
  const { name, labels = {}, annotations = {} } = object.metadata;
  const isReplica = labels[roleLabel] === 'replica';
  return { name, isReplica, record: leaseRecord(object), progress: annotations[progressAnnotation] };
}

/** Returns the progress of a stored report, or the one that the Lease object shows, if it is about the same report. */
function newerProgress(stored: ReportProgress, shown: string | undefined): ReportProgress {
  if (shown === undefined) return stored;
  try {
    const progress = progressSchema.parse(JSON.parse(shown));
    return progress.id === stored.id ? progress : stored;
  } catch {
    return stored;
  }
}

/** Limiters with equal rejections refer to one list. */
function reportJson({ replica, limiters }: ReplicaReport, progress: ReportProgress): string {
  const refused = [
    ...new Set(limiters.flatMap(({ refusal }) => (refusal?.resources ? [refusal.resources] : []))),
  ];
  if (refused.length === 0) return JSON.stringify({ replica, ...progress, limiters });
  const numbers = new Map(refused.map((list, number) => [list, number]));
  const written = limiters.map((limiter) => {
    const { resources, ...refusal } = limiter.refusal ?? {};
    return resources ? { ...limiter, refusal: { ...refusal, refused: numbers.get(resources) } } : limiter;
  });
  return JSON.stringify({ replica, ...progress, limiters: written, refused });
}

/** A report, and its ConfigMaps' owner. */
interface StoredReport {
  report: ReplicaReport;
  progress: ReportProgress;
  owner?: Owner;
}

const progressSchema = z.object({
  id: z.string().default(''),
  decided: z.record(z.string(), z.string()).default({}),
});
const rejectedSchema = z.array(z.object({ name: z.string(), message: z.string() }));
const limiterSchema = z.object({
  id: z.string(),
  instance: z.string().optional(),
  name: z.string(),
  fleet: z.string(),
  isWeir: z.boolean(),
  countsCompatibly: z.boolean(),
  /** A replica of a newer version may list other values. */
  capabilities: z.array(z.string()).transform(knownCapabilities),
  ruleSupport: ruleSupportSchema.optional(),
  connectedMs: z.number(),
  podUid: z.string().optional(),
  address: z.string().optional(),
  acceptedVersion: z.string().optional(),
  sentVersion: z.string().optional(),
  refusal: z
    .object({
      version: z.string(),
      message: z.string(),
      /** The number of a list in the report. Undefined if the whole snapshot is rejected. */
      refused: z.number().optional(),
    })
    .optional(),
});
/** The schema of reports. Fields that another version of this program adds are ignored. */
const reportSchema = progressSchema.extend({
  limiters: z.array(limiterSchema),
  refused: z.array(rejectedSchema).default([]),
});

/** The format of reports by replica, living or not. Every report that is published is another value, so they are not compared. */
export const reportFormat: SharedFormat<StoredReport> = {
  prefix: 'weir-limiters-',
  file: 'report.json',
  write: ({ report, progress }) => reportJson(report, progress),
  read: (json, replica) => {
    const { limiters, refused, ...progress } = reportSchema.parse(json);
    return { report: { replica, limiters: limiters.map((one) => limiterOf(one, refused)) }, progress };
  },
  ownerOf: ({ owner }) => owner,
  keepsLast: true,
  isSame: (a, b) => a === b,
};

function limiterOf(
  { instance, acceptedVersion, refusal, ...rest }: z.infer<typeof limiterSchema>,
  lists: readonly z.infer<typeof rejectedSchema>[],
): LimiterReport {
  const report = { ...rest, instance, acceptedVersion };
  if (refusal?.refused === undefined) return { ...report, refusal };
  const { refused, ...rejected } = refusal;
  return { ...report, refusal: { ...rejected, resources: lists[refused] } };
}
