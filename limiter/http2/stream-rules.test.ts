/** The rules of RFC 9113 for single frames and streams: frames in, frames out. */
import { describe, expect, it } from 'vitest';
import {
  data,
  frame,
  goAway,
  paddedData,
  ping,
  priority,
  resetStream,
  settings,
  uint32,
  windowUpdate,
} from '../../test/support/http2-frame-script.ts';
import { Http2Peer, requestFields, writerOf } from '../../test/support/http2-peer.ts';
import { ErrorCode, Flag, FrameType, Setting } from './constants.ts';

const { END_STREAM, END_HEADERS, PADDED, PRIORITY } = Flag;
const answer = (id: number, body = 'hello') => [
  `HEADERS ${id} :status 200 content-type application/grpc`,
  ...(body === '' ? [] : [`DATA ${id} ${body}`]),
  `HEADERS ${id} grpc-status 0 end`,
];

interface Case {
  /** The frames that the client sends, in one piece. */
  send: (peer: Http2Peer) => Buffer[];
  /** The expected answer. */
  want: string[];
  /** The counted reason, if the connection ends. */
  reason?: string;
  silent?: boolean;
}

function runs(cases: Record<string, Case>): void {
  for (const [name, { send, want, reason, silent }] of Object.entries(cases)) {
    it(name, () => {
      const peer = Http2Peer.opened();
      peer.handler.silent = silent === true;
      peer.send(...send(peer));
      expect(peer.frames()).toEqual(want);
      expect(peer.violations).toEqual(reason === undefined ? [] : [reason]);
      expect(peer.connection.isClosed).toBe(reason !== undefined);
      expect(peer.transport.calls).toEqual(reason === undefined ? [] : ['end']);
      expect(peer.closes).toBe(reason === undefined ? 0 : 1);
    });
  }
}

const connectionError = (code: string, lastId = 0, before: string[] = []) => ({
  want: [...before, `GOAWAY ${lastId} ${code}`],
  reason: code.toLowerCase(),
});
const header = (peer: Http2Peer, id: number, flags = END_HEADERS | END_STREAM, fields = requestFields) =>
  frame(FrameType.HEADERS, flags, id, peer.block(fields));

