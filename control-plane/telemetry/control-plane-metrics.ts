/** The statistics of the control plane, and the numbers of each fleet, which are computed for a scrape. */
import { collectDefaultMetrics, Registry } from 'prom-client';
import type { Logger } from '../../process/log/logger.ts';
import { acceptedRow, type ClusterDecision } from '../model/decision.ts';
import type { LimiterReport } from '../model/fleet-snapshot.ts';
import { acceptedReasons } from '../model/reasons.ts';
import { rulesOfLimiter } from '../model/supported-rules.ts';
import { createMetricSet, type MetricSet } from './metric-set.ts';

/** A name that no fleet can have. */
export const otherFleets = '_other';

/** Chosen: a scrape handles this number of fleets in a few milliseconds. */
export const maxFleets = 500;

const limiterStates = ['in_force', 'pending', 'refused', 'too_old'] as const;
export type LimiterStateLabel = (typeof limiterStates)[number];

/** Numbers by fleet, for labels. The number of labels is bounded, because any user who may create an object can invent fleets. */
export interface FleetTotals {
  rules: number;
  snapshotBytes: number;
  limiters: Record<LimiterStateLabel, number>;
}

/**
 * Returns numbers by fleet, for fleets with served objects: the first `most` by name, and the sum of the others, if any, as
 * `otherFleets`.
 */
export function fleetTotals(
  decision: ClusterDecision | undefined,
  limiters: Iterable<LimiterReport>,
  max = maxFleets,
): Map<string, FleetTotals> {
  const names = [...(decision?.fleets.keys() ?? [])].sort().slice(0, max);
  const totals = new Map(names.map((name) => [name, noTotals()]));
  const totalsOf = (fleet: string): FleetTotals => {
    const name = totals.has(fleet) ? fleet : otherFleets;
    const found = totals.get(name) ?? noTotals();
    totals.set(name, found);
    return found;
  };
  for (const { fleet, resources } of decision?.fleets.values() ?? []) {
    const total = totalsOf(fleet);
    for (const { bytes } of resources) total.snapshotBytes += bytes.length;
  }
  for (const { served } of decision?.outcomes.values() ?? []) {
    if (served !== undefined) totalsOf(served.fleet).rules += served.rules;
  }
  for (const limiter of limiters) totalsOf(limiter.fleet).limiters[stateOf(limiter, decision)] += 1;
  return totals;
}

function stateOf(limiter: LimiterReport, decision: ClusterDecision | undefined): LimiterStateLabel {
  const rules = rulesOfLimiter(limiter, decision);
  if (rules?.isCurrent) return rules.isTooOld ? 'too_old' : 'in_force';
  return rules !== undefined && limiter.refusal?.version === rules.version ? 'refused' : 'pending';
}

function noTotals(): FleetTotals {
  return { rules: 0, snapshotBytes: 0, limiters: { in_force: 0, pending: 0, refused: 0, too_old: 0 } };
}

/** Sources that are read at every scrape. */
export interface MetricSources {
  /** The current decision. Undefined before the first complete list. */
  decision(): ClusterDecision | undefined;
  /** The limiters of this replica alone. The reader of metrics adds up the replicas. */
  limiters(): Iterable<LimiterReport>;
  domainsHeld(): number;
  replicasAlive(): number;
  statusWritesWaiting(): number;
  /** Returns the sum over all endpoints. */
  webhookEventsQueued(): number;
}

export interface ControlPlaneMetricsOptions {
  sources: MetricSources;
  version: string;
  nodeVersion: string;
}

interface AccessDenial {
  verb: string;
  resource: string;
}

/** The log and the metrics for all parts. */
export interface Telemetry {
  log: Logger;
  metrics: ControlPlaneMetrics;
}

/** The statistics of the control plane, with `metrics` for scrapes. */
export class ControlPlaneMetrics {
  readonly registry = new Registry();
  /** The metrics. Those that follow from a state have a method below. */
  readonly all: MetricSet = createMetricSet(this.registry);
  readonly #sources: MetricSources;
  /** Versions by fleet, of the newest decision. */
  #versions = new Map<string, string>();
  #isSourceLost = false;
  /** Denials by identity, because several readers may have equal denials. */
  readonly #denials = new Set<AccessDenial>();

