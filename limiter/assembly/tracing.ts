/** From settings to spans: what is traced of one thread, with what is logged and counted of their export. */

import { packageVersion } from '../../process/files/package-file.ts';
import type { CallTracer } from '../../process/grpc/handlers.ts';
import { errorText } from '../../process/log/error-text.ts';
import { Seldom } from '../../process/log/seldom.ts';
import { inTime } from '../../process/time/clock.ts';
import * as lines from '../log/lines.ts';
import { grpcTracer, httpTracer, rpcConvention, type SpanMaker } from '../tracing/call-tracers.ts';
import type { startOpenTelemetry as StartOpenTelemetry } from '../tracing/open-telemetry.ts';
import { Sampling } from '../tracing/sampling.ts';
import { headerForms } from '../tracing/trace-headers.ts';
import { seldomMs } from './connections.ts';
import type { LimiterContext } from './context.ts';

export interface OpenedTracing {
  grpc: CallTracer;
  http: CallTracer;
  /** Undefined before `start` is done. */
  maker(): SpanMaker | undefined;
  /** Loads OpenTelemetry. Until it is done nothing is traced. */
  start(): Promise<void>;
  /** Sends the last spans, within a few seconds. Never rejects. */
  close(): Promise<void>;
}

/** Chosen: so long the last spans may take at the end. */
const flushMs = 3_000;

type TracingContext = Omit<LimiterContext, 'health'>;

/** Undefined where tracing is off. */
export function openTracing(context: TracingContext): OpenedTracing | undefined {
  const { settings, timers, random, log } = context;
  if (!settings.tracingEnabled) return undefined;
  let maker: SpanMaker | undefined;
  const sampling = new Sampling(settings.tracingSamplingRate, random);
  const options = {
    sampling,
    forms: headerForms(settings.otelPropagators),
    convention: rpcConvention(settings.otelSemconvStabilityOptIn),
    baggageKeys: new Set(settings.tracingBaggageAttributes.split(',').filter((key) => key !== '')),
    maker: () => maker,
  };
  return {
    grpc: grpcTracer(options),
    http: httpTracer(options),
    maker: options.maker,
    start: async () => {
      maker ??= await startExport(context, () => sampling.newSpanId());
    },
    close: async () => {
      const last = maker;
      maker = undefined;
      if (last === undefined) return;
      const settled = last.shutdown().then(() => undefined, errorText);
      const problem = await inTime(timers, flushMs, settled, `not sent within ${flushMs / 1_000} s`);
      if (problem !== undefined) lines.lastTracesLost(log, settings.tracingUrl, problem);
    },
  };
}

async function startExport(context: TracingContext, newSpanId: () => string): Promise<SpanMaker> {
  const { settings } = context;
  const { startOpenTelemetry } = await import('../tracing/open-telemetry.ts');
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

function exportListener({ settings, clock, registry, log }: TracingContext): ExportEvents {
  const { tracingUrl: url } = settings;
  const [sent, lost, dropped] = ['sent', 'lost', 'dropped'].map((what) =>
    registry.counter(`ratelimit.tracing.spans_${what}`),
  ) as [number, number, number];
  const seldom = new Seldom<string>(clock, seldomMs, (text, times) => lines.tracingProblem(log, text, times));
  let isSent = true;
  return {
    sent: (spans) => registry.add(sent, spans),
    failed: (spans) => registry.add(lost, spans),
    dropped: (spans) => registry.add(dropped, spans),
    changed: (works, reason) => {
      isSent = works;
      if (works) lines.tracesSentAgain(log, url);
      else lines.tracesNotSent(log, url, reason);
    },
    // An outage was told of, and brings the same again with every batch.
    problem: (text) => {
      if (isSent) seldom.note(text, text.replaceAll(/\d+/g, '#'));
    },
  };
}
