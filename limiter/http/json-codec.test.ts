import { create, fromBinary, type MessageInitShape, toBinary, type UnknownEnum } from '@bufbuild/protobuf';
import fc from 'fast-check';
import { describe, expect, it, vi } from 'vitest';
import {
  RateLimitResponse_Code as Code,
  type RateLimitRequest,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
  RateLimitResponse_RateLimit_Unit as Unit,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { defaultRequestLimits } from '../decide/request-bounds.ts';
import { requestFromJson, responseToJson } from './json-codec.ts';

const limits = defaultRequestLimits;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function accepted(text: string): RateLimitRequest {
  const got = requestFromJson(bytes(text), limits);
  if ('rejection' in got) return expect.fail(got.rejection);
  return fromBinary(RateLimitRequestSchema, got.wire);
}

describe('requestFromJson', () => {
  it('reads every field by its JSON name', () => {
    const request = accepted(
      `{"domain":"d","hitsAddend":3,"descriptors":[{"entries":[{"key":"k","value":"v"},{"key":"e"}],
        "limit":{"requestsPerUnit":10,"unit":"DAY"},"hitsAddend":"7","isNegativeHits":true}]}`,
    );
    expect(request).toMatchObject({
      domain: 'd',
      hitsAddend: 3,
      descriptors: [
        {
          entries: [
            { key: 'k', value: 'v' },
            { key: 'e', value: '' },
          ],
          limit: { requestsPerUnit: 10, unit: 4 },
          hitsAddend: 7n,
          isNegativeHits: true,
        },
      ],
    });
  });

  it('reads every field by its original name', () => {
    const request = accepted(
      '{"hits_addend":3,"descriptors":[{"limit":{"requests_per_unit":10,"unit":4},"hits_addend":0,"is_negative_hits":true}]}',
    );
    expect(request).toMatchObject({
      hitsAddend: 3,
      descriptors: [{ limit: { requestsPerUnit: 10, unit: 4 }, hitsAddend: 0n, isNegativeHits: true }],
    });
  });

  const addends: [text: string, want: bigint | undefined][] = [
    ['5', 5n],
    ['"5"', 5n],
    ['1e3', 1000n],
    ['null', undefined],
    ['9007199254740993', 9007199254740993n],
    ['"9007199254740993"', 9007199254740993n],
    ['18446744073709551615', 18446744073709551615n],
    ['"18446744073709551615"', 18446744073709551615n],
  ];
  for (const [text, want] of addends) {
    it(`reads a descriptor's hitsAddend ${text}`, () => {
      expect(accepted(`{"descriptors":[{"hitsAddend" : ${text}}]}`).descriptors[0]?.hitsAddend).toBe(want);
      expect(accepted(`{"descriptors":[{"hits_addend":${text} }]}`).descriptors[0]?.hitsAddend).toBe(want);
    });
  }

  it('keeps 64 bits exact', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (hits) => {
        expect(accepted(`{"descriptors":[{"hitsAddend":${hits}}]}`).descriptors[0]?.hitsAddend).toBe(hits);
      }),
    );
  });

  it('leaves text that looks like a long addend alone', () => {
    const domain = '"hitsAddend":9007199254740993}';
    expect(accepted(JSON.stringify({ domain })).domain).toBe(domain);
  });

  it('takes null for an absent field', () => {
    expect(accepted('{"domain":null,"descriptors":null,"hitsAddend":null}')).toMatchObject({
      domain: '',
      descriptors: [],
      hitsAddend: 0,
    });
  });

  it('passes an unknown number of an enum through', () => {
    expect(accepted('{"descriptors":[{"limit":{"unit":99}}]}').descriptors[0]?.limit?.unit).toBe(99);
  });

  const refused: Record<string, string> = {
    'an empty body': '',
    'no JSON': 'domain=d',
    null: 'null',
    'an array': '[]',
    'a string': '"d"',
    'a second document': '{"domain":"d"}{}',
    'a trailing comma': '{"domain":"d",}',
    'a byte order mark': '\ufeff{"domain":"d"}',
    'an unknown field': '{"domian":"d"}',
    'an unknown field deep inside': '{"descriptors":[{"entries":[{"k":"v"}]}]}',
    'a field of another message': '{"isNegativeHits":true}',
    'a field given twice': '{"domain":"a","domain":"b"}',
    'a field given by both names': '{"hitsAddend":1,"hits_addend":1}',
    'a null descriptor': '{"descriptors":[null]}',
    'a null entry': '{"descriptors":[{"entries":[null]}]}',
    'a number for a string': '{"domain":5}',
    'a long number for a string': '{"domain":9007199254740993}',
    'a string for a list': '{"descriptors":"x"}',
    'an object that looks like a list': '{"descriptors":{"length":1}}',
    'a quoted boolean': '{"descriptors":[{"isNegativeHits":"true"}]}',
    'a negative hitsAddend': '{"hitsAddend":-1}',
    'a hitsAddend beyond 32 bits': '{"hitsAddend":4294967296}',
    'a long hitsAddend beyond 32 bits': '{"hitsAddend":18446744073709551615}',
    'a fraction': '{"hitsAddend":1.5}',
    'a number with spaces': '{"hitsAddend":" 5"}',
    'an empty number': '{"hitsAddend":""}',
    "a descriptor's hitsAddend beyond 64 bits": '{"descriptors":[{"hitsAddend":18446744073709551616}]}',
    'a number beyond all bounds': `{"descriptors":[{"hitsAddend":1${'0'.repeat(5000)}}]}`,
    'an infinite number': '{"descriptors":[{"hitsAddend":1e999}]}',
    'an unknown name of an enum': '{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}',
    'an enum name in lower case': '{"descriptors":[{"limit":{"unit":"day"}}]}',
    'a lone surrogate': '{"domain":"\\ud800"}',
    'a prototype': '{"__proto__":{"domain":"d"}}',
    'deep nesting': `{"domain":${'['.repeat(50_000)}${']'.repeat(50_000)}}`,
    'deep nesting that never ends': '{"domain":'.repeat(50_000),
  };
  for (const [name, text] of Object.entries(refused)) {
    it(`rejects ${name}`, () => {
      expect(requestFromJson(bytes(text), limits)).toEqual({ rejection: expect.stringMatching(/./) });
    });
  }

  it('rejects bytes that are no UTF-8', () => {
    const damaged = [0xff, 0xc0, 0x80].map((byte) =>
      Uint8Array.of(...bytes('{"domain":"'), byte, 0x22, 0x7d),
    );
    for (const body of damaged) {
      expect(requestFromJson(body, limits)).toEqual({
        rejection: 'The encoded data was not valid for encoding utf-8',
      });
    }
  });

  it('takes no more than a request can have of anything', () => {
    const words = (text: string) => requestFromJson(bytes(text), limits);
    expect(words(`{"domain":${'{"a":'.repeat(5)}`)).toEqual({
      rejection: 'the JSON nests deeper than a request, which has 5 levels',
    });
    expect(words(`[${'1,'.repeat(300)}1]`)).toEqual({
      rejection: 'the JSON has a list at level 1, where a request has an object',
    });
    const fields = Array.from({ length: 17 }, (_, i) => `"f${i}":1`).join();
    expect(words(`{${fields}}`)).toEqual({ rejection: 'an object of the JSON has more than 16 fields' });
  });

  it('leaves out descriptors and entries beyond the bounds, and says how many', () => {
    const entry = '{"key":"a]\\"","value":"}"}';
    const entries = (count: number, more = '') =>
      `{"entries":[${`${entry},`.repeat(count - 1)}${entry}${more}]}`;
    const crowded = accepted(`{"descriptors":[{},${entries(70)},${entries(64)}],"domain":"d"}`);
    expect(crowded.descriptors.map((one) => one.entries.length)).toEqual([0, 64, 64]);
    expect(crowded).toMatchObject({ domain: 'd' });
    const leftOut = (text: string) => requestFromJson(bytes(text), limits);
    const escaped = { entries: 70, unmarked: 64 };
    expect(leftOut(`{"descriptors":[{},${entries(70)}]}`)).toMatchObject({
      leftOut: { descriptors: 0, crowded: new Map([[1, escaped]]), maxEntries: 64 },
    });
    const plain = `{"descriptors":[{"entries":[${'{},'.repeat(69)}{}]}]}`;
    expect(leftOut(plain)).toMatchObject({
      leftOut: { crowded: new Map([[0, { entries: 70, unmarked: 70 }]]) },
    });
    const many = `{"descriptors":[${`${entries(70)},`.repeat(299)}{}],"domain":"d"}`;
    expect(accepted(many).descriptors).toHaveLength(256);
    expect(leftOut(many)).toMatchObject({ leftOut: { descriptors: 44 } });
  });

  it('rejects a list that comes twice, by which one could be taken for the other', () => {
    const crowded = `{"entries":[${'{},'.repeat(69)}{}]}`;
    const last = '[{"entries":[{"key":"k"}]}]';
    const rejection = expect.stringContaining('duplicate object key') as string;
    for (const first of [`[${crowded}]`, `[${'{},'.repeat(299)}{}]`])
      expect(requestFromJson(bytes(`{"descriptors":${first},"descriptors":${last}}`), limits)).toEqual({
        rejection,
      });
    const twice = `{"descriptors":[{"entries":[${'{},'.repeat(69)}{}],"entries":[{"key":"k"}]}]}`;
    expect(requestFromJson(bytes(twice), limits)).toEqual({ rejection });
  });

  it('lets pass whatever is within the bounds', () => {
    const descriptors = Array.from({ length: 256 }, () => ({ entries: [{ key: 'k,[{', value: '"]}' }] }));
    expect(accepted(JSON.stringify({ domain: 'd', descriptors })).descriptors).toHaveLength(256);
    const entries = Array.from({ length: 64 }, () => ({ key: '\\', value: '\\"' }));
    expect(accepted(JSON.stringify({ descriptors: [{ entries }] })).descriptors[0]?.entries).toHaveLength(64);
  });

  it('never throws', () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (body) => void requestFromJson(body, limits)));
    fc.assert(fc.property(fc.json(), (text) => void requestFromJson(bytes(text), limits)));
  });
});

