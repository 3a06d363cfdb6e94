import { describe, expect, it } from 'vitest';
import { Readiness } from './listener.ts';

const source = 'the first complete list of RateLimitConfigs is not read yet';
const xds = 'the xDS listener is not open';
const ending = 'this replica is shutting down';

describe('Readiness', () => {
  it('waits for the source and for xDS, in any order', () => {
    const readiness = new Readiness();
    expect(readiness.missing).toEqual([source, xds]);
    readiness.reached('xds');
    expect(readiness.missing).toEqual([source]);
    readiness.reached('source');
    readiness.reached('source');
    expect(readiness.missing).toEqual([]);
  });

  it('ends with the drain, whatever is reached afterward', () => {
    const readiness = new Readiness();
    readiness.reached('source');
    readiness.drain();
    expect(readiness.missing).toEqual([xds, ending]);
    readiness.reached('xds');
    expect(readiness.missing).toEqual([ending]);
  });
});
