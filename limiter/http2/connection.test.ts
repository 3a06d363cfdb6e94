import { describe, expect, it } from 'vitest';

import {
  data,
  goAway,
  ping,
  settings,
  settingsAck,
  windowUpdate,
} from '../../test/support/http2-frame-script.ts';
import { Http2Peer, requestFields, writerOf } from '../../test/support/http2-peer.ts';
import { clientPreface, Flag, Setting } from './constants.ts';
import type { RequestStream } from './request-handler.ts';

const answered = (id: number, body: string) => [
  `HEADERS ${id} :status 200 content-type application/grpc`,
  `DATA ${id} ${body}`,
  `HEADERS ${id} grpc-status 0 end`,
];

describe('a connection', () => {
  it('sends nothing before the preface, then its SETTINGS first', () => {
    const peer = new Http2Peer();
    peer.send(clientPreface.subarray(0, 23));
    expect(peer.frames()).toEqual([]);
    peer.send(clientPreface.subarray(23), settings(), settingsAck);
    expect(peer.frames()).toEqual([
      'SETTINGS 3=1024 4=1048576 6=98304',
      'WINDOW_UPDATE 0 4128769',
      'SETTINGS ACK',
    ]);
  });

  it('answers a call', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.call(1), peer.call(3, 'again'));
    expect(peer.frames()).toEqual([...answered(1, 'hello'), ...answered(3, 'again')]);
    expect(peer.handler.seen).toEqual([
      'request 1 /a.B/C',
      'data 1 5 end',
      'request 3 /a.B/C',
      'data 3 5 end',
    ]);
    expect(peer.connection.openStreams).toBe(0);
  });

  it('gives a response the sections of the one before, whatever the tables did meanwhile', () => {
    const peer = Http2Peer.opened();
    const other = ['grpc-status', '7', 'server', 'x'];
    let id = 1;
    const next = () => {
      peer.send(peer.call(id, 'a'), peer.call(id + 2, 'b'), peer.call(id + 4, 'c'));
      expect(peer.frames()).toEqual(
        [id, id + 2, id + 4].flatMap((one, at) => answered(one, 'abc'.charAt(at))),
      );
      id += 6;
    };
    next();
    for (const tableBytes of [0, 60, 4096]) {
      peer.send(settings([Setting.HEADER_TABLE_SIZE, tableBytes]));
      expect(peer.frames()).toEqual(['SETTINGS ACK']);
      next();
      peer.handler.silent = true;
      peer.send(peer.call(id));
      writerOf(peer.handler.streams.get(id)).sendHeaders(other, true);
      peer.handler.silent = false;
      expect(peer.frames()).toEqual([`HEADERS ${id} ${other.join(' ')} end`]);
      id += 2;
      next();
    }
  });

  it('sends what leads a body in front of it, in however many pieces', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 4]), peer.call(1), peer.call(3));
    const respond = (id: number, lead: string, body: string) =>
      writerOf(peer.handler.streams.get(id)).respond(
        [':status', '200', 'content-type', 'application/grpc'],
        Buffer.from(body),
        ['grpc-status', '0'],
        Buffer.from(lead),
      );
    respond(1, 'ab', 'cd');
    respond(3, 'ab', 'cde');
    peer.send(windowUpdate(3, 1));
    const [status, long, more, tail] = [answered(3, '')[0]!, 'DATA 3 abcd', 'DATA 3 e', answered(3, '')[2]!];
    expect(peer.frames()).toEqual(['SETTINGS ACK', ...answered(1, 'abcd'), status, long, more, tail]);
  });

  it('asks by PING what arrived, unless body waits for a window or a thousand answers are missing', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), peer.headers(3));
    const [stream, other] = [...peer.handler.streams.values()];
    const answered: string[] = [];
    writerOf(stream).sendHeaders([':status', '200'], false);
    writerOf(stream).sendData(Buffer.from('ab'));
    expect(writerOf(stream).probe(() => answered.push('first'))).toBe(true);
    expect(writerOf(stream).probe(() => answered.push('second'))).toBe(true);
    peer.connection.flush();
    expect(peer.frames().slice(-3)).toEqual(['DATA 1 ab', 'PING p1      ', 'PING p2      ']);
    peer.send(ping('p2      ', Flag.ACK), ping('p2      ', Flag.ACK), ping('p0      ', Flag.ACK));
    expect(answered).toEqual(['second']);
    for (let n = 1; n < 1_000; n++) expect(writerOf(other).probe(() => {})).toBe(true);
    expect(writerOf(other).probe(() => {})).toBe(false);
    peer.send(ping('p1      ', Flag.ACK));
    expect(answered).toEqual(['second', 'first']);
    writerOf(stream).sendData(Buffer.alloc(70_000));
    expect(writerOf(stream).probe(() => {})).toBe(false);
    expect(writerOf(other).probe(() => {})).toBe(true);
  });

  it('writes all answers of one piece at once', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.call(1), peer.call(3), ping());
    expect(peer.transport.written).toHaveLength(1);
  });

  it('asks for one flush for all answers of a turn', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(
      peer.headers(1, requestFields, Flag.END_STREAM),
      peer.headers(3),
      data(3, 'x', Flag.END_STREAM),
    );
    for (const stream of peer.handler.streams.values()) {
      writerOf(stream).respond([':status', '200'], Buffer.from('late'), ['grpc-status', '0']);
    }
    expect(peer.flushes).toBe(1);
    expect(peer.transport.written).toHaveLength(0);
    peer.connection.flush();
    expect(peer.transport.written).toHaveLength(1);
    expect(peer.frames()).toHaveLength(6);
  });
});

