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
  ])('refuse %s=%s', (variable, value, problem) => {
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
