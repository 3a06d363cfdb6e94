import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { GrpcCode, type UnaryReply } from '../../process/grpc/handlers.ts';
import { failed, PlayedCalls } from '../../test/support/played-calls.ts';
import { ErrorCode } from '../http2/constants.ts';

describe('a deadline', () => {
  const expired = failed(4, 'context deadline exceeded');

  it('of no time at all is exceeded at once', () => {
    const fixture = new PlayedCalls({ unary: () => expect.fail('reached') });
    expect(fixture.call(Uint8Array.of(1), { 'grpc-timeout': '0m' }).sections).toEqual(expired);
  });

  it('ends a call that runs, and what comes later is dropped', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    const stream = fixture.call(Uint8Array.of(1), { 'grpc-timeout': '50m' });
    const other = fixture.call(Uint8Array.of(1), { 'grpc-timeout': '1S' });
    fixture.advance(49);
    expect([stream.sections, replies[0]?.abandoned]).toEqual([[], false]);
    fixture.advance(20);
    expect([stream.sections, replies[0]?.abandoned]).toEqual([expired, true]);
    replies[0]?.send(Uint8Array.of(1));
    expect([stream.sections, stream.body]).toEqual([expired, []]);
    expect([other.sections, replies[1]?.abandoned]).toEqual([[], false]);
    expect(fixture.calls).toEqual([['Echo', 69]]);
  });

  it('that passed abandons its call before it is ended', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    const stream = fixture.call(Uint8Array.of(1), { 'grpc-timeout': '50m' });
    fixture.clock.ms += 50;
    expect([replies[0]?.abandoned, stream.sections]).toEqual([true, []]);
  });

  it('abandons no call that was answered in time', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    fixture.call(Uint8Array.of(1), { 'grpc-timeout': '50m' });
    replies[0]?.send(Uint8Array.of(1));
    fixture.advance(100);
    expect(replies[0]?.abandoned).toBe(false);
  });

  it('ends a request that is never finished', () => {
    const fixture = new PlayedCalls({ unary: () => expect.fail('reached') });
    const stream = fixture.request({ 'grpc-timeout': '10m' });
    stream.receiver?.receive(Uint8Array.of(0, 0, 0, 0, 3, 1), false);
    fixture.advance(20);
    expect([stream.sections, fixture.calls]).toEqual([expired, []]);
    const next = fixture.request();
    next.receiver?.receive(Uint8Array.of(0, 0, 0, 0, 3, 1), false);
    expect(next.sections).toEqual([]);
  });

  it('costs no timer of its own, and none when there is no call', () => {
    const fixture = new PlayedCalls({ unary: () => {} });
    for (let count = 0; count < 10; count++)
      fixture.call(Uint8Array.of(1), { 'grpc-timeout': `${count + 1}S` });
    expect(fixture.timers.size).toBe(1);
    fixture.advance(20_000);
    expect(fixture.timers.size).toBe(0);
    fixture.call(Uint8Array.of(1), { 'grpc-timeout': '1S' });
    fixture.handler.close();
    expect(fixture.timers.size).toBe(0);
  });

  it('ends exactly the calls that are due, in whatever order they come and go', () => {
    const step = fc.record({ timeoutMs: fc.integer({ min: 1, max: 200 }), answerIt: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 20 }), fc.integer({ min: 0, max: 220 }), (steps, afterMs) => {
        const replies: UnaryReply[] = [];
        const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
        const streams = steps.map(({ timeoutMs }) =>
          fixture.call(Uint8Array.of(1), { 'grpc-timeout': `${timeoutMs}m` }),
        );
        for (const [index, { answerIt }] of steps.entries())
          if (answerIt) replies[index]?.send(new Uint8Array());
        fixture.advance(afterMs - (afterMs % 20));
        const want = steps.map(({ timeoutMs, answerIt }) =>
          answerIt ? '0' : timeoutMs <= afterMs - (afterMs % 20) ? '4' : undefined,
        );
        expect(streams.map((stream) => stream.last?.['grpc-status'])).toEqual(want);
      }),
    );
  });
});

describe('a reset', () => {
  it('abandons the call', () => {
    const replies: UnaryReply[] = [];
    const fixture = new PlayedCalls({ unary: (_, reply) => replies.push(reply) });
    const stream = fixture.call(Uint8Array.of(1), { 'grpc-timeout': '1S' });
    expect(replies[0]?.abandoned).toBe(false);
    stream.receiver?.abort(ErrorCode.CANCEL);
    expect(replies[0]?.abandoned).toBe(true);
    replies[0]?.fail({ code: GrpcCode.UNKNOWN, message: 'late' });
    fixture.advance(2_000);
    expect(stream.sections).toEqual([]);
  });
});
