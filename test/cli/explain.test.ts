import { describe, expect, it } from 'vitest';
import { startLimiter } from '../support/limiter-process.ts';
import { rateLimitConfigTexts } from '../support/rate-limit-config.ts';
import { runWeir } from '../support/weir-command.ts';

const root = new URL('../..', import.meta.url).pathname;
const at = ['--at', '2026-01-31T12:00:30Z'];
const setting = (...settings: string[]) => settings.flatMap((one) => ['--setting', one]);

describe('weir explain', () => {
  it('reports the rule, level by level, the counter and the metric', () => {
    const args = ['explain', 'examples/rules', 'shop', 'path=/search/x', 'plan=gold'];
    expect(runWeir([...args, ...at])).toEqual({
      status: 0,
      stdout: `shop: path=/search/x, plan=gold
├─ level 1, path=/search/x: path=/search* (no limit, examples/rules/shop.yaml:11) is the first pattern that matches
│  ├─ similar: path=/checkout (1000 per hour, examples/rules/shop.yaml:26), another value
│  ├─ not: remote_address (5 per minute, examples/rules/shop.yaml:5), another key
│  └─ not: remote_address=192.0.2.1 (unlimited, examples/rules/shop.yaml:34), another key
├─ level 2, plan=gold: plan=gold (50 per second, examples/rules/shop.yaml:19) has exactly this value
│  └─ passed over: plan (2 per second, examples/rules/shop.yaml:15) has the key and no value: tried last
└─ limit: 50 per second
   ├─ counter key: shop_path_/search*_plan_gold_1769860830
   ├─ window: 2026-01-31T12:00:30Z to 2026-01-31T12:00:31Z
   └─ metric: ratelimit.service.rate_limit.shop.path_/search*.plan_gold
`,
      stderr: '',
    });
  });

  it('says of a descriptor without a rule where it failed, with status 1', () => {
    const { status, stdout } = runWeir(['explain', 'examples/manifests', 'shop', 'path=/a,b']);
    expect(stdout).toContain('shop: path="/a,b"\n');
    expect(stdout).toContain('├─ level 1, path="/a,b": no rule matches (4 rules checked)\n');
    expect(stdout).toContain(
      'no limit: no rule matches at level 1, and the limiter does not go back to a higher level',
    );
    expect(status).toBe(1);
    const unknown = runWeir(['explain', 'examples/rules', 'shops', 'a=b']);
    expect(unknown.stdout).toBe(
      'no rules for the domain \'shops\': every request is OK; did you mean "shop"?\n  there are rules for: mail, shop\n',
    );
    expect(unknown.status).toBe(1);
  });

  it('matches rules with reserve without the entries that reserve and commit', () => {
    const explain = ['explain', 'examples/llm-tokens/rules', ...at, 'llm-tokens'];
    const { stdout: plain } = runWeir([...explain, 'user=ann']);
    expect(plain).toContain('limit: 10000 tokens per hour');
    const { status, stdout } = runWeir([...explain, ...['reservation_id=7f3a', 'user=ann', 'settle=true']]);
    expect({ status, lines: stdout.split('\n').slice(1) }).toEqual({
      status: 0,
      lines: plain.split('\n').slice(1),
    });
  });

  it('keeps colors of rules and requests from the terminal', () => {
    const input = JSON.stringify({
      domain: 'd',
      descriptors: [{ key: 'a\u001b[8m', rate_limit: { unit: 'day', requests_per_unit: 1 } }],
    });
    const { stdout } = runWeir(['explain', '-', 'd', 'a\u001b[8m=\u001b[31m'], { input });
    expect(stdout).toContain('d: a\\u001b[8m=\\u001b[31m\n');
    expect(stdout).not.toContain('\u001b');
  });

  it('says of a missing file only that it is missing', () => {
    expect(runWeir(['explain', 'nowhere.yaml', 'shop', 'a=b'])).toEqual({
      status: 2,
      stdout: '',
      stderr: 'weir: nowhere.yaml: no such file or directory\n',
    });
  });

  it('rejects flags for limiters if it reads files', () => {
    expect(runWeir(['explain', 'examples/rules', 'shop', 'a=b', '--timeout', '1s'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('--timeout has no effect without a limiter'),
    });
  });

  it('takes a bucket of quota clients for the descriptor that it matches', () => {
    const explain = ['explain', 'examples/rules', ...at, 'shop'];
    const { stdout: plain } = runWeir([...explain, 'path=/search/x', 'plan=gold']);
    const { status, stdout } = runWeir([...explain, '--bucket', 'plan=gold,path=/search/x']);
    const words =
      'bucket: its entries are the descriptor path=/search/x, plan=gold; clients get what its limits allow\n';
    expect({ status, stdout }).toEqual({ status: 0, stdout: words + plain });
    const part = runWeir([...explain, '--bucket', 'plan=gold']);
    expect(part.stdout).toContain(
      'bucket: no order of all its entries has a rule with a limit: RLQS_NO_RULE decides',
    );
    expect(part.status).toBe(1);
    const twice = runWeir([...explain, 'plan=gold', '--bucket', 'plan=gold']);
    expect(twice.stderr).toContain('--bucket takes the place of the entries of a descriptor');
  });

  it('knows which limit another descriptor replaces', () => {
    const args = ['explain', 'examples/rules', 'mail', 'tenant=a', '+', 'contract=b'];
    const { status, stdout } = runWeir([
      ...args,
      ...at,
      ...setting('USE_CALENDAR_MONTH_RATE_LIMIT=true', 'CACHE_KEY_PREFIX=p:'),
    ]);
    expect(stdout).toContain("no limit: another descriptor's rule replaces 'per_tenant', 1000 per day");
    expect(stdout).toContain('counter key: p:mail_contract_b_1767225600\n');
    expect(stdout).toContain('window: 2026-01-01T00:00:00Z to 2026-02-01T00:00:00Z\n');
    const named = [
      ...args,
      ...at,
      ...setting('USE_CALENDAR_MONTH_RATE_LIMIT=true', 'COUNTER_KEYS=unambiguous'),
    ];
    expect(runWeir(named).stdout).toContain('counter key: 1{mail;contract=b}month:1767225600\n');
    expect(runWeir([...args, ...setting('COUNTER_KEYS=short')]).stderr).toContain(
      '--setting: COUNTER_KEYS: "short" is not accepted, expected compatible or unambiguous',
    );
    const env = { ...process.env, COUNTER_KEYS: 'unambiguous' };
    expect(runWeir([...args, ...at], { env }).stdout).toContain('counter key: 1{mail;contract=b}');
    expect(runWeir([...args, ...setting('COUNTER_KEY=unambiguous')]).stderr).toContain(
      '--setting takes the settings of a limiter; not "COUNTER_KEY"; did you mean "COUNTER_KEYS"?',
    );
    expect(status).toBe(0);
  });

  const several = `domain: d
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: 100, window: 5m, algorithm: sliding_window, name: all }
  - key: message
    shadow_mode: true
    rate_limits:
      - { requests_per_unit: 5, unit: second, algorithm: token_bucket, burst: 10 }
      - { requests_per_unit: 60, unit: second, unit_multiplier: 30 }
      - { requests_per_unit: 1000, unit: day, name: daily }
  - key: contract
    rate_limit: { requests_per_unit: 9, unit: day, replaces: [{ name: daily }, { name: all }] }
`;
  const explainSeveral = (...descriptors: string[]) =>
    runWeir(['explain', '-', ...at, 'd', ...descriptors.join(' + ').split(' ')], {
      input: several,
    }).stdout.replace(/^(?:├─ level|│).*\n/gm, '');

  it('shows every limit of a rule with its counter, of those that slide and of buckets too', () => {
    expect(explainSeveral('tenant=a', 'message=b')).toBe(`d: tenant=a
└─ limit: 100 in 5m, sliding window (name all)
   ├─ counter key: 1{d;tenant=a}300:sliding
   ├─ window: the last 5m, by the clock of the store
   └─ metric: ratelimit.service.rate_limit.d.tenant
d: message=b
└─ 3 limits: a request over any of them counts against none (shadow mode: never over limit)
   ├─ 5 per second, token bucket, burst 10
   │  ├─ counter key: 1{d;message=b}1:bucket
   │  ├─ bucket: 10 when full, filled at 5 per second, by the clock of the store
   │  └─ metric: ratelimit.service.rate_limit.d.message.1s
   ├─ 60 in 30s
   │  ├─ counter key: 1{d;message=b}30:1769860830
   │  ├─ window: 2026-01-31T12:00:30Z to 2026-01-31T12:01:00Z
   │  └─ metric: ratelimit.service.rate_limit.d.message.30s
   └─ 1000 per day (name daily)
      ├─ counter key: 1{d;message=b}86400:1769817600
      ├─ window: 2026-01-31T00:00:00Z to 2026-02-01T00:00:00Z
      └─ metric: ratelimit.service.rate_limit.d.message.daily
`);
  });

  it('says what limiters lease, of rules without a word of it if the limiter is said to', () => {
    const hour = 'rate_limit: { unit: hour, requests_per_unit: 10000 }';
    const rules = ['', 'lease: 2%,', 'lease: 0,', 'lease: 0.01%,'].map(
      (lease, n) => `- { key: k${n}, ${lease} ${hour} }\n`,
    );
    rules.push(
      '- { key: k4, rate_limit: { unit: hour, requests_per_unit: 10000, algorithm: sliding_window } }\n',
    );
    const explained = (key: string, ...flags: string[]) => {
      const args = ['explain', '-', 'd', `${key}=a`, ...at, ...flags];
      return runWeir(args, { input: `domain: d\ndescriptors:\n${rules.join('')}` });
    };
    const leases = (key: string, ...flags: string[]) =>
      explained(key, ...flags).stdout.match(/leases.*/)?.[0];
    const words = (max: number) =>
      `leases with LEASES=on: up to ${max} hits at a time, so a limiter may report over limit up to ${max} hits too early`;
    expect(leases('k0')).toBeUndefined();
    const half = setting('LEASES=on', 'LEASE_SHARE=0.5%');
    expect(leases('k0', ...half)).toBe(words(50));
    expect(leases('k1')).toBe(words(200));
    expect(leases('k1', ...half)).toBe(words(200));
    expect(leases('k2', ...half)).toBe('leases: none, as set in the rule');
    expect(leases('k3')).toBe('leases: none, because 0.01% of the limit is less than 2 hits');
    expect(leases('k0', ...setting('LEASES=on', 'LEASE_SHARE=0.01%'))).toBe(
      'leases: none, because 0.01% of the limit is less than 2 hits',
    );
    expect(leases('k4')).toBeUndefined();
    expect(leases('k4', ...half)).toBe(
      'leases: none, because only fixed windows without other limits are leased',
    );
    expect(JSON.parse(explained('k1', '-o', 'json').stdout).descriptors).toMatchObject([
      { rule: { lease: '2%' }, limits: [{ maxLease: 200 }] },
    ]);
    const wrong = explained('k0', ...setting('LEASES=on', 'LEASE_SHARE=5'));
    expect(wrong.status).toBe(2);
    expect(wrong.stderr).toContain(
      '--setting: LEASE_SHARE: "5" is not accepted, expected a share of the limit such as 2% or 0.5%',
    );
  });

  it('says which of several limits another descriptor replaces', () => {
    const stdout = explainSeveral('message=b', 'contract=c', 'tenant=a');
    expect(stdout).toContain("   └─ 1000 per day: not applied, another descriptor's rule replaces 'daily'\n");
    expect(stdout).toContain('─ metric: ratelimit.service.rate_limit.d.message.30s\n');
    expect(stdout).not.toContain('d.message.daily');
    expect(stdout).toContain(
      "d: tenant=a\n└─ no limit: another descriptor's rule replaces 'all', 100 in 5m, sliding window\n",
    );
  });

  it('rejects what no limiter with these settings would load', () => {
    const input = several.replace('window: 5m', 'unit: month');
    const args = ['explain', '-', 'd', 'tenant=a', ...at];
    expect(runWeir(args, { input }).stdout).toContain('counter key: 1{d;tenant=a}2592000:sliding\n');
    for (const one of ['USE_CALENDAR_MONTH_RATE_LIMIT=true', 'REDIS_SCRIPTS=never']) {
      const { status, stderr } = runWeir([...args, ...setting(one)], { input });
      expect([one, status, stderr]).toEqual([one, 2, expect.stringContaining('<stdin>:4:')]);
    }
  });

  it('prints every limit as JSON', () => {
    const args = ['explain', '-', 'd', 'message=b', '-o', 'json', ...at];
    const { descriptors } = JSON.parse(runWeir(args, { input: several }).stdout);
    expect(descriptors).toMatchObject([
      {
        effect: 'limited',
        rule: { rateLimits: [{ algorithm: 'token_bucket', burst: 10 }, { unitMultiplier: 30 }, {}] },
        limits: [
          { window: '1s', windowSeconds: 1, requestsPerUnit: 5, algorithm: 'token_bucket', burst: 10 },
          { window: '30s', windowSeconds: 30, counterKey: '1{d;message=b}30:1769860830', replaced: false },
          { name: 'daily', window: '1d', algorithm: 'fixed_window', windowEnd: 1769904000 },
        ],
      },
    ]);
    expect(descriptors[0]).not.toHaveProperty('counterKey');
    expect(descriptors[0].limits[0]).not.toHaveProperty('windowStart');
  });

  it('prints JSON', () => {
    const args = ['explain', 'examples/rules', 'shop', 'remote_address=192.0.2.9'];
    const { stdout } = runWeir([...args, ...at, '--output', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({
      domain: 'shop',
      hasDomain: true,
      descriptors: [
        {
          effect: 'limited',
          rule: { name: 'remote_address', file: 'examples/rules/shop.yaml', line: 5 },
          counterKey: 'shop_remote_address_192.0.2.9_1769860800',
          metric: 'ratelimit.service.rate_limit.shop.remote_address',
          levels: [{ found: { how: 'key' }, near: [{ name: 'remote_address=192.0.2.1' }] }],
        },
      ],
    });
  });

  it('reads the rules of a running limiter, which weir diff compares with its files', async () => {
    const limiter = await startLimiter({
      env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: `${root}examples`, RUNTIME_APPDIRECTORY: 'rules' },
    });
    try {
      const url = `http://127.0.0.1:${limiter.ports.debug}`;
      const { status, stdout } = runWeir([
        ...['explain', `${url}/rlconfig`, 'shop', 'path=/search/x', 'plan=gold'],
        ...at,
      ]);
      expect(stdout).toContain('path_/search* (no limit) is the first pattern that matches');
      expect(stdout).toContain('counter key: shop_path_/search*_plan_gold_1769860830\n');
      expect(status).toBe(0);
      expect(runWeir(['diff', url, 'examples/rules'])).toEqual({
        status: 0,
        stdout: 'no changes\n',
        stderr: '',
      });
      const stats = await (await fetch(`${url}/stats`)).text();
      expect(stats).not.toMatch(/path_\/search\*\.plan_gold\.total_hits: [1-9]/);
      const address = `127.0.0.1:${limiter.ports.debug}`;
      const block = runWeir([
        ...[
          'override',
          'set',
          'shop',
          'remote_address=192.0.2.9',
          '--block',
          '--for',
          '1h',
          '--reason',
          'an attack',
        ],
        ...['--limiter', address],
      ]);
      expect([block.stderr, block.status]).toEqual(['', 0]);
      const reported = runWeir(['explain', address, 'shop', 'remote_address=192.0.2.9']);
      expect(reported.stdout).toMatch(
        /^├─ level 1, .*remote_address \(5 per minute\) has the key and no value\n/m,
      );
      expect(reported.stdout).toMatch(
        /^├─ override: blocked, until 2\S+Z, by .*, for "an attack" \(api .*\)\n└─ blocked: the answer is OVER_LIMIT, nothing is counted\n$/m,
      );
      expect(reported.status).toBe(0);
      const byUrl = runWeir(['explain', url, 'shop', 'remote_address=192.0.2.9']);
      expect(byUrl.stdout).toContain('override: blocked');
      const data = runWeir(['explain', address, 'shop', 'remote_address=192.0.2.9', '-o', 'json']);
      expect(JSON.parse(data.stdout).descriptors).toMatchObject([
        {
          effect: 'limited',
          overrides: [expect.stringContaining('override: blocked')],
          inForce: ['blocked'],
        },
      ]);
      expect(runWeir(['explain', address, 'shop', 'a=b', '--fleet', 'edge'])).toMatchObject({
        status: 2,
        stderr: expect.stringContaining('--fleet has no effect with a limiter, which has loaded its rules'),
      });
      const unreachable = runWeir(['explain', '127.0.0.1:1', 'shop', 'a=b']);
      expect([unreachable.stderr, unreachable.status]).toEqual([
        'weir: 127.0.0.1:1: connection refused\n',
        2,
      ]);
      const wrong = runWeir(['explain', `${url}/stats`, 'd', 'a=b']);
      expect(wrong.stderr).toContain('does not list rules as JSON: only a limiter of Weir does');
      expect(wrong.status).toBe(2);
    } finally {
      await limiter.stop();
    }
  });

  it('asks for the fleet if there are several, and for one holder of a domain', () => {
    const manifest = (name: string, fleet: string, requestsPerUnit: number): string =>
      JSON.stringify({
        apiVersion: 'ratelimit.weir.dev/v1alpha1',
        kind: 'RateLimitConfig',
        metadata: { name },
        spec: {
          fleet,
          domain: 'd',
          descriptors: [{ key: name, rateLimit: { unit: 'day', requestsPerUnit } }],
        },
      });
    const explain = (input: string, ...flags: string[]) =>
      runWeir(['explain', '-', 'd', 'b=x', ...flags], { input });
    const fleets = `${manifest('b', 'one', 5)}\n---\n${manifest('b', 'two', 7)}`;
    expect(explain(fleets)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('several fleets, choose one by --fleet: one, two'),
    });
    expect(explain(fleets, '--fleet', 'two').stdout).toContain('limit: 7 per day');
    const holders = `${manifest('a', 'one', 5)}\n---\n${manifest('b', 'one', 7)}`;
    expect(explain(holders)).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(
        "duplicate domain 'd' in manifest default/b: limiters get only one of them",
      ),
    });
    for (const flag of ['--merge-domain-configs', '--setting=MERGE_DOMAIN_CONFIG=true'])
      expect(explain(holders, flag).stdout).toContain('limit: 7 per day');
  });

  it('takes the manifests of one class, which it asks for if there are several', () => {
    const manifests = rateLimitConfigTexts(
      { name: 'a', domain: 'd', requests: 5 },
      { name: 'b', domain: 'd', className: 'edge', requests: 7 },
    );
    const explain = (...flags: string[]) =>
      runWeir(['explain', '-', 'd', 'key=x', ...flags], { input: manifests });
    expect(explain()).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('several classes, choose one by --class: weir, edge'),
    });
    expect(explain('--class', 'edge').stdout).toContain('limit: 7 per day');
    expect(explain('--class', 'weir').stdout).toContain('limit: 5 per day');
    expect(explain('--class', 'other').stdout).toContain("no rules for the domain 'd'");
  });

  it.each([
    [['explain'], 'explain needs rules before the domain: a file, a folder or host:port of a limiter'],
    [
      ['explain', 'shop', 'k=v'],
      'explain needs rules before the domain: a file, a folder or host:port of a limiter',
    ],
    [['explain', 'a', 'b', 'c'], '"c" is not of the form key=value'],
    [['explain', 'a', 'b', 'c=d', '+'], 'a + separates two descriptors'],
    [['explain', 'a'], 'explain needs a domain'],
    [['explain', 'examples/rules', 'd'], 'explain needs the entries of a descriptor, key=value'],
    [
      ['explain', 'examples/rules', 'd', 'a=b', '--at', 'noon'],
      '--at is a time such as 2026-01-31T12:00:00Z or seconds since 1970, not "noon"',
    ],
    [
      ['explain', 'examples/rules', 'd', 'a=b', '--at', '2026-01-31T12:00:00'],
      '--at "2026-01-31T12:00:00" has no time zone: end it with Z, or with an offset such as +01:00',
    ],
    [
      ['explain', 'examples/rules', 'd', 'a=b', '--at', '999999999999999'],
      '--at "999999999999999" is not from 1970 to 9998: 253370764799 seconds since 1970 at most',
    ],
    [
      ['explain', 'examples/rules', 'd', 'a=b', '--at', '1969-12-31T23:59:59Z'],
      '--at "1969-12-31T23:59:59Z" is not from 1970 to 9998',
    ],
    [['explain', 'nowhere.yaml', 'd', 'a=b'], 'nowhere.yaml: no such file or directory'],
  ])('rejects %j with status 2', (args, message) => {
    const { status, stderr } = runWeir(args);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
  });
});
