/** Log lines about the export of spans. */
import type { Logger } from '../../process/log/logger.ts';

/** Logged once an outage. */
export function tracesNotSent(log: Logger, url: string, reason: string): void {
  log.warn('Cannot export traces: the limiter drops spans until it can', { url, reason });
}

export function tracesSentAgain(log: Logger, url: string): void {
  log.warn('Exporting traces again', { url });
}

/**
 * A warning of OpenTelemetry itself, for example about a bad value of OTEL_*. At most once a minute each: `times` counts those between.
 */
export function tracingProblem(log: Logger, problem: string, times: number): void {
  log.warn('OpenTelemetry warns', { problem, times });
}

/** Logged at the end of the process. */
export function lastTracesLost(log: Logger, url: string, reason: string): void {
  log.warn('The last spans could not be exported', { url, reason });
}
