/** How a call becomes a span of a trace, for listeners and stores, which know no more of tracing. */

/** A call that is traced. */
export interface CallSpan {
  /** 32 hexadecimal digits. */
  readonly traceId: string;
  /** 16 hexadecimal digits. */
  readonly spanId: string;
  set(name: string, value: string | number): void;
  /** Once, with the status that the caller got: gRPC's code, or HTTP's status where the call came that way. */
  end(status: number): void;
}

export interface CallTracer {
  /**
   * Undefined for a call that is not traced, which costs next to nothing. `method` is the path of gRPC, or HTTP's method;
   * `fields` are name, value, name, value, names in lower case. Never throws.
   */
  begin(method: string, fields: readonly string[]): CallSpan | undefined;
}
