import { describe, expect, it } from 'vitest';
import { type OverrideOrigin, overrideJson, overridePlace } from '../override.ts';
import { formatManifestError } from '../rule-error.ts';
import { readOverride } from './read-override.ts';

const nowMs = Date.UTC(2026, 10, 22, 10);
const byApi: OverrideOrigin = {
  source: 'api',
  id: 'made-up',
  createdMs: nowMs,
  by: 'ada',
  fromMs: nowMs,
  maxSeconds: 2_592_000,
  rejectsPast: true,
};
const byFile: OverrideOrigin = {
  ...byApi,
  source: 'file',
  id: 'a.yaml:1',
  createdMs: 0,
  by: '',
  rejectsPast: false,
};
const match = [{ key: 'remote_address', value: '203.0.113.7' }];
const good = { domain: 'shop', match, requestsPerUnit: 100, for: '2h', reason: 'a bad merge' };

function problems(value: unknown, origin = byApi): string[] {
  return (readOverride(value, origin).problems ?? []).map(formatManifestError);
}

describe('readOverride', () => {
  it('reads what is complete, and it is reported with the time that it has left', () => {
    const { override } = readOverride(good, byApi);
    expect(override).toEqual({
      id: 'made-up',
      source: 'api',
      name: 'made-up',
      domain: 'shop',
      match,
      limit: '',
      effect: { kind: 'limit', requestsPerUnit: 100, unit: undefined },
      createdMs: nowMs,
      endsMs: nowMs + 7_200_000,
      reason: 'a bad merge',
      by: 'ada',
    });
    expect(overrideJson(override!, nowMs + 1000)).toEqual({
      id: 'made-up',
      source: 'api',
      name: 'made-up',
      domain: 'shop',
      match,
      limit: '',
      requestsPerUnit: 100,
      expiresAt: '2026-11-22T12:00:00.000Z',
      reason: 'a bad merge',
      createdAt: '2026-11-22T10:00:00.000Z',
      endsAt: '2026-11-22T12:00:00.000Z',
      secondsLeft: 7199,
      createdBy: 'ada',
      state: 'InForce',
      message: '',
    });
    expect(overrideJson(override!, nowMs + 7_200_000)['state']).toBe('Ended');
  });

  it.each([
    ['90m', 5400],
    ['7d', 604_800],
    ['30d', 2_592_000],
  ])('lets %s pass', (text, seconds) => {
    expect(readOverride({ ...good, for: text }, byApi).override?.endsMs).toBe(nowMs + seconds * 1000);
  });

  const { requestsPerUnit: _, for: __, ...bare } = good;
  it.each<[string, unknown, string[]]>([
    ['no object', [], ['must be an object, found a list']],
    [
      'nothing in it',
      {},
      [
        'domain: is required',
        'match: is required',
        'reason: is required',
        'must have exactly one of requestsPerUnit, unlimited, shadow, block, grant, found none',
        'must have exactly one of expiresAt, for, permanent, found none',
      ],
    ],
    [
      'an unknown field',
      { ...good, requests: 1 },
      [
        'requests: is no field of an override: domain, match, limit, requestsPerUnit, unlimited, shadow, block, grant, unit, expiresAt, for, permanent, reason, id are',
      ],
    ],
    [
      'a misspelled effect, which is not missing as well',
      { ...bare, for: '1h', requests_per_unit: 5 },
      ["requests_per_unit: is no field of an override, did you mean 'requestsPerUnit'?"],
    ],
    [
      'two effects',
      { ...good, block: true },
      [
        'must have exactly one of requestsPerUnit, unlimited, shadow, block, grant, found requestsPerUnit and block',
      ],
    ],
    [
      'two ends',
      { ...good, permanent: true },
      ['must have exactly one of expiresAt, for, permanent, found for and permanent'],
    ],
    ['a blank reason', { ...good, reason: ' ' }, ['reason: must not be empty']],
    [
      'a fraction',
      { ...good, requestsPerUnit: 1.5 },
      ['requestsPerUnit: must be a whole number from 0 to 9007199254740991, found 1.5'],
    ],
    [
      'an effect that is no flag',
      { ...bare, for: '1h', block: 'yes' },
      ["block: must be true or false, found the text 'yes'"],
    ],
    [
      'an unknown unit',
      { ...good, unit: 'fortnight' },
      ['unit: must be second, minute, hour, day, week, month or year, not "fortnight"'],
    ],
    [
      'a unit of no limit',
      { ...bare, for: '1h', block: true, unit: 'hour' },
      ['unit: is for requestsPerUnit alone'],
    ],
    [
      'too long',
      { ...good, for: '31d' },
      [
        'for: is 2678400 s away, and can be 2592000 (30d, OVERRIDES_MAX_SECONDS): make it permanent for longer',
      ],
    ],
    [
      'no length of time',
      { ...good, for: '2 hours' },
      ['for: "2 hours" is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y'],
    ],
    [
      'no date',
      { ...bare, block: true, expiresAt: 'tomorrow' },
      ['expiresAt: must be a date and time such as 2026-01-31T18:00:00Z, not "tomorrow"'],
    ],
    [
      'a date that has passed',
      { ...bare, block: true, expiresAt: '2026-11-22T09:00:00Z' },
      ['expiresAt: 2026-11-22T09:00:00Z has passed'],
    ],
    ['no entries', { ...good, match: [] }, ['match: must have 1 to 32 entries, and has 0']],
    // As in a rule, a reader could think that it matches every value.
    ['no value', { ...good, match: [{ key: 'a' }] }, ['match[0].value: is required']],
    [
      'entries of another form',
      { ...good, match: ['a', { key: '', value: 1, of: 2 }] },
      [
        "match[0]: must be an object, found the text 'a'",
        'match[1].value: must be a string, found 1',
        'match[1].of: is no field of an entry: key and value are',
        'match[1].key: must not be empty',
      ],
    ],
    [
      'a grant with an end',
      { ...bare, grant: 5, for: '1h' },
      ['for: is not for a grant, which ends with its window'],
    ],
    [
      'a grant for a pattern',
      { ...bare, grant: 5, match: [{ key: 'a', value: 'b*' }] },
      ['match[0].value: of a grant must be exact, without *'],
    ],
    [
      'a grant of nothing',
      { ...bare, grant: 0 },
      ['grant: must be a whole number from 1 to 9007199254740991, found 0'],
    ],
    [
      'an odd id',
      { ...good, id: 'a b' },
      ['id: must be letters, digits and . _ : / - , beginning with a letter or digit'],
    ],
  ])('names what is wrong with %s', (_name, value, expected) => {
    expect(problems(value)).toEqual(expected);
  });

  it('wants of files a date, and of their grants an id besides', () => {
    expect(problems(good, byFile)).toEqual([
      'for: is not for files, which have no time of creation: write expiresAt',
    ]);
    expect(problems({ ...bare, grant: 5 }, byFile)).toEqual([
      'id: is required of a grant in a file: it makes the grant happen once',
      'must have expiresAt, found none',
    ]);
    const past = '2026-11-22T09:00:00Z';
    expect(problems({ ...bare, block: true, expiresAt: past }, byFile)).toEqual([]);
    expect(readOverride({ ...bare, grant: 5, id: 'g', expiresAt: past }, byFile).override).toMatchObject({
      id: 'g',
      name: 'g',
      createdMs: 0,
      endsMs: Date.parse(past),
    });
  });

  it('takes what is null, and false, for not written', () => {
    expect(problems({ ...good, unlimited: false, shadow: null, permanent: false, expiresAt: null })).toEqual(
      [],
    );
  });
});

describe('overridePlace', () => {
  it('is one for the same match and limit, and another for each grant', () => {
    const place = (value: object, id = 'x') =>
      overridePlace(readOverride({ ...good, id, ...value }, byApi).override!);
    expect(place({}, 'a')).toBe(place({ requestsPerUnit: 7 }, 'b'));
    expect(place({ limit: 'daily' })).not.toBe(place({}));
    expect(place({ match: [{ key: 'remote_address', value: '*' }] })).not.toBe(place({}));
    const grant = { requestsPerUnit: null, for: null, grant: 5 };
    expect(place(grant, 'a')).not.toBe(place(grant, 'b'));
  });
});
