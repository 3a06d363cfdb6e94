/** What OpenTelemetry says of its own doings: values of OTEL_* that it does not understand, and spans that it had no room for. */
import type { DiagLogger } from '@opentelemetry/api';

export interface DiagnosticsListener {
  problem(text: string): void;
  /** Since the call before. */
  dropped(spans: number): void;
}

const longestText = 300;
/** Told when there is room again. */
const droppedSpans = /^Dropped (\d+) spans because maxQueueSize reached$/;
/** Of a URL. */
const credentials = /(\/\/)[^/@\s']*@/g;

/** Takes warnings and errors; the rest is for those who debug OpenTelemetry. */
export function diagnosticsTo(listener: DiagnosticsListener): DiagLogger {
  const take = (message: string, ...more: unknown[]): void => {
    const dropped = droppedSpans.exec(message);
    if (dropped !== null) listener.dropped(Number(dropped[1]));
    const text = [plain(message), ...more.map(String)].join(' ');
    listener.problem(text.replace(credentials, '$1').slice(0, longestText));
  };
  const leave = (): void => {};
  return { error: take, warn: take, info: leave, debug: leave, verbose: leave };
}

/** Of what was thrown it makes JSON, with a stack. */
function plain(message: string): string {
  if (!message.startsWith('{')) return message;
  try {
    const { message: text } = JSON.parse(message) as { message?: unknown };
    return typeof text === 'string' ? text : message;
  } catch {
    return message;
  }
}
