import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { readWatch } from './watch-stream.ts';

function start() {
  const stream = new PassThrough();
  const timers = new ManualTimers();
  const received: string[] = [];
  const ended = readWatch({
    stream,
    timers,
    idleTimeoutMs: 1000,
    server: 'https://api',
    request: 'watch of /things',
    receive: (events) => received.push(events.map(({ type }) => type).join()),
  });
  const event = (type: string, object: object) => stream.write(line(type, object));
  return { stream, timers, received, ended, event };
}

const line = (type: string, object: object) => `${JSON.stringify({ type, object })}\n`;
const thing = { metadata: { name: 'a' } };

describe('readWatch', () => {
  it('hands over events in order until the orderly end', async () => {
    const { stream, timers, received, ended, event } = start();
    event('ADDED', thing);
    await turn();
    event('DELETED', thing);
    stream.end();
    expect(await ended).toBeUndefined();
    expect(received).toEqual(['ADDED', 'DELETED']);
    expect(timers.size).toBe(0);
  });

  it('ends at an ERROR event with its status', async () => {
    const { stream, received, ended } = start();
    const status = { code: 410, reason: 'Expired', message: 'too old resource version: 5 (7)' };
    stream.write(line('ADDED', thing) + line('ERROR', status) + line('ADDED', thing));
    expect(await ended).toMatchObject({
      status: 410,
      reason: 'Expired',
      message: 'watch of /things: too old resource version: 5 (7)',
    });
    expect(received).toEqual(['ADDED']);
  });

  it.each([
    ['text', '<html>\n', 'watch of /things: an event is not JSON'],
    ['an unknown event', '{"type":"HELLO"}\n', 'watch of /things: an event of unknown form'],
  ])('ends at %s, and loses nothing before it', async (_, text, message) => {
    const { stream, received, ended } = start();
    stream.write(line('ADDED', thing) + text);
    expect(await ended).toMatchObject({ status: 0, reason: 'Unreadable', message });
    expect(received).toEqual(['ADDED']);
  });

  it('ends in order after silence, counted from the last byte', async () => {
    const { stream, timers, ended } = start();
    timers.advance(999);
    stream.write('\n');
    await turn();
    timers.advance(999);
    expect(stream.destroyed).toBe(false);
    timers.advance(1);
    expect(await ended).toBeUndefined();
    expect(timers.size).toBe(0);
  });

  it('ends with its connection', async () => {
    const { stream, ended } = start();
    stream.destroy(new Error('socket hang up'));
    expect(await ended).toMatchObject({
      status: 0,
      reason: 'Unreachable',
      message: 'https://api: socket hang up',
    });
  });
});
