import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { Sampling } from './sampling.ts';
import { TraceHeaders } from './trace-headers.ts';

const headers = new TraceHeaders({ traceContext: true, b3: true, baggage: true, last: 'b3' });

function decide(sampling: Sampling, ...fields: string[]): string | undefined {
  headers.read(fields);
  return sampling.decide(headers)?.traceId;
}

/** The decision of OpenTelemetry for Go: the last eight bytes of the id, without their lowest bit, are compared with the bound. */
function goSamples(traceId: string, rate: number): boolean {
  return BigInt(`0x${traceId.slice(16)}`) >> 1n < BigInt(Math.floor(rate * 2 ** 63));
}

const spanId = '00f067aa0ba902b7';

describe('Sampling', () => {
  it('takes a part of the traces that begin here', () => {
    let state = 1;
    const random = (): number => {
      state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0;
      return state / 2 ** 32;
    };
    const sampling = new Sampling(0.1, random);
    const taken = Array.from({ length: 20_000 }, () => decide(sampling)).filter((id) => id !== undefined);
    expect(taken.length).toBeGreaterThan(1_700);
    expect(taken.length).toBeLessThan(2_300);
    expect(new Set(taken).size).toBe(taken.length);
    for (const id of taken) expect(goSamples(id, 0.1)).toBe(true);
  });

  it('takes all at 1 and none at 0', () => {
    for (const value of [0, 0.5, 1 - 2 ** -53]) {
      expect(decide(new Sampling(1, () => value))).toMatch(/^(?!0{32})[0-9a-f]{32}$/);
      expect(decide(new Sampling(0, () => value))).toBeUndefined();
      expect(new Sampling(1, () => value).newSpanId()).toMatch(/^(?!0{16})[0-9a-f]{16}$/);
    }
  });

  it('follows its caller', () => {
    const id = 'ab'.repeat(16);
    expect(decide(new Sampling(0, Math.random), 'traceparent', `00-${id}-${spanId}-01`)).toBe(id);
    expect(decide(new Sampling(1, Math.random), 'traceparent', `00-${id}-${spanId}-00`)).toBeUndefined();
    expect(decide(new Sampling(1, Math.random), 'b3', '0')).toBeUndefined();
    expect(decide(new Sampling(0, Math.random), 'b3', '1')).toMatch(/^[0-9a-f]{32}$/);
  });

  it('decides by the trace id, as Go does, if its caller leaves it to us', () => {
    const digits = fc.string({ unit: fc.constantFrom(...'0123456789abcdef'), minLength: 32, maxLength: 32 });
    fc.assert(
      fc.property(digits, fc.constantFrom(0.01, 0.25, 0.5, 0.9), (id, rate) => {
        fc.pre(!/^0+$/.test(id));
        const sampled = decide(new Sampling(rate, Math.random), 'b3', `${id}-${spanId}`) !== undefined;
        // Our decision uses 32 bits. It is the same except in the neighborhood of the bound.
        fc.pre(Math.abs(Number.parseInt(id.slice(16, 24), 16) - rate * 2 ** 32) > 1);
        expect(sampled).toBe(goSamples(id, rate));
      }),
    );
  });
});
