/** What tracing needs of OpenTelemetry, so that nothing of it need be loaded to know of tracing. */
import type { SampledTrace } from './sampling.ts';

export type Attributes = Readonly<Record<string, string | number>>;

export interface MadeSpan {
  readonly traceId: string;
  readonly spanId: string;
  set(name: string, value: string | number): void;
  link(other: SpanIds): void;
  /** Its status is that of an error. */
  fail(message?: string): void;
  end(): void;
}

export interface SpanIds {
  readonly traceId: string;
  readonly spanId: string;
}

export interface SpanMaker {
  /** A call that this process answers. */
  server(name: string, trace: SampledTrace, attributes: Attributes): MadeSpan;
  /** Something that this process asks of another, for the call whose span is `parent`. */
  client(name: string, parent: SpanIds, attributes: Attributes): MadeSpan;
  /** Sends what is left. Settles when it is sent, or was given up. */
  shutdown(): Promise<void>;
}
