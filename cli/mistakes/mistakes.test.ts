import { describe, expect, it } from 'vitest';
import { readCalendar } from '../../rules/calendar.ts';
import { hitsUnits } from '../../rules/model.ts';
import { expiries } from '../../rules/reserve.ts';
import { unknownWord } from '../../rules/rule-error.ts';
import { intendedField } from './intended-names.ts';
import { hintFor } from './mistakes.ts';

function calendarError(unit: string): string {
  const reported: string[] = [];
  readCalendar({ unit, timezone: undefined, startsOn: undefined }, (_, text) => reported.push(text));
  return reported.join();
}

const unknownHitsUnit = (found: string): string => unknownWord('hits_unit', hitsUnits, found);

describe('the intended field', () => {
  it.each([
    ['kye', 'key'],
    ['requests_per_units', 'requests_per_unit'],
    ['requestsPerUnit', 'requests_per_unit'],
    ['rate-limit', 'rate_limit'],
    ['descriptor', 'descriptors'],
    ['Domain', 'domain'],
    ['limit', 'rate_limit'],
    ['limits', 'rate_limits'],
    ['period', 'unit or window'],
    ['multiplier', 'unit_multiplier'],
    ['unitMultiplier', 'unit_multiplier'],
    ['algoritm', 'algorithm'],
    ['rules', 'descriptors'],
    ['foo', undefined],
    ['static_resources', undefined],
  ])('by "%s" is %s', (written, meant) => {
    expect(intendedField(written)).toBe(meant);
  });
});

