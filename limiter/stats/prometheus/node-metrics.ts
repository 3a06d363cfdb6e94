/** What prom-client reports the process, its memory and its event loop; that of the main thread where there are others. */
import { readdir } from 'node:fs/promises';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Tags } from '../registry/metric-name.ts';
import { metricName } from './metric-text.ts';

export interface NodeMetrics {
  readonly names: ReadonlySet<string>;
  /** The text, lines and all. */
  text(): Promise<string>;
  /** Measures nothing any more. */
  stop(): void;
}

/**
 * Gauges that end in _total, which Prometheus keeps for counters, and lists of handles, which take long to make with
 * thousands of connections.
 */
const leftOut = ['active_handles', 'active_requests', 'active_resources'].flatMap((name) => [
  `nodejs_${name}`,
  `nodejs_${name}_total`,
]);
const openFiles = 'process_open_fds';

export function createNodeMetrics(tags: Tags): NodeMetrics {
  const registry = new Registry();
  registry.setDefaultLabels(Object.fromEntries(tags.map(([key, value]) => [metricName(key), value])));
  collectDefaultMetrics({ register: registry });
  for (const name of leftOut) registry.removeSingleMetric(name);
  if (registry.getSingleMetric(openFiles) !== undefined) replaceOpenFiles(registry);
  return {
    names: new Set(registry.getMetricsAsArray().map(({ name }) => name)),
    text: () => registry.metrics(),
    stop: () => registry.clear(),
  };
}

/** prom-client reads the list while everything waits: ten milliseconds with as many thousand connections. */
function replaceOpenFiles(registry: Registry): void {
  registry.removeSingleMetric(openFiles);
  new Gauge({
    name: openFiles,
    help: 'Number of open file descriptors.',
    registers: [registry],
    async collect() {
      this.set((await readdir('/proc/self/fd')).length);
    },
  });
}
