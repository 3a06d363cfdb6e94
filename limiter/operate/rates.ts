/**
 * The rates per second and the history of the last hour: differences of the registry's counters, taken every ten seconds, or every two
 * while they are requested. None of this is on the way of a request.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { sanitizeMetricKey } from '../../rules/match-result.ts';
import { quantileMs, type TakenLatencies } from '../stats/registry/call-stats.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';

export const stepSeconds = 10;
/** Chosen: an hour. */
const maxPoints = 360;
/** Chosen: domains with a history of their own, which the busiest ones keep. Each takes 12 KiB. */
const maxDomains = 100;
/** The interval of samples while rates are requested, and for how long after a request. */
const tickMs = 2_000;
const ticksPerStep = 5;
const lookedMs = 60_000;

/** Offsets from the first slot of a rule: first those of a point, in its order, then those of rates only. */
const lookedAt = [
  RuleStat.passed,
  RuleStat.limited,
  RuleStat.nearLimit,
  RuleStat.shadowMode,
  RuleStat.overLimit,
] as const;
const pointStats = 4;

/** The end of a step in seconds since 1970, then its hits: passed, limited, near, shadowed. */
export type RatePoint = [number, number, number, number, number];

export interface Rates {
  /** The seconds that the rates cover; 0 before the first sample. All other figures are per second. */
  readonly seconds: number;
  readonly decisions: number;
  /** Hits by the answer to their request: each hit is in one of the two. */
  readonly allowed: number;
  readonly limited: number;
  /** Hits by the result of each limit, whatever the answer was. */
  readonly overLimit: number;
  readonly nearLimit: number;
  readonly shadow: number;
  /** Decisions over gRPC. Null if there were none. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Requests over HTTP, until their answer is sent. Null if there were none. */
  readonly httpP50Ms: number | null;
  readonly httpP99Ms: number | null;
}

const noRates: Rates = {
  ...{ seconds: 0, decisions: 0, allowed: 0, limited: 0, overLimit: 0, nearLimit: 0, shadow: 0 },
  ...{ p50Ms: null, p99Ms: null, httpP50Ms: null, httpP99Ms: null },
};

export interface RateHistory {
  readonly stepSeconds: number;
  readonly since: string;
  readonly points: RatePoint[];
  /** Domains, the busiest first. */
  readonly domains: { domain: string; points: RatePoint[] }[];
}

const none: readonly number[] = lookedAt.map(() => 0);

/** One metric of rules. */
interface Row {
  readonly slot: number;
  /** The generation of the slot when it was last read. */
  generation: number;
  domain: string;
  /** Totals at the last sample, in the order of `lookedAt`. */
  readonly last: number[];
  /** The total of all hits at the last sample. */
  lastHits: number;
  /** Rates in the order of `lookedAt`. */
  readonly perSecond: number[];
  hitsPerSecond: number;
}

export interface RateSamplerOptions {
  registry: StatsRegistry;
  clock: Clock;
  timers: Timers;
  /** The durations of decisions of each thread since the last call. */
  takeLatencies(): Promise<readonly TakenLatencies[]>;
  /** The domains of the rules in force. */
  domains(): readonly string[];
  /** Called when the statistics were brought up to date. */
  onLook(): void;
}

/** Chosen: about a millisecond's work. */
const rowsPerTurn = 2_048;
const slotsPerTurn = 8_192;

/** One sample of all rows. */
interface Look {
  readonly seconds: number;
  /** Sums in the order of `lookedAt`. */
  readonly sums: number[];
  /** Domains of the rules in force, by their name in metric keys. */
  readonly domains: ReadonlyMap<string, string>;
}

export class RateSampler {
  readonly #options: RateSamplerOptions;
  readonly #rows = new Map<number, Row>();
  readonly #total = new Series();
  readonly #domains = new Map<string, Series>();
  readonly #times = new Float64Array(maxPoints);
  /** The number of finished points. */
  #count = 0;
  #scanned = 0;
  #ticks = 0;
  #lastMs: number;
  #lastDecisions = 0;
  #lookedMs = Number.NEGATIVE_INFINITY;
  #isBusy = false;
  #rates = noRates;
  readonly #stop: () => void;

