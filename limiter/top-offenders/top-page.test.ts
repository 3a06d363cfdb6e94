import { beforeEach, describe, expect, it } from 'vitest';
import { defaultTextBytes } from '../../rules/long-text.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { type MessageCarrier, Threads } from '../capabilities/messages.ts';
import { stemOfValues } from '../decide/counter-key.ts';
import type { TopMessages } from './messages.ts';
import { TopOffenders } from './top-offenders.ts';
import { type TopPage, topPage } from './top-page.ts';
import { TopReporter } from './top-report.ts';

let clock: ManualClock;
let threads: TopOffenders[];

beforeEach(() => {
  clock = new ManualClock();
  threads = [1, 2].map(() => new TopOffenders({ keysPerDomain: 3, maxBytes: 1_000_000, clock }));
});

function page(query = '', cacheKeyPrefix = ''): Promise<TopPage> {
  const ask: MessageCarrier['ask'] = async ({ kind, argument }) =>
    threads.map((thread) =>
      kind === 'topDomains' ? thread.topDomains() : thread.summariesOf(String(argument)),
    );
  const unasked = () => expect.fail();
  const source = new Threads(
    { count: 2, ask, askOne: unasked, reach: unasked, publish: unasked },
    'top',
  ).of<TopMessages>();
  return topPage(new URLSearchParams(query), new TopReporter({ source, clock, cacheKeyPrefix }));
}

function over(thread: number, domain: string, entries: string, hits: number, shadowMode = false): void {
  threads[thread]!.add({ domain, key: `${domain}_${entries}_`, hits, rule: `${domain}.user`, shadowMode });
}

