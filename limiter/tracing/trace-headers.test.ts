import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type HeaderForms, headerForms, type RemoteParent, TraceHeaders } from './trace-headers.ts';

const traceId = '4bf92f3577b34da6a3ce929d0e0e4736';
const spanId = '00f067aa0ba902b7';
const everything: HeaderForms = { traceContext: true, b3: true, baggage: true, last: 'b3' };

function headersOf(fields: Record<string, string>, forms = everything): TraceHeaders {
  const headers = new TraceHeaders(forms);
  headers.read(Object.entries(fields).flat());
  return headers;
}

function parent(sampled: boolean | undefined, traceState = ''): RemoteParent {
  return { traceId, spanId, sampled, traceState };
}

describe('traceparent', () => {
  it.each([
    [`00-${traceId}-${spanId}-01`, parent(true)],
    [`00-${traceId}-${spanId}-00`, parent(false)],
    [`00-${traceId}-${spanId}-03`, parent(true)],
    [`00-${traceId}-${spanId}-02`, parent(false)],
    // A later version may have more fields at its end.
    [`cc-${traceId}-${spanId}-01-more`, parent(true)],
    [`cc-${traceId}-${spanId}-01`, parent(true)],
    [`00-${traceId}-${spanId}-01-more`, undefined],
    [`cc-${traceId}-${spanId}-01.more`, undefined],
    [`ff-${traceId}-${spanId}-01`, undefined],
    [`00-${'0'.repeat(32)}-${spanId}-01`, undefined],
    [`00-${traceId}-${'0'.repeat(16)}-01`, undefined],
    [`00-${traceId.toUpperCase()}-${spanId}-01`, undefined],
    [`00-${traceId}-${spanId}`, undefined],
    [`00-${traceId}-${spanId}-1`, undefined],
    ['', undefined],
  ])('%s is read', (traceparent, want) => {
    expect(headersOf({ traceparent }).parent()).toEqual(want);
  });

  it('comes with its tracestate, which may be several fields', () => {
    const headers = new TraceHeaders(everything);
    headers.read(['tracestate', 'a=1', 'traceparent', `00-${traceId}-${spanId}-01`, 'tracestate', 'b=2']);
    expect(headers.parent()).toEqual(parent(true, 'a=1,b=2'));
  });
});

describe('B3', () => {
  it.each([
    [{ b3: `${traceId}-${spanId}-1` }, parent(true)],
    [{ b3: `${traceId}-${spanId}-d-${spanId}` }, parent(true)],
    [{ b3: `${traceId}-${spanId}-0` }, parent(false)],
    [{ b3: `${traceId}-${spanId}` }, parent(undefined)],
    [{ b3: `${traceId.toUpperCase()}-${spanId}-1` }, parent(true)],
    [{ b3: `${traceId}-${spanId}-2` }, undefined],
    [{ b3: `${'0'.repeat(32)}-${spanId}-1` }, undefined],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': '1' }, parent(true)],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': 'true' }, parent(true)],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': '0' }, parent(false)],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-flags': '1' }, parent(true)],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId }, parent(undefined)],
    [{ 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': '2' }, undefined],
    [{ 'x-b3-traceid': traceId }, undefined],
    [{ 'x-b3-traceid': 'xyz', 'x-b3-spanid': spanId }, undefined],
  ])('%j is read', (fields, want) => {
    expect(headersOf(fields).parent()).toEqual(want);
  });

  it('fills short trace ids up', () => {
    expect(headersOf({ b3: `${spanId}-${spanId}-1` }).parent()?.traceId).toBe(`${'0'.repeat(16)}${spanId}`);
  });

  it.each([
    [{ b3: '0' }, false],
    [{ b3: '1' }, true],
    [{ b3: 'd' }, true],
    [{ 'x-b3-sampled': '0' }, false],
    [{ 'x-b3-flags': '1' }, true],
    [{ b3: 'x' }, undefined],
    [{}, undefined],
  ])('%j decides without a trace', (fields, want) => {
    const headers = headersOf(fields);
    expect([headers.parent(), headers.bareDecision]).toEqual([undefined, want]);
  });

  it('counts before a traceparent if both are good, and yields to it if it is bad or names no trace', () => {
    const traceparent = `00-${traceId}-${spanId}-01`;
    expect(headersOf({ b3: `${traceId}-${spanId}-0`, traceparent }).parent()).toEqual(parent(false));
    const parts = { 'x-b3-traceid': traceId, 'x-b3-spanid': spanId, 'x-b3-sampled': '0' };
    expect(headersOf({ ...parts, traceparent }).parent()).toEqual(parent(false));
    expect(headersOf({ b3: 'nonsense', traceparent }).parent()).toEqual(parent(true));
    expect(headersOf({ b3: '0', traceparent }).parent()).toEqual(parent(true));
    expect(headersOf({ b3: `${traceId}-${spanId}-0`, traceparent: 'nonsense' }).parent()).toEqual(
      parent(false),
    );
  });

  it.each([
    ['tracecontext,b3,baggage', false],
    ['tracecontext,b3multi', false],
    ['b3,tracecontext', true],
    ['b3,baggage,tracecontext,b3multi', false],
  ])('and traceparent count by the order of OTEL_PROPAGATORS=%s', (propagators, sampled) => {
    const fields = { b3: `${traceId}-${spanId}-0`, traceparent: `00-${traceId}-${spanId}-01` };
    expect(headersOf(fields, headerForms(propagators)).parent()).toEqual(parent(sampled));
  });
});

describe('TraceHeaders', () => {
  it('forget the call before', () => {
    const headers = headersOf({ traceparent: `00-${traceId}-${spanId}-01`, baggage: 'a=b', b3: '0' });
    headers.read(['user-agent', 'x']);
    expect([headers.parent(), headers.bareDecision, headers.baggage]).toEqual([undefined, undefined, '']);
  });

  it('read nothing that OTEL_PROPAGATORS leaves out', () => {
    const fields = {
      traceparent: `00-${traceId}-${spanId}-01`,
      b3: `${traceId}-${spanId}-0`,
      baggage: 'a=b',
    };
    const read = (propagators: string) => headersOf(fields, headerForms(propagators));
    expect(read('b3').parent()).toEqual(parent(false));
    expect(read('b3multi, jaeger').parent()).toEqual(parent(false));
    expect(read('baggage').parent()).toBeUndefined();
    expect(read('baggage').baggage).toBe('a=b');
    expect(read('tracecontext,baggage,none').parent()).toBeUndefined();
    expect(read('tracecontext').baggage).toBe('');
  });

  it('take whatever callers send', () => {
    const name = fc.constantFrom(
      'traceparent',
      'tracestate',
      'b3',
      'x-b3-traceid',
      'x-b3-spanid',
      'x-b3-sampled',
      'baggage',
      ':path',
    );
    const value = fc.oneof(
      fc.string(),
      fc.string({ unit: fc.constantFrom('0', '1', 'a', '-', 'd'), maxLength: 60 }),
    );
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value)), (pairs) => {
        const headers = new TraceHeaders(everything);
        headers.read(pairs.flat());
        const found = headers.parent();
        if (found !== undefined) {
          expect(found.traceId).toMatch(/^(?!0{32})[0-9a-f]{32}$/);
          expect(found.spanId).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
        }
      }),
    );
  });
});
