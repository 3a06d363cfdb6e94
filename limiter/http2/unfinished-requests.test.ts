import { describe, expect, it } from 'vitest';
import { data } from '../../test/support/http2-frame-script.ts';
import { Http2Peer } from '../../test/support/http2-peer.ts';
import { Flag } from './constants.ts';
import type { Http2Limits } from './limits.ts';
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

  it('are told to the peer at once', () => {
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

  it('may take any time where they are a stream of messages', () => {
    const peer = silentPeer(limits);
    peer.send(peer.headers(1));
    (peer.handler.streams.get(1) as RequestStream).requestIsStream = true;
    peer.pass(600_000);
    expect([peer.frames(), peer.unfinishedRequests, peer.connection.openStreams]).toEqual([[], 0, 1]);
  });

  it('hold nothing for good where they are a stream of messages', () => {
    const peer = silentPeer({ maxHeldBytes: 100 });
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
