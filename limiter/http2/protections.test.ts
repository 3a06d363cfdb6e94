/** Every limit of `Http2Limits`: input within it is served, and input beyond it ends with one counted reason. */
import { describe, expect, it } from 'vitest';
import {
  data,
  frame,
  ping,
  priority,
  resetStream,
  settings,
  settingsAck,
  uint32,
  windowUpdate,
} from '../../test/support/http2-frame-script.ts';
import {
  Http2Peer,
  requestFields,
  responseFields,
  trailerFields,
  writerOf,
} from '../../test/support/http2-peer.ts';
import { clientPreface, ErrorCode, Flag, FrameType, Setting } from './constants.ts';
import type { Http2Limits } from './limits.ts';
import type { RequestStream } from './request-handler.ts';
import { type ViolationReason, violationTexts } from './violation.ts';

const { END_STREAM, END_HEADERS } = Flag;

/** Expects that a GOAWAY with this code and reason ended the connection, and that it was counted once. */
function expectEnded(peer: Http2Peer, code: string, reason: ViolationReason): void {
  expect(peer.frames().at(-1)).toMatch(new RegExp(`^GOAWAY \\d+ ${code}$`));
  expect(peer.debugData).toBe(`${reason}: ${violationTexts[reason]}`);
  expect(peer.violations).toEqual([reason]);
  expect(peer.transport.calls.at(-1)).toBe('end');
  expect(peer.closes).toBe(1);
  expect(peer.connection.openStreams).toBe(0);
}

function silentPeer(limits: Partial<Http2Limits>): Http2Peer {
  const peer = Http2Peer.opened({ limits });
  peer.handler.silent = true;
  return peer;
}

describe('other protocols', () => {
  it.each([
    ['HTTP/1.1', 'GET / HTTP/1.1\r\nHost: a\r\n\r\n'],
    ['TLS', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
    ['an almost right preface', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r!'],
  ])('%s is answered by a closed connection without a byte', (_, text) => {
    const peer = new Http2Peer();
    peer.send(Buffer.from(text, 'latin1'));
    expect(peer.transport.written).toEqual([]);
    expect(peer.transport.calls).toEqual(['end']);
    expect(peer.violations).toEqual(['not_http2']);
    peer.send(clientPreface);
    expect(peer.transport.written).toEqual([]);
  });
});

describe('floods of control frames', () => {
  const limits = { controlFrames: { burst: 20, perRequest: 2, perSecond: 10 } };
  const floods: Record<string, (peer: Http2Peer) => Buffer> = {
    SETTINGS: () => settings(),
    'SETTINGS ACK': () => frame(FrameType.SETTINGS, Flag.ACK, 0),
    PING: () => ping(),
    'PING ACK': () => ping('12345678', Flag.ACK),
    PRIORITY: () => priority(1, 3),
    PRIORITY_UPDATE: () => frame(FrameType.PRIORITY_UPDATE, 0, 0, uint32(1)),
    'empty DATA': () => data(1, ''),
    'padded empty DATA': () => frame(FrameType.DATA, Flag.PADDED, 1, [3, 0, 0, 0]),
    WINDOW_UPDATE: () => windowUpdate(0, 1),
    'WINDOW_UPDATE of a stream': () => windowUpdate(1, 1),
    GOAWAY: () => frame(FrameType.GOAWAY, 0, 0, Buffer.alloc(8)),
    'unknown frames': () => frame(0x77, 0, 1, [1]),
  };
  it.each(Object.keys(floods))('of %s end the connection', (name) => {
    const peer = silentPeer(limits);
    peer.send(peer.headers(1));
    const flood = floods[name] as (peer: Http2Peer) => Buffer;
    // Opening the connection spent two of the twenty.
    for (let i = 0; i < 18; i++) peer.send(flood(peer));
    expect(peer.violations).toEqual([]);
    for (let i = 0; i < 2; i++) peer.send(flood(peer));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'control_flood');
    expect(peer.handler.seen.at(-1)).toBe('abort 1 ENHANCE_YOUR_CALM');
  });

  it('of frames on streams that are over end the connection', () => {
    const peer = silentPeer(limits);
    peer.send(peer.headers(1));
    writerOf(peer.handler.streams.get(1)).reset(ErrorCode.CANCEL);
    for (let i = 0; i < 20; i++) peer.send(i % 2 === 0 ? data(1, 'x') : resetStream(1, 0));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'control_flood');
  });

  it('count one frame of many settings for several', () => {
    const peer = Http2Peer.opened({ limits });
    peer.send(
      settings(...Array.from({ length: 160 }, () => [Setting.INITIAL_WINDOW_SIZE, 1] as [number, number])),
    );
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'control_flood');
  });

  it('are none beside requests', () => {
    const peer = Http2Peer.opened({ limits });
    for (let id = 1; id < 400; id += 2) peer.send(peer.call(id), ping(), windowUpdate(0, 100));
    expect(peer.violations).toEqual([]);
  });

  it('are floods beside requests that are merely rejected', () => {
    const peer = silentPeer(limits);
    for (let id = 1; id < 40; id += 2) {
      peer.send(peer.headers(id, requestFields, END_STREAM), ping(), ping());
      writerOf(peer.handler.streams.get(id)).sendHeaders([':status', '200', 'grpc-status', '12'], true);
    }
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'control_flood');
  });

  it('are none in the course of time', () => {
    const peer = Http2Peer.opened({ limits: { ...limits, idleTimeoutMs: Number.POSITIVE_INFINITY } });
    for (let i = 0; i < 100; i++) {
      peer.send(ping());
      peer.pass(500);
    }
    expect(peer.violations).toEqual([]);
  });
});

