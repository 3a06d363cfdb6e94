import { describe, expect, it } from 'vitest';
import { parseLimiterSettings } from './settings.ts';
import { sinkOf } from './stats-settings.ts';

const refusal =
  'Error: unable to use more than one stats sink at the same time. Set one of USE_DOG_STATSD, USE_STATSD, USE_PROMETHEUS.';

describe('the sink of statistics', () => {
  const cases: [chosen: string, sink: string][] = [
    ['', 'statsd'],
    ['USE_STATSD=true', 'statsd'],
    ['USE_PUSHSTATS=true', 'statsd'],
    ['USE_STATSD=false', 'output'],
    ['USE_DOG_STATSD=true', 'dogstatsd'],
    ['USE_STATSD=false USE_DOG_STATSD=true', 'dogstatsd'],
    ['USE_PROMETHEUS=true', 'prometheus'],
    ['USE_PULLSTATS=true', 'prometheus'],
    ['USE_STATSD=false USE_PROMETHEUS=true USE_DOG_STATSD=false', 'prometheus'],
    ['DISABLE_STATS=true', 'none'],
    ['DISABLE_STATS=true USE_STATSD=false', 'none'],
    ['DISABLE_STATS=true USE_STATSD=true USE_PROMETHEUS=true', 'none'],
    ['USE_STATSD=true USE_PROMETHEUS=true', refusal],
    ['USE_STATSD=true USE_DOG_STATSD=true', refusal],
    ['USE_DOG_STATSD=true USE_PROMETHEUS=true', refusal],
    ['USE_PUSHSTATS=true USE_TAGGEDSTATS=true USE_PULLSTATS=true', refusal],
  ];
  it.each(cases)('with "%s" is %s', (chosen, sink) => {
    const env = Object.fromEntries(chosen.split(' ').map((pair) => pair.split('=')));
    const { settings, errors } = parseLimiterSettings(env);
    expect(settings === undefined ? errors?.map(({ message }) => message) : [sinkOf(settings)]).toEqual([
      sink,
    ]);
  });
});

describe('what was chosen for statistics and has no effect', () => {
  it.each([
    [
      { DISABLE_STATS: 'true', USE_PROMETHEUS: 'true', USE_STATSD: 'false' },
      ['USE_PROMETHEUS has no effect with DISABLE_STATS=true: statistics go nowhere'],
    ],
    [
      { DISABLE_STATS: '1', USE_STATSD: 'true', USE_DOG_STATSD: 'true', PROMETHEUS_ADDR: ':1' },
      [
        'USE_STATSD has no effect with DISABLE_STATS=true: statistics go nowhere',
        'USE_DOG_STATSD has no effect with DISABLE_STATS=true: statistics go nowhere',
        'PROMETHEUS_ADDR has no effect with DISABLE_STATS=true: statistics go nowhere',
      ],
    ],
    [
      { PROMETHEUS_ADDR: ':9090', PULLSTATS_PATH: '/m' },
      [
        'PROMETHEUS_ADDR has no effect without USE_PROMETHEUS=true',
        'PROMETHEUS_PATH has no effect without USE_PROMETHEUS=true',
      ],
    ],
    [{ PROMETHEUS_ADDR: ':9090', USE_PROMETHEUS: 'true' }, []],
    [{ DISABLE_STATS: 'true' }, []],
    [{ USE_STATSD: 'false' }, []],
  ])('is reported %j', (env, warnings) => {
    expect(parseLimiterSettings(env).warnings).toEqual(warnings);
  });
});

describe('STATSD_HOST', () => {
  it.each(['statsd:8125', ':8125', '127.0.0.1:', 'udp://statsd', '[::1]'])('may not be %s', (value) => {
    expect(parseLimiterSettings({ STATSD_HOST: value }).errors?.map(({ message }) => message)).toEqual([
      `STATSD_HOST: "${value}" is not accepted, expected a host name or IP address without port, which is STATSD_PORT`,
    ]);
  });

  it.each(['statsd', '127.0.0.1', '::1', 'fd00::5:8125', ''])('may be "%s"', (value) => {
    expect(parseLimiterSettings({ STATSD_HOST: value }).settings?.statsdHost).toBe(value);
  });
});

describe('the settings of statistics', () => {
  it.each([
    ['STATSD_PROTOCOL', 'sctp', '"sctp" is not accepted, expected tcp or udp, in any letter case'],
    [
      'EXTRA_TAGS',
      'a',
      '"a" is not accepted, expected name:value,name2:value2, with one colon in each; part 1 has not exactly one colon',
    ],
    ['STATS_MAX_DETAILED_METRICS', '-1', '"-1" is not accepted, expected a whole number from 0 to 1000000'],
    [
      'USE_STATSD',
      'yes',
      '"yes" is not accepted, expected true or false (also 1, t, T, TRUE, True, 0, f, F, FALSE, False)',
    ],
  ])('reject %s=%s', (variable, value, problem) => {
    expect(parseLimiterSettings({ [variable]: value }).errors).toEqual([
      { variable, message: `${variable}: ${problem}` },
    ]);
  });

  it('read tags, and warn of a name that is nearly one of theirs', () => {
    const { settings, warnings } = parseLimiterSettings({ EXTRA_TAGS: 'a:1,b:2', STATS_MAX_DETAILED: '5' });
    expect(settings?.extraTags).toEqual([
      ['a', '1'],
      ['b', '2'],
    ]);
    expect(warnings?.join()).toContain('STATS_MAX_DETAILED');
  });
});