  constructor(options: RateSamplerOptions) {
    this.#options = options;
    this.#lastMs = options.clock.monotonicMs();
    this.#stop = options.timers.every(tickMs, () => void this.#tick());
  }

  close(): void {
    this.#stop();
  }

  /** The rates of the last ten seconds, or of the last two if they are requested repeatedly. */
  get rates(): Rates {
    this.#lookedMs = this.#options.clock.monotonicMs();
    return this.#rates;
  }

  /** The rates of the rule whose first slot this is. */
  ofRule(slot: number): { hitsPerSecond: number; limitedPerSecond: number; overPerSecond: number } {
    this.#lookedMs = this.#options.clock.monotonicMs();
    const { hitsPerSecond = 0, perSecond = none } = this.#rows.get(slot) ?? {};
    return { hitsPerSecond, limitedPerSecond: perSecond[1]!, overPerSecond: perSecond[4]! };
  }

  /** Returns `most` domains among those that may be shown. */
  history(max: number, mayShow: (domain: string) => boolean): RateHistory {
    const shown = [...this.#domains].filter(([domain]) => mayShow(domain));
    const busiest = shown.sort(([, a], [, b]) => b.weight - a.weight).slice(0, max);
    const points = this.#pointsOf(this.#total);
    const since = points[0]?.[0] ?? Math.floor(this.#options.clock.nowMs() / 1000);
    return {
      stepSeconds,
      since: new Date(since * 1000).toISOString(),
      points,
      domains: busiest.map(([domain, series]) => ({ domain, points: this.#pointsOf(series) })),
    };
  }

  async #tick(): Promise<void> {
    const { clock, registry, takeLatencies } = this.#options;
    this.#ticks += 1;
    const endsStep = this.#ticks % ticksPerStep === 0;
    if (this.#isBusy || (!endsStep && clock.monotonicMs() - this.#lookedMs > lookedMs)) return;
    this.#isBusy = true;
    try {
      await registry.refreshAll();
      this.#options.onLook();
      const latencies = await takeLatencies();
      await this.#look(latencies);
      if (endsStep) this.#endStep();
    } finally {
      this.#isBusy = false;
    }
  }

  /** Takes a sample, in slices between which other work runs. */
  async #look(latencies: readonly TakenLatencies[]): Promise<void> {
    const { clock, registry } = this.#options;
    const nowMs = clock.monotonicMs();
    const seconds = (nowMs - this.#lastMs) / 1000;
    if (seconds <= 0) return;
    this.#lastMs = nowMs;
    await this.#findRows();
    const sums = [...none];
    const domains = new Map(this.#options.domains().map((domain) => [sanitizeMetricKey(domain), domain]));
    let looked = 0;
    for (const row of this.#rows.values()) {
      this.#lookAt(row, { seconds, sums, domains });
      if (++looked % rowsPerTurn === 0) await nextTurn();
    }
    const requests = [
      'ratelimit_server.ShouldRateLimit.total_requests',
      'ratelimit.http.json_requests',
      'ratelimit.http.v1_requests',
    ];
    const decisions = requests.reduce((sum, name) => sum + (registry.valueNamed(name) ?? 0), 0);
    const perSecond = (value: number): number => Math.round((10 * value) / seconds) / 10;
    const [grpc, http] = [latencies.map((one) => one.grpc), latencies.map((one) => one.http)];
    const [allowed = 0, limited = 0, nearLimit = 0, shadow = 0, overLimit = 0] = sums.map(perSecond);
    this.#rates = {
      seconds: Math.round(seconds * 10) / 10,
      decisions: perSecond(Math.max(0, decisions - this.#lastDecisions)),
      ...{ allowed, limited, overLimit, nearLimit, shadow },
      p50Ms: quantileMs(grpc, 0.5),
      p99Ms: quantileMs(grpc, 0.99),
      httpP50Ms: quantileMs(http, 0.5),
      httpP99Ms: quantileMs(http, 0.99),
    };
    this.#lastDecisions = decisions;
  }

  /** Adds rows for new slots, whose names are read only this once. */
  async #findRows(): Promise<void> {
    const { registry } = this.#options;
    for (; this.#scanned < registry.slotCount; this.#scanned += 1) {
      if (this.#scanned % slotsPerTurn === slotsPerTurn - 1) await nextTurn();
      const kind = registry.slotNameAt(this.#scanned)?.kind;
      if (kind !== 'rule' && kind !== 'detailed') continue;
      const slot = this.#scanned;
      this.#rows.set(slot, {
        slot,
        generation: 0,
        domain: '',
        last: [...none],
        lastHits: 0,
        perSecond: [...none],
        hitsPerSecond: 0,
      });
    }
  }

  #lookAt(row: Row, { seconds, sums, domains }: Look): void {
    const { registry } = this.#options;
    const { slot, last, perSecond } = row;
    const generation = registry.generationOf(slot);
    if (generation !== row.generation) {
      row.generation = generation;
      row.domain = generation === 0 ? '' : domainOf(registry.slotNameAt(slot)?.name ?? '', domains);
      last.fill(0);
      row.lastHits = 0;
    }
    const hits = registry.valueOf(slot + RuleStat.totalHits);
    const had = row.lastHits;
    row.hitsPerSecond = Math.max(0, hits - had) / seconds;
    row.lastHits = hits;
    perSecond.fill(0);
    // A row without new hits costs no more than this.
    if (hits === had || generation === 0) return;
    const series = this.#seriesOf(row.domain);
    for (const [n, stat] of lookedAt.entries()) {
      const value = registry.valueOf(slot + stat);
      const more = Math.max(0, value - last[n]!);
      last[n] = value;
      sums[n]! += more;
      perSecond[n] = more / seconds;
      if (n >= pointStats) continue;
      this.#total.add(n, more);
      series?.add(n, more);
    }
  }

  #endStep(): void {
    const at = this.#count % maxPoints;
    this.#times[at] = Math.round(this.#options.clock.nowMs() / 1000);
    this.#total.endStep(at);
    for (const series of this.#domains.values()) series.endStep(at);
    this.#count += 1;
  }

  #pointsOf(series: Series): RatePoint[] {
    const length = Math.min(this.#count, maxPoints);
    return Array.from({ length }, (_, n) => {
      const at = (this.#count - length + n) % maxPoints;
      return [this.#times[at]!, ...series.at(at)] as RatePoint;
    });
  }

  /** Returns undefined if other domains are busier. */
  #seriesOf(domain: string): Series | undefined {
    const known = this.#domains.get(domain);
    if (known !== undefined) return known;
    if (this.#domains.size >= maxDomains) {
      const idle = [...this.#domains].find(([, series]) => series.weight === 0);
      if (idle === undefined) return undefined;
      this.#domains.delete(idle[0]);
    }
    const series = new Series();
    this.#domains.set(domain, series);
    return series;
  }
}

/** Returns the longest domain that the metric key begins with. */
function domainOf(name: string, domains: ReadonlyMap<string, string>): string {
  for (let end = name.lastIndexOf('.'); end > 0; end = name.lastIndexOf('.', end - 1)) {
    const domain = domains.get(name.slice(0, end));
    if (domain !== undefined) return domain;
  }
  return name.split('.', 1)[0]!;
}

/** Hits of the last hour, one point for each step, and of the open step. */
class Series {
  readonly #points = new Float64Array(maxPoints * pointStats);
  readonly #open = new Float64Array(pointStats);
  /** Hits that passed or were limited, in all steps and the open one. */
  weight = 0;

  add(stat: number, hits: number): void {
    this.#open[stat]! += hits;
    if (stat < 2) this.weight += hits;
  }

  endStep(at: number): void {
    const [passed, limited] = this.at(at);
    this.weight -= passed! + limited!;
    this.#points.set(this.#open, at * pointStats);
    this.#open.fill(0);
  }

  at(step: number): Float64Array {
    return this.#points.subarray(step * pointStats, (step + 1) * pointStats);
  }
}
