import { describe, expect, it } from 'vitest';
import { readRecordedRequest } from './recorded-request.ts';

const line = (fields: object): string =>
  JSON.stringify({ time: 1, domain: 'd', descriptors: [[['k', 'v']]], ...fields });
const descriptorsOf = (descriptors: unknown[]) =>
  readRecordedRequest(line({ descriptors }))?.request.descriptors;

describe('readRecordedRequest', () => {
  it('reads descriptors as lists of pairs', () => {
    expect(
      readRecordedRequest(
        line({
          descriptors: [
            [
              ['a', '1'],
              ['b', ''],
            ],
            [['c', '3']],
          ],
        }),
      ),
    ).toEqual({
      timeMs: 1_000,
      request: {
        domain: 'd',
        hitsAddend: 0,
        descriptors: [
          {
            entries: [
              { key: 'a', value: '1' },
              { key: 'b', value: '' },
            ],
            limit: undefined,
            hitsAddend: undefined,
            isNegativeHits: false,
          },
          {
            entries: [{ key: 'c', value: '3' }],
            limit: undefined,
            hitsAddend: undefined,
            isNegativeHits: false,
          },
        ],
      },
    });
  });

  it.each([
    [
      {
        entries: [{ key: 'a', value: '1' }],
        hitsAddend: 7,
        isNegativeHits: true,
        limit: { requestsPerUnit: 2, unit: 'DAY' },
      },
    ],
    [
      {
        entries: [{ key: 'a', value: '1' }],
        hits_addend: '7',
        is_negative_hits: true,
        limit: { requests_per_unit: 2, unit: 4 },
      },
    ],
  ])('reads descriptors as in /json: %j', (descriptor) => {
    expect(descriptorsOf([descriptor])).toEqual([
      {
        entries: [{ key: 'a', value: '1' }],
        hitsAddend: 7,
        isNegativeHits: true,
        limit: { requestsPerUnit: 2, unit: 4 },
      },
    ]);
  });

  it('reads descriptors and hits as in /v1/check', () => {
    const body = line({ descriptors: [[{ api_key: 'a' }, { key: 'k', value: 'v' }]], hits: 0 });
    expect(readRecordedRequest(body)?.request).toMatchObject({
      hitsAddend: 0,
      descriptors: [
        {
          hitsAddend: 0,
          entries: [
            { key: 'api_key', value: 'a' },
            { key: 'k', value: 'v' },
          ],
        },
      ],
    });
  });

  it('takes numbers and truth values, which access logs write, as text', () => {
    expect(
      descriptorsOf([
        [
          ['status', 429],
          ['tls', true],
        ],
      ])?.[0]?.entries,
    ).toEqual([
      { key: 'status', value: '429' },
      { key: 'tls', value: 'true' },
    ]);
  });

  it('leaves out a descriptor with a value that is null, as Envoy does for a missing header', () => {
    expect(
      descriptorsOf([
        [
          ['a', '1'],
          ['plan', null],
        ],
        [['a', '1']],
      ]),
    ).toHaveLength(1);
    expect(readRecordedRequest(line({ descriptors: [[['plan', null]]] }))).toBeUndefined();
    expect(readRecordedRequest(line({ descriptors: [] }))).toBeUndefined();
  });

  it('saturates hits as the limiter does', () => {
    const hits = (hitsAddend: unknown) =>
      descriptorsOf([{ entries: [['a', '1']], hitsAddend }])?.[0]?.hitsAddend;
    expect(hits('9223372036854775807')).toBe(Number.MAX_SAFE_INTEGER);
    expect(hits('9223372036854775808')).toBe(Number.POSITIVE_INFINITY);
    expect(hits(0)).toBe(0);
  });

  it('leaves other fields alone', () => {
    expect(readRecordedRequest(line({ status: 200, upstream: 'x' }))?.request.domain).toBe('d');
  });

  it.each([
    ['{', 'is not JSON'],
    ['[]', 'is not a JSON object'],
    [line({ time: undefined }), 'time is missing'],
    [line({ domain: '' }), 'domain is missing'],
    [line({ descriptors: {} }), 'descriptors is not a list'],
    [line({ descriptors: ['x'] }), 'descriptors[0] is neither a list of pairs nor an object'],
    [line({ descriptors: [[]] }), 'descriptors[0] has no entry'],
    [line({ descriptors: [{}] }), 'descriptors[0].entries is not a list'],
    [
      line({ descriptors: [['k', 'v']] }),
      'descriptors[0][0] is neither [key, value] nor an object with key and value',
    ],
    [line({ descriptors: [[[1, 'v']]] }), 'descriptors[0][0] has no key'],
    [line({ descriptors: [[['k', {}]]] }), 'the value of descriptors[0][0] is not text'],
    [line({ hitsAddend: 1.5 }), 'hitsAddend is not a whole number of hits'],
    [line({ hitsAddend: 4_294_967_296 }), 'hitsAddend is at most 4294967295'],
    [
      line({ descriptors: [{ entries: [['k', 'v']], limit: { requestsPerUnit: 1, unit: 'FORTNIGHT' } }] }),
      'descriptors[0].limit.unit is not a unit such as "MINUTE"',
    ],
  ])('rejects %s', (text, message) => {
    expect(() => readRecordedRequest(text)).toThrow(message);
  });
});