describe('/top', () => {
  it('lists the domains with most hits, and their keys, over all threads', async () => {
    over(0, 'api', 'user_alice', 90);
    over(1, 'api', 'user_alice', 30);
    over(1, 'api', 'user_bob', 40, true);
    over(0, 'mail', 'user_carol', 7);
    clock.ms += 61_500;
    expect(await page()).toEqual({
      status: 200,
      contentType: 'text/plain; charset=utf-8',
      lines: [
        'hits over limit since 1970-01-01T00:00:00.000Z, 62 s; domains: 2, shown: 2',
        '',
        'domain "api": 160 hits over limit; all keys are listed',
        '  at most  at least  share  key  rule',
        '      120       120  75.0%  "user_alice"  "api.user"',
        '       40        40  25.0%  "user_bob"  "api.user" (shadow mode)',
        '',
        'domain "mail": 7 hits over limit; all keys are listed',
        '  at most  at least   share  key  rule',
        '        7         7  100.0%  "user_carol"  "mail.user"',
      ],
    });
  });

  it('names unambiguous counters by their entries as well', async () => {
    const key = stemOfValues('unambiguous', 'a;b', [{ key: 'user', value: 'x}' }], defaultTextBytes);
    threads[0]!.add({ domain: 'a;b', key: `p:${key}`, hits: 3, rule: 'a;b.user', shadowMode: false });
    expect((await page('', 'p:')).lines.at(-1)).toContain('"user=x%7D"  "a;b.user"');
    const daily = { key: `p:${key}5m`, hits: 4, rule: 'a;b.user.5m', shadowMode: false };
    threads[0]!.add({ domain: 'a;b', ...daily });
    expect((await page('', 'p:')).lines.at(-2)).toContain('"user=x%7D (5m)"  "a;b.user.5m"');
  });

  it('says how much may be wrong once there are more keys than are held', async () => {
    for (const [name, hits] of Object.entries({ a: 50, b: 20, c: 3, d: 2 }))
      over(0, 'api', `user_${name}`, hits);
    expect((await page()).lines.slice(2)).toEqual([
      'domain "api": 75 hits over limit; a key that is not listed has at most 5',
      '  at most  at least  share  key  rule',
      '       50        50  66.7%  "user_a"  "api.user"',
      '       20        20  26.7%  "user_b"  "api.user"',
      '        5         2   6.7%  "user_d"  "api.user"',
    ]);
  });

  it('shows one domain, and as many keys as are asked for', async () => {
    over(0, 'api', 'user_a', 2);
    over(0, 'api', 'user_b', 1);
    over(0, 'mail', 'user_c', 9);
    const { lines } = await page('domain=api&n=1');
    expect(lines[0]).toMatch(/domains: 2, shown: 1$/);
    expect(lines.slice(2).join('\n')).toMatch(/^domain "api".*\n.*\n.*"user_a" .*$/);
  });

  it('shows the ten domains with most hits unless one is named', async () => {
    for (let n = 1; n <= 12; n++) over(0, `d${n}`, 'k', n);
    const domains = (await page()).lines
      .filter((line) => line.startsWith('domain '))
      .map((line) => line.split('"')[1]);
    expect(domains).toEqual(['d12', 'd11', 'd10', 'd9', 'd8', 'd7', 'd6', 'd5', 'd4', 'd3']);
  });

  it('is JSON for programs', async () => {
    over(0, 'api', 'user_alice', 3);
    over(1, 'api', 'user_bob', 1, true);
    clock.ms += 5_000;
    const { contentType, lines } = await page('format=json');
    expect(contentType).toBe('application/json');
    expect(JSON.parse(lines.join('\n'))).toEqual({
      since: '1970-01-01T00:00:00.000Z',
      until: '1970-01-01T00:00:05.000Z',
      domainCount: 1,
      domains: [
        {
          domain: 'api',
          overLimit: 4,
          missed: 0,
          keys: [
            { key: 'user_alice', rule: 'api.user', shadowMode: false, atLeast: 3, atMost: 3, share: 0.75 },
            { key: 'user_bob', rule: 'api.user', shadowMode: true, atLeast: 1, atMost: 1, share: 0.25 },
          ],
        },
      ],
    });
  });

  it('leaves out of a key what all of the domain have in common', async () => {
    threads[0]!.add({ domain: 'api', key: 'prod:api_user_a_', hits: 1, rule: 'api.user', shadowMode: false });
    expect((await page('', 'prod:')).lines.at(-1)).toContain(' "user_a" ');
  });

  it('writes nothing that could act on a terminal', async () => {
    over(0, 'api', 'user_\u001b[2J\n"\u009b\u202e', 1);
    expect((await page()).lines.at(-1)).toContain(String.raw`"user_\u001b[2J\n\"\u009b\u202e"`);
  });

  it('says so when no request of a domain was over limit', async () => {
    over(0, 'api', 'user_a', 2);
    const problem =
      'no key is known to be over limit in the domain "none\\n" since 1970-01-01T00:00:00.000Z; /rlconfig has the domains with rules';
    expect(await page('domain=none%0a')).toMatchObject({ status: 404, lines: [problem] });
    expect(await page('domain=none%0a&format=json')).toEqual({
      status: 404,
      contentType: 'application/json',
      lines: [JSON.stringify({ error: problem })],
    });
    expect((await page('domain=')).status).toBe(404);
  });

  it('says what is wrong with a question', async () => {
    expect(await page('domain=api&limit=3')).toMatchObject({
      status: 400,
      lines: ['there is no parameter "limit": use domain, n and format'],
    });
    for (const query of ['n=0', 'n=-1', 'n=1e3', 'n=100001', 'n=']) {
      expect(await page(query)).toMatchObject({
        status: 400,
        lines: ['n must be a number from 1 to 100000'],
      });
    }
    expect(await page('format=xml')).toMatchObject({ status: 400, lines: ['format must be text or json'] });
    expect(await topPage(new URLSearchParams(), undefined)).toMatchObject({
      status: 404,
      lines: ['/top is off: STATS_TOP_KEYS is 0'],
    });
  });
});