const json = (init: MessageInitShape<typeof RateLimitResponseSchema>) =>
  responseToJson(toBinary(RateLimitResponseSchema, create(RateLimitResponseSchema, init)));

describe('responseToJson', () => {
  it('writes every field in the order of the Go service', () => {
    const { overLimit, text } = json({
      overallCode: Code.OVER_LIMIT,
      statuses: [
        { code: Code.OK },
        {
          code: Code.OVER_LIMIT,
          currentLimit: { name: 'n', requestsPerUnit: 10, unit: Unit.MINUTE },
          limitRemaining: 4294967295,
          durationUntilReset: { seconds: 37n },
        },
      ],
      responseHeadersToAdd: [{ key: 'RateLimit-Limit', value: '10' }],
      requestHeadersToAdd: [{ key: 'X', value: '1' }],
      dynamicMetadata: { domain: 'd' },
    });
    expect(overLimit).toBe(true);
    expect(text).toBe(
      '{"overallCode":"OVER_LIMIT","statuses":[{"code":"OK"},{"code":"OVER_LIMIT","currentLimit":{"name":"n",' +
        '"requestsPerUnit":10,"unit":"MINUTE"},"limitRemaining":4294967295,"durationUntilReset":"37s"}],' +
        '"responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"10"}],' +
        '"requestHeadersToAdd":[{"key":"X","value":"1"}],"dynamicMetadata":{"domain":"d"}}',
    );
  });

  it('leaves zeros out', () => {
    const got = json({
      overallCode: Code.OK,
      statuses: [{ code: Code.OK, currentLimit: { requestsPerUnit: 0, unit: Unit.WEEK }, limitRemaining: 0 }],
    });
    expect(got).toEqual({
      overLimit: false,
      text: '{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"unit":"WEEK"}}]}',
    });
  });

  it('writes the number of a unit that has no name', () => {
    expect(
      json({ overallCode: Code.OK, statuses: [{ currentLimit: { unit: 99 as UnknownEnum } }] }).text,
    ).toBe('{"overallCode":"OK","statuses":[{"currentLimit":{"unit":99}}]}');
  });

  it('sorts the keys of metadata at every depth', () => {
    const { text } = json({
      overallCode: Code.OK,
      dynamicMetadata: JSON.parse(
        '{"b":1.5,"a":{"9":null,"10":[{"z":true,"y":"é\\n"}]},"__proto__":{"q":[]}}',
      ),
    });
    expect(text).toBe(
      '{"overallCode":"OK","dynamicMetadata":{"__proto__":{"q":[]},"a":{"10":[{"y":"é\\n","z":true}],"9":null},"b":1.5}}',
    );
  });

  it('rejects a response without a decision', () => {
    expect(() => json({})).toThrow('the response has no decision: overall code 0');
    expect(() => json({ overallCode: 7 as UnknownEnum })).toThrow(
      'the response has no decision: overall code 7',
    );
  });
});

it('is warmed once, in turns between which others come', async () => {
  // Other test files in this process may have warmed up their codec.
  vi.resetModules();
  const { warmJsonCodec } = await import('./json-codec.ts');
  let turns = 0;
  let next = setImmediate(function turn() {
    turns += 1;
    next = setImmediate(turn);
  });
  const warmed = warmJsonCodec();
  expect(warmJsonCodec()).toBe(warmed);
  await warmed;
  clearImmediate(next);
  expect(turns).toBeGreaterThan(50);
});
