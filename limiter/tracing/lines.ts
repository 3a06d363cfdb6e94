/** Log lines about the export of spans. */
import { warn } from '../../process/log/log-line.ts';

export const lines = {
  /** Logged once an outage. */
  tracesNotSent: warn<{ url: string; reason: string }>(
    'Cannot export traces: the limiter drops spans until it can',
  ),
  tracesSentAgain: warn<{ url: string }>('Exporting traces again'),
  /**
   * A warning of OpenTelemetry itself, for example about a bad value of OTEL_*. At most once a minute each: `times` counts those
   * between.
   */
  tracingProblem: warn<{ problem: string; times: number }>('OpenTelemetry warns'),
  /** Logged at the end of the process. */
  lastTracesLost: warn<{ url: string; reason: string }>('The last spans could not be exported'),
};
