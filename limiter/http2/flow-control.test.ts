/** RFC 9113, sections 5.2 and 6.9: windows in both directions. */
import { describe, expect, it } from 'vitest';

import { data, paddedData, settings, windowUpdate } from '../../test/support/http2-frame-script.ts';
import {
  Http2Peer,
  requestFields,
  responseFields,
  trailerFields,
  writerOf,
} from '../../test/support/http2-peer.ts';
import { Flag, Setting } from './constants.ts';

const { END_STREAM } = Flag;
const head = (id: number) => `HEADERS ${id} :status 200 content-type application/grpc`;
const tail = (id: number) => `HEADERS ${id} grpc-status 0 end`;

describe('what is sent', () => {
  it('keeps to the stream’s window and continues when it opens', () => {
    const peer = Http2Peer.opened();
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 3]), peer.call(1, 'hello'));
    expect(peer.frames()).toEqual(['SETTINGS ACK', head(1), 'DATA 1 hel']);
    expect(peer.handler.streams.get(1)?.queuedBytes).toBe(2);
    peer.send(windowUpdate(1, 1));
    expect(peer.frames()).toEqual(['DATA 1 l']);
    peer.send(windowUpdate(1, 7));
    expect(peer.frames()).toEqual(['DATA 1 o', tail(1)]);
    expect(peer.connection.openStreams).toBe(0);
  });

  it('keeps to the connection’s window, the longest waiting stream first', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 200_000]), peer.headers(1, requestFields, END_STREAM));
    writerOf(peer.handler.streams.get(1)).respond(responseFields, Buffer.alloc(65_535 - 2), trailerFields);
    expect(peer.frames()).toHaveLength(7);
    peer.handler.silent = false;
    peer.send(peer.call(3, 'abcd'), peer.call(5, 'efgh'));
    expect(peer.frames()).toEqual([head(3), 'DATA 3 ab', head(5)]);
    peer.send(windowUpdate(0, 3));
    expect(peer.frames()).toEqual(['DATA 3 cd', tail(3), 'DATA 5 e']);
    peer.send(windowUpdate(0, 100));
    expect(peer.frames()).toEqual(['DATA 5 fgh', tail(5)]);
  });

  it('continues when the initial window grows, and remembers a negative window', () => {
    const peer = Http2Peer.opened();
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 3]), peer.call(1, 'hello'));
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 1]));
    peer.frames();
    peer.send(windowUpdate(1, 2));
    expect(peer.frames()).toEqual([]);
    peer.send(windowUpdate(1, 1));
    expect(peer.frames()).toEqual(['DATA 1 l']);
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 2]));
    expect(peer.frames()).toEqual(['DATA 1 o', tail(1), 'SETTINGS ACK']);
  });

  it('takes the last of several initial windows', () => {
    const peer = Http2Peer.opened();
    peer.send(
      settings([Setting.INITIAL_WINDOW_SIZE, 100], [Setting.INITIAL_WINDOW_SIZE, 1]),
      peer.call(1, 'ab'),
    );
    expect(peer.frames()).toEqual(['SETTINGS ACK', head(1), 'DATA 1 a']);
  });

  it('ends the connection when an initial window overflows a stream', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), windowUpdate(1, 2 ** 31 - 1 - 65_535));
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 65_536]));
    expect(peer.frames()).toEqual(['GOAWAY 1 FLOW_CONTROL_ERROR']);
    expect(peer.violations).toEqual(['flow_control_error']);
  });

  it('is cut into frames of 16,384 bytes', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.call(1, 'x'.repeat(16_384)), peer.call(3, ''));
    peer.frames();
    peer.handler.silent = true;
    peer.send(peer.headers(5, requestFields, END_STREAM));
    const stream = peer.handler.streams.get(5);
    writerOf(stream).respond(responseFields, Buffer.alloc(40_000), trailerFields);
    expect(peer.frames()).toEqual([head(5), 'DATA 5 16384', 'DATA 5 16384', 'DATA 5 7232', tail(5)]);
  });

  it('goes out in pieces, with header sections of any length', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1, requestFields, END_STREAM));
    const stream = peer.handler.streams.get(1);
    writerOf(stream).sendHeaders([':status', '200'], false);
    writerOf(stream).sendData(Buffer.from('one'));
    writerOf(stream).sendData(Buffer.from('two'));
    writerOf(stream).sendTrailers(['x', '~'.repeat(40_000)]);
    expect(stream?.isOpen).toBe(false);
    expect(peer.frames()).toEqual([
      'HEADERS 1 :status 200',
      'DATA 1 one',
      'DATA 1 two',
      'HEADERS 1 goes on end',
      'CONTINUATION 1',
      'CONTINUATION 1 last',
    ]);
  });

  it('is dropped when the stream is reset', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), peer.headers(1, requestFields, END_STREAM));
    const stream = peer.handler.streams.get(1);
    writerOf(stream).sendHeaders(responseFields, false);
    writerOf(stream).sendData(Buffer.from('hello'));
    writerOf(stream).reset(8);
    expect(peer.frames()).toEqual(['SETTINGS ACK', head(1), 'RST_STREAM 1 CANCEL']);
    expect(peer.connection.openStreams).toBe(0);
    peer.send(windowUpdate(0, 100));
    expect(peer.frames()).toEqual([]);
    expect(peer.handler.seen).toEqual(['request 1 /a.B/C end']);
  });

  it('shows a request that continues after its response that it is no longer read', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1));
    writerOf(peer.handler.streams.get(1)).sendHeaders([':status', '200', 'grpc-status', '12'], true);
    peer.send(data(1, 'ignored'), data(1, 'too', END_STREAM));
    expect(peer.frames()).toEqual(['HEADERS 1 :status 200 grpc-status 12 end', 'RST_STREAM 1 NO_ERROR']);
    expect(peer.handler.seen).toEqual(['request 1 /a.B/C']);
  });
});

