/** Where the settings say that statistics go. Every sink is joined here. */

import { packageVersion } from '../../process/log/version.ts';
import { addressText } from '../../process/net/process-bind.ts';
import * as lines from '../log/lines.ts';
import { type SinkName, sinkOf } from '../settings/stats-settings.ts';
import { registerSinkStats } from '../stats/registry/limiter-stats.ts';
import { DogStatsdSink } from '../stats/sinks/dogstatsd-sink.ts';
import { Mogrifiers } from '../stats/sinks/mogrifier.ts';
import { OutputSink } from '../stats/sinks/output-sink.ts';
import { StatsdSink } from '../stats/sinks/statsd-sink.ts';
import { loaded, type OptionalParts } from './optional-parts.ts';
import type { Sink, SinkParts } from './sink-parts.ts';

interface OpenSinkParts extends SinkParts {
  optional: Pick<OptionalParts, 'prometheus'>;
}

const openers: Record<SinkName, (parts: OpenSinkParts) => Sink | undefined> = {
  none: () => undefined,
  statsd: openStatsd,
  dogstatsd: openDogStatsd,
  output: openOutput,
  prometheus: (parts) =>
    loaded(parts.optional.prometheus, 'the endpoint for Prometheus').openPrometheus(parts),
};

/** Throws an Error when it cannot be opened as the settings say. */
export function openSink(parts: OpenSinkParts): Sink | undefined {
  return openers[sinkOf(parts.settings)](parts);
}

function openStatsd({ settings, source, timers, log }: SinkParts): Sink {
  const { statsdHost: host, statsdPort: port, statsdProtocol: protocol } = settings;
  const address = addressText({ host, port });
  const sink = new StatsdSink({
    source,
    host,
    port,
    protocol,
    flushIntervalMs: settings.statsFlushIntervalMs,
    timers,
    listener: lines.statsdLines(log, address),
  });
  registerSinkStats(source, 'statsd', sink);
  return sink;
}

function openDogStatsd({ settings, source, timers, log }: SinkParts): Sink {
  const { statsdHost: host, statsdPort: port, mogrifiers } = settings;
  const address = addressText({ host, port });
  const sink = new DogStatsdSink({
    source,
    host,
    port,
    flushIntervalMs: settings.statsFlushIntervalMs,
    mogrifiers: new Mogrifiers(mogrifiers),
    version: packageVersion(),
    timers,
    listener: lines.dogStatsdLines(log, address),
  });
  registerSinkStats(source, 'dogstatsd', sink);
  return sink;
}

function openOutput({ settings, source, clock, timers, output }: SinkParts): Sink {
  const sink = new OutputSink({
    source,
    output,
    clock,
    timers,
    flushIntervalMs: settings.statsFlushIntervalMs,
  });
  registerSinkStats(source, 'output', sink);
  return sink;
}
