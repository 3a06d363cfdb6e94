import { beforeEach, describe, expect, it } from 'vitest';
import { diagnosticsTo } from './open-telemetry.ts';

let reported: (string | number)[];
beforeEach(() => {
  reported = [];
});
const logger = diagnosticsTo({
  problem: (text) => reported.push(text),
  dropped: (spans) => reported.push(spans),
});

describe('diagnosticsTo', () => {
  it('reports warnings and errors alone', () => {
    logger.warn('a', 1, 'b');
    logger.error('c');
    logger.info('d');
    logger.debug('e');
    logger.verbose('f');
    expect(reported).toEqual(['a 1 b', 'c']);
  });

  it('counts spans that found no room', () => {
    logger.warn('Dropped 12 spans because maxQueueSize reached');
    expect(reported).toEqual([12, 'Dropped 12 spans because maxQueueSize reached']);
  });

  it('reports what was thrown the message alone', () => {
    logger.error(JSON.stringify({ stack: 'Error: why\n at x', message: 'why', name: 'Error' }));
    logger.error('{"code":5}');
    logger.error('{no JSON');
    expect(reported).toEqual(['why', '{"code":5}', '{no JSON']);
  });

  it('reports no credentials, and no page', () => {
    logger.warn("Could not parse environment-provided export URL: 'http://me:secret@host:x'");
    logger.warn('x'.repeat(1_000));
    expect(reported).toEqual([
      "Could not parse environment-provided export URL: 'http://host:x'",
      'x'.repeat(300),
    ]);
  });
});
