import { beforeEach, describe, expect, it } from 'vitest';
import { diagnosticsTo } from './open-telemetry.ts';

let told: (string | number)[];
beforeEach(() => {
  told = [];
});
const logger = diagnosticsTo({ problem: (text) => told.push(text), dropped: (spans) => told.push(spans) });

describe('diagnosticsTo', () => {
  it('tells warnings and errors alone', () => {
    logger.warn('a', 1, 'b');
    logger.error('c');
    logger.info('d');
    logger.debug('e');
    logger.verbose('f');
    expect(told).toEqual(['a 1 b', 'c']);
  });

  it('counts spans that found no room', () => {
    logger.warn('Dropped 12 spans because maxQueueSize reached');
    expect(told).toEqual([12, 'Dropped 12 spans because maxQueueSize reached']);
  });

  it('tells of what was thrown the message alone', () => {
    logger.error(JSON.stringify({ stack: 'Error: why\n at x', message: 'why', name: 'Error' }));
    logger.error('{"code":5}');
    logger.error('{no JSON');
    expect(told).toEqual(['why', '{"code":5}', '{no JSON']);
  });

  it('tells no credentials, and no page', () => {
    logger.warn("Could not parse environment-provided export URL: 'http://me:secret@host:x'");
    logger.warn('x'.repeat(1_000));
    expect(told).toEqual([
      "Could not parse environment-provided export URL: 'http://host:x'",
      'x'.repeat(300),
    ]);
  });
});
