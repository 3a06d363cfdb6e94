/** Where the settings say that statistics go. Every sink is joined here. */
import { addressText } from '../process/bind.ts';
import { packageVersion } from '../process/version.ts';
import * as lines from './log-lines.ts';
import { loaded, type OptionalParts } from './optional-parts.ts';
import type { Sink, SinkParts } from './sink-parts.ts';
import { DogStatsdSink, Mogrifiers } from './stats/dogstatsd/index.ts';
import { registerSinkStats } from './stats/limiter-stats.ts';
import { OutputSink } from './stats/output-sink.ts';
import { StatsdSink } from './stats/statsd-sink.ts';
import { type SinkName, sinkOf } from './stats-settings.ts';

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
