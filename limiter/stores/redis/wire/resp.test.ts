import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { CommandWriter, type Reply, ReplyError, RespReader, UnexpectedReply } from './resp.ts';

/** Returns the replies of all pushes, and whether all bytes were the protocol. */
function read(pieces: readonly Uint8Array[]): { replies: Reply[]; isProtocol: boolean } {
  const replies: Reply[] = [];
  const reader = new RespReader((reply) => replies.push(reply));
  // All pieces go into one buffer, which the next one overwrites, as in a read of a socket.
  const buffer = Buffer.alloc(Math.max(0, ...pieces.map(({ length }) => length)));
  const isProtocol = pieces.every((piece) => {
    buffer.fill(0xff).set(piece);
    return reader.push(buffer, piece.length);
  });
  return { replies, isProtocol };
}

const readText = (text: string) => read([Buffer.from(text)]);

/** Writes a reply as a server does. */
function written(reply: Reply): Buffer {
  if (reply === null || reply === undefined) return Buffer.from('$-1\r\n');
  if (typeof reply === 'number') return Buffer.from(`:${reply}\r\n`);
  if (typeof reply === 'string') return Buffer.from(`+${reply}\r\n`);
  if (reply instanceof ReplyError) return Buffer.from(`-${reply.message}\r\n`);
  if (Buffer.isBuffer(reply))
    return Buffer.concat([Buffer.from(`$${reply.length}\r\n`), reply, Buffer.from('\r\n')]);
  return Buffer.concat([Buffer.from(`*${reply.length}\r\n`), ...reply.map(written)]);
}

const line = fc.string({ unit: 'grapheme', maxLength: 40 }).map((text) => text.replace(/[\r\n]/g, ' '));
const reply: fc.Arbitrary<Reply> = fc.letrec<{ reply: Reply; list: Reply[] }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: 6 },
    fc.maxSafeInteger(),
    line,
    line.map((text) => new ReplyError(text)),
    fc.uint8Array({ maxLength: 80 }).map((bytes) => Buffer.from(bytes)),
    fc.constant(null),
    tie('list'),
  ),
  list: fc.array(tie('reply'), { maxLength: 5 }),
})).reply;

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const at = [0, ...places.map((place) => place % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.subarray(at[i], end));
}

describe('ReplyReader', () => {
  it('reads what a server wrote, wherever it is cut', () => {
    fc.assert(
      fc.property(fc.array(reply), fc.array(fc.nat(10_000)), (replies, places) => {
        const bytes = Buffer.concat(replies.map(written));
        expect(read(cut(bytes, places))).toEqual({ replies, isProtocol: true });
      }),
    );
  });

  it('says the same of any bytes, wherever they are cut, and nothing more once they are no protocol', () => {
    const part = fc.oneof(
      fc.constantFrom('*', '$', ':', '+', '-', '\r\n', '\r', '\n', '0', '1', '2', '-1', '99999999999', 'x'),
      reply.map((value) => written(value).toString('latin1')),
    );
    fc.assert(
      fc.property(fc.array(part, { maxLength: 30 }), fc.array(fc.nat(500)), (parts, places) => {
        const bytes = Buffer.from(parts.join(''), 'latin1');
        expect(read(cut(bytes, places))).toEqual(read([bytes]));
      }),
    );
  });

  it.each([
    [':9007199254740991\r\n', 9_007_199_254_740_991],
    [':-9007199254740991\r\n', -9_007_199_254_740_991],
    ['*-1\r\n', null],
    ['*0\r\n', []],
    ['$0\r\n\r\n', Buffer.alloc(0)],
    ['+\r\n', ''],
    ['-ERR r\u00e9sum\u00e9\r\n', new ReplyError('ERR r\u00e9sum\u00e9')],
  ])('reads %j', (text, value) => {
    expect(readText(text)).toEqual({ replies: [value], isProtocol: true });
  });

  it.each([
    'HTTP/1.1 400 Bad Request\r\n',
    ':\r\n',
    ':-\r\n',
    ':1\n',
    ':1 \r\n',
    ':1\r\r\n',
    ':1-\r\n',
    `:${'1'.repeat(22)}\r\n`,
    '$-2\r\n',
    '$1\r\nab\r\n',
    '+a\rb',
    '*1\r\n'.repeat(9),
    '_\r\n',
  ])('rejects %j', (text) => {
    expect(readText(text)).toEqual({ replies: [], isProtocol: false });
  });

  it('skips bytes that were not requested, and reads on after them', () => {
    const long = Buffer.alloc(1024 * 1024 + 1, 'x');
    const { replies } = read([written([long, 1]), written(Buffer.from('y'))]);
    expect(replies).toEqual([[undefined, 1], Buffer.from('y')]);
    const longest = long.subarray(1);
    expect(read(cut(written(longest), [5, 70_000])).replies).toEqual([longest]);
  });

  it.each([
    ['a line', Buffer.alloc(1000, 'x'), '-'],
    ['a list of lists', Buffer.from('*0\r\n'.repeat(250)), '*99999999\r\n'],
    ['a list of bytes', written(Buffer.alloc(1000, 'x')), '*99999999\r\n'],
  ])('takes no more than it may hold of %s', (_, piece, start) => {
    const reader = new RespReader(() => expect.fail('it has no end'));
    expect(reader.push(Buffer.from(start), start.length)).toBe(true);
    let taken = 0;
    while (reader.push(piece, piece.length)) taken += piece.length;
    expect(taken).toBeLessThan(64 * 1024 * 1024);
  });
});

describe('CommandWriter', () => {
  const text = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.nat().map(String),
    fc.string({ unit: 'binary', minLength: 500, maxLength: 9000 }),
    fc.constant('\ud800 alone'),
  );
  const command = fc.array(text, { minLength: 1, maxLength: 20 });
  const bytes = (words: readonly string[]) => words.map((word) => Buffer.from(word));

  it('is read by a server as what was written, whole commands or one by its arguments, again and again', () => {
    const kept = fc.array(fc.tuple(fc.array(command, { minLength: 1, maxLength: 3 }), command));
    fc.assert(
      fc.property(kept, (rounds) => {
        const writer = new CommandWriter();
        for (const [whole, pushed] of rounds) {
          for (const words of whole) writer.command(words);
          expect(read([writer.take()!]).replies).toEqual(whole.map(bytes));
          expect(writer.isEmpty).toBe(true);
          for (const word of pushed) writer.push(word);
          expect(read([writer.take()!]).replies).toEqual([bytes(pushed)]);
        }
      }),
    );
  });

  it('leaves alone what was taken and is kept', () => {
    const writer = new CommandWriter();
    const written = ['first', 'x'.repeat(70_000), 'last'].map((word) => {
      writer.push(word);
      const taken = writer.take()!;
      writer.keep();
      return taken;
    });
    expect(read(written).replies).toEqual([
      [Buffer.from('first')],
      bytes(['x'.repeat(70_000)]),
      bytes(['last']),
    ]);
  });
});

describe('UnexpectedReply', () => {
  it.each<[string, Reply]>([
    ['the number 7', 7],
    ['a status of 2 characters', 'OK'],
    ['a text of 6 bytes', Buffer.from('secret')],
    ['an error in place of a value', new ReplyError('ERR secret')],
    ['nothing', null],
    ['a list of 2 values', [1, 2]],
    ['a list of a text of 6 bytes', [Buffer.from('secret')]],
  ])('describes %s', (form, reply) => {
    const message = `Redis gave an answer of an unexpected form to GET: ${form}`;
    expect(new UnexpectedReply('GET', reply).message).toBe(message);
  });
});
