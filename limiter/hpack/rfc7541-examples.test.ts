import { describe, expect, it } from 'vitest';
import { HpackDecoder } from './decoder.ts';
import { HpackEncoder, Indexing, maxEncodedBytes } from './encoder.ts';

interface Step {
  /** Without Huffman code. */
  plain: string;
  huffman: string;
  fields: readonly string[];
  tableBytes: number;
}

const firstRequest = [':method', 'GET', ':scheme', 'http', ':path', '/', ':authority', 'www.example.com'];
const date = 'Mon, 21 Oct 2013 20:13:21 GMT';
const later = 'Mon, 21 Oct 2013 20:13:22 GMT';
const cookie = 'foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1';
const redirect = (status: string): string[] => [
  ...[':status', status, 'cache-control', 'private', 'date', date],
  ...['location', 'https://www.example.com'],
];

/** RFC 7541, appendix C.3 beside C.4, and C.5 beside C.6. */
const series: { title: string; tableBytes: number; steps: Step[] }[] = [
  {
    title: 'requests (C.3, C.4)',
    tableBytes: 4096,
    steps: [
      {
        plain: '828684410f7777772e6578616d706c652e636f6d',
        huffman: '828684418cf1e3c2e5f23a6ba0ab90f4ff',
        fields: firstRequest,
        tableBytes: 57,
      },
      {
        plain: '828684be58086e6f2d6361636865',
        huffman: '828684be5886a8eb10649cbf',
        fields: [...firstRequest, 'cache-control', 'no-cache'],
        tableBytes: 110,
      },
      {
        plain: '828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565',
        huffman: '828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf',
        fields: [
          ...[':method', 'GET', ':scheme', 'https', ':path', '/index.html'],
          ...[':authority', 'www.example.com', 'custom-key', 'custom-value'],
        ],
        tableBytes: 164,
      },
    ],
  },
  {
    title: 'responses (C.5, C.6)',
    tableBytes: 256,
    steps: [
      {
        plain:
          '4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54' +
          '6e1768747470733a2f2f7777772e6578616d706c652e636f6d',
        huffman:
          '488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f' +
          '0b97c8e9ae82ae43d3',
        fields: redirect('302'),
        tableBytes: 222,
      },
      {
        plain: '4803333037c1c0bf',
        huffman: '4883640effc1c0bf',
        fields: redirect('307'),
        tableBytes: 222,
      },
      {
        plain:
          '88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f' +
          '3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076' +
          '657273696f6e3d31',
        huffman:
          '88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335df' +
          'dfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007',
        fields: [
          ...[':status', '200', 'cache-control', 'private', 'date', later],
          ...['location', 'https://www.example.com', 'content-encoding', 'gzip', 'set-cookie', cookie],
        ],
        tableBytes: 215,
      },
    ],
  },
];

function decode(decoder: HpackDecoder, hex: string): string[] {
  const block = Buffer.from(hex, 'hex');
  const fields: string[] = [];
  expect(decoder.decode(block, 0, block.length, fields)).toBe(true);
  return fields;
}

function encode(encoder: HpackEncoder, fields: readonly string[]): string {
  const target = Buffer.alloc(maxEncodedBytes(fields));
  return target.toString('hex', 0, encoder.encode(fields, target, 0));
}

/** A size update of 256, which the RFC's examples leave to the settings. */
const sizeUpdateOf256 = '3fe101';

describe('an integer (C.1)', () => {
  it.each([
    ['2a', 10],
    ['3f9a0a', 1337],
  ])('of a prefix of five bits is read and written: %s', (hex, value) => {
    const encoder = new HpackEncoder({ maxTableBytes: value });
    expect(encode(encoder, [])).toBe(hex);
    const decoder = new HpackDecoder({ maxTableBytes: value, maxListBytes: 1000 });
    decoder.settingsAcknowledged();
    expect(decode(decoder, hex)).toEqual([]);
  });
});

describe('a field (C.2)', () => {
  it.each([
    [
      '400a637573746f6d2d6b65790d637573746f6d2d686561646572',
      ['custom-key', 'custom-header'],
      'INCREMENTAL',
      55,
    ],
    ['040c2f73616d706c652f70617468', [':path', '/sample/path'], 'NONE', 0],
    ['100870617373776f726406736563726574', ['password', 'secret'], 'NEVER', 0],
    ['82', [':method', 'GET'], 'NONE', 0],
  ] as const)('is read and written: %s', (hex, fields, indexing, tableBytes) => {
    const decoder = new HpackDecoder({ maxTableBytes: 4096, maxListBytes: 1000 });
    expect(decode(decoder, hex)).toEqual(fields);
    expect(decoder.tableBytes).toBe(tableBytes);
    const encoder = new HpackEncoder({
      maxTableBytes: 4096,
      indexing: () => Indexing[indexing],
      huffman: false,
    });
    expect(encode(encoder, fields)).toBe(hex);
    expect(encoder.tableBytes).toBe(tableBytes);
  });
});

describe.each(series)('$title', ({ tableBytes, steps }) => {
  describe.each(['plain', 'huffman'] as const)('%s', (coding) => {
    it('are read', () => {
      const decoder = new HpackDecoder({ maxTableBytes: tableBytes, maxListBytes: 1000 });
      if (tableBytes < 4096) decode(decoder, sizeUpdateOf256);
      for (const step of steps) {
        expect(decode(decoder, step[coding])).toEqual(step.fields);
        expect(decoder.tableBytes).toBe(step.tableBytes);
      }
    });

    it('are written', () => {
      const encoder = new HpackEncoder({
        maxTableBytes: tableBytes,
        indexing: () => Indexing.INCREMENTAL,
        huffman: coding === 'huffman',
      });
      if (tableBytes < 4096) expect(encode(encoder, [])).toBe(sizeUpdateOf256);
      for (const step of steps) {
        expect(encode(encoder, step.fields)).toBe(step[coding]);
        expect(encoder.tableBytes).toBe(step.tableBytes);
      }
    });
  });
});
