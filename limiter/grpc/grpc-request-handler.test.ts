import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type CallerGate,
  GrpcCode,
  type MessageListener,
  type MessageStream,
  type UnaryReply,
} from '../../process/grpc/handlers.ts';
import { failed, okAnswer, PlayedCalls } from '../../test/support/played-calls.ts';
import { PlayedStream } from '../../test/support/played-stream.ts';
import { ErrorCode } from '../http2/constants.ts';
import { withPrefix } from './message-reader.ts';

describe('a unary call', () => {
  it('is answered with its message between header section and trailers', () => {
    const fixture = new PlayedCalls();
    const stream = fixture.call(Uint8Array.of(1, 2, 3));
    expect(stream.sections).toEqual(okAnswer);
    expect(stream.body).toEqual([Buffer.of(0, 0, 0, 0, 3, 1, 2, 3)]);
    expect(fixture.calls).toEqual([['Echo', 0]]);
  });

  it('may carry an empty message, and metadata that means nothing', () => {
    const stream = new PlayedCalls().call(new Uint8Array(), {
      'trace-bin': '!!!',
      'grpc-encoding': 'identity',
    });
    expect([stream.sections, stream.body]).toEqual([okAnswer, [Buffer.alloc(5)]]);
  });

  it('is the same however its body is cut, in how many pieces, and whatever ends it', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 300 }),
        fc.array(fc.nat()),
        fc.constantFrom('with the last piece', 'with an empty piece', 'with trailers'),
        (message, places, end) => {
          const fixture = new PlayedCalls();
          const stream = fixture.request();
          const bytes = withPrefix(message);
          const ends = [...places.map((place) => place % bytes.length), bytes.length].sort((a, b) => a - b);
          let start = 0;
          for (const [index, place] of ends.entries()) {
            const piece = Uint8Array.from(bytes.subarray(start, place));
            const isLast = end === 'with the last piece' && index === ends.length - 1;
            stream.receiver?.receive(piece, isLast);
            piece.fill(0xee);
            start = place;
          }
          if (end === 'with an empty piece') stream.receiver?.receive(new Uint8Array(), true);
          if (end === 'with trailers') stream.receiver?.receive(new Uint8Array(), true);
          expect([stream.sections, stream.body]).toEqual([okAnswer, [bytes]]);
        },
      ),
    );
  });

  it('reaches its handler once the request has ended, not before', () => {
    const fixture = new PlayedCalls();
    const stream = fixture.request();
    stream.receiver?.receive(withPrefix(Uint8Array.of(1)), false);
    expect([stream.sections, fixture.calls]).toEqual([[], []]);
    stream.receiver?.receive(new Uint8Array(), true);
    expect(stream.sections).toEqual(okAnswer);
  });

  it('gives its handler the bytes where they lie when they come in one piece', () => {
    const piece = withPrefix(Uint8Array.of(1, 2));
    let given: Uint8Array | undefined;
    const fixture = new PlayedCalls({
      unary: (request, reply) => {
        given = request;
        reply.send(request);
      },
    });
    const stream = fixture.request();
    stream.receiver?.receive(piece, true);
    expect(given?.buffer).toBe(piece.buffer);
  });

  it('is read as the one before it when its fields are the same array, rejections too, and again when not', () => {
    const fixture = new PlayedCalls();
    const [first, ...others] = Array.from({ length: 4 }, () => new PlayedStream());
    for (const stream of others) stream.connection = first!.connection;
    const fields = [':method', 'POST', ':path', '/test.Service/Echo', 'content-type', 'application/grpc'];
    const unknown = [...fields, 'grpc-encoding', 'gzip'];
    const body = withPrefix(Uint8Array.of(7));
    for (const [stream, its] of [
      [first!, unknown],
      [others[0]!, unknown],
      [others[1]!, fields],
      [others[2]!, fields],
    ] as const) {
      fixture.handler.onRequest(stream, its, false);
      if (its === fields) stream.receiver?.receive(body, true);
    }
    const refused = failed(GrpcCode.UNIMPLEMENTED, 'Decompressor is not installed for grpc-encoding "gzip"');
    const [{ 'grpc-accept-encoding': _named, ...reported }] = first!.sections as [Record<string, string>];
    expect([reported]).toEqual(refused);
    expect(others.map(({ sections }) => sections)).toEqual([first!.sections, okAnswer, okAnswer]);
    expect(fixture.calls).toEqual([
      ['Echo', 0],
      ['Echo', 0],
    ]);
  });

  const notOne: Record<string, { pieces: Uint8Array[]; want: [number, string] }> = {
    'no message': { pieces: [], want: [13, 'cardinality violation: received no request message'] },
    'two messages in one piece': {
      pieces: [Buffer.concat([withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))])],
      want: [13, 'cardinality violation: received more than one request message'],
    },
    'two messages in two pieces': {
      pieces: [withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))],
      want: [13, 'cardinality violation: received more than one request message'],
    },
    'a part of a message': {
      pieces: [withPrefix(Uint8Array.of(1, 2)).subarray(0, 6)],
      want: [13, 'unexpected EOF'],
    },
    'a part of a prefix': { pieces: [Uint8Array.of(0, 0)], want: [13, 'unexpected EOF'] },
    'a message and a part of another': {
      pieces: [withPrefix(Uint8Array.of(1)), Uint8Array.of(0)],
      want: [13, 'unexpected EOF'],
    },
    'a compressed message': {
      pieces: [Uint8Array.of(1, 0, 0, 0, 1, 9)],
      want: [13, 'compressed flag set with identity or empty encoding'],
    },
  };
  for (const [name, { pieces, want }] of Object.entries(notOne)) {
    it(`never reaches its handler with ${name}`, () => {
      const fixture = new PlayedCalls({ unary: () => expect.fail('reached') });
      const stream = fixture.request({}, pieces.length === 0);
      for (const [index, piece] of pieces.entries()) {
        stream.receiver?.receive(piece, index === pieces.length - 1);
      }
      expect(stream.sections).toEqual(failed(...want));
      expect(fixture.calls).toEqual([]);
    });
  }

  it('takes a message of the limit, and is rejected at the first bytes of a longer one', () => {
    const fixture = new PlayedCalls({ limits: { maxMessageBytes: 10 } });
    expect(fixture.call(new Uint8Array(10)).sections).toEqual(okAnswer);
    const want = failed(8, 'received message larger than max (11 vs. 10)');
    expect(fixture.call(new Uint8Array(11)).sections).toEqual(want);
    const stream = fixture.request();
    stream.receiver?.receive(Uint8Array.of(0, 0, 0, 0, 11), false);
    expect(stream.sections).toEqual(want);
    stream.receiver?.receive(new Uint8Array(11), true);
    expect(stream.sections).toEqual(want);
  });

  it('is rejected when what it holds is needed, and holds nothing afterward', () => {
    const fixture = new PlayedCalls({ unary: () => expect.fail('reached') });
    const stream = fixture.request();
    stream.receiver?.receive(withPrefix(new Uint8Array(20_000)).subarray(0, 4_000), false);
    expect(stream.bufferedBytes).toBeGreaterThan(8_000);
    stream.receiver?.shed?.();
    expect(stream.sections).toEqual(failed(8, 'too many bytes of unfinished requests'));
    stream.receiver?.receive(new Uint8Array(16_005), true);
    expect([stream.sections.length, fixture.calls]).toEqual([1, []]);
  });

  it('holds nothing for its caller when it comes in one piece, or while it is decided', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    const whole = fixture.call(new Uint8Array(20_000));
    const cut = fixture.request();
    const bytes = withPrefix(new Uint8Array(20_000));
    cut.receiver?.receive(bytes.subarray(0, 15_000), false);
    cut.receiver?.receive(bytes.subarray(15_000), true);
    expect([whole.bufferedBytes, cut.bufferedBytes, replies.length]).toEqual([0, 0, 2]);
  });

  it('of the greatest length fits into the share of its connection, though its end comes apart', () => {
    const fixture = new PlayedCalls();
    const whole = withPrefix(new Uint8Array(4 * 1024 * 1024));
    const stream = fixture.request();
    for (let at = 0; at < whole.length; at += 16_384) {
      stream.receiver?.receive(whole.subarray(at, at + 16_384), false);
    }
    stream.receiver?.receive(new Uint8Array(), true);
    expect(stream.sections).toEqual(okAnswer);
  });

  it('fails with the status of its handler, percent-encoded', () => {
    const fixture = new PlayedCalls({
      unary: (_, reply) => reply.fail({ code: GrpcCode.UNKNOWN, message: '5 % ✓' }),
    });
    expect(fixture.call(Uint8Array.of(1)).sections).toEqual(failed(2, '5 %25 %E2%9C%93'));
  });

  it('answers INTERNAL without the reason when its handler throws', () => {
    const fixture = new PlayedCalls({
      unary: () => {
        throw new Error('secret inside');
      },
    });
    expect(fixture.call(Uint8Array.of(1)).sections).toEqual(failed(13, 'internal error'));
    expect(fixture.faults).toEqual([['Echo', 'secret inside']]);
    expect(fixture.calls).toEqual([['Echo', 0]]);
  });

  it('keeps its first answer', () => {
    const fixture = new PlayedCalls({
      unary: (_, reply) => {
        reply.send(Uint8Array.of(4));
        reply.fail({ code: GrpcCode.UNKNOWN, message: 'later' });
        throw new Error('latest');
      },
    });
    expect(fixture.call(Uint8Array.of(1)).sections).toEqual(okAnswer);
    expect(fixture.calls).toEqual([['Echo', 0]]);
  });

  it('is observed with its time once it is over', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    const answered = fixture.call(Uint8Array.of(1));
    const aborted = fixture.call(Uint8Array.of(1));
    fixture.advance(7);
    replies[0]?.send(new Uint8Array());
    fixture.advance(5);
    aborted.receiver?.abort(ErrorCode.CANCEL);
    replies[1]?.send(new Uint8Array());
    expect(fixture.calls).toEqual([
      ['Echo', 7],
      ['Echo', 12],
    ]);
    expect([answered.sections, aborted.sections]).toEqual([okAnswer, []]);
  });
});

