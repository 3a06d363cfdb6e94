/** Held against nghttp2, which is in Node: what one writes, the other reads. */
import { once } from 'node:events';
import { createServer, type Http2Server, type ServerHttp2Stream } from 'node:http2';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { clientPreface, FrameType, frame, settingsFrame } from '../../bench/http2-frames.ts';
import { HpackDecoder } from './decoder.ts';
import { HpackEncoder, Indexing, maxEncodedBytes } from './encoder.ts';
import { staticNames } from './tables.ts';

const END_STREAM_AND_HEADERS = 0x5;
const tableBytes = 512;

/** An option that the types do not know. */
const withoutDate = { sendDate: false };

let server: Http2Server;
let socket: Socket;
/** What nghttp2 read and what it was sent to answer, in order. */
let seen: string[][];
let answers: Record<string, string>[];

beforeEach(async () => {
  seen = [];
  answers = [];
  server = createServer({ settings: { headerTableSize: tableBytes, maxHeaderListSize: 1_000_000 } });
  server.on('stream', (stream: ServerHttp2Stream, _headers, _flags, rawHeaders: string[]) => {
    const answer = answers[seen.length]!;
    seen.push([...rawHeaders]);
    stream.respond({ ':status': 200, ...answer }, { endStream: true, ...withoutDate });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  await once(socket, 'connect');
});

afterEach(() => {
  socket.destroy();
  server.close();
});

/** Blocks of the HEADERS frames that come, until there are `count`. */
async function headerBlocks(count: number): Promise<Buffer[]> {
  const blocks: Buffer[] = [];
  let bytes = Buffer.alloc(0);
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk as Buffer]);
    while (bytes.length >= 9 && bytes.length >= 9 + bytes.readUIntBE(0, 3)) {
      const end = 9 + bytes.readUIntBE(0, 3);
      if (bytes[3] === FrameType.HEADERS) blocks.push(bytes.subarray(9, end));
      expect([FrameType.GOAWAY, FrameType.RST_STREAM]).not.toContain(bytes[3]);
      bytes = bytes.subarray(end);
    }
    if (blocks.length >= count) return blocks;
  }
  throw new Error(`the connection ended after ${blocks.length} of ${count} blocks`);
}

/** Every octet that a field's value may have. */
const allOctets = [9, ...Array.from({ length: 224 }, (_, index) => index + 32)]
  .filter((octet) => octet !== 127)
  .map((octet) => String.fromCharCode(octet));
const start = [':method', 'POST', ':scheme', 'http', ':path', '/x', ':authority', 'weir'];
/** Names of the static table that a request may have with any value. */
const ordinaryNames = staticNames
  .slice(15)
  .filter((name) => !['content-length', 'transfer-encoding'].includes(name));
const requests: string[][] = [
  ...Array.from({ length: 20 }, (_, index) => [
    ...start,
    ...['grpc-timeout', `${index % 3}m`, 'x-number', String(index * 7919), 'te', 'trailers'],
  ]),
  [...start, 'x-octets', `a${allOctets.join('')}a`, 'x-octets', `a${allOctets.toReversed().join('')}a`],
  [...start, 'x-long', 'v'.repeat(9000)],
  [...start, ...ordinaryNames.flatMap((name) => [name, `${name}.`])],
];

it.each([
  ['all indexed', Indexing.INCREMENTAL, true],
  ['nothing indexed, without Huffman', Indexing.NONE, false],
] as const)('nghttp2 reads what we write, and we read its answers: %s', async (_, indexing, huffman) => {
  const encoder = new HpackEncoder({ maxTableBytes: 4096, indexing: () => indexing, huffman });
  encoder.setPeerTableBytes(tableBytes);
  answers = requests.map((_fields, index) => ({
    'x-answer': `number ${index % 4}`,
    'x-digits': '7'.repeat(index),
    'x-octets': `a${allOctets.join('')}`,
    'set-cookie': `secret ${index}`,
  }));
  const frames = requests.map((fields, index) => {
    const block = Buffer.alloc(maxEncodedBytes(fields));
    const end = encoder.encode(fields, block, 0);
    return frame(FrameType.HEADERS, END_STREAM_AND_HEADERS, 2 * index + 1, block.subarray(0, end));
  });
  socket.write(Buffer.concat([clientPreface, settingsFrame([]), ...frames]));
  const blocks = await headerBlocks(requests.length);
  expect(seen).toEqual(requests);

  const decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1_000_000 });
  const decoded = blocks.map((block) => {
    const fields: string[] = [];
    decoder.decode(block, 0, block.length, fields);
    return fields;
  });
  expect(decoded).toEqual(answers.map((answer) => [':status', '200', ...Object.entries(answer).flat()]));
});
