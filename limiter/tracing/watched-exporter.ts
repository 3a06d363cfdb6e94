/** An exporter of spans whose trouble is told once, and whose end is told once, however many exports fail between. */
import type { ReadableSpan, SpanExporter } from '@opentelemetry/sdk-trace';

export interface ExportListener {
  sent(spans: number): void;
  failed(spans: number): void;
  /** At every change; `reason` where it does not work. */
  changed(works: boolean, reason: string): void;
}

/** `ExportResultCode.SUCCESS` of OpenTelemetry. */
const success = 0;
/** A collector may answer with a page. */
const longestReason = 200;

export class WatchedExporter implements SpanExporter {
  readonly #exporter: SpanExporter;
  readonly #listener: ExportListener;
  #works = true;

  constructor(exporter: SpanExporter, listener: ExportListener) {
    this.#exporter = exporter;
    this.#listener = listener;
  }

  export(spans: ReadableSpan[], done: Parameters<SpanExporter['export']>[1]): void {
    this.#exporter.export(spans, (result) => {
      const works = result.code === success;
      if (works) this.#listener.sent(spans.length);
      else this.#listener.failed(spans.length);
      if (works !== this.#works) this.#listener.changed(works, works ? '' : reasonOf(result.error));
      this.#works = works;
      done(result);
    });
  }

  shutdown(): Promise<void> {
    return this.#exporter.shutdown();
  }

  forceFlush(): Promise<void> {
    return this.#exporter.forceFlush?.() ?? Promise.resolve();
  }
}

function reasonOf(error: Error | undefined): string {
  if (error === undefined) return 'unknown';
  const inner = error instanceof AggregateError ? error.errors.map(String).join(', ') : '';
  const message = error.message === '' ? inner : error.message;
  // grpc-js ends its own so even where it has no note.
  const text = (message === '' ? error.name : message).replace(/\.?\s*Resolution note:\s*$/, '');
  return text.slice(0, longestReason);
}