describe('resets', () => {
  const limits = { rapidResets: { burst: 10, perRequest: 1, perSecond: 1 }, rapidResetMs: 10 };
  const openAndReset = (peer: Http2Peer, id: number) =>
    peer.send(peer.headers(id, requestFields, END_STREAM), resetStream(id, ErrorCode.CANCEL));

  it('just after the request end the connection (CVE-2023-44487)', () => {
    const peer = silentPeer(limits);
    for (let i = 0; i < 10; i++) openAndReset(peer, 2 * i + 1);
    expect(peer.violations).toEqual([]);
    openAndReset(peer, 21);
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'rapid_reset');
    expect(peer.handler.seen.filter((line) => line.startsWith('abort'))).toHaveLength(11);
  });

  it('of requests that were never complete count whenever they come', () => {
    const peer = silentPeer(limits);
    for (let i = 0; i < 15; i++) {
      peer.send(peer.headers(2 * i + 1));
      peer.nowMs += 50;
      peer.send(resetStream(2 * i + 1, ErrorCode.CANCEL));
    }
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'rapid_reset');
  });

  it('of streams of messages are no attack', () => {
    const peer = silentPeer(limits);
    for (let id = 1; id < 100; id += 2) {
      peer.send(peer.headers(id));
      (peer.handler.streams.get(id) as RequestStream).requestIsStream = true;
      peer.nowMs += 10;
      peer.send(resetStream(id, ErrorCode.CANCEL));
    }
    expect(peer.violations).toEqual([]);
  });

  it('of calls whose time was up are no attack', () => {
    const peer = silentPeer(limits);
    for (let i = 0; i < 100; i++) {
      peer.send(peer.headers(2 * i + 1, requestFields, END_STREAM));
      peer.nowMs += 10;
      peer.send(resetStream(2 * i + 1, ErrorCode.CANCEL));
    }
    expect(peer.violations).toEqual([]);
  });

  it('between answered calls are no attack', () => {
    const peer = silentPeer(limits);
    for (let id = 1; id < 400; id += 4) {
      openAndReset(peer, id);
      peer.handler.silent = false;
      peer.send(peer.call(id + 2));
      peer.handler.silent = true;
    }
    expect(peer.violations).toEqual([]);
  });

  const provoked = {
    provokedResets: { burst: 5, perRequest: 0, perSecond: 0 },
    maxHeaderListBytes: 16_384,
  };
  const provocations: Record<string, (peer: Http2Peer, id: number) => Buffer[]> = {
    'an increment of 0': (peer, id) => [peer.headers(id), windowUpdate(id, 0)],
    'a window overflow': (peer, id) => [peer.headers(id), windowUpdate(id, 2 ** 31 - 1)],
    'DATA behind the end': (peer, id) => [peer.headers(id, requestFields, END_STREAM), data(id, 'x')],
    'a short PRIORITY': (peer, id) => [peer.headers(id), frame(FrameType.PRIORITY, 0, id, [1])],
    'a malformed request': (peer, id) => [peer.headers(id, [':method', 'GET'])],
    'a list of fields too long': (peer, id) => [
      peer.headers(id, [...requestFields, 'a', '0'.repeat(20_000)]),
    ],
    'malformed trailers': (peer, id) => [peer.headers(id), peer.headers(id, ['Bad', 'x'], END_STREAM)],
  };
  it.each(Object.keys(provocations))('provoked by %s end the connection (CVE-2025-8671)', (name) => {
    const peer = silentPeer(provoked);
    const provoke = provocations[name] as (peer: Http2Peer, id: number) => Buffer[];
    for (let i = 0; i < 5; i++) peer.send(...provoke(peer, 2 * i + 1));
    expect(peer.violations).toEqual([]);
    peer.send(...provoke(peer, 11));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'provoked_reset');
  });
});

