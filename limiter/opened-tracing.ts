/** From settings to spans: what is traced of one thread, with what is logged and counted of their export. */
import type { CallTracer } from '../process/call-tracer.ts';
import { errorText } from '../process/error-text.ts';
import type { Logger } from '../process/logger.ts';
import type { Timers } from '../process/timers.ts';
import { packageVersion } from '../process/version.ts';
import * as lines from './log-lines.ts';
import type { LimiterSettings } from './settings.ts';
import type { StatsRegistry } from './stats/stats-registry.ts';
import {
  grpcTracer,
  headerForms,
  httpTracer,
  rpcConvention,
  Sampling,
  type SpanMaker,
} from './tracing/index.ts';

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

export interface TracingParts {
  settings: LimiterSettings;
  timers: Timers;
  random: () => number;
  registry: StatsRegistry;
  log: Logger;
}

/** We chose it: so long the last spans may take at the end. */
const flushMs = 3_000;

/** Undefined where tracing is off. */
export function openTracing(parts: TracingParts): OpenedTracing | undefined {
  const { settings, timers, random, log } = parts;
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
      maker ??= await startExport(parts, () => sampling.newSpanId());
    },
    close: async () => {
      const last = maker;
      maker = undefined;
      if (last !== undefined) await within(timers, flushMs, last.shutdown(), log);
    },
  };
}

async function startExport(parts: TracingParts, newSpanId: () => string): Promise<SpanMaker> {
  const { settings, registry, log } = parts;
  const protocol = settings.tracingExporterProtocol;
  const { startOpenTelemetry } = await import('./tracing/open-telemetry.ts');
  const sent = registry.counter('ratelimit.tracing.spans_sent');
  const lost = registry.counter('ratelimit.tracing.spans_lost');
  return startOpenTelemetry({
    protocol,
    serviceName: settings.tracingServiceName,
    serviceNamespace: settings.tracingServiceNamespace,
    serviceInstanceId: settings.tracingServiceInstanceId,
    version: packageVersion(),
    newSpanId,
    listener: {
      sent: (spans) => registry.add(sent, spans),
      failed: (spans) => registry.add(lost, spans),
      changed: (works, reason) => {
        if (works) lines.tracesSentAgain(log, protocol);
        else lines.tracesNotSent(log, protocol, reason);
      },
    },
  });
}

/** What could not be sent in time is lost. */
async function within(timers: Timers, ms: number, sent: Promise<void>, log: Logger): Promise<void> {
  let callOff = (): void => {};
  const timeIsUp = new Promise<string>((resolve) => {
    callOff = timers.after(ms, () => resolve(`not sent within ${ms / 1_000} s`));
  });
  const problem = await Promise.race([timeIsUp, sent.then(() => undefined, errorText)]);
  callOff();
  if (problem !== undefined) lines.lastTracesLost(log, problem);
}