describe('a request that is no call', () => {
  const refused: Record<string, { fields: Record<string, string>; want: Record<string, string>[] }> = {
    'without a content type': {
      fields: { 'content-type': '' },
      want: failed(3, 'invalid gRPC request content-type ""', 415),
    },
    'of another content type': {
      fields: { 'content-type': 'application/json' },
      want: failed(3, 'invalid gRPC request content-type "application/json"', 415),
    },
    'of gRPC-Web': {
      fields: { 'content-type': 'application/grpc-web' },
      want: failed(3, 'invalid gRPC request content-type "application/grpc-web"', 415),
    },
    'of JSON messages': {
      fields: { 'content-type': 'application/grpc+json' },
      want: failed(3, 'invalid gRPC request content-type "application/grpc+json"', 415),
    },
    'by GET': {
      fields: { ':method': 'GET' },
      want: failed(13, 'Received a HEADERS frame with :method "GET" which should be POST', 405),
    },
    'with a timeout that is none': {
      fields: { 'grpc-timeout': 'soon' },
      want: failed(13, 'malformed grpc-timeout: "soon"', 400),
    },
    'to an unknown service': { fields: { ':path': '/a.B/C' }, want: failed(12, 'unknown service a.B') },
    'to an unknown method': {
      fields: { ':path': '/test.Service/Nope' },
      want: failed(12, 'unknown method Nope for service test.Service'),
    },
    'to a path without a service': {
      fields: { ':path': '/Echo' },
      want: failed(12, 'malformed method name: "/Echo"'),
    },
    'to a path without a slash': {
      fields: { ':path': 'test.Service/Echo' },
      want: failed(12, 'malformed method name: "test.Service/Echo"'),
    },
    'with compressed messages': {
      fields: { 'grpc-encoding': 'gzip' },
      want: failed(12, 'Decompressor is not installed for grpc-encoding "gzip"').map((section) => ({
        ...section,
        'grpc-accept-encoding': 'identity',
      })),
    },
  };
  for (const [name, { fields, want }] of Object.entries(refused)) {
    it(`${name} is rejected`, () => {
      const fixture = new PlayedCalls({ unary: () => expect.fail('reached') });
      const stream = fixture.request(fields);
      expect(stream.sections).toEqual(want);
      stream.receiver?.receive(withPrefix(Uint8Array.of(1)), true);
      stream.receiver?.abort(ErrorCode.CANCEL);
      expect([stream.sections, fixture.calls]).toEqual([want, []]);
    });
  }

  it('hears no more than a bounded part of its own path', () => {
    const stream = new PlayedCalls().request({ ':path': `/${'x'.repeat(100_000)}/y` });
    expect(stream.last?.['grpc-message']).toBe(`${`unknown service ${'x'.repeat(2_000)}`.slice(0, 1024)}...`);
  });

  it.each([
    'application/grpc',
    'application/grpc+proto',
    'application/grpc; charset=utf-8',
    'Application/GRPC+proto',
  ])('is not one of type %s', (type) => {
    expect(new PlayedCalls().call(Uint8Array.of(1), { 'content-type': type }).sections).toEqual(okAnswer);
  });
});