describe('header sections', () => {
  it('above the announced list size are answered with 431', () => {
    const peer = Http2Peer.opened({ limits: { maxHeaderListBytes: 1000 } });
    peer.send(peer.headers(1, [...requestFields, 'a', 'x'.repeat(1000)], END_STREAM), peer.call(3));
    expect(peer.frames().slice(0, 2)).toEqual([
      'HEADERS 1 :status 431 end',
      'HEADERS 3 :status 200 content-type application/grpc',
    ]);
    expect(peer.handler.seen).toEqual(['request 3 /a.B/C', 'data 3 5 end']);
    peer.send(peer.headers(5, [...requestFields, 'a', 'x'.repeat(1000)]), data(5, 'ignored', END_STREAM));
    expect(peer.frames().slice(-2)).toEqual(['HEADERS 5 :status 431 end', 'RST_STREAM 5 NO_ERROR']);
  });

  it('of trailers above it reset the stream', () => {
    const peer = Http2Peer.opened({ limits: { maxHeaderListBytes: 1000 } });
    peer.send(peer.headers(1), peer.headers(1, ['a', 'x'.repeat(1000)], END_STREAM));
    expect(peer.frames()).toEqual(['RST_STREAM 1 ENHANCE_YOUR_CALM']);
  });

  it('of few bytes that mean many are bounded as well', () => {
    const peer = Http2Peer.opened();
    // One entry of 4000 bytes, then 16,000 references to it: 64 MB of fields.
    const entry = Buffer.concat([Buffer.from([0x40, 1, 0x61, 0x7f, 0xa1, 0x1e]), Buffer.alloc(4000, 0x78)]);
    peer.send(frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 1, entry));
    peer.send(frame(FrameType.HEADERS, END_HEADERS | END_STREAM, 3, Buffer.alloc(16_000, 0xbe)));
    expect(peer.frames()).toEqual(['RST_STREAM 1 PROTOCOL_ERROR', 'HEADERS 3 :status 431 end']);
  });

  it('beyond the absolute bound end the connection', () => {
    const peer = Http2Peer.opened();
    const piece = Buffer.alloc(16_384, 0x82);
    peer.send(frame(FrameType.HEADERS, 0, 1, piece));
    for (let i = 0; i < 7; i++) peer.send(frame(FrameType.CONTINUATION, 0, 1, piece));
    expect(peer.violations).toEqual([]);
    peer.send(frame(FrameType.CONTINUATION, 0, 1, [0x82]));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'header_block_size');
  });

  it('in too many pieces end the connection', () => {
    const peer = Http2Peer.opened();
    peer.send(frame(FrameType.HEADERS, 0, 1, [0x82]));
    for (let i = 0; i < 16; i++) peer.send(frame(FrameType.CONTINUATION, 0, 1));
    expect(peer.violations).toEqual([]);
    peer.send(frame(FrameType.CONTINUATION, 0, 1));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'continuation_flood');
  });
});

