import { describe, expect, it } from 'vitest';
import { aliasesOf } from '../../process/settings/settings-unknown.ts';
import { limiterAliases, parseLimiterSettings } from './settings.ts';

const on = { USE_DOG_STATSD: 'true' };

function messages(env: Record<string, string>): string[] {
  return (parseLimiterSettings({ ...on, ...env }).errors ?? []).map(({ message }) => message);
}

const path = {
  DOG_STATSD_MOGRIFIER_PATH_PATTERN: '^a\\.(.*)$',
  DOG_STATSD_MOGRIFIER_PATH_NAME: 'b.$1',
  DOG_STATSD_MOGRIFIER_PATH_TAGS: 'k:$1,l:v',
};

describe('mogrifiers', () => {
  it.each([
    'USE_DOG_STATSD_MOGRIFIERS',
    'DOG_STATSD_MOGRIFIERS',
    'USE_TAGGEDSTATS_MOGRIFIERS',
    'TAGGEDSTATS_MOGRIFIERS',
  ])('are listed by %s, in order and in any letter case', (list) => {
    const result = parseLimiterSettings({
      ...on,
      ...path,
      [list]: 'path,Other',
      TAGGEDSTATS_MOGRIFIER_OTHER_PATTERN: 'x',
      TAGGEDSTATS_MOGRIFIER_OTHER_NAME: 'y',
    });
    expect(result.errors).toBeUndefined();
    expect(result.warnings).toEqual([]);
    expect(result.settings?.mogrifiers).toEqual([
      {
        pattern: '^a\\.(.*)$',
        name: 'b.$1',
        tags: [
          ['k', '$1'],
          ['l', 'v'],
        ],
      },
      { pattern: 'x', name: 'y', tags: [] },
    ]);
  });

  it('have their names in the documentation', () => {
    expect(aliasesOf(limiterAliases, 'USE_DOG_STATSD_MOGRIFIERS').sort()).toEqual([
      'DOG_STATSD_MOGRIFIERS',
      'TAGGEDSTATS_MOGRIFIERS',
      'USE_TAGGEDSTATS_MOGRIFIERS',
    ]);
  });

  it('are none by default', () => {
    expect(parseLimiterSettings({}).settings?.mogrifiers).toEqual([]);
    expect(parseLimiterSettings(on).settings?.mogrifiers).toEqual([]);
  });

  it('are warned of for a group that the pattern does not have', () => {
    const result = parseLimiterSettings({
      ...on,
      ...path,
      USE_DOG_STATSD_MOGRIFIERS: 'path',
      DOG_STATSD_MOGRIFIER_PATH_NAME: 'b.$1.$2',
      DOG_STATSD_MOGRIFIER_PATH_TAGS: 'k:$0,l:$13',
    });
    expect(result.warnings).toEqual([
      'DOG_STATSD_MOGRIFIER_PATH_NAME: $2 stays unchanged: the pattern has no such group (groups: 1)',
      'DOG_STATSD_MOGRIFIER_PATH_TAGS: $13 stays unchanged: the pattern has no such group (groups: 1)',
    ]);
    expect(result.settings?.mogrifiers[0]?.name).toBe('b.$1.$2');
  });

  it('need a pattern and a name', () => {
    expect(messages({ USE_DOG_STATSD_MOGRIFIERS: 'a' })).toEqual([
      'DOG_STATSD_MOGRIFIER_A_PATTERN: no PATTERN specified for mogrifier a',
      'DOG_STATSD_MOGRIFIER_A_NAME: no NAME specified for mogrifier a',
    ]);
  });

  it('are rejected with a pattern that RE2 does not know', () => {
    const env = {
      USE_DOG_STATSD_MOGRIFIERS: 'A',
      DOG_STATSD_MOGRIFIER_A_PATTERN: 'a(',
      DOG_STATSD_MOGRIFIER_A_NAME: 'n',
    };
    expect(messages(env)).toEqual([
      'DOG_STATSD_MOGRIFIER_A_PATTERN: failed to compile pattern for A: error parsing regexp: missing closing ): `a(`',
    ]);
    expect(messages({ ...env, DOG_STATSD_MOGRIFIER_A_PATTERN: '(?<!x)a' })).toEqual([
      expect.stringMatching(/^DOG_STATSD_MOGRIFIER_A_PATTERN: failed to compile pattern for A: /),
    ]);
  });

  it.each(['k', 'k:', ':v', 'k:v:w', 'a:b,', ','])('are rejected with the tags %s', (tags) => {
    const refused = messages({
      ...path,
      USE_DOG_STATSD_MOGRIFIERS: 'path',
      DOG_STATSD_MOGRIFIER_PATH_TAGS: tags,
    });
    expect(refused[0]).toMatch(
      /^DOG_STATSD_MOGRIFIER_PATH_TAGS: expected key:value,key2:value2; part \d has not exactly one colon, or an empty key or value$/,
    );
  });

  it('are rejected by the names of the variables as they are written', () => {
    const env = {
      USE_DOG_STATSD_MOGRIFIERS: 'a',
      TAGGEDSTATS_MOGRIFIER_A_PATTERN: '(',
      TAGGEDSTATS_MOGRIFIER_A_NAME: '',
      TAGGEDSTATS_MOGRIFIER_A_TAGS: 'k',
    };
    expect(messages(env)).toEqual([
      'TAGGEDSTATS_MOGRIFIER_A_PATTERN: failed to compile pattern for a: error parsing regexp: missing closing ): `(`',
      'TAGGEDSTATS_MOGRIFIER_A_NAME: no NAME specified for mogrifier a',
      'TAGGEDSTATS_MOGRIFIER_A_TAGS: expected key:value,key2:value2; part 1 has not exactly one colon, or an empty key or value',
    ]);
    const { warnings } = parseLimiterSettings({ ...on, TAGGEDSTATS_MOGRIFIER_B_NAME: 'n' });
    expect(warnings).toEqual([
      'TAGGEDSTATS_MOGRIFIER_B_NAME belongs to no mogrifier in USE_DOG_STATSD_MOGRIFIERS; it is ignored',
    ]);
  });

  it('are rejected when two spellings of a variable differ', () => {
    expect(
      messages({ ...path, USE_DOG_STATSD_MOGRIFIERS: 'path', TAGGEDSTATS_MOGRIFIER_PATH_NAME: 'other' }),
    ).toEqual([
      'TAGGEDSTATS_MOGRIFIER_PATH_NAME and DOG_STATSD_MOGRIFIER_PATH_NAME name the same setting with different values: keep one of them',
    ]);
  });

  it('that no list names are warned of', () => {
    expect(parseLimiterSettings({ ...on, ...path, DOG_STATSD_MOGRIFIERS: '' }).warnings).toEqual(
      Object.keys(path)
        .sort()
        .map((variable) => `${variable} belongs to no mogrifier in USE_DOG_STATSD_MOGRIFIERS; it is ignored`),
    );
  });

  it('are not looked at if statistics go elsewhere', () => {
    const env = { USE_DOG_STATSD_MOGRIFIERS: 'a', DOG_STATSD_MOGRIFIER_A_PATTERN: '(' };
    const result = parseLimiterSettings(env);
    expect([result.errors, result.settings?.mogrifiers]).toEqual([undefined, []]);
  });

  it('are rejected if their patterns together cost too much for a name', () => {
    const pattern = '(.*,){8}a.{0,900}x';
    const list = Array.from({ length: 20 }, (_, i) => `m${i}`);
    const variables = list.flatMap((name) => [
      [`DOG_STATSD_MOGRIFIER_${name.toUpperCase()}_PATTERN`, pattern],
      [`DOG_STATSD_MOGRIFIER_${name.toUpperCase()}_NAME`, 'n'],
    ]);
    const env = { ...on, USE_DOG_STATSD_MOGRIFIERS: list.join(','), ...Object.fromEntries(variables) };
    expect(messages(env)[0]).toMatch(
      /^DOG_STATSD_MOGRIFIER_M\d+_PATTERN: failed to compile pattern for m\d+: the expressions up to here cost [\d,]+ for/,
    );
  });
});
