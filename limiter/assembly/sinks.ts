/** Opens the destination of statistics that the settings name. */

import { packageVersion } from '../../process/files/package-file.ts';
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { addressText } from '../../process/net/bind.ts';
import { receiverLines } from '../log/receiver-lines.ts';
import { sinkOf } from '../settings/stats-settings.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import { registerSinkStats } from '../stats/registry/limiter-stats.ts';
import { DogStatsdSink } from '../stats/sinks/dogstatsd-sink.ts';
import { Mogrifiers } from '../stats/sinks/mogrifier.ts';
import { OutputSink, type OutputStream } from '../stats/sinks/output-sink.ts';
import { StatsdSink } from '../stats/sinks/statsd-sink.ts';
import { type LimiterContext, loaded, type OptionalModules, type Sink } from './context.ts';

interface SinkParts {
  modules: Pick<OptionalModules, 'prometheus'>;
  /** The options of an HTTP listener. */
  connections: HttpConnectionsOptions;
  /** The mapping of Prometheus; undefined: the built-in one. */
  mapping: (() => Mapping) | undefined;
  /** Standard output. */
  output: OutputStream;
}

/** Undefined: statistics are not sent. @throws Error if it cannot be opened with these settings */
export function openSink(
  context: LimiterContext,
  { modules, connections, mapping, output }: SinkParts,
): Sink | undefined {
  const name = sinkOf(context.settings);
  if (name === 'none') return undefined;
  if (name === 'prometheus') {
    const prometheus = loaded(modules.prometheus, 'the endpoint for Prometheus');
    return prometheus.openPrometheus(context, connections, mapping);
  }
  const sink = newSink[name](context, output);
  registerSinkStats(context.registry, name, sink);
  return sink;
}

const newSink = {
  statsd: ({ settings, registry: source, timers, log }: LimiterContext) => {
    const { statsdHost: host, statsdPort: port, statsdProtocol: protocol } = settings;
    const flushIntervalMs = settings.statsFlushIntervalMs;
    const listener = receiverLines(log, 'statsd', addressText({ host, port }));
    return new StatsdSink({ source, host, port, protocol, flushIntervalMs, timers, listener });
  },
  dogstatsd: ({ settings, registry: source, timers, log }: LimiterContext) => {
    const { statsdHost: host, statsdPort: port } = settings;
    return new DogStatsdSink({
      source,
      host,
      port,
      flushIntervalMs: settings.statsFlushIntervalMs,
      mogrifiers: new Mogrifiers(settings.mogrifiers),
      version: packageVersion(),
      timers,
      listener: receiverLines(log, 'dogstatsd', addressText({ host, port })),
    });
  },
  output: ({ settings, registry: source, clock, timers }: LimiterContext, output: OutputStream) =>
    new OutputSink({ source, output, clock, timers, flushIntervalMs: settings.statsFlushIntervalMs }),
};
