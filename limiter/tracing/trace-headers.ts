/**
 * Reads the trace of a call from its caller's headers: W3C Trace Context, or one of the two forms of B3. If both are valid, the form
 * that is read last counts. By default this is B3, as in the Go service, whose propagators run one after the other and overwrite earlier
 * results. https://www.w3.org/TR/trace-context-1/ https://github.com/openzipkin/b3-propagation
 */

export interface RemoteParent {
  traceId: string;
  spanId: string;
  /** Undefined: the caller leaves the decision to us (B3). */
  sampled: boolean | undefined;
  /** The W3C trace state as sent. */
  traceState: string;
}

/** The forms of headers that are read. */
export interface HeaderForms {
  traceContext: boolean;
  b3: boolean;
  baggage: boolean;
  /** The form that counts if both are valid. */
  last: 'b3' | 'traceContext';
}

const traceParent = /^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?$/;
/** The length of a `traceparent` of version 00. */
const traceParentLength = 55;
const b3Single = /^([0-9a-f]{32}|[0-9a-f]{16})-([0-9a-f]{16})(?:-([01d])(?:-[0-9a-f]{16})?)?$/;
const b3TraceId = /^(?:[0-9a-f]{32}|[0-9a-f]{16})$/;
const b3SpanId = /^[0-9a-f]{16}$/;
const zeroTraceId = '0'.repeat(32);
const zeroSpanId = '0'.repeat(16);

const lowerB = 0x62;
const lowerT = 0x74;
const lowerX = 0x78;

/** The tracing headers of one call. The object is reused for each call, because almost no call is traced. */
export class TraceHeaders {
  readonly #forms: HeaderForms;
  baggage = '';
  #isEmpty = true;
  #traceParent = '';
  #traceState = '';
  #b3 = '';
  #b3TraceId = '';
  #b3SpanId = '';
  #b3Sampled = '';
  #b3Flags = '';

  constructor(forms: HeaderForms) {
    this.#forms = forms;
  }

