import { describe, expect, it } from 'vitest';
import { HpackDecoder } from './decoder.ts';
import { HpackEncoder, maxEncodedBytes } from './encoder.ts';

function encode(encoder: HpackEncoder, fields: readonly string[]): Buffer {
  const target = Buffer.alloc(maxEncodedBytes(fields));
  return target.subarray(0, encoder.encode(fields, target, 0));
}

const headers = [':status', '200', 'content-type', 'application/grpc'];
const trailers = ['grpc-status', '0'];

describe('the blocks of a gRPC response', () => {
  it('take three bytes from the second time on', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 4096 });
    encode(encoder, headers);
    encode(encoder, trailers);
    expect(encode(encoder, headers).toString('hex')).toBe('88bf');
    expect(encode(encoder, trailers).toString('hex')).toBe('be');
  });

  it('leave the table alone if their values vary', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 4096 });
    const failure = [...headers, 'grpc-status', '14', 'grpc-message', 'no store'];
    encode(encoder, failure);
    const { tableBytes } = encoder;
    for (let count = 0; count < 100; count++) {
      encode(encoder, [...failure.slice(0, -1), `no store ${count}`, 'x-request-id', String(count)]);
    }
    expect(encoder.tableBytes).toBe(tableBytes);
  });
});

it('marks credentials as never to be indexed', () => {
  const block = encode(new HpackEncoder({ maxTableBytes: 4096, huffman: false }), ['set-cookie', 'a']);
  expect(block.toString('hex')).toBe('1f280161');
});

it('codes a string by Huffman only if that does not make it longer', () => {
  const encoder = new HpackEncoder({ maxTableBytes: 4096 });
  expect(encode(encoder, ['grpc-message', 'eeee']).toString('hex').slice(-8)).toBe(
    '8329 4a5f'.replace(' ', '').slice(-8),
  );
  expect(encode(encoder, ['grpc-message', '\0\0']).toString('hex').slice(-6)).toBe('020000');
});

it('writes a question mark for a value that is no octet', () => {
  const block = encode(new HpackEncoder({ maxTableBytes: 4096 }), ['grpc-message', 'a\u{10a}é€']);
  const fields: string[] = [];
  new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1000 }).decode(block, 0, block.length, fields);
  expect(fields).toEqual(['grpc-message', 'a?é?']);
});

describe('a size update', () => {
  const next = (encoder: HpackEncoder): string => encode(encoder, [':method', 'GET']).toString('hex');

  it('is not sent when nothing changes', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 4096 });
    encoder.setPeerTableBytes(65_536);
    expect(next(encoder)).toBe('82');
  });

  it('goes out once, at the start of the next block', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 4096 });
    encoder.setPeerTableBytes(0);
    expect([next(encoder), next(encoder)]).toEqual(['2082', '82']);
  });

  it('reports the smallest size in between as well, as entries were lost at it', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 4096 });
    encode(encoder, headers);
    encoder.setPeerTableBytes(100);
    encoder.setPeerTableBytes(0);
    encoder.setPeerTableBytes(4096);
    expect(next(encoder)).toBe('203fe11f82');
    expect(encoder.tableBytes).toBe(0);
    encoder.setPeerTableBytes(100);
    encoder.setPeerTableBytes(200);
    expect(next(encoder)).toBe('3f453fa90182');
  });

  it('comes first if the table is smaller than the default 4096 bytes', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 0 });
    expect([next(encoder), next(encoder)]).toEqual(['2082', '82']);
    encode(encoder, headers);
    expect(encoder.tableBytes).toBe(0);
  });

  it('raises the table above 4096 bytes if both sides want it', () => {
    const encoder = new HpackEncoder({ maxTableBytes: 8192 });
    expect(next(encoder)).toBe('82');
    encoder.setPeerTableBytes(65_536);
    expect(next(encoder)).toBe('3fe13f82');
  });
});
