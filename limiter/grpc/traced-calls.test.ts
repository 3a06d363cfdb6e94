import { beforeEach, describe, expect, it } from 'vitest';
import { type CallTracer, GrpcCode, type UnaryHandler } from '../../process/grpc/handlers.ts';
import { PlayedCalls } from '../../test/support/played-calls.ts';
import { ErrorCode } from '../http2/constants.ts';

let book: string[];
beforeEach(() => {
  book = [];
});

const tracer: CallTracer = {
  begin: (method, fields) => {
    const name = fields[fields.indexOf('name') + 1];
    if (name === 'untraced') return undefined;
    book.push(`begin ${method} ${name}`);
    return {
      traceId: 't',
      spanId: 's',
      set: () => {},
      end: (status) => book.push(`end ${status}`),
    };
  },
};

function calls(unary?: UnaryHandler): PlayedCalls {
  return new PlayedCalls({ tracer, ...(unary === undefined ? {} : { unary }) });
}

const begun = 'begin /test.Service/Echo x';
const fields = { name: 'x' };

describe('the span of a call', () => {
  it('ends with its answer', () => {
    calls().call(new Uint8Array(), fields);
    expect(book).toEqual([begun, 'end 0']);
  });

  it('ends with its status', () => {
    calls((_, reply) => reply.fail({ code: GrpcCode.UNKNOWN, message: 'no' })).call(new Uint8Array(), fields);
    expect(book).toEqual([begun, 'end 2']);
  });

  it('ends when the handler throws', () => {
    const broken = (): never => {
      throw new Error('broken');
    };
    calls(broken).call(new Uint8Array(), fields);
    expect(book).toEqual([begun, 'end 13']);
  });

  it('ends at the deadline, once', () => {
    let answer = (): void => {};
    const played = calls((_, reply) => {
      answer = () => reply.send(new Uint8Array());
    });
    played.call(new Uint8Array(), { ...fields, 'grpc-timeout': '1S' });
    expect(book).toEqual([begun]);
    played.advance(2_000);
    answer();
    expect(book).toEqual([begun, 'end 4']);
  });

  it('ends when the caller hangs up, once', () => {
    const played = calls();
    const stream = played.request(fields);
    stream.receiver?.abort(ErrorCode.CANCEL);
    stream.receiver?.abort(ErrorCode.CANCEL);
    expect(book).toEqual([begun, 'end 1']);
  });

  it('ends for a message that is none', () => {
    const played = calls();
    const stream = played.request(fields);
    stream.receiver?.receive(Uint8Array.of(1), true);
    expect(book).toEqual([begun, 'end 13']);
  });

  it('is seen by the handler', () => {
    let seen: unknown;
    calls((_, reply) => {
      seen = reply.span?.spanId;
      reply.send(new Uint8Array());
    }).call(new Uint8Array(), fields);
    expect(seen).toBe('s');
  });
});

describe('calls without a span', () => {
  it('are those that the tracer does not want', () => {
    calls().call(new Uint8Array(), { name: 'untraced' });
    expect(book).toEqual([]);
  });

  it('are those that are none', () => {
    const played = calls();
    played.request({ ...fields, ':path': '/unknown.Service/Method' });
    played.request({ ...fields, 'content-type': 'text/html' });
    expect(book).toEqual([]);
  });
});