describe('callers that have to identify themselves', () => {
  /** Admits only `good`. */
  const gate: CallerGate = {
    admit: (_connection, authorization) =>
      authorization === 'good'
        ? { rejected: undefined, name: 'a', rejection: () => undefined, hasDomain: () => true }
        : { rejected: { code: GrpcCode.UNAUTHENTICATED, message: `not ${authorization}` } },
  };

  it('are answered before they send a message, and nothing of it reaches the handler', () => {
    const seen: unknown[] = [];
    const unary = (_request: Uint8Array, reply: UnaryReply): void => {
      seen.push(reply.caller?.rejected);
      reply.send(Uint8Array.of(1));
    };
    const fixture = new PlayedCalls({ unary, gate });
    const refused = fixture.request({ authorization: 'bad' });
    expect(refused.sections).toEqual(failed(GrpcCode.UNAUTHENTICATED, 'not bad'));
    refused.receiver?.receive(withPrefix(Uint8Array.of(1)), true);
    expect([refused.sections.length, seen]).toEqual([1, []]);
    expect(fixture.request().sections).toEqual(failed(GrpcCode.UNAUTHENTICATED, 'not '));
    expect(fixture.call(Uint8Array.of(1), { authorization: 'good' }).sections).toEqual(okAnswer);
    expect(seen).toEqual([undefined]);
  });

  it('open a stream only once they have said it, and its method knows them', () => {
    const names: unknown[] = [];
    const duplex = ({ caller }: MessageStream): MessageListener => {
      names.push(caller?.name);
      return { onMessage: () => {}, onEnd: () => {} };
    };
    const fixture = new PlayedCalls({ duplex, gate });
    const open = (authorization: string) =>
      fixture.request({ ':path': '/test.Service/Duplex', authorization }).sections;
    expect(open('bad')).toEqual(failed(GrpcCode.UNAUTHENTICATED, 'not bad'));
    expect([open('good'), names]).toEqual([[], ['a']]);
  });

  it('are not believed if they say it twice', () => {
    const { handler } = new PlayedCalls({ gate });
    const stream = new PlayedStream();
    const token = ['authorization', 'good'];
    const fields = [':method', 'POST', ':path', '/test.Service/Echo', 'content-type', 'application/grpc'];
    handler.onRequest(stream, [...fields, ...token, ...token], false);
    expect(stream.sections).toEqual(failed(GrpcCode.UNAUTHENTICATED, 'not (several)'));
  });

  it('need not for health', () => {
    const path = '/grpc.health.v1.Health/Check';
    expect(new PlayedCalls({ gate }).call(new Uint8Array(), { ':path': path }).sections).toEqual(okAnswer);
  });

  it('need not without a gate, because the peer is not checked', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({
      unary: (_request, reply) => {
        replies.push(reply);
        reply.send(Uint8Array.of(1));
      },
    });
    const stream = new PlayedStream();
    const unreachable = { get: () => expect.unreachable('the peer is looked at') };
    Object.defineProperties(stream.connection, { peer: unreachable, callerMemo: unreachable });
    fixture.request({ authorization: 'Bearer a.b' }, false, stream);
    stream.receiver?.receive(withPrefix(Uint8Array.of(1)), true);
    expect(stream.sections).toEqual(okAnswer);
    expect(replies.map(({ caller }) => caller)).toEqual([undefined]);
  });
});