describe('what is received', () => {
  const limits = { streamWindowBytes: 65_535, connectionWindowBytes: 100_000 };
  const piece = Buffer.alloc(16_000);

  it('is given back in bulk, padding included', () => {
    const peer = Http2Peer.opened({ limits });
    peer.handler.silent = true;
    peer.send(peer.headers(1), data(1, piece), data(1, piece));
    expect(peer.frames()).toEqual([]);
    peer.send(paddedData(1, 'x'.repeat(800), 99));
    expect(peer.frames()).toEqual(['WINDOW_UPDATE 1 32900']);
    peer.send(peer.headers(3), data(3, piece), data(1, piece));
    expect(peer.frames()).toEqual(['WINDOW_UPDATE 0 64900']);
  });

  it('does not give back to a request that is complete', () => {
    const peer = Http2Peer.opened({ limits });
    peer.handler.silent = true;
    peer.send(peer.headers(1), data(1, piece), data(1, piece), data(1, piece, END_STREAM));
    expect(peer.frames()).toEqual([]);
  });

  it('resets a stream that takes more than its window', () => {
    const peer = Http2Peer.opened({ limits: { ...limits, streamWindowBytes: 15_000 } });
    peer.send(peer.headers(1), data(1, piece));
    expect(peer.frames()).toEqual(['RST_STREAM 1 FLOW_CONTROL_ERROR']);
    peer.send(peer.headers(3), data(3, piece, END_STREAM));
    expect(peer.frames()).toEqual(['RST_STREAM 3 FLOW_CONTROL_ERROR']);
    expect(peer.handler.seen).toEqual([
      'request 1 /a.B/C',
      'abort 1 FLOW_CONTROL_ERROR',
      'request 3 /a.B/C',
      'abort 3 FLOW_CONTROL_ERROR',
    ]);
  });

  it('ends a connection that takes more than its window', () => {
    const peer = Http2Peer.opened({ limits: { streamWindowBytes: 65_535, connectionWindowBytes: 15_000 } });
    peer.send(peer.headers(1), data(1, piece));
    expect(peer.frames()).toEqual(['GOAWAY 1 FLOW_CONTROL_ERROR']);
    expect(peer.violations).toEqual(['flow_control_error']);
  });

  it('counts DATA of closed streams for the connection', () => {
    const peer = Http2Peer.opened({ limits });
    peer.handler.silent = true;
    peer.send(peer.headers(1));
    writerOf(peer.handler.streams.get(1)).reset(8);
    peer.send(data(1, piece), data(1, piece), data(1, piece), data(1, piece));
    expect(peer.frames()).toEqual(['RST_STREAM 1 CANCEL', 'WINDOW_UPDATE 0 64000']);
  });
});