describe('the end of a connection', () => {
  it('comes in two steps when it is drained, RFC 9113, section 6.8', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.headers(1));
    peer.connection.drain();
    expect(peer.flushes).toBe(1);
    expect(peer.frames()).toEqual(['GOAWAY 2147483647 NO_ERROR', 'PING weir.end']);
    peer.send(peer.headers(3), ping('weir.end', Flag.ACK), peer.call(5));
    expect(peer.frames()).toEqual(['GOAWAY 3 NO_ERROR']);
    peer.send(data(1, 'a', Flag.END_STREAM));
    expect(peer.transport.calls).toEqual([]);
    peer.send(data(3, 'b', Flag.END_STREAM));
    expect(peer.frames()).toEqual([...answered(1, 'a'), ...answered(3, 'b')]);
    expect(peer.transport.calls).toEqual(['end']);
    expect(peer.closes).toBe(1);
    expect(peer.violations).toEqual([]);
  });

  it('does not wait long for the answer to its PING', () => {
    const peer = Http2Peer.opened();
    peer.connection.drain();
    peer.pass(500);
    expect(peer.transport.calls).toEqual([]);
    peer.pass(500);
    expect(peer.frames().at(-1)).toBe('GOAWAY 0 NO_ERROR');
    expect(peer.transport.calls).toEqual(['end']);
  });

  it('is reported to a peer that has not begun when it is drained, with what it asks for', () => {
    const peer = new Http2Peer();
    peer.connection.drain();
    peer.pass(500);
    expect([peer.transport.calls, peer.frames()]).toEqual([[], []]);
    peer.connection.drain();
    peer.send(clientPreface, settings(), settingsAck, peer.call(1));
    expect(peer.frames()).toEqual([
      'SETTINGS 3=1024 4=1048576 6=98304',
      'WINDOW_UPDATE 0 4128769',
      'GOAWAY 2147483647 NO_ERROR',
      'PING weir.end',
      'SETTINGS ACK',
      ...answered(1, 'hello'),
    ]);
    peer.send(ping('weir.end', Flag.ACK));
    expect(peer.frames()).toEqual(['GOAWAY 1 NO_ERROR']);
    expect(peer.transport.calls).toEqual(['end']);
  });

  it('comes soon when it is drained and its peer does not begin', () => {
    const peer = new Http2Peer();
    peer.connection.drain();
    peer.pass(500);
    peer.connection.drain();
    peer.pass(500);
    expect(peer.transport.calls).toEqual(['end']);
    expect(peer.transport.written).toEqual([]);
    const halfway = new Http2Peer();
    halfway.send(clientPreface);
    halfway.connection.drain();
    halfway.pass(1000);
    expect(halfway.frames().slice(2)).toEqual([
      'GOAWAY 2147483647 NO_ERROR',
      'PING weir.end',
      'GOAWAY 0 NO_ERROR',
    ]);
    expect([halfway.transport.calls, halfway.violations]).toEqual([['end'], []]);
  });

  it('does not wait for requests that are not complete', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), peer.call(3), peer.headers(5));
    (peer.handler.streams.get(5) as RequestStream).requestIsStream = true;
    peer.connection.drain();
    peer.pass(500);
    peer.send(ping('weir.end', Flag.ACK));
    expect(peer.frames()).toEqual(['GOAWAY 2147483647 NO_ERROR', 'PING weir.end', 'GOAWAY 5 NO_ERROR']);
    peer.pass(500);
    expect(peer.frames()).toEqual(['RST_STREAM 1 REFUSED_STREAM']);
    expect(peer.handler.seen.at(-1)).toBe('abort 1 REFUSED_STREAM');
    expect([peer.connection.openStreams, peer.violations, peer.unfinishedRequests]).toEqual([2, [], 0]);
  });

  it('is the same when the peer wanted to go already', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.headers(1), goAway(0, 0));
    peer.connection.drain();
    peer.pass(500);
    expect(peer.frames()).toEqual([]);
    peer.pass(500);
    expect(peer.frames().sort()).toEqual(['GOAWAY 1 NO_ERROR', 'RST_STREAM 1 REFUSED_STREAM']);
    expect([peer.transport.calls, peer.violations]).toEqual([['end'], []]);
  });

  it('is at once when nothing but requests that are not complete is left', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.headers(1));
    peer.connection.drain();
    peer.pass(1000);
    expect(peer.frames().slice(2).sort()).toEqual(['GOAWAY 1 NO_ERROR', 'RST_STREAM 1 REFUSED_STREAM']);
    expect(peer.transport.calls).toEqual(['end']);
  });

  it('is a violation when its age is up before it began', () => {
    const silent = new Http2Peer();
    silent.connection.ageOut();
    expect([silent.violations, silent.transport.calls]).toEqual([['preface_timeout'], ['destroy']]);
    const halfway = new Http2Peer();
    halfway.send(clientPreface);
    halfway.connection.ageOut();
    expect(halfway.frames().at(-1)).toBe('GOAWAY 0 PROTOCOL_ERROR');
    expect([halfway.violations, halfway.transport.calls]).toEqual([['preface_timeout'], ['end']]);
    const peer = Http2Peer.opened();
    peer.connection.ageOut();
    expect(peer.frames()).toEqual(['GOAWAY 2147483647 NO_ERROR', 'PING weir.end']);
    expect([peer.violations, peer.debugData]).toEqual([[], '']);
  });

  it('comes after what the peer sent with its GOAWAY, and with one of the server', () => {
    const peer = Http2Peer.opened();
    peer.send(goAway(0, 0), peer.call(1), peer.call(3));
    expect(peer.frames()).toEqual([...answered(1, 'hello'), ...answered(3, 'hello'), 'GOAWAY 3 NO_ERROR']);
    expect([peer.transport.calls, peer.violations]).toEqual([['end'], []]);
  });

  it('aborts all streams when the transport is lost', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), peer.call(3));
    peer.connection.lost();
    expect(peer.handler.seen.slice(-2)).toEqual(['abort 1 CANCEL', 'abort 3 CANCEL']);
    expect(peer.connection.isClosed).toBe(true);
    expect(peer.closes).toBe(1);
    expect(peer.transport.calls).toEqual([]);
    writerOf(peer.handler.streams.get(3)).respond([':status', '200'], Buffer.from('late'), []);
    peer.connection.onDrain();
    peer.connection.tick(1e9);
    expect(peer.frames()).toEqual([]);
  });

  it('reports every handler, though one throws', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), peer.headers(3));
    const aborted: number[] = [];
    peer.handler.onAbort = (stream) => {
      aborted.push(stream.id);
      throw new Error('a defect');
    };
    peer.connection.lost();
    expect(aborted).toEqual([1, 3]);
  });

  it('waits for answers when the peer said its last word', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.headers(1), peer.call(3));
    peer.connection.peerEnded();
    expect(peer.handler.seen.at(-1)).toBe('abort 1 CANCEL');
    expect(peer.transport.calls).toEqual([]);
    writerOf(peer.handler.streams.get(3)).respond([':status', '200'], Buffer.from('late'), [
      'grpc-status',
      '0',
    ]);
    expect(peer.frames()).toHaveLength(3);
    expect(peer.transport.calls).toEqual(['end']);
  });

  it('does not wait for answers without an end when the peer said its last word', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.call(1), peer.call(3));
    const watch = peer.handler.streams.get(1) as RequestStream;
    watch.answerIsStream = true;
    writerOf(watch).sendHeaders([':status', '200'], false);
    peer.frames();
    peer.connection.peerEnded();
    expect(peer.handler.seen.at(-1)).toBe('abort 1 CANCEL');
    expect(peer.transport.calls).toEqual([]);
    writerOf(peer.handler.streams.get(3)).respond([':status', '200'], Buffer.from('late'), [
      'grpc-status',
      '0',
    ]);
    expect(peer.frames()).toHaveLength(3);
    expect(peer.transport.calls).toEqual(['end']);
  });

  it('is at once when the peer ends without streams', () => {
    const peer = Http2Peer.opened();
    peer.connection.peerEnded();
    expect(peer.transport.calls).toEqual(['end']);
    expect(peer.violations).toEqual([]);
  });

  it('hands over what was gathered, though the transport was full', () => {
    const peer = Http2Peer.opened();
    peer.handler.silent = true;
    peer.send(peer.call(1), peer.call(3));
    peer.transport.full = true;
    writerOf(peer.handler.streams.get(1)).respond([':status', '200'], Buffer.from('a'), ['grpc-status', '0']);
    peer.connection.flush();
    peer.connection.peerEnded();
    writerOf(peer.handler.streams.get(3)).respond([':status', '200'], Buffer.from('b'), ['grpc-status', '0']);
    expect(peer.frames()).toHaveLength(6);
    expect(peer.transport.calls).toEqual(['end']);
  });
});
