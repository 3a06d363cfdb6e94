/** The metrics of prom-client for the process, its memory and its event loop (that of the main thread). */
import { readdir } from 'node:fs/promises';
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import type { Tags } from '../registry/tags.ts';
import { metricName } from './metric-text.ts';

export interface NodeMetrics {
  readonly names: ReadonlySet<string>;
  /** Returns the metrics as text with line ends. */
  text(): Promise<string>;
  /** Stops measuring. */
  stop(): void;
}

/**
 * Metrics that are left out: gauges that end in _total, which Prometheus reserves for counters, and lists of handles, which take long
 * with thousands of connections.
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

/** Replaces prom-client's list of open files, which blocks the thread: ten milliseconds for ten thousand connections. */
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
