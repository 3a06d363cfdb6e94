/** Creates the tracing of one thread from settings, with log lines and statistics of its export. */

import { packageVersion } from '../../process/files/package-file.ts';
import { errorText } from '../../process/log/error-text.ts';
import { throttledLine } from '../../process/log/log-throttle.ts';
import { inTime } from '../../process/time/clock.ts';
import type { ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import { grpcTracer, httpTracer, rpcConvention, type SpanMaker } from './call-tracers.ts';
import { lines } from './lines.ts';
import type { startOpenTelemetry as StartOpenTelemetry } from './open-telemetry.ts';
import { Sampling } from './sampling.ts';
import type { TracingSettings } from './settings.ts';
import { headerForms } from './trace-headers.ts';
import { TracedStore } from './traced-store.ts';

/** Chosen: the time for sending the last spans at the end. */
const flushMs = 3_000;

type TracingContext = ThreadContext<TracingSettings>;

export function thread(context: TracingContext): ThreadPart {
  const { settings, timers, random, log } = context;
  /** Undefined until OpenTelemetry is loaded. Nothing is traced before. */
  let maker: SpanMaker | undefined;
  const sampling = new Sampling(settings.tracingSamplingRate, random);
  const options = {
    sampling,
    forms: headerForms(settings.otelPropagators),
    convention: rpcConvention(settings.otelSemconvStabilityOptIn),
    baggageKeys: new Set(settings.tracingBaggageAttributes.split(',').filter((key) => key !== '')),
    maker: () => maker,
  };
  const isRedis = settings.backendType === 'redis';
  return {
    tracers: { grpc: grpcTracer(options), http: httpTracer(options) },
    aroundServer: (store, name) =>
      new TracedStore({
        store,
        // These names are those of the Go service.
        spanName: isRedis ? 'Redis Pipeline Execution' : 'Memcached Fetch Execution',
        attributes: { 'db.system.name': isRedis ? 'redis' : 'memcached', 'weir.store': name },
        maker: options.maker,
      }),
    start: async () => {
      maker ??= await startExport(context, () => sampling.newSpanId());
    },
    // Sends the last spans, within a few seconds. Never rejects.
    close: async () => {
      const last = maker;
      maker = undefined;
      if (last === undefined) return;
      const settled = last.shutdown().then(() => undefined, errorText);
      const problem = await inTime(timers, flushMs, settled, `not sent within ${flushMs / 1_000} s`);
      if (problem !== undefined) lines.lastTracesLost(log, { url: settings.tracingUrl, reason: problem });
    },
  };
}

async function startExport(context: TracingContext, newSpanId: () => string): Promise<SpanMaker> {
  const { settings } = context;
  const { startOpenTelemetry } = await import('./open-telemetry.ts');
  return startOpenTelemetry({
    protocol: settings.tracingExporterProtocol,
    serviceName: settings.tracingServiceName,
    serviceNamespace: settings.tracingServiceNamespace,
    serviceInstanceId: settings.tracingServiceInstanceId,
    version: packageVersion(),
    newSpanId,
    listener: exportListener(context),
  });
}

type ExportEvents = Parameters<typeof StartOpenTelemetry>[0]['listener'];

function exportListener(context: TracingContext): ExportEvents {
  const { settings, registry, log } = context;
  const { tracingUrl: url } = settings;
  const logProblem = throttledLine(context, lines.tracingProblem);
  let isSent = true;
  return {
    sent: registry.counting('ratelimit.tracing.spans_sent'),
    failed: registry.counting('ratelimit.tracing.spans_lost'),
    dropped: registry.counting('ratelimit.tracing.spans_dropped'),
    changed: (works, reason) => {
      isSent = works;
      if (works) lines.tracesSentAgain(log, { url });
      else lines.tracesNotSent(log, { url, reason });
    },
    // An outage is reported elsewhere, and causes the same problem with every batch.
    problem: (problem) => {
      if (isSent) logProblem({ problem }, problem.replaceAll(/\d+/g, '#'));
    },
  };
}