describe('streams', () => {
  it('above the announced number are rejected, and served when others ended', () => {
    const peer = silentPeer({ maxConcurrentStreams: 2 });
    for (const id of [1, 3, 5]) peer.send(peer.headers(id, requestFields, END_STREAM));
    expect(peer.frames()).toEqual(['RST_STREAM 5 REFUSED_STREAM']);
    writerOf(peer.handler.streams.get(1)).respond(responseFields, Buffer.from('x'), trailerFields);
    peer.send(peer.headers(7, requestFields, END_STREAM));
    expect(peer.handler.seen.at(-1)).toBe('request 7 /a.B/C end');
  });

  it('above it are no fault of a peer that cannot know the number yet', () => {
    const provokedResets = { burst: 10, perRequest: 0, perSecond: 0 };
    const peer = new Http2Peer({ limits: { maxConcurrentStreams: 2, provokedResets } });
    peer.handler.silent = true;
    peer.send(clientPreface, settings());
    for (let id = 1; id < 100; id += 2) peer.send(peer.call(id));
    expect(peer.frames().filter((one) => one.endsWith('REFUSED_STREAM'))).toHaveLength(48);
    expect(peer.violations).toEqual([]);
    peer.send(settingsAck);
    for (let id = 101; id <= 121; id += 2) peer.send(peer.call(id));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'provoked_reset');
  });

  it('above it are rejected before SETTINGS are acknowledged only for so long', () => {
    const peer = new Http2Peer({ limits: { maxConcurrentStreams: 2 } });
    peer.send(clientPreface, settings(), peer.headers(1), peer.headers(3), peer.headers(5));
    peer.pass(10_000);
    expectEnded(peer, 'SETTINGS_TIMEOUT', 'settings_timeout');
  });

  it('that the server ended may get the rest of their requests, as many as may be open', () => {
    const controlFrames = { burst: 20, perRequest: 0, perSecond: 0 };
    const provokedResets = { burst: 0, perRequest: 0, perSecond: 0 };
    const peer = silentPeer({ maxConcurrentStreams: 500, controlFrames, provokedResets });
    const ids = Array.from({ length: 500 }, (_, index) => 2 * index + 1);
    for (const id of ids) peer.send(peer.headers(id));
    for (const id of ids) writerOf(peer.handler.streams.get(id)).sendHeaders(['grpc-status', '4'], true);
    for (const id of ids) {
      peer.send(id % 4 === 1 ? data(id, 'late', END_STREAM) : peer.headers(id, ['x-late', '1'], END_STREAM));
    }
    expect(peer.violations).toEqual([]);
    peer.send(data(1, 'again', END_STREAM));
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'provoked_reset');
  });

  it('1,000 at once are served', () => {
    const peer = silentPeer({});
    const ids = Array.from({ length: 1000 }, (_, index) => 2 * index + 1);
    for (const id of ids) peer.send(peer.headers(id, requestFields, END_STREAM));
    for (const id of ids)
      writerOf(peer.handler.streams.get(id)).respond(responseFields, Buffer.from('x'), trailerFields);
    expect(peer.frames()).toHaveLength(3000);
    expect(peer.connection.openStreams).toBe(0);
  });

  it('that hold more bodies than allowed are reset', () => {
    const peer = silentPeer({ maxBufferedBytes: 100 });
    peer.send(peer.headers(1), data(1, 'x'.repeat(60)), peer.headers(3), data(3, 'x'.repeat(60)));
    expect(peer.frames()).toEqual(['RST_STREAM 3 ENHANCE_YOUR_CALM']);
    peer.send(data(1, 'x', END_STREAM), peer.headers(5), data(5, 'x'.repeat(100)));
    expect(peer.frames()).toEqual([]);
    expect(peer.connection.openStreams).toBe(2);
  });
});

describe('a peer that does not read', () => {
  const limits = { pauseQueuedBytes: 1000, maxQueuedBytes: 5000, slowReaderMs: 10_000 };
  /** A peer whose answers wait for the socket. */
  function blockedPeer(): Http2Peer {
    const peer = Http2Peer.opened({ limits });
    peer.transport.full = true;
    peer.send(peer.call(1));
    expect(peer.transport.written).toHaveLength(1);
    return peer;
  }

  it('is not read from, until it takes its answers', () => {
    const peer = blockedPeer();
    peer.send(peer.call(3, 'x'.repeat(500)));
    expect(peer.transport.calls).toEqual([]);
    peer.send(peer.call(5, 'x'.repeat(500)));
    expect(peer.transport.calls).toEqual(['pause']);
    expect(peer.transport.written).toHaveLength(1);
    peer.transport.full = false;
    peer.connection.onDrain();
    expect(peer.transport.calls).toEqual(['pause', 'resume']);
    expect(peer.transport.written).toHaveLength(2);
  });

  it('loses its connection after a time', () => {
    const peer = blockedPeer();
    peer.pass(9500);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expect(peer.violations).toEqual(['slow_reader']);
    expect(peer.transport.calls).toEqual(['destroy']);
  });

  it('keeps it while it takes one piece of a long answer after the other', () => {
    const peer = Http2Peer.opened({
      limits: { ...limits, pauseQueuedBytes: 1 << 20, maxQueuedBytes: 1 << 21 },
    });
    peer.handler.silent = true;
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 1 << 20]), windowUpdate(0, 1 << 20), peer.call(1));
    peer.frames();
    peer.transport.full = true;
    writerOf(peer.handler.streams.get(1)).respond(responseFields, Buffer.alloc(300_000), trailerFields);
    peer.connection.flush();
    for (let pieces = 1; pieces <= 4; pieces++) {
      expect(peer.transport.written.map((piece) => piece.length)).toEqual(Array(pieces).fill(65_536));
      peer.pass(9500);
      expect(peer.violations).toEqual([]);
      peer.connection.onDrain();
    }
    expect(peer.transport.written.reduce((sum, piece) => sum + piece.length, 0)).toBeGreaterThan(300_000);
    peer.pass(10_000);
    expect(peer.violations).toEqual(['slow_reader']);
  });

  it('keeps it while it reads slowly', () => {
    const peer = blockedPeer();
    for (let i = 0; i < 5; i++) {
      peer.pass(9500);
      peer.connection.onDrain();
      peer.send(peer.call(2 * i + 3));
    }
    expect(peer.violations).toEqual([]);
  });

  it('loses it at once when too much waits', () => {
    const peer = blockedPeer();
    for (let id = 3; id < 15; id += 2) peer.send(peer.call(id, 'x'.repeat(1000)));
    expect(peer.violations).toEqual(['slow_reader']);
    expect(peer.transport.calls).toEqual(['pause', 'destroy']);
  });

  it('is rejected new requests while its windows are closed, though it is read from', () => {
    const peer = Http2Peer.opened({ limits });
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), peer.call(1, 'x'.repeat(1001)), peer.call(3));
    expect(peer.frames().at(-1)).toBe('RST_STREAM 3 REFUSED_STREAM');
    peer.send(windowUpdate(1, 1001), peer.headers(5));
    expect(peer.connection.openStreams).toBe(1);
    expect(peer.transport.calls).toEqual([]);
  });

  it('loses its connection when its windows stay closed', () => {
    const peer = Http2Peer.opened({ limits });
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), peer.call(1));
    peer.pass(9500);
    peer.send(windowUpdate(1, 1));
    peer.pass(10_000);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'slow_reader');
  });

  it('loses it at once when too much waits for windows', () => {
    const peer = silentPeer({ ...limits });
    peer.send(settings([Setting.INITIAL_WINDOW_SIZE, 0]), peer.headers(1, requestFields, END_STREAM));
    writerOf(peer.handler.streams.get(1)).respond(responseFields, Buffer.alloc(5001), trailerFields);
    expectEnded(peer, 'ENHANCE_YOUR_CALM', 'slow_reader');
  });
});