  constructor({ sources, version, nodeVersion }: ControlPlaneMetricsOptions) {
    this.#sources = sources;
    this.all.buildInfo.set({ version, node: nodeVersion }, 1);
    collectDefaultMetrics({ register: this.registry });
  }

  get contentType(): string {
    return this.registry.contentType;
  }

  /** The text that is scraped. */
  metrics(): Promise<string> {
    this.#readSources();
    return this.registry.metrics();
  }

  /** Called at the first complete list, and after every outage. */
  sourceConnected(): void {
    this.#isSourceLost = false;
    this.all.sourceConnected.set(1);
  }

  /** Called when the source is lost. It may be called several times in one outage, which counts once. */
  sourceLost(): void {
    if (this.#isSourceLost) return;
    this.#isSourceLost = true;
    this.all.sourceConnected.set(0);
    this.all.sourceOutages.inc();
  }

  /** Called when this access is denied to a reader of the API server, or when the denial has ended, with the same object both times. */
  accessDenied(denial: AccessDenial, isDenied: boolean): void {
    if (isDenied) this.#denials.add(denial);
    else this.#denials.delete(denial);
    const { verb, resource } = denial;
    const isLeft = [...this.#denials].some((one) => one.verb === verb && one.resource === resource);
    this.all.accessDenied.set({ verb, resource }, Number(isLeft));
  }

  /** Called at every decision, even if nothing changes. Returns how many fleets have changed rules. */
  decided(decision: ClusterDecision, durationMs: number): number {
    this.all.reconcileDuration.observe(durationMs / 1000);
    const versions = new Map([...decision.fleets].map(([fleet, { version }]) => [fleet, version]));
    const fleets = new Set([...versions.keys(), ...this.#versions.keys()]);
    const changed = [...fleets].filter((fleet) => versions.get(fleet) !== this.#versions.get(fleet)).length;
    this.all.snapshotChanges.inc(changed);
    this.#versions = versions;
    return changed;
  }

  #readSources(): void {
    const sources = this.#sources;
    const decision = sources.decision();
    this.#readDecision(decision);
    this.#readFleets(decision, sources.limiters());
    this.all.domainsHeld.set(sources.domainsHeld());
    this.all.replicasAlive.set(sources.replicasAlive());
    this.all.statusWritesWaiting.set(sources.statusWritesWaiting());
    this.all.webhookQueued.set(sources.webhookEventsQueued());
  }

  #readDecision(decision: ClusterDecision | undefined): void {
    const configs = new Map<string, number>(acceptedReasons('RateLimitConfig').map((reason) => [reason, 0]));
    const overrides = new Map<string, number>(
      acceptedReasons('RateLimitOverride').map((reason) => [reason, 0]),
    );
    let older = 0;
    for (const { accepted, object, served } of decision?.outcomes.values() ?? []) {
      const counts = object.kind === undefined ? configs : overrides;
      const { reason } = acceptedRow(accepted);
      counts.set(reason, (counts.get(reason) ?? 0) + 1);
      if (served !== undefined && (!accepted.status || served.generation !== object.generation)) older += 1;
    }
    for (const [accepted, count] of configs) this.all.objects.set({ accepted }, count);
    for (const [accepted, count] of overrides) this.all.overrides.set({ accepted }, count);
    this.all.objectsServedOlder.set(older);
    this.all.fleets.set(decision?.fleets.size ?? 0);
  }

  /** Reads the fleets. The series of deleted fleets are removed. */
  #readFleets(decision: ClusterDecision | undefined, reports: Iterable<LimiterReport>): void {
    const { fleetRules, fleetSnapshotBytes, limiters } = this.all;
    for (const metric of [fleetRules, fleetSnapshotBytes, limiters]) metric.reset();
    for (const [fleet, totals] of fleetTotals(decision, reports)) {
      fleetRules.set({ fleet }, totals.rules);
      fleetSnapshotBytes.set({ fleet }, totals.snapshotBytes);
      for (const state of limiterStates) limiters.set({ fleet, state }, totals.limiters[state]);
    }
  }
}
