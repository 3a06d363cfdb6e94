/**
 * Sampling before there is a span: the decision of the caller, and for calls without one a share of all traces. The trace id decides in
 * the same way as in OpenTelemetry for Go, so that limiters agree on a trace.
 */
import type { RemoteParent, TraceHeaders } from './trace-headers.ts';

/** The trace in which a span begins. */
export interface SampledTrace {
  traceId: string;
  /** Undefined if the trace begins here. */
  parent: RemoteParent | undefined;
}

const words = 2 ** 32;

export class Sampling {
  readonly #bound: number;
  readonly #random: () => number;

  /** `rate` is from 0 to 1. */
  constructor(rate: number, random: () => number) {
    this.#bound = rate * words;
    this.#random = random;
  }

  /** Returns undefined for a call that is not traced. */
  decide(headers: TraceHeaders): SampledTrace | undefined {
    if (headers.isEmpty) return this.#begin(undefined);
    const parent = headers.parent();
    if (parent === undefined) return this.#begin(headers.bareDecision);
    const sampled = parent.sampled ?? Number.parseInt(parent.traceId.slice(16, 24), 16) < this.#bound;
    return sampled ? { traceId: parent.traceId, parent } : undefined;
  }

  /** The ninth to the twelfth byte of a trace id decide. */
  #begin(decision: boolean | undefined): SampledTrace | undefined {
    if (decision === false) return undefined;
    const deciding = this.#word();
    if (decision === undefined && deciding >= this.#bound) return undefined;
    // An id of only zeros would be invalid.
    const first = Math.max(1, this.#word());
    const traceId = hex(first) + hex(this.#word()) + hex(deciding) + hex(this.#word());
    return { traceId, parent: undefined };
  }

  /** Returns 16 hexadecimal digits. */
  newSpanId(): string {
    return hex(Math.max(1, this.#word())) + hex(this.#word());
  }

  #word(): number {
    return Math.floor(this.#random() * words);
  }
}

function hex(word: number): string {
  return word.toString(16).padStart(8, '0');
}
