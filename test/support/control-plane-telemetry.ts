import { ControlPlaneMetrics, type Telemetry } from '../../control-plane/telemetry/control-plane-metrics.ts';
import { errorText } from '../../process/log/error-text.ts';
import { type LogFields, loggerOf } from '../../process/log/logger.ts';

export interface RecordedTelemetry extends Telemetry {
  /** What was logged, with its fields where it has any, oldest first. */
  events: [message: string, fields?: LogFields][];
  messages(): string[];
  /** Of a counter, as it is scraped; `series` is its name without our prefix, and its labels. */
  counted(series: string): Promise<number | undefined>;
}

/** Of one part of the control plane, by itself; `report` is called with each line as it is logged. */
export function recordedTelemetry(
  report: (message: string, fields: LogFields) => void = () => {},
): RecordedTelemetry {
  const events: [message: string, fields?: LogFields][] = [];
  const record = (message: string, fields?: LogFields): void => {
    events.push(fields === undefined ? [message] : [message, fields]);
    report(message, fields ?? {});
  };
  const metrics = new ControlPlaneMetrics({
    sources: {
      decision: () => undefined,
      limiters: () => [],
      domainsHeld: () => 0,
      replicasAlive: () => 0,
      statusWritesWaiting: () => 0,
      webhookEventsQueued: () => 0,
    },
    version: '1.2.3',
    nodeVersion: '26.0.0',
  });
  return {
    log: loggerOf(
      (_, message, fields) => record(message, fields),
      () => true,
    ),
    metrics,
    events,
    messages: () => events.map(([message]) => message),
    counted: async (series) => {
      const line = (await metrics.metrics())
        .split('\n')
        .find((one) => one.startsWith(`weir_control_plane_${series} `));
      return line === undefined ? undefined : Number(line.slice(line.lastIndexOf(' ')));
    },
  };
}

/** For `recordedTelemetry`: adds each line as its message, and what its fields say. */
export function reportTo(reported: string[]): (message: string, fields: LogFields) => void {
  return (message, fields) => {
    const texts = Object.values(fields)
      .filter((value) => value !== undefined)
      .map((value) => (value instanceof Error ? errorText(value) : String(value)));
    reported.push([message, ...texts].join(': '));
  };
}
