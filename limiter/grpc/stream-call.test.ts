import { describe, expect, it } from 'vitest';
import { GrpcCode, type MessageStream } from '../../process/grpc/handlers.ts';
import { failed, okAnswer, PlayedCalls } from '../../test/support/played-calls.ts';
import { ErrorCode } from '../http2/constants.ts';
import { withPrefix } from './message-reader.ts';

describe('a call that is answered with a stream', () => {
  function open(request: string, fields: Record<string, string> = {}) {
    const opened: MessageStream[] = [];
    const events: string[] = [];
    const fixture = new PlayedCalls({
      stream: (message, stream) => {
        events.push(`request ${message.length}`);
        stream.onClose(() => events.push('closed'));
        opened.push(stream);
      },
      limits: { maxQueuedBytes: 100 },
    });
    const played = fixture.call(Buffer.from(request), { ':path': '/test.Service/Stream', ...fields });
    return { fixture, played, events, stream: opened[0]! };
  }

  it('sends messages as they come, then the status', () => {
    const { played, stream, events } = open('abc');
    expect(played.sections).toEqual([]);
    stream.send(Uint8Array.of(1));
    stream.send(Uint8Array.of(2));
    stream.end({ code: GrpcCode.UNAVAILABLE, message: 'going' });
    stream.send(Uint8Array.of(3));
    stream.end();
    expect(played.sections).toEqual([okAnswer[0], { 'grpc-status': '14', 'grpc-message': 'going' }]);
    expect(played.body).toEqual([Buffer.of(0, 0, 0, 0, 1, 1), Buffer.of(0, 0, 0, 0, 1, 2)]);
    expect(events).toEqual(['request 3', 'closed']);
  });

  it('lets its stream be known: the answer has no end of its own, the request has', () => {
    const { played } = open('abc');
    expect([played.answerIsStream, played.requestIsStream]).toEqual([true, false]);
    const duplex = new PlayedCalls({ duplex: () => ({ onMessage: () => {}, onEnd: () => {} }) });
    const both = duplex.request({ ':path': '/test.Service/Duplex' });
    expect([both.answerIsStream, both.requestIsStream]).toEqual([true, true]);
    const unary = duplex.request();
    expect([unary.answerIsStream, unary.requestIsStream]).toEqual([false, false]);
  });

  it('is trailers only without a message', () => {
    const { played, stream } = open('');
    stream.end({ code: GrpcCode.NOT_FOUND, message: 'nothing' });
    expect(played.sections).toEqual(failed(5, 'nothing'));
    const other = open('');
    other.stream.end();
    expect(other.played.sections).toEqual([{ ...okAnswer[0], ...okAnswer[1] }]);
  });

  it('ends at its deadline, with what was sent', () => {
    const { fixture, played, stream, events } = open('', { 'grpc-timeout': '10m' });
    stream.send(Uint8Array.of(1));
    fixture.advance(20);
    expect(played.last).toEqual({ 'grpc-status': '4', 'grpc-message': 'context deadline exceeded' });
    expect(events).toEqual(['request 0', 'closed']);
  });

  it('shows its handler of a reset, once', () => {
    const { played, stream, events } = open('');
    played.receiver?.abort(ErrorCode.CANCEL);
    stream.end();
    stream.onClose(() => events.push('closed already'));
    expect(events).toEqual(['request 0', 'closed', 'closed already']);
    expect(played.sections).toEqual([]);
  });

  it('is reset when its caller takes nothing of what is sent', () => {
    const { played, stream, events } = open('');
    played.queuedBytes = 101;
    stream.send(Uint8Array.of(1));
    expect([played.resetCode, played.body]).toEqual([ErrorCode.ENHANCE_YOUR_CALM, []]);
    expect(events).toEqual(['request 0', 'closed']);
  });

  it('is no call without exactly one message', () => {
    const fixture = new PlayedCalls({ stream: () => expect.fail('reached') });
    const stream = fixture.request({ ':path': '/test.Service/Stream' }, true);
    expect(stream.sections).toEqual(failed(13, 'cardinality violation: received no request message'));
  });

  it('fails with INTERNAL when its handler throws', () => {
    const fixture = new PlayedCalls({
      stream: () => {
        throw new Error('secret');
      },
    });
    const stream = fixture.call(new Uint8Array(), { ':path': '/test.Service/Stream' });
    expect(stream.sections).toEqual(failed(13, 'internal error'));
    expect(fixture.faults).toEqual([['Stream', 'secret']]);
  });
});

describe('a call with streams both ways', () => {
  it('answers while requests still come, and ends after their end', () => {
    const fixture = new PlayedCalls({
      duplex: (stream) => ({
        onMessage: (message) => stream.send(Uint8Array.from(message)),
        onEnd: () => stream.end(),
      }),
    });
    const stream = fixture.request({ ':path': '/test.Service/Duplex' });
    const two = Buffer.concat([withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))]);
    stream.receiver?.receive(two.subarray(0, 8), false);
    expect(stream.body).toEqual([Buffer.of(0, 0, 0, 0, 1, 1)]);
    stream.receiver?.receive(two.subarray(8), true);
    expect(stream.body).toEqual([Buffer.of(0, 0, 0, 0, 1, 1), Buffer.of(0, 0, 0, 0, 1, 2)]);
    expect(stream.sections).toEqual(okAnswer);
  });

  it('hears nothing of requests behind its end', () => {
    const received: number[] = [];
    const fixture = new PlayedCalls({
      duplex: (stream) => ({
        onMessage: (message) => {
          received.push(message[0]!);
          stream.end({ code: GrpcCode.INVALID_ARGUMENT, message: 'no' });
        },
        onEnd: () => received.push(-1),
      }),
    });
    const stream = fixture.request({ ':path': '/test.Service/Duplex' });
    const two = Buffer.concat([withPrefix(Uint8Array.of(1)), withPrefix(Uint8Array.of(2))]);
    stream.receiver?.receive(two, true);
    expect([received, stream.sections]).toEqual([[1], failed(3, 'no')]);
  });

  it('is rejected when it ends within a message', () => {
    const fixture = new PlayedCalls({
      duplex: () => ({ onMessage: () => {}, onEnd: () => expect.fail('ended') }),
    });
    const stream = fixture.request({ ':path': '/test.Service/Duplex' });
    stream.receiver?.receive(Uint8Array.of(0, 0), true);
    expect(stream.sections).toEqual(failed(13, 'unexpected EOF'));
  });
});
