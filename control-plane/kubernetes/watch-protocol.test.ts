import { PassThrough } from 'node:stream';
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ManualTimers } from '../../test/support/manual-timers.ts';
import { HttpWatchStream, WatchLines } from './client.ts';
import {
  apiObjectKey,
  parseListPage,
  parseWatchEvent,
  readWatch,
  resourcePath,
  resourceText,
} from './watch-protocol.ts';

const metadata = { resourceVersion: '7' };

describe('resourcePath', () => {
  it.each([
    ['', 'v1', undefined, '/api/v1/things', 'things of v1'],
    ['', 'v1', 'ns', '/api/v1/namespaces/ns/things', 'things of v1'],
    ['g.io', 'v2', 'ns', '/apis/g.io/v2/namespaces/ns/things', 'things of g.io/v2'],
  ])('of group "%s", version %s, namespace %s', (group, version, namespace, path, text) => {
    const resource = { group, version, plural: 'things', namespace };
    expect(resourcePath(resource)).toBe(path);
    expect(resourceText(resource)).toBe(text);
  });
});

describe('apiObjectKey', () => {
  it('leaves out a namespace that there is not', () => {
    expect(apiObjectKey({ metadata: { namespace: 'ns', name: 'a' } })).toBe('ns/a');
    expect(apiObjectKey({ metadata: { name: 'a' } })).toBe('a');
  });
});

describe('parseListPage', () => {
  it('reads a page', () => {
    const items = [{ metadata: { name: 'a' } }];
    expect(parseListPage({ kind: 'ThingList', metadata: { ...metadata, continue: 'x' }, items })).toEqual({
      resourceVersion: '7',
      continueToken: 'x',
      objects: items,
    });
    expect(parseListPage({ kind: 'ThingList', metadata, items: null })?.objects).toEqual([]);
  });

  it.each([
    ['another kind', { kind: 'Status', metadata, items: [] }],
    ['nothing', null],
    ['no version', { kind: 'ThingList', metadata: {}, items: [] }],
    ['items that are no list', { kind: 'ThingList', metadata, items: {} }],
    ['an item without a name', { kind: 'ThingList', metadata, items: [{ metadata: {} }] }],
    ['a continue that is no text', { kind: 'ThingList', metadata: { ...metadata, continue: 1 }, items: [] }],
  ])('takes %s for no list', (_, value) => {
    expect(parseListPage(value)).toBeUndefined();
  });
});

describe('parseWatchEvent', () => {
  it.each([
    { type: 'ADDED', object: { metadata: { name: 'a' } } },
    { type: 'DELETED', object: { metadata: { name: 'a' } } },
  ])('reads $type', (event) => {
    expect(parseWatchEvent(event)).toEqual(event);
  });

  it('reads a bookmark and an error', () => {
    expect(parseWatchEvent({ type: 'BOOKMARK', object: { metadata } })).toEqual({
      type: 'BOOKMARK',
      resourceVersion: '7',
    });
    expect(parseWatchEvent({ type: 'ERROR', object: { code: 410 } })).toEqual({
      type: 'ERROR',
      status: { code: 410 },
    });
  });

  it.each([
    ['another type', { type: 'HELLO', object: { metadata: { name: 'a' } } }],
    ['no object', { type: 'ADDED' }],
    ['a bookmark without version', { type: 'BOOKMARK', object: {} }],
    ['a bookmark with an empty version', { type: 'BOOKMARK', object: { metadata: { resourceVersion: '' } } }],
    [
      'a bookmark whose version is no text',
      { type: 'BOOKMARK', object: { metadata: { resourceVersion: 7 } } },
    ],
    ['text', 'ADDED'],
  ])('rejects %s', (_, value) => {
    expect(parseWatchEvent(value)).toBeUndefined();
  });
});

function valuesOf(bytes: Buffer, pieceBytes: number): unknown[] {
  const lines = new WatchLines();
  const values: unknown[] = [];
  for (let start = 0; start < bytes.length; start += pieceBytes) {
    values.push(...lines.push(bytes.subarray(start, start + pieceBytes)));
  }
  return values;
}

describe('WatchLines', () => {
  it('gives the same values however they are cut', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.integer({ min: 1, max: 40 }), (values, pieceBytes) => {
        const texts = values.map((value) => JSON.stringify(value));
        const bytes = Buffer.from(texts.map((text) => `${text}\n`).join(''));
        expect(valuesOf(bytes, pieceBytes)).toEqual(texts.map((text) => JSON.parse(text)));
      }),
    );
  });

  it('knows no other end of a line than the line feed', () => {
    expect(valuesOf(Buffer.from('"a\u2028b\u0085"\r\n\n'), 3)).toEqual(['a\u2028b\u0085']);
  });

  it('keeps what is not complete', () => {
    const lines = new WatchLines();
    expect([...lines.push(Buffer.from('1\n2'))]).toEqual([1]);
    expect([...lines.push(Buffer.from('3\n'))]).toEqual([23]);
  });

  it('rejects a line that is too long, and one that is not JSON', () => {
    const lines = new WatchLines(4);
    expect([...lines.push(Buffer.from('1234\n123'))]).toEqual([1234]);
    expect(() => [...lines.push(Buffer.from('45'))]).toThrow(
      new RangeError('a line holds more than 4 bytes'),
    );
    expect(() => [...new WatchLines().push(Buffer.from('<html>\n'))]).toThrow(SyntaxError);
  });
});

function start() {
  const stream = new PassThrough();
  const timers = new ManualTimers();
  const received: string[] = [];
  const request = 'watch of /things';
  const ended = readWatch({
    stream: new HttpWatchStream(stream, { server: 'https://api', request }),
    timers,
    idleTimeoutMs: 1000,
    request,
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
    ['an unknown event', '{"type":"HELLO"}\n', 'watch of /things: an event in an unknown format'],
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