describe('a hint', () => {
  it.each(['static_resources', 'virtual_hosts', 'http_filters', 'listeners'])(
    "at Envoy's %s says how to compare it",
    (name) => {
      const error = { code: 'unknown-key', path: [name], text: `unknown key '${name}'` } as const;
      expect(hintFor(error)).toContain('weir check --envoy <file> <rules>');
    },
  );

  it('is given once, if the text does not have it', () => {
    const path = ['descriptors', 0, 'kye'];
    expect(hintFor({ code: 'unknown-key', path, text: "unknown key 'kye'" })).toBe('did you mean key?');
    const ofManifest = ['spec', ...path.slice(0, 2), 'rateLimit', 'shadowMode'];
    expect(hintFor({ code: 'unknown-key', path: ofManifest, text: 'unknown field' })).toBe(
      'move shadowMode out of rateLimit, to the same level',
    );
    expect(hintFor({ code: 'invalid-unit', path, text: "invalid rate limit unit 'fortnight'" })).toBe(
      'units are second, minute, hour, day, week, month and year',
    );
    const duplicate = (text: string) =>
      hintFor({ code: 'duplicate-limit', path, text: `two of its rate_limits ${text}` });
    expect(duplicate('have the window 1m and the algorithm fixed_window')).toContain(
      'another window or algorithm',
    );
    expect(duplicate("have the name 'a'")).toBe('give one of the two another name');
    expect(duplicate('have the same calendar')).toContain('another calendar');
    const share = 'lease must be a share of the limit';
    expect(hintFor({ code: 'invalid-lease', path, text: share })).toContain(
      'at most four decimals and a percent sign: lease: 2%',
    );
    expect(hintFor({ code: 'invalid-lease', path, text: 'lease needs' })).toBe('remove it');
    const list = 'cannot unmarshal !!map into []config.YamlRateLimit';
    const limits = ['descriptors', 0, 'rate_limits'];
    expect(hintFor({ code: 'wrong-type', path: limits, text: list })).toContain(
      'rate_limits is a list of 2 to 8',
    );
    const tooLong = "the window '20h1s' is 72001s";
    expect(hintFor({ code: 'invalid-window', path: [], text: tooLong })).toBeUndefined();
    expect(hintFor({ code: 'syntax', path: [], text: 'x' })).toBeUndefined();
  });

  it.each([
    ['burst', 'a whole number from 0 to 9007199254740991, '],
    ['requests_per_unit', 'a whole number from 0 to 9007199254740991, '],
    ['unit_multiplier', 'a whole number from 1 to 65535, '],
    ['key', 'put it into quotes to make it a text: key: '],
  ])('at a fraction in %s asks for what belongs there', (field, wanted) => {
    const path = ['descriptors', 0, 'rate_limit', field];
    expect(hintFor({ code: 'wrong-type', path, text: 'error checking config' })).toContain(wanted);
    const uint32 = 'cannot unmarshal !!int `5000000000` into uint32';
    if (field !== 'key') expect(hintFor({ code: 'wrong-type', path, text: uint32 })).toContain(wanted);
  });

  it.each([
    ['Europe/Zurch', 'did you mean Europe/Zurich?'],
    ['Zurich', 'did you mean Europe/Zurich?'],
    ['America/New York', 'did you mean America/New_York?'],
    ['+01:00', 'write a name such as Europe/Zurich; remove timezone for UTC'],
    ['', 'write a name such as Europe/Zurich; remove timezone for UTC'],
  ])('names the time zone that %s is intended for', (written, hint) => {
    const text = `timezone must be a name of the IANA database, such as Europe/Zurich, found '${written}'`;
    expect(hintFor({ code: 'invalid-calendar', path: ['timezone'], text })).toBe(hint);
  });

  it.each([
    [unknownHitsUnit('token'), 'did you mean tokens?'],
    [unknownHitsUnit('dollars'), 'did you mean micro-dollars?'],
    [unknownHitsUnit('micro_dolars'), 'did you mean micro-dollars?'],
    [unknownHitsUnit('Request'), 'did you mean requests?'],
    [unknownHitsUnit('cents'), 'it is a text for people, and does not affect counting'],
    [unknownHitsUnit(''), 'it is a text for people, and does not affect counting'],
    [unknownWord('on_expiry', expiries, 'relaese'), 'did you mean release?'],
    [unknownWord('on_expiry', expiries, 'charged'), 'did you mean charge?'],
    [
      unknownWord('on_expiry', expiries, 'keep'),
      'write reserve: { ttl: 60s, estimate: 2000, on_expiry: release }',
    ],
    [calendarError('mounth'), 'did you mean month?'],
    [calendarError('daily'), 'did you mean day?'],
    [calendarError('yr'), 'did you mean year?'],
    [calendarError('hour'), expect.stringMatching(/^write calendar: /)],
    [calendarError(''), expect.stringMatching(/^write calendar: /)],
  ])('names the intended word: %s', (text, hint) => {
    const code = text.startsWith('hits_unit')
      ? 'invalid-hits-unit'
      : text.startsWith('on_expiry')
        ? 'invalid-reserve'
        : 'invalid-calendar';
    expect(hintFor({ code, path: ['descriptors', 0, 'x'], text })).toEqual(hint);
  });

  it('does so in the spelling of manifests', () => {
    const asked = (text: string) =>
      hintFor({ code: 'wrong-type', path: ['spec', 'descriptors', 0, 'x'], text });
    const units = ['Requests', 'Tokens', 'MicroDollars', 'Bytes'];
    expect(asked(unknownWord('hitsUnit', units, 'micro-dolars'))).toBe('did you mean MicroDollars?');
    expect(asked(unknownWord('onExpiry', ['Release', 'Charge'], 'realease'))).toBe('did you mean Release?');
  });

  it.each([
    ['invalid-lease', 'spec.lease', "lease must be a share of the limit, found '5'", /: lease: 2%$/],
    ['invalid-window', 'spec.window', "the window '5 min' is not a duration", /^write window: 5m$/],
    [
      'invalid-window',
      'spec.window',
      'window replaces unit, found unit beside it',
      /^leave unit out, or window$/,
    ],
    ['invalid-reserve', 'spec.reserve', "the ttl '1x' is not a duration", /^write reserve: /],
    ['wrong-type', 'metadata.name', 'must be a DNS label, found false', /^put it into quotes: name: "n"$/],
    ['empty-domain', 'spec.domain', 'config file cannot have empty domain', /^write domain: /],
  ] as const)('finds the hint for %s behind the path of a manifest: %s', (code, path, words, hint) => {
    expect(hintFor({ code, path: path.split('.'), text: `${path}: ${words}` }, 'n')).toMatch(hint);
  });

  it.each([
    ['calendar', "the text 'month'", 'write calendar: { unit: month, timezone: Europe/Zurich }'],
    ['metadata', 'null', 'metadata is a mapping'],
  ])('for %s of a manifest that is %s is the one of a rule file', (field, found, hint) => {
    const path = ['spec', 'descriptors', 0, field];
    const text = `spec.descriptors[0].${field}: must be an object, found ${found}`;
    expect(hintFor({ code: 'wrong-type', path, text })).toBe(hint);
  });

  it('does not ask for a rateLimit where an override has no such field', () => {
    const text = "spec.rateLimit: 'rateLimit' is no field of an override: domain, match are";
    expect(hintFor({ code: 'wrong-type', path: ['spec', 'rateLimit'], text })).toBeUndefined();
  });

  it('says what a calendar, marks and an empty reserve are', () => {
    const sliding = {
      code: 'invalid-calendar',
      text: 'calendar is only for algorithm fixed_window',
    } as const;
    expect(hintFor({ ...sliding, path: ['calendar'] })).toBe('remove algorithm, or remove calendar');
    for (const text of ['error checking config', 'cannot unmarshal !!str `80%` into uint32'])
      expect(hintFor({ code: 'wrong-type', path: ['rate_limit', 'warn_at', 0], text }, '80%')).toContain(
        'warn_at: [50, 80, 95]',
      );
    const empty = { code: 'invalid-reserve', text: 'reserve must be a map, found null' } as const;
    expect(hintFor({ ...empty, path: ['reserve'] })).toContain('write reserve: { ttl: 60s');
  });

  it.each([
    ['SlidingWindow', 'sliding_window', 'SlidingWindow'],
    ['slidingwindow', 'sliding_window', 'SlidingWindow'],
    ['token', 'token_bucket', 'TokenBucket'],
    ['sliding_window', 'sliding_window', 'SlidingWindow'],
  ])(
    'names the algorithm that %s is intended for, as the text spells it',
    (written, inFiles, inManifests) => {
      const error = {
        code: 'invalid-algorithm',
        text: `unknown algorithm '${written}': there are some`,
      } as const;
      expect(hintFor({ ...error, path: ['algorithm'] })).toBe(`did you mean ${inFiles}?`);
      expect(hintFor({ ...error, path: ['spec', 'algorithm'] })).toBe(`did you mean ${inManifests}?`);
      expect(hintFor({ ...error, path: [], text: "unknown algorithm 'leaky'" })).toBe(
        'write one of fixed_window, sliding_window, token_bucket',
      );
    },
  );

  it('speaks of the elements of a list of limits, and of windows if there are none', () => {
    const text = 'config error, yaml file contains list of type other than map: 5';
    const path = ['descriptors', 0, 'rate_limits', 1];
    expect(hintFor({ code: 'list-element-not-a-map', path, text })).toContain('each element of rate_limits');
    const noUnit = { code: 'invalid-unit', text: "invalid rate limit unit ''" } as const;
    expect(hintFor({ ...noUnit, path })).toContain('window: 5m');
    expect(hintFor({ code: 'invalid-window', path: ['spec', 'window'], text: '' })).toContain(
      'unitMultiplier',
    );
  });
});
