/**
 * What happens a second, and what happened in the last hour: differences of the registry's counters, taken every ten
 * seconds, every two while somebody looks. Nothing of it is on the way of a request.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Clock, Timers } from '../../process/time/clock.ts';
import { sanitizeMetricKey } from '../../rules/match-result.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { quantileMs, type TakenLatencies } from './latencies.ts';

export const stepSeconds = 10;
/** Chosen: an hour. */
const mostPoints = 360;
/** Chosen: domains with a history of their own; those that are busiest keep it. Each takes 12 KiB. */
const mostDomains = 100;
/** How often it is looked while somebody asks, and for how long after. */
const tickMs = 2_000;
const ticksPerStep = 5;
const lookedMs = 60_000;

/** Offsets from the first slot of a rule: those of a point, in its order, then those of rates alone. */
const lookedAt = [
  RuleStat.passed,
  RuleStat.limited,
  RuleStat.nearLimit,
  RuleStat.shadowMode,
  RuleStat.overLimit,
] as const;
const pointStats = 4;

/** Seconds since 1970 at its end, then hits a step: passed, limited, near, shadowed. */
export type RatePoint = [number, number, number, number, number];

export interface Rates {
  /** Over how long; 0 before the first look. All others are a second. */
  readonly seconds: number;
  readonly decisions: number;
  /** Hits of requests by their answers: each hit is in one of the two. */
  readonly allowed: number;
  readonly limited: number;
  /** Hits by what each limit says, whatever the answer was. */
  readonly overLimit: number;
  readonly nearLimit: number;
  readonly shadow: number;
  /** Of decisions over gRPC. Null without any. */
  readonly p50Ms: number | null;
  readonly p99Ms: number | null;
  /** Of requests over HTTP, until their answer is sent. Null without any. */
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
  /** The busiest first. */
  readonly domains: { domain: string; points: RatePoint[] }[];
}

const none: readonly number[] = lookedAt.map(() => 0);

/** One metric of rules. */
interface Row {
  readonly slot: number;
  /** Of what the slot stood for when it was read last. */
  generation: number;
  domain: string;
  /** Totals, in the order of `lookedAt`. */
  readonly last: number[];
  /** Of all hits. */
  lastHits: number;
  /** Of what is looked at, in the same order, and of all hits. */
  readonly perSecond: number[];
  hitsPerSecond: number;
}

export interface RateSamplerOptions {
  registry: StatsRegistry;
  clock: Clock;
  timers: Timers;
  /** How long decisions took since it was asked last, of each thread. */
  takeLatencies(): Promise<readonly TakenLatencies[]>;
  /** Of the rules in force. */
  domains(): readonly string[];
  /** The statistics were brought up to date. */
  onLook(): void;
}

/** Chosen: about a millisecond's work. */
const rowsPerTurn = 2_048;
const slotsPerTurn = 8_192;

/** At all rows, once. */
interface Look {
  readonly seconds: number;
  /** In the order of `lookedAt`. */
  readonly sums: number[];
  /** Of the rules in force, by the name in metric keys. */
  readonly domains: ReadonlyMap<string, string>;
}

export class RateSampler {
  readonly #options: RateSamplerOptions;
  readonly #rows = new Map<number, Row>();
  readonly #total = new Series();
  readonly #domains = new Map<string, Series>();
  readonly #times = new Float64Array(mostPoints);
  /** Of points that were finished. */
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

  /** Of the last ten seconds, or of two where somebody asks again and again. */
  get rates(): Rates {
    this.#lookedMs = this.#options.clock.monotonicMs();
    return this.#rates;
  }

  /** Hits a second of what is counted from this slot on. */
  ofRule(slot: number): { hitsPerSecond: number; limitedPerSecond: number; overPerSecond: number } {
    this.#lookedMs = this.#options.clock.monotonicMs();
    const { hitsPerSecond = 0, perSecond = none } = this.#rows.get(slot) ?? {};
    return { hitsPerSecond, limitedPerSecond: perSecond[1]!, overPerSecond: perSecond[4]! };
  }

  /** `most` domains, of those that may be shown. */
  history(most: number, mayShow: (domain: string) => boolean): RateHistory {
    const shown = [...this.#domains].filter(([domain]) => mayShow(domain));
    const busiest = shown.sort(([, a], [, b]) => b.weight - a.weight).slice(0, most);
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

  /** Others are answered between two slices of it. */
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

  /** Names are looked at once: of slots that are new. */
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
    // A quiet one costs no more than this.
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
    const at = this.#count % mostPoints;
    this.#times[at] = Math.round(this.#options.clock.nowMs() / 1000);
    this.#total.endStep(at);
    for (const series of this.#domains.values()) series.endStep(at);
    this.#count += 1;
  }

  #pointsOf(series: Series): RatePoint[] {
    const length = Math.min(this.#count, mostPoints);
    return Array.from({ length }, (_, n) => {
      const at = (this.#count - length + n) % mostPoints;
      return [this.#times[at]!, ...series.at(at)] as RatePoint;
    });
  }

  /** Undefined where others are busier. */
  #seriesOf(domain: string): Series | undefined {
    const known = this.#domains.get(domain);
    if (known !== undefined) return known;
    if (this.#domains.size >= mostDomains) {
      const idle = [...this.#domains].find(([, series]) => series.weight === 0);
      if (idle === undefined) return undefined;
      this.#domains.delete(idle[0]);
    }
    const series = new Series();
    this.#domains.set(domain, series);
    return series;
  }
}

/** The longest domain that the metric key begins with. */
function domainOf(name: string, domains: ReadonlyMap<string, string>): string {
  for (let end = name.lastIndexOf('.'); end > 0; end = name.lastIndexOf('.', end - 1)) {
    const domain = domains.get(name.slice(0, end));
    if (domain !== undefined) return domain;
  }
  return name.split('.', 1)[0]!;
}

/** Hits of the last hour, a point each step, and of the step that goes on. */
class Series {
  readonly #points = new Float64Array(mostPoints * pointStats);
  readonly #open = new Float64Array(pointStats);
  /** Passed and limited, of all steps and the open one. */
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