describe('frame format, RFC 9113, sections 4 and 5.5', () => {
  runs({
    'ignores unknown frames': {
      send: () => [frame(0x42, 0xff, 1, [1, 2]), ping()],
      want: ['PING ACK 12345678'],
    },
    'ignores unknown flags': { send: () => [ping('12345678', 0x16)], want: ['PING ACK 12345678'] },
    'ignores the reserved bit': {
      send: () => [frame(FrameType.PING, 0, 0x8000_0000, Buffer.from('12345678'))],
      want: ['PING ACK 12345678'],
    },
    'takes a frame of 16,384 bytes': {
      send: (peer) => [peer.headers(1), data(1, Buffer.alloc(16_384), END_STREAM)],
      want: answer(1, '16384'),
    },
    'refuses a larger one': {
      send: () => [data(1, Buffer.alloc(16_385))],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'ends on a block that is no HPACK': {
      send: () => [frame(FrameType.HEADERS, END_HEADERS, 1, [0xff, 0xff, 0xff, 0xff, 0xff])],
      ...connectionError('COMPRESSION_ERROR'),
    },
    'refuses PUSH_PROMISE': {
      send: () => [frame(FrameType.PUSH_PROMISE, END_HEADERS, 1, [0, 0, 0, 2])],
      ...connectionError('PROTOCOL_ERROR'),
    },
  });
});

describe('DATA, RFC 9113, section 6.1', () => {
  runs({
    'takes padding': {
      send: (peer) => [peer.headers(1), paddedData(1, 'hi', 7, END_STREAM)],
      want: answer(1, 'hi'),
    },
    'takes a frame of padding alone': {
      send: (peer) => [peer.headers(1), paddedData(1, '', 7, END_STREAM)],
      want: answer(1, ''),
    },
    'refuses padding beyond the frame': {
      send: (peer) => [peer.headers(1), frame(FrameType.DATA, PADDED, 1, [2, 0])],
      ...connectionError('PROTOCOL_ERROR', 1),
    },
    'refuses a padded frame without a length': {
      send: (peer) => [peer.headers(1), frame(FrameType.DATA, PADDED, 1)],
      ...connectionError('FRAME_SIZE_ERROR', 1),
    },
    'refuses stream 0': { send: () => [data(0, 'x')], ...connectionError('PROTOCOL_ERROR') },
    'refuses an idle stream': { send: () => [data(1, 'x')], ...connectionError('PROTOCOL_ERROR') },
    'resets a half-closed stream': {
      silent: true,
      send: (peer) => [header(peer, 1), data(1, 'x')],
      want: ['RST_STREAM 1 STREAM_CLOSED'],
    },
    'resets a closed stream': {
      send: (peer) => [peer.call(1), data(1, 'x')],
      want: [...answer(1), 'RST_STREAM 1 STREAM_CLOSED'],
    },
    'resets a stream that the peer reset': {
      send: (peer) => [peer.headers(1), resetStream(1, ErrorCode.CANCEL), data(1, 'x')],
      want: ['RST_STREAM 1 STREAM_CLOSED'],
    },
    'ignores a stream that the server reset': {
      silent: true,
      send: (peer) => [header(peer, 1), data(1, 'x'), data(1, 'y'), data(1, 'z', END_STREAM)],
      want: ['RST_STREAM 1 STREAM_CLOSED'],
    },
  });
});

describe('HEADERS and CONTINUATION, RFC 9113, sections 6.2 and 6.10', () => {
  runs({
    'takes padding and a priority': {
      send: (peer) => [
        frame(
          FrameType.HEADERS,
          END_HEADERS | END_STREAM | PADDED | PRIORITY,
          1,
          Buffer.concat([Buffer.from([3, 0, 0, 0, 0, 15]), peer.block(requestFields), Buffer.alloc(3)]),
        ),
      ],
      want: answer(1, ''),
    },
    'refuses padding beyond the frame': {
      send: () => [frame(FrameType.HEADERS, END_HEADERS | PADDED, 1, [2, 0])],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'refuses a frame too short for its priority': {
      send: () => [frame(FrameType.HEADERS, END_HEADERS | PRIORITY, 1, [0, 0])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuses a frame too short for its padding': {
      send: () => [frame(FrameType.HEADERS, END_HEADERS | PADDED, 1)],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuses stream 0': { send: (peer) => [header(peer, 0)], ...connectionError('PROTOCOL_ERROR') },
    'refuses even streams': { send: (peer) => [header(peer, 2)], ...connectionError('PROTOCOL_ERROR') },
    'refuses a stream below the last': {
      send: (peer) => [peer.call(5), header(peer, 3)],
      ...connectionError('PROTOCOL_ERROR', 5, answer(5)),
    },
    'joins a block from CONTINUATION frames': {
      send: (peer) => {
        const block = peer.block(requestFields);
        return [
          frame(FrameType.HEADERS, END_STREAM, 1, block.subarray(0, 5)),
          frame(FrameType.CONTINUATION, 0, 1, block.subarray(5, 9)),
          frame(FrameType.CONTINUATION, END_HEADERS, 1, block.subarray(9)),
        ];
      },
      want: answer(1, ''),
    },
    ...Object.fromEntries(
      Object.entries({
        PRIORITY: priority(1, 3),
        PING: ping(),
        DATA: data(1, 'x'),
        'an unknown frame': frame(0x42, 0, 0),
        'CONTINUATION of another stream': frame(FrameType.CONTINUATION, END_HEADERS, 3, []),
      }).map(([name, bytes]) => [
        `refuses ${name} inside a block`,
        { send: (peer: Http2Peer) => [header(peer, 1, 0), bytes], ...connectionError('PROTOCOL_ERROR') },
      ]),
    ),
    'refuses CONTINUATION behind a whole block': {
      silent: true,
      send: (peer) => [header(peer, 1), frame(FrameType.CONTINUATION, END_HEADERS, 1)],
      ...connectionError('PROTOCOL_ERROR', 1),
    },
    'resets a half-closed stream': {
      silent: true,
      send: (peer) => [header(peer, 1), header(peer, 1)],
      want: ['RST_STREAM 1 STREAM_CLOSED'],
    },
    'resets a stream that the peer reset': {
      send: (peer) => [peer.headers(1), resetStream(1, ErrorCode.CANCEL), header(peer, 1)],
      want: ['RST_STREAM 1 STREAM_CLOSED'],
    },
    'ends on a closed stream': {
      send: (peer) => [peer.call(1), header(peer, 1)],
      ...connectionError('STREAM_CLOSED', 1, answer(1)),
    },
    'takes trailers': {
      send: (peer) => [peer.headers(1), data(1, 'hi'), peer.headers(1, ['x', 'y'], END_STREAM)],
      want: answer(1, 'hi'),
    },
    'resets on trailers that do not end the stream': {
      send: (peer) => [peer.headers(1), peer.headers(1, ['x', 'y'])],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'resets on pseudo-header fields in trailers': {
      send: (peer) => [peer.headers(1), peer.headers(1, [':method', 'GET'], END_STREAM)],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'resets a stream that depends on itself': {
      send: (peer) => [
        frame(
          FrameType.HEADERS,
          END_HEADERS | PRIORITY,
          1,
          Buffer.concat([uint32(1), Buffer.from([9]), peer.block(requestFields)]),
        ),
      ],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'resets a malformed request, whose fields are kept for the next': {
      send: (peer) => [peer.headers(1, [...requestFields, 'Upper', 'x']), peer.call(3)],
      want: ['RST_STREAM 1 PROTOCOL_ERROR', ...answer(3)],
    },
  });
});

describe('content-length, RFC 9113, section 8.1.1', () => {
  const withLength = (length: string) => [...requestFields, 'content-length', length];
  runs({
    'equal to the body': {
      send: (peer) => [peer.headers(1, withLength('4')), data(1, 'ab'), data(1, 'cd', END_STREAM)],
      want: answer(1, 'abcd'),
    },
    'above the body': {
      send: (peer) => [peer.headers(1, withLength('5')), data(1, 'abcd', END_STREAM)],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'above the body before trailers': {
      send: (peer) => [
        peer.headers(1, withLength('5')),
        data(1, 'abcd'),
        peer.headers(1, ['a', 'b'], END_STREAM),
      ],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'below the body, before it ends': {
      send: (peer) => [peer.headers(1, withLength('1')), data(1, 'abcd')],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'of a request without a body': {
      send: (peer) => [peer.headers(1, withLength('1'), END_STREAM)],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
  });
});

describe('PRIORITY, RFC 9113, section 6.3', () => {
  runs({
    'is ignored on any stream': {
      send: (peer) => [priority(9, 3), peer.call(1), priority(1, 3)],
      want: answer(1),
    },
    'is ignored as PRIORITY_UPDATE': {
      send: () => [frame(FrameType.PRIORITY_UPDATE, 0, 0, uint32(1)), ping()],
      want: ['PING ACK 12345678'],
    },
    'refuses PRIORITY_UPDATE on a stream': {
      send: () => [frame(FrameType.PRIORITY_UPDATE, 0, 1, uint32(1))],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'refuses a PRIORITY_UPDATE too short': {
      send: () => [frame(FrameType.PRIORITY_UPDATE, 0, 0, [1])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuses stream 0': { send: () => [priority(0, 3)], ...connectionError('PROTOCOL_ERROR') },
    'resets on a wrong length': {
      silent: true,
      send: (peer) => [header(peer, 1), frame(FrameType.PRIORITY, 0, 1, [0, 0, 0, 0])],
      want: ['RST_STREAM 1 FRAME_SIZE_ERROR'],
    },
    'ends on a wrong length of an idle stream, which cannot be reset': {
      send: () => [frame(FrameType.PRIORITY, 0, 1, [0, 0, 0, 0])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'ends on an idle stream that depends on itself': {
      send: () => [priority(1, 1)],
      ...connectionError('PROTOCOL_ERROR'),
    },
  });
});

describe('RST_STREAM, RFC 9113, section 6.4', () => {
  runs({
    'ends a stream': {
      silent: true,
      send: (peer) => [header(peer, 1), resetStream(1, 0xff), ping()],
      want: ['PING ACK 12345678'],
    },
    'is ignored on a closed stream': {
      send: (peer) => [peer.call(1), resetStream(1, ErrorCode.CANCEL)],
      want: answer(1),
    },
    'refuses an idle stream': { send: () => [resetStream(1, 0)], ...connectionError('PROTOCOL_ERROR') },
    'refuses stream 0': { send: () => [resetStream(0, 0)], ...connectionError('PROTOCOL_ERROR') },
    'refuses a wrong length': {
      silent: true,
      send: (peer) => [header(peer, 1), frame(FrameType.RST_STREAM, 0, 1, [0, 0, 0])],
      ...connectionError('FRAME_SIZE_ERROR', 1),
    },
  });

  it('reports the handler', () => {
    const peer = Http2Peer.opened({ handler: undefined as never });
    peer.handler.silent = true;
    peer.send(header(peer, 1), resetStream(1, ErrorCode.CANCEL));
    expect(peer.handler.seen).toEqual(['request 1 /a.B/C end', 'abort 1 CANCEL']);
    expect(peer.handler.streams.get(1)?.isOpen).toBe(false);
    writerOf(peer.handler.streams.get(1)).respond([':status', '200'], Buffer.from('late'), []);
    expect(peer.frames()).toEqual([]);
  });
});

describe('SETTINGS, RFC 9113, section 6.5', () => {
  runs({
    'are acknowledged, unknown ones too': { send: () => [settings([0xff, 7])], want: ['SETTINGS ACK'] },
    'refuse an acknowledgement with a payload': {
      send: () => [frame(FrameType.SETTINGS, Flag.ACK, 0, [0])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuse a stream': {
      send: () => [frame(FrameType.SETTINGS, 0, 1)],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'refuse half a setting': {
      send: () => [frame(FrameType.SETTINGS, 0, 0, [0, 3, 0])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    ...Object.fromEntries(
      (
        [
          [Setting.ENABLE_PUSH, 2, 'PROTOCOL_ERROR'],
          [Setting.INITIAL_WINDOW_SIZE, 2 ** 31, 'FLOW_CONTROL_ERROR'],
          [Setting.MAX_FRAME_SIZE, 16_383, 'PROTOCOL_ERROR'],
          [Setting.MAX_FRAME_SIZE, 16_777_216, 'PROTOCOL_ERROR'],
        ] as const
      ).map(([identifier, value, code]) => [
        `refuse ${identifier} = ${value}`,
        { send: () => [settings([identifier, value])], ...connectionError(code) },
      ]),
    ),
    'may allow the largest values': {
      send: () => [
        settings([Setting.MAX_FRAME_SIZE, 16_777_215], [Setting.INITIAL_WINDOW_SIZE, 2 ** 31 - 1]),
      ],
      want: ['SETTINGS ACK'],
    },
    'lower the table of the encoder': {
      send: (peer) => [settings([Setting.HEADER_TABLE_SIZE, 0]), peer.call(1), peer.call(3)],
      want: ['SETTINGS ACK', ...answer(1), ...answer(3)],
    },
  });

  it('must come first, and be no acknowledgement', () => {
    for (const first of [ping(), frame(FrameType.SETTINGS, Flag.ACK, 0)]) {
      const peer = new Http2Peer();
      peer.send(Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), first);
      expect(peer.frames().at(-1)).toBe('GOAWAY 0 PROTOCOL_ERROR');
    }
  });
});

describe('PING and GOAWAY, RFC 9113, sections 6.7 and 6.8', () => {
  runs({
    'answer with the same payload': { send: () => [ping('abcdefgh')], want: ['PING ACK abcdefgh'] },
    'do not answer an answer': { send: () => [ping('abcdefgh', Flag.ACK)], want: [] },
    'refuse a PING on a stream': {
      send: () => [frame(FrameType.PING, 0, 1, Buffer.alloc(8))],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'refuse a PING of 6 bytes': {
      send: () => [frame(FrameType.PING, 0, 0, Buffer.alloc(6))],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuse a GOAWAY on a stream': {
      send: () => [frame(FrameType.GOAWAY, 0, 1, Buffer.alloc(8))],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'refuse a GOAWAY too short': {
      send: () => [frame(FrameType.GOAWAY, 0, 0, Buffer.alloc(7))],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
  });

  it('serve what is under way after the peer’s GOAWAY, then end', () => {
    const peer = Http2Peer.opened();
    peer.send(peer.headers(1), goAway(0, 0xff));
    expect(peer.transport.calls).toEqual([]);
    peer.send(data(1, 'x', END_STREAM));
    expect(peer.frames()).toEqual([...answer(1, 'x'), 'GOAWAY 1 NO_ERROR']);
    expect(peer.transport.calls).toEqual(['end']);
    expect(peer.violations).toEqual([]);
  });
});

describe('WINDOW_UPDATE, RFC 9113, section 6.9', () => {
  runs({
    'refuses an increment of 0 for the connection': {
      send: () => [windowUpdate(0, 0)],
      ...connectionError('PROTOCOL_ERROR'),
    },
    'resets on an increment of 0 for a stream': {
      silent: true,
      send: (peer) => [header(peer, 1), windowUpdate(1, 0)],
      want: ['RST_STREAM 1 PROTOCOL_ERROR'],
    },
    'refuses a wrong length': {
      send: () => [frame(FrameType.WINDOW_UPDATE, 0, 0, [0, 0, 1])],
      ...connectionError('FRAME_SIZE_ERROR'),
    },
    'refuses an idle stream': { send: () => [windowUpdate(1, 1)], ...connectionError('PROTOCOL_ERROR') },
    'is ignored on a closed stream': { send: (peer) => [peer.call(1), windowUpdate(1, 0)], want: answer(1) },
    'ends on an overflow of the connection': {
      send: () => [windowUpdate(0, 2 ** 31 - 1)],
      ...connectionError('FLOW_CONTROL_ERROR'),
    },
    'resets on an overflow of a stream': {
      silent: true,
      send: (peer) => [header(peer, 1), windowUpdate(1, 2 ** 31 - 1)],
      want: ['RST_STREAM 1 FLOW_CONTROL_ERROR'],
    },
  });
});
