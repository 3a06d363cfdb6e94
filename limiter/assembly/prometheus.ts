/** The endpoint for Prometheus. Loads prom-client: see `optional-modules.ts`. */
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { addressText } from '../../process/net/bind.ts';
import * as lines from '../log/lines.ts';
import { builtInMapping } from '../stats/prometheus/mapper.ts';
import { readMapperFile } from '../stats/prometheus/mapper-file.ts';
import { PrometheusSink } from '../stats/prometheus/prometheus-sink.ts';
import type { LimiterContext, Sink } from './context.ts';
import { listenerErrors } from './start-trouble.ts';

/** Throws a MapperFileError. */
export function openPrometheus(context: LimiterContext, connections: HttpConnectionsOptions): Sink {
  const { settings, registry, clock, timers, log } = context;
  const { prometheusAddress: address, prometheusMapperYaml: mapper } = settings;
  const responseTimeAsMilliseconds = settings.prometheusResponseTimeAsMilliseconds;
  const { mapping, warnings } =
    mapper === ''
      ? { mapping: builtInMapping({ responseTimeAsMilliseconds }), warnings: [] }
      : readMapperFile(mapper);
  for (const warning of warnings) lines.mapperWarning(log, warning);
  const sink = new PrometheusSink({
    source: registry,
    mapping,
    address,
    path: settings.prometheusPath,
    clock,
    timers,
    connections,
    listener: {
      listening: (port) => lines.listeningForPrometheus(log, addressText({ ...address, port })),
      conflict: (stat, metric) => lines.metricNameTaken(log, stat, metric),
      fault: (error) => lines.callFault(log, 'Prometheus', error),
    },
  });
  return {
    start: () => sink.start().catch(listenerErrors.prometheus),
    close: () => sink.close(),
  };
}
