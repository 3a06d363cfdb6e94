import { describe, expect, it } from 'vitest';
import { data, frame, ping, settings } from '../../test/support/http2-frame-script.ts';
import { Http2Peer, requestFields, writerOf } from '../../test/support/http2-peer.ts';
import { Flag, FrameType, Setting } from './constants.ts';
import { type Http2Limits, openStreamBytes, waitingAnswerBytes } from './limits.ts';
import type { RequestStream } from './request-handler.ts';

const { END_STREAM } = Flag;

function silentPeer(limits: Partial<Http2Limits>): Http2Peer {
  const peer = Http2Peer.opened({ limits });
  peer.handler.silent = true;
  return peer;
}

describe('requests that are not complete', () => {
  const limits = { requestTimeoutMs: 5000, keepaliveMs: Number.POSITIVE_INFINITY };

  it('are reset when their time is up, and counted', () => {
    const peer = silentPeer(limits);
    peer.send(peer.call(1), peer.headers(3), data(3, 'half'));
    peer.pass(1000);
    peer.send(peer.headers(5));
    peer.pass(3500);
    peer.send(data(3, 'more'));
    expect(peer.frames()).toEqual([]);
    peer.pass(500);
    expect(peer.frames()).toEqual(['RST_STREAM 3 ENHANCE_YOUR_CALM']);
    expect(peer.handler.seen.at(-1)).toBe('abort 3 ENHANCE_YOUR_CALM');
    peer.send(data(3, 'late', END_STREAM), data(5, 'whole', END_STREAM));
    peer.pass(60_000);
    expect(peer.frames()).toEqual([]);
    expect([peer.unfinishedRequests, peer.connection.openStreams, peer.violations]).toEqual([1, 2, []]);
  });

  it('are reported to the peer at once', () => {
    const peer = silentPeer(limits);
    peer.send(peer.headers(1));
    const before = peer.flushes;
    peer.pass(5000);
    expect(peer.flushes).toBe(before + 1);
  });

  it('end the connection when they are many', () => {
    const peer = silentPeer({ ...limits, provokedResets: { burst: 10, perRequest: 0, perSecond: 0 } });
    for (let id = 1; id <= 21; id += 2) peer.send(peer.headers(id));
    peer.pass(5000);
    expect(peer.frames().at(-1)).toBe('GOAWAY 21 ENHANCE_YOUR_CALM');
    expect([peer.violations, peer.transport.calls]).toEqual([['provoked_reset'], ['end']]);
    expect([peer.unfinishedRequests, peer.connection.openStreams]).toEqual([11, 0]);
  });

  it('may take any time if they are a stream of messages', () => {
    const peer = silentPeer(limits);
    peer.send(peer.headers(1));
    (peer.handler.streams.get(1) as RequestStream).requestIsStream = true;
    peer.pass(600_000);
    expect([peer.frames(), peer.unfinishedRequests, peer.connection.openStreams]).toEqual([[], 0, 1]);
  });

  it('hold nothing for good if they are a stream of messages', () => {
    const peer = silentPeer({ maxBufferedBytes: 100 });
    peer.send(peer.headers(1));
    (peer.handler.streams.get(1) as RequestStream).requestIsStream = true;
    for (let i = 0; i < 10; i++) peer.send(data(1, 'x'.repeat(50)));
    peer.send(peer.headers(3), data(3, 'x'.repeat(100)));
    expect(peer.frames()).toEqual([]);
    peer.send(data(1, 'x', END_STREAM), data(3, 'x'));
    expect(peer.frames()).toEqual(['RST_STREAM 3 ENHANCE_YOUR_CALM']);
    peer.send(peer.headers(5), data(5, 'x'.repeat(100)));
    expect(peer.frames()).toEqual([]);
  });
});

describe('header sections and frames that are not complete', () => {
  const limits = { requestTimeoutMs: 5000, keepaliveMs: Number.POSITIVE_INFINITY };

  it('end the connection when the section does not end in time, however it trickles', () => {
    const peer = silentPeer(limits);
    const block = peer.block(requestFields);
    peer.send(frame(FrameType.HEADERS, 0, 1, block.subarray(0, 5)));
    peer.pass(3000);
    peer.send(frame(FrameType.CONTINUATION, 0, 1, block.subarray(5, 9)));
    peer.pass(1500);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expect(peer.violations).toEqual(['unfinished_frame']);
    expect(peer.frames()).toEqual(['GOAWAY 0 ENHANCE_YOUR_CALM']);
  });

  it('end the connection when a frame does not end in time', () => {
    for (const begun of [
      frame(FrameType.HEADERS, 0, 1, Buffer.alloc(100)).subarray(0, 50),
      Buffer.alloc(3),
    ]) {
      const peer = silentPeer(limits);
      peer.send(begun);
      peer.pass(5000);
      expect(peer.violations).toEqual([]);
      peer.pass(500);
      expect(peer.violations).toEqual(['unfinished_frame']);
    }
  });

  it('do not add up', () => {
    const peer = silentPeer(limits);
    for (let id = 1; id < 60; id += 2) {
      const call = peer.call(id);
      peer.send(call.subarray(0, 20));
      peer.pass(4000);
      peer.send(call.subarray(20));
    }
    expect([peer.violations, peer.unfinishedRequests]).toEqual([[], 0]);
  });
});