  /** Reads the headers. If one occurs twice, the last one counts. */
  read(fields: readonly string[]): void {
    if (!this.#isEmpty) this.#clear();
    for (let index = 0; index < fields.length; index += 2) {
      const name = fields[index]!;
      // The first character excludes nearly all headers of calls without a trace at little cost.
      const first = name.charCodeAt(0);
      if (first === lowerT) {
        if (name.length > 9) this.#takeTraceContext(name, fields[index + 1]!);
      } else if (first === lowerB) this.#takeB3OrBaggage(name, fields[index + 1]!);
      else if (first === lowerX && name.startsWith('x-b3-')) this.#takeB3Part(name, fields[index + 1]!);
    }
  }

  /** Whether there was no tracing header. */
  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  /** Undefined if no header is valid. */
  parent(): RemoteParent | undefined {
    return this.#forms.last === 'b3'
      ? (this.#ofB3() ?? this.#ofTraceContext())
      : (this.#ofTraceContext() ?? this.#ofB3());
  }

  /** The sampling decision of B3 without a trace. */
  get bareDecision(): boolean | undefined {
    const decision = this.#b3Sampled === '' && this.#b3.length === 1 ? this.#b3 : this.#b3Sampled;
    return decisionOf(this.#b3Flags === '1' ? 'd' : decision);
  }

  #takeTraceContext(name: string, value: string): void {
    if (!this.#forms.traceContext) return;
    if (name === 'traceparent') this.#traceParent = value;
    else if (name === 'tracestate') this.#traceState = joined(this.#traceState, value);
    else return;
    this.#isEmpty = false;
  }

  #takeB3OrBaggage(name: string, value: string): void {
    if (name === 'b3' && this.#forms.b3) this.#b3 = value.toLowerCase();
    else if (name === 'baggage' && this.#forms.baggage) this.baggage = joined(this.baggage, value);
    else return;
    this.#isEmpty = false;
  }

  #takeB3Part(name: string, value: string): void {
    if (!this.#forms.b3) return;
    if (name === 'x-b3-traceid') this.#b3TraceId = value.toLowerCase();
    else if (name === 'x-b3-spanid') this.#b3SpanId = value.toLowerCase();
    else if (name === 'x-b3-sampled') this.#b3Sampled = value.toLowerCase();
    else if (name === 'x-b3-flags') this.#b3Flags = value;
    else return;
    this.#isEmpty = false;
  }

  #clear(): void {
    this.#isEmpty = true;
    this.baggage = '';
    this.#traceParent = '';
    this.#traceState = '';
    this.#b3 = '';
    this.#b3TraceId = '';
    this.#b3SpanId = '';
    this.#b3Sampled = '';
    this.#b3Flags = '';
  }

  #ofTraceContext(): RemoteParent | undefined {
    const text = this.#traceParent;
    if (text === '' || !traceParent.test(text)) return undefined;
    // Version 00 ends here; a later version may have more. ff is invalid.
    if (text.startsWith('ff') || (text.startsWith('00') && text.length !== traceParentLength))
      return undefined;
    const traceId = text.slice(3, 35);
    const spanId = text.slice(36, 52);
    if (traceId === zeroTraceId || spanId === zeroSpanId) return undefined;
    const sampled = (Number.parseInt(text.charAt(54), 16) & 1) === 1;
    return { traceId, spanId, sampled, traceState: this.#traceState };
  }

  #ofB3(): RemoteParent | undefined {
    const single = this.#b3 === '' ? null : b3Single.exec(this.#b3);
    if (single !== null) {
      const [, traceId = '', spanId = '', decision = ''] = single;
      return b3Parent(traceId, spanId, decisionOf(decision));
    }
    if (this.#b3TraceId === '') return undefined;
    if (!b3TraceId.test(this.#b3TraceId) || !b3SpanId.test(this.#b3SpanId)) return undefined;
    if (this.#b3Sampled !== '' && decisionOf(this.#b3Sampled) === undefined) return undefined;
    return b3Parent(this.#b3TraceId, this.#b3SpanId, this.bareDecision);
  }
}

function b3Parent(traceId: string, spanId: string, sampled: boolean | undefined): RemoteParent | undefined {
  const longTraceId = traceId.padStart(32, '0');
  if (longTraceId === zeroTraceId || spanId === zeroSpanId) return undefined;
  return { traceId: longTraceId, spanId, sampled, traceState: '' };
}

/** Joins a list that is split over several fields. */
function joined(before: string, value: string): string {
  return before === '' ? value : `${before},${value}`;
}

function decisionOf(text: string): boolean | undefined {
  if (text === '1' || text === 'd' || text === 'true') return true;
  return text === '0' || text === 'false' ? false : undefined;
}

/** Returns the forms that OTEL_PROPAGATORS names, in its order. */
export function headerForms(propagators: string): HeaderForms {
  const names = propagators.split(',').map((name) => name.trim());
  const isOff = names.includes('none');
  return {
    traceContext: !isOff && names.includes('tracecontext'),
    b3: !isOff && (names.includes('b3') || names.includes('b3multi')),
    baggage: !isOff && names.includes('baggage'),
    last:
      names.lastIndexOf('tracecontext') > Math.max(names.lastIndexOf('b3'), names.lastIndexOf('b3multi'))
        ? 'traceContext'
        : 'b3',
  };
}

// W3C Baggage: data that callers send with a trace. https://www.w3.org/TR/baggage/

/** Chosen: the bytes that are read. The recommendation requires at least this number to be passed on. */
const maxBytes = 8_192;

/** Returns the percent-decoded values in the header for those of `keys` that it has. */
export function baggageValues(header: string, keys: ReadonlySet<string>): [key: string, value: string][] {
  if (header === '' || keys.size === 0 || header.length > maxBytes) return [];
  const found: [string, string][] = [];
  for (const member of header.split(',')) {
    const [pair = ''] = member.split(';', 1);
    const equals = pair.indexOf('=');
    const key = pair.slice(0, equals).trim();
    if (equals > 0 && keys.has(key)) found.push([key, decoded(pair.slice(equals + 1).trim())]);
  }
  return found;
}

function decoded(value: string): string {
  try {
    return decodeURIComponent(value);
  } catch {
    return value;
  }
}
