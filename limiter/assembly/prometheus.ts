/** The endpoint for Prometheus. Loads prom-client: see `optional-modules.ts`. */
import type { HttpConnectionsOptions } from '../../process/http/http-connections.ts';
import { addressText } from '../../process/net/bind.ts';
import { lines } from '../log/lines.ts';
import { builtInMapping } from '../stats/prometheus/mapper.ts';
import type { Mapping } from '../stats/prometheus/mapping-rules.ts';
import { PrometheusSink } from '../stats/prometheus/prometheus-sink.ts';
import type { LimiterContext, Sink } from './context.ts';
import { listenerErrors } from './slow-start.ts';

/** `mapping`: undefined for the built-in mapping. */
export function openPrometheus(
  context: LimiterContext,
  connections: HttpConnectionsOptions,
  mapping: (() => Mapping) | undefined,
): Sink {
  const { settings, registry, clock, timers, log } = context;
  const { prometheusAddress: address } = settings;
  const responseTimeAsMilliseconds = settings.prometheusResponseTimeAsMilliseconds;
  const sink = new PrometheusSink({
    source: registry,
    mapping: mapping?.() ?? builtInMapping({ responseTimeAsMilliseconds }),
    address,
    path: settings.prometheusPath,
    clock,
    timers,
    connections,
    listener: {
      listening: (port) => lines.listeningForPrometheus(log, { address: addressText({ ...address, port }) }),
      conflict: (stat, metric) => lines.metricNameTaken(log, { stat, metric }),
      fault: (error) => lines.callFault(log, { call: 'Prometheus', error }),
    },
  });
  return {
    start: () => sink.start().catch(listenerErrors.prometheus),
    close: () => sink.close(),
  };
}