describe('time', () => {
  it('runs out for the preface', () => {
    const peer = new Http2Peer();
    peer.send(clientPreface.subarray(0, 5));
    peer.pass(9500);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expect(peer.violations).toEqual(['preface_timeout']);
    expect(peer.transport.written).toEqual([]);
    expect(peer.transport.calls).toEqual(['destroy']);
  });

  it('runs out for the first SETTINGS', () => {
    const peer = new Http2Peer();
    peer.send(clientPreface);
    peer.pass(10_000);
    expectEnded(peer, 'PROTOCOL_ERROR', 'preface_timeout');
  });

  it('runs out for the acknowledgement of SETTINGS', () => {
    const peer = new Http2Peer();
    peer.send(clientPreface, settings());
    peer.pass(9500);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expectEnded(peer, 'SETTINGS_TIMEOUT', 'settings_timeout');
  });

  it('runs out for a connection without streams, pings or not', () => {
    const peer = Http2Peer.opened({ limits: { idleTimeoutMs: 60_000 } });
    peer.pass(30_000);
    peer.send(peer.call(1));
    for (let i = 0; i < 119; i++) {
      peer.pass(500);
      peer.send(ping());
    }
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expectEnded(peer, 'NO_ERROR', 'idle_timeout');
  });

  it('does not run out while a stream is open', () => {
    const peer = silentPeer({ idleTimeoutMs: 60_000, keepaliveMs: Number.POSITIVE_INFINITY });
    peer.send(peer.call(1));
    peer.pass(600_000);
    expect(peer.violations).toEqual([]);
  });

  it('runs out for a quiet peer that does not answer PING', () => {
    const peer = Http2Peer.opened();
    peer.pass(59_500);
    expect(peer.flushes).toBe(0);
    peer.pass(500);
    expect(peer.frames()).toEqual(['PING weir.ask']);
    peer.send(ping('weir.ask', Flag.ACK));
    peer.pass(60_000);
    expect(peer.frames()).toEqual(['PING weir.ask']);
    peer.pass(19_500);
    expect(peer.violations).toEqual([]);
    peer.pass(500);
    expectEnded(peer, 'NO_ERROR', 'keepalive_timeout');
  });
});

describe('a handler that throws', () => {
  it('ends its connection, and what it threw is reported', () => {
    const peer = Http2Peer.opened();
    const defect = new Error('a defect');
    peer.handler.onData = () => {
      throw defect;
    };
    peer.send(peer.call(1));
    expectEnded(peer, 'INTERNAL_ERROR', 'internal_error');
    expect(peer.thrown).toEqual([defect]);
  });
});