describe('what a connection holds', () => {
  it('is nothing for requests that wait for their answer', () => {
    const peer = silentPeer({});
    peer.send(peer.call(1), peer.call(3));
    expect([peer.bufferedBytes, peer.connection.openStreams, peer.connection.shed()]).toEqual([0, 2, false]);
    expect(peer.frames()).toEqual([]);
  });

  it('is what its peer has not done, and goes when that is done', () => {
    const peer = silentPeer({});
    const seen: number[] = [];
    const send = (...pieces: Uint8Array[]): void => {
      peer.send(...pieces);
      seen.push(peer.bufferedBytes);
    };
    send(peer.headers(1));
    writerOf(peer.handler.streams.get(1)).hold(500);
    send(peer.headers(3));
    send(frame(FrameType.DATA, 0, 3, Buffer.alloc(300)).subarray(0, 100));
    send(Buffer.alloc(209));
    send(data(1, '', END_STREAM));
    writerOf(peer.handler.streams.get(1)).hold(-500);
    send(data(3, '', END_STREAM));
    const [one, two] = [openStreamBytes, 2 * openStreamBytes + 500];
    expect(seen).toEqual([one, two, two + 309, two, one + 500, 0]);
    peer.send(peer.headers(5));
    peer.connection.lost();
    expect(peer.bufferedBytes).toBe(0);
  });

  it('is reported when it changed, and again after it should be less', () => {
    const peer = silentPeer({});
    peer.send(peer.headers(1), peer.headers(3));
    peer.bufferedBytes = -1;
    peer.send(ping());
    expect(peer.bufferedBytes).toBe(-1);
    expect(peer.connection.shed()).toBe(true);
    peer.send(peer.headers(5));
    expect(peer.bufferedBytes).toBe(2 * openStreamBytes);
  });

  it('is answers that wait for windows, too', () => {
    const peer = Http2Peer.opened();
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), peer.call(1, 'x'.repeat(200)));
    expect(peer.bufferedBytes).toBe(waitingAnswerBytes + 200);
    expect(peer.connection.shed()).toBe(true);
    expect(peer.frames().at(-1)).toBe('RST_STREAM 1 ENHANCE_YOUR_CALM');
    expect([peer.connection.bufferedBytes, peer.sheds, peer.violations]).toEqual([0, 1, []]);
  });

  it('becomes less by the request that was begun first, and that waits for its peer', () => {
    const peer = silentPeer({});
    peer.send(peer.call(1), peer.headers(3), peer.headers(5));
    peer.connection.shed();
    expect([peer.frames(), peer.connection.bufferedBytes]).toEqual([
      ['RST_STREAM 3 ENHANCE_YOUR_CALM'],
      openStreamBytes,
    ]);
    peer.connection.shed();
    expect(peer.frames()).toEqual(['RST_STREAM 5 ENHANCE_YOUR_CALM']);
    expect([peer.connection.shed(), peer.sheds, peer.violations]).toEqual([false, 2, []]);
  });

  it('becomes less by the whole connection if a header section waits longest', () => {
    const peer = silentPeer({});
    peer.send(frame(FrameType.HEADERS, 0, 1, peer.block(requestFields)));
    expect(peer.bufferedBytes).toBeGreaterThan(0);
    expect(peer.connection.shed()).toBe(true);
    expect([peer.violations, peer.sheds, peer.connection.bufferedBytes]).toEqual([['too_many_bytes'], 0, 0]);
    expect(peer.frames()).toEqual(['GOAWAY 0 ENHANCE_YOUR_CALM']);
  });

  it('becomes less by the whole connection if answers are not read', () => {
    const peer = Http2Peer.opened();
    peer.transport.full = true;
    for (let id = 1; id < 9; id += 2) peer.send(peer.call(id, 'x'.repeat(10_000)));
    // A stalled moment is normal.
    expect([peer.bufferedBytes, peer.connection.shed()]).toEqual([0, false]);
    peer.pass(500);
    expect(peer.bufferedBytes).toBeGreaterThan(40_000);
    expect(peer.connection.shed()).toBe(true);
    expect([peer.violations, peer.transport.calls]).toEqual([['too_many_bytes'], ['destroy']]);
  });

  it('is given back again and again by a peer that had better go', () => {
    const peer = silentPeer({ provokedResets: { burst: 3, perRequest: 0, perSecond: 0 } });
    for (let id = 1; id < 20; id += 2) peer.send(peer.headers(id));
    for (let shed = 0; shed < 4; shed += 1) peer.connection.shed();
    expect([peer.violations, peer.connection.bufferedBytes]).toEqual([['provoked_reset'], 0]);
  });
});
