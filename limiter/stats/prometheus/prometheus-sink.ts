/** Exposes the current statistics of the process to Prometheus, from memory. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { HttpConnectionsOptions } from '../../../process/http/http-connections.ts';
import type { HttpListener } from '../../../process/http/http-server.ts';
import type { ListenAddress } from '../../../process/net/bind.ts';
import type { Clock, Timers } from '../../../process/time/clock.ts';
import type { StatsSource } from '../registry/stats-registry.ts';
import type { Tags } from '../registry/tags.ts';
import { expositionSlices, MetricFamilies } from './exposition.ts';
import { Mapper } from './mapper.ts';
import type { Mapping } from './mapping-rules.ts';
import { labelText, metricName } from './metric-text.ts';
import { createNodeMetrics, type NodeMetrics } from './node-metrics.ts';
import { createPrometheusListener, ScrapeBodies } from './prometheus-listener.ts';
import { SeriesIndex } from './series-index.ts';

export interface PrometheusSinkOptions {
  source: StatsSource;
  mapping: Mapping;
  address: ListenAddress;
  path: string;
  clock: Clock;
  timers: Timers;
  /** Bounds its connections. Undefined: no bounds. */
  connections?: HttpConnectionsOptions | undefined;
  listener: {
    listening(port: number): void;
    /** Called once for a metric if a statistic is left out because the name is used for something else. */
    conflict(stat: string, metric: string): void;
    fault(error: unknown): void;
  };
}

/** The interval at which new names are mapped and durations added, so that the next scrape does not wait for all of them. */
const upkeepIntervalMs = 1_000;
const conflictsName = 'weir_prometheus_conflicts_total';
/** The number of conflicts that are reported. Further ones are only counted. */
const maxConflictsReported = 20;

export class PrometheusSink {
  readonly #options: PrometheusSinkOptions;
  readonly #node: NodeMetrics;
  readonly #families: MetricFamilies;
  readonly #index: SeriesIndex;
  readonly #http: HttpListener;
  readonly #reported = new Set<string>();
  #stopUpkeep = (): void => {};
  /** The last of the updates and answers, which run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: PrometheusSinkOptions) {
    const { source, mapping, path, clock, timers, listener } = options;
    this.#options = options;
    this.#node = createNodeMetrics(source.extraTags);
    this.#families = new MetricFamilies(new Set([...this.#node.names, conflictsName]));
    this.#index = new SeriesIndex({
      source,
      mapper: new Mapper(mapping),
      families: this.#families,
      clock,
      onConflict: (stat, metric) => this.#reportConflict(stat, metric),
    });
    const bodies = new ScrapeBodies(() => this.#compose());
    this.#http = createPrometheusListener({
      path,
      bodies,
      timers,
      closeGraceMs: 0,
      connections: options.connections,
      onFault: (error) => listener.fault(error),
    });
  }

  /** Rejects with a BindError. */
  async start(): Promise<void> {
    const { source, address, timers, listener } = this.#options;
    const { port } = await this.#http.listen(address);
    await this.#alone(() => this.#update());
    this.#stopUpkeep = timers.every(upkeepIntervalMs, () => {
      source.passDurations();
      void this.#alone(() => this.#update());
    });
    listener.listening(port);
  }

  /** Cuts running answers: Prometheus scrapes again. */
  async close(): Promise<void> {
    this.#stopUpkeep();
    await this.#http.close();
    this.#node.stop();
  }

  async *#compose(): AsyncGenerator<string> {
    const { source, clock } = this.#options;
    await source.refreshAll();
    const { promise, resolve } = Promise.withResolvers<void>();
    const turn = this.#last;
    this.#last = promise;
    await turn;
    try {
      await this.#update();
      yield* expositionSlices(this.#families, source, clock.monotonicMs());
      yield conflictLines(this.#index.conflicts, source.extraTags);
      yield await this.#node.text();
    } finally {
      resolve();
    }
  }

  async #alone(work: () => Promise<void>): Promise<void> {
    const turn = this.#last.then(work);
    this.#last = turn.catch((error) => this.#options.listener.fault(error));
    await this.#last;
  }

  async #update(): Promise<void> {
    for (const _ of this.#index.update()) await nextTurn();
  }

  #reportConflict(stat: string, metric: string): void {
    if (this.#reported.has(metric) || this.#reported.size === maxConflictsReported) return;
    this.#reported.add(metric);
    this.#options.listener.conflict(stat, metric);
  }
}

function conflictLines(conflicts: number, tags: Tags): string {
  const help = 'Statistics that were dropped because their metric has another type.';
  const labels = labelText(new Map(tags.map(([key, value]) => [metricName(key), value])));
  const head = `# HELP ${conflictsName} ${help}\n# TYPE ${conflictsName} counter\n${conflictsName}`;
  return `${head}${labels === '' ? '' : `{${labels}}`} ${conflicts}\n`;
}
