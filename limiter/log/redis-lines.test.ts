import { describe, expect, it } from 'vitest';
import { createLogger } from '../../process/log/pino-logger.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { redisLines } from './redis-lines.ts';

function setUp() {
  const written: string[] = [];
  const clock = new ManualClock();
  const log = createLogger({
    level: 'warn',
    format: 'text',
    clock,
    destination: { write: (line) => written.push(line.trimEnd().replace(/^time="[^"]*" /, '')) },
  });
  const lines = redisLines({ log, clock, url: 'cache', prefix: 'REDIS_', isCluster: false });
  return { written, clock, lines };
}

const lost = 'level=error msg="Lost the connection to Redis: trying again" url=cache reason=closed';
const back = 'level=warning msg="Connected to Redis again" url=cache';
const away = (reason: string) =>
  `level=error msg="Redis cannot be reached: trying again" url=cache reason=${reason}`;
const refuses = (reply: string, further: number) =>
  `level=warning msg="Redis answered with an error" url=cache reply="${reply}" further=${further}`;

describe('redisLines', () => {
  it('shows each reason of an outage once, and again in the next', () => {
    const { written, lines } = setUp();
    lines.onFailure('starting');
    lines.onChange(true);
    lines.onChange(false, 'closed');
    for (const reason of ['REFUSED', 'REFUSED', 'WRONGPASS', 'REFUSED']) lines.onFailure(reason);
    lines.onChange(true);
    lines.onChange(false, 'closed');
    lines.onFailure('REFUSED');
    expect(written).toEqual([lost, away('REFUSED'), away('WRONGPASS'), back, lost, away('REFUSED')]);
  });

  it('reports ten reasons of one outage at most', () => {
    const { written, lines } = setUp();
    lines.onChange(false, 'closed');
    for (let i = 0; i < 20; i += 1) lines.onFailure(`reason${i}`);
    expect(written).toHaveLength(11);
  });

  it('says why a node stays away', () => {
    const { written, lines } = setUp();
    lines.onNodeChange('a:1', false, 'closed');
    lines.onFailure('REFUSED');
    lines.onNodeChange('a:1', true);
    lines.onFailure('later');
    expect(written).toEqual([
      'level=error msg="Lost a node of the Redis Cluster: trying again" node="a:1" reason=closed',
      away('REFUSED'),
      'level=warning msg="The node of the Redis Cluster answers again" node="a:1"',
    ]);
  });

  it('shows each kind of error reply once a minute', () => {
    const { written, lines, clock } = setUp();
    for (const text of ['WRONGTYPE a', 'WRONGTYPE b', 'LOADING c'])
      lines.onRejection(text.split(' ')[0] as string, text);
    clock.ms = 59_999;
    lines.onRejection('WRONGTYPE', 'WRONGTYPE d');
    clock.ms = 60_000;
    lines.onRejection('WRONGTYPE', 'WRONGTYPE e');
    expect(written).toEqual([refuses('WRONGTYPE a', 0), refuses('LOADING c', 0), refuses('WRONGTYPE e', 2)]);
  });

  it('takes words that are no code of Redis for one kind', () => {
    const { written, lines } = setUp();
    for (let i = 0; i < 20; i += 1) lines.onRejection(`proxy-${i}`, `proxy-${i} failed`);
    expect(written).toEqual([refuses('proxy-0 failed', 0)]);
  });
});
