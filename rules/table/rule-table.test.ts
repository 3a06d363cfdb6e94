import { describe, expect, it } from 'vitest';
import { limit, type RuleTraits, rule, source } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { ruleFlags } from '../language/tables.ts';
import { defaultNames } from '../match-result.ts';
import { type Entry, type JsonObject, noTraits, type Rule, type RuleSource, Unit } from '../model.ts';
import { rulesFor } from '../review/rule-level.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';
import { NodeFlag, ruleFlag } from './rule-table-format.ts';

function tableOf(...sources: RuleSource[]): RuleTable {
  return new RuleTable(compileRules(sources));
}

function limited(key: string, value = '', traits: Partial<RuleTraits> = {}): Rule {
  return rule({ key, value, rateLimit: limit(), ...traits });
}

/** `k=v z=1` */
function entriesOf(text: string): Entry[] {
  return text.split(' ').map((pair) => {
    const [key = '', value = ''] = pair.split('=');
    return { key, value };
  });
}

describe('the worked examples of the reference', () => {
  const shared = { shareThreshold: true };
  const toMetric = { valueToMetric: true };
  const pair = [limited('k'), limited('k', 'v')];
  const whitelist = [rule({ key: 'k', value: 'v' }), limited('k')];
  const inner = [limited('k', 'v', { descriptors: [limited('s')] })];
  const wildcards = [limited('k', 'v*'), limited('k', 'vv*'), limited('k')];
  const route = rule({
    key: 'route',
    ...toMetric,
    descriptors: [rule({ key: 'method', ...toMetric, descriptors: [limited('id')] })],
  });
  const examples: { rules: Rule[]; request: string; metric?: string; stem?: string }[] = [
    { rules: pair, request: 'k=v', metric: 'd.k_v', stem: 'd_k_v_' },
    { rules: pair, request: 'k=x', metric: 'd.k', stem: 'd_k_x_' },
    { rules: pair, request: 'k=', metric: 'd.k', stem: 'd_k__' },
    { rules: pair, request: 'k=v z=1' },
    { rules: whitelist, request: 'k=v' },
    { rules: whitelist, request: 'k=q', metric: 'd.k', stem: 'd_k_q_' },
    { rules: inner, request: 'k=v', metric: 'd.k_v', stem: 'd_k_v_' },
    { rules: inner, request: 'k=v s=1', metric: 'd.k_v.s', stem: 'd_k_v_s_1_' },
    { rules: inner, request: 'k=v t=1' },
    { rules: wildcards, request: 'k=vvx', metric: 'd.k_v*', stem: 'd_k_vvx_' },
    { rules: wildcards, request: 'k=vv*', metric: 'd.k_vv*', stem: 'd_k_vv*_' },
    { rules: [limited('k', 'w*', toMetric)], request: 'k=w1', metric: 'd.k_w1', stem: 'd_k_w1_' },
    { rules: [limited('k', 'y*', shared)], request: 'k=y1', metric: 'd.k_y*', stem: 'd_k_y*_' },
    {
      rules: [limited('k', 'y*', { ...shared, ...toMetric })],
      request: 'k=y1',
      metric: 'd.k_y',
      stem: 'd_k_y*_',
    },
    { rules: [limited('k', '', { detailedMetric: true })], request: 'k=v', metric: 'd.k_v', stem: 'd_k_v_' },
    { rules: [limited('k', '', { detailedMetric: true })], request: 'k=', metric: 'd.k_', stem: 'd_k__' },
    {
      rules: [rule({ key: 'a', value: 'p*', ...shared, descriptors: [limited('b')] })],
      request: 'a=p1 b=2',
      metric: 'd.a_p*.b',
      stem: 'd_a_p*_b_2_',
    },
    {
      rules: [
        rule({ key: 'a', value: 'p*', ...shared, descriptors: [limited('c', '', { detailedMetric: true })] }),
      ],
      request: 'a=p1 c=2',
      metric: 'd.a_p.c_2',
      stem: 'd_a_p*_c_2_',
    },
    {
      rules: [route],
      request: 'route=api method=GET id=7',
      metric: 'd.route_api.method_GET.id',
      stem: 'd_route_api_method_GET_id_7_',
    },
  ];
  for (const [i, { rules, request, metric, stem }] of examples.entries()) {
    it(`row ${i + 1}: ${request} gives ${metric ?? 'no limit'}`, () => {
      const match = tableOf(source('d', rules)).match('d', entriesOf(request));
      expect(match?.metricKey).toBe(metric);
      expect(match?.counterStem).toBe(stem);
    });
  }
});

describe('RuleTable.match', () => {
  it('has no limit for zero entries and for an unknown domain', () => {
    const table = tableOf(source('d', [limited('k')]));
    expect(table.match('d', [])).toBeUndefined();
    expect(table.match('e', entriesOf('k=v'))).toBeUndefined();
  });

  it('takes the first hit without going back to a less specific rule', () => {
    const table = tableOf(
      source('d', [
        rule({ key: 'k', value: 'v', descriptors: [limited('s')] }),
        rule({ key: 'k', descriptors: [limited('t')] }),
      ]),
    );
    expect(table.match('d', entriesOf('k=v t=1'))).toBeUndefined();
    expect(table.match('d', entriesOf('k=w t=1'))?.metricKey).toBe('d.k.t');
  });

  it('reads key and value as one text', () => {
    const table = tableOf(source('d', [limited('a', 'b_c')]));
    expect(table.match('d', entriesOf('a_b=c'))?.metricKey).toBe('d.a_b_c');
    expect(table.match('d', entriesOf('a_b_c=x'))?.metricKey).toBe('d.a_b_c');
    expect(table.match('d', entriesOf('a=b'))).toBeUndefined();
  });

  it('matches a star in the key, with the whole composite as pattern', () => {
    const table = tableOf(source('d', [limited('k*', 'v', { shareThreshold: true })]));
    const match = table.match('d', entriesOf('k1=v'));
    expect(match?.metricKey).toBe('d.k1_k*_v');
    expect(match?.counterStem).toBe('d_k1_k*_v_');
  });

  it('matches key k_a by the pattern of key k and value *', () => {
    const match = tableOf(source('d', [limited('k', '*', { shareThreshold: true })])).match(
      'd',
      entriesOf('k_a=1'),
    );
    expect(match?.metricKey).toBe('d.k_a_k_*');
    expect(match?.counterStem).toBe('d_k_a_k_*_');
  });

  it('writes the key alone if share_threshold leaves nothing before the star', () => {
    const traits = { shareThreshold: true, valueToMetric: true };
    expect(tableOf(source('d', [limited('k', '*', traits)])).match('d', entriesOf('k=1'))?.metricKey).toBe(
      'd.k',
    );
  });

  it('writes the whole of the pattern if its only star is in the key of the request too', () => {
    const traits = { shareThreshold: true, valueToMetric: true };
    const match = tableOf(source('d', [limited('*', '_', traits)])).match('d', [{ key: '*', value: '__' }]);
    expect([match?.metricKey, match?.counterStem]).toEqual(['d.*__', 'd_*___']);
  });

  it('writes no dots of keys, values and patterns into the metric key if none are wanted', () => {
    const table = tableOf(
      source('d.e', [
        rule({ key: 'a.b', value: 'c.d', descriptors: [limited('f.g', '', { detailedMetric: true })] }),
        limited('h.i', 'j.*', { valueToMetric: true }),
        limited('k.l', 'm.*'),
      ]),
    );
    const keys = (undotted: boolean): (string | undefined)[] =>
      ['a.b=c.d f.g=1.2', 'h.i=j.1', 'k.l=m.1'].map(
        (request) =>
          table.match('d.e', entriesOf(request), { ...defaultNames, sanitizeDescriptorMetricDots: undotted })
            ?.metricKey,
      );
    expect(keys(false)).toEqual(['d.e.a.b_c.d.f.g_1.2', 'd.e.h.i_j.1', 'd.e.k.l_m.*']);
    expect(keys(true)).toEqual(['d.e.a_b_c_d.f_g_1_2', 'd.e.h_i_j_1', 'd.e.k_l_m_*']);
    expect(
      table.match('d.e', entriesOf('h.i=j.1'), { ...defaultNames, sanitizeDescriptorMetricDots: true })
        ?.counterStem,
    ).toBe('d.e_h.i_j.1_');
  });

  it.each<[request: string, rules: Rule, perValue: boolean]>([
    ['k=v', limited('k'), false],
    ['k=v', limited('k', 'v', { detailedMetric: true }), false],
    ['k=v', limited('k', '', { detailedMetric: true }), true],
    ['k=v', limited('k', '', { valueToMetric: true }), true],
    ['k=v1', limited('k', 'v*'), false],
    ['k=v1', limited('k', 'v*', { valueToMetric: true }), true],
    ['k=v1', limited('k', 'v*', { valueToMetric: true, shareThreshold: true }), false],
    ['k_a=1', limited('k', '*'), true],
    ['k_a=1', limited('k', '*', { valueToMetric: true, shareThreshold: true }), true],
  ])('says whether the metric key of %s has text of the request in it', (request, only, perValue) => {
    expect(tableOf(source('d', [only])).match('d', entriesOf(request))?.metricPerValue).toBe(perValue);
  });

  it('treats names of object prototypes as plain text', () => {
    const table = tableOf(source('__proto__', [limited('constructor', 'toString')]));
    expect(table.match('__proto__', entriesOf('constructor=toString'))?.metricKey).toBe(
      '__proto__.constructor_toString',
    );
    for (const name of ['constructor', 'toString', 'hasOwnProperty']) {
      expect(table.hasDomain(name)).toBe(false);
      expect(table.match('__proto__', [{ key: name, value: '' }])).toBeUndefined();
    }
  });

  it('keeps lone surrogates apart', () => {
    const table = tableOf(
      source('d', [limited('k', '\ud83d'), limited('k', '\ude00*', { shareThreshold: true })]),
    );
    expect(table.match('d', [{ key: 'k', value: '\ud83d' }])?.metricKey).toBe('d.k_\ud83d');
    expect(table.match('d', [{ key: 'k', value: '\ude00x' }])?.counterStem).toBe('d_k_\ude00*_');
    expect(table.match('d', [{ key: 'k', value: '\ufffd' }])).toBeUndefined();
  });

  it('has no limit for more entries than the deepest rule has levels', () => {
    const table = tableOf(source('d', [limited('k')]));
    expect(table.match('d', new Array(10_000).fill({ key: 'k', value: 'v' }))).toBeUndefined();
  });
});

describe('the matched rule', () => {
  it('has a bit of its own for each boolean, within 31 bits', () => {
    const bits = [NodeFlag.limits, NodeFlag.ownKeys, ...ruleFlags.map(ruleFlag)];
    expect(bits.reduce((all, bit) => all | bit)).toBe(bits.reduce((sum, bit) => sum + bit));
    expect(Math.min(...bits)).toBeGreaterThan(0);
  });

  const metadata: JsonObject = JSON.parse('{"__proto__":{"a":[1,null,true,"\\ud83d"]},"n":-0.5}');
  const traits: { name: string; given: Rule; expected: object }[] = [
    {
      name: 'a limit with all traits',
      given: limited('k', '', {
        rateLimit: limit({ unit: 'Week', requestsPerUnit: 4294967295, name: 'n', replaces: ['a', 'ä'] }),
        shadowMode: true,
        quotaMode: true,
        hideIdentity: true,
        metadata,
      }),
      expected: {
        ...noTraits,
        limits: [limit({ unit: Unit.WEEK, requestsPerUnit: 4294967295, name: 'n', replaces: ['a', 'ä'] })],
        unlimited: false,
        shadowMode: true,
        quotaMode: true,
        replaces: ['a', 'ä'],
        metadata,
        hideIdentity: true,
        domain: 'd',
        path: 'd.k',
        order: expect.any(Number),
      },
    },
    {
      name: 'an unlimited one',
      given: limited('k', '', { rateLimit: limit({ unit: '', requestsPerUnit: 7, unlimited: true }) }),
      expected: {
        ...noTraits,
        limits: [],
        unlimited: true,
        replaces: [],
        domain: 'd',
        path: 'd.k',
        order: expect.any(Number),
      },
    },
    {
      name: 'metadata beside detailed_metric and value_to_metric',
      given: limited('k', '', { metadata: {}, detailedMetric: true, valueToMetric: true }),
      expected: expect.objectContaining({ metadata: {}, limits: [limit()] }),
    },
  ];
  for (const { name, given, expected } of traits) {
    it(`is ${name}`, () => {
      expect(tableOf(source('d', [given])).match('d', entriesOf('k=v'))?.rule).toEqual(expected);
    });
  }

  it.each([
    ['a multiplied window', { rateLimit: limit({ unitMultiplier: 5 }) }],
    ['another algorithm', { rateLimit: limit({ algorithm: Algorithm.SLIDING_WINDOW }) }],
    ['several limits', { limits: [limit(), limit({ unit: 'day' })] }],
  ])('counts with unambiguous keys whatever the others have, with %s', (_, traits) => {
    const table = tableOf(source('d', [limited('k', 'a*', { shareThreshold: true, ...traits })]));
    const stems = (['compatible', 'unambiguous'] as const).map((counterKeys) => {
      return table.match('d', entriesOf('k=ab'), { ...defaultNames, counterKeys })?.counterStem;
    });
    expect(stems).toEqual(['1{d;k~=a*}', '1{d;k~=a*}']);
  });

  it('orders the rules of a level as they are declared, whatever their names', () => {
    const backends = (...values: string[]) =>
      values.map((value) => rule({ key: 'backend', value, rateLimit: limit() }));
    const whole = tableOf(source('d', [...backends('z', 'm'), ...backends('a')]));
    const layered = RuleTable.with(whole, {
      bytes: compileRules([source('d', backends('q', 'b', 'y'))]),
      domains: ['d'],
    });
    const ordered = (table: RuleTable, ...values: string[]) =>
      values
        .map((value) => table.match('d', [{ key: 'backend', value }])!.rule)
        .sort((one, other) => one.order - other.order)
        .map(({ path }) => path.at(-1));
    expect(ordered(whole, 'a', 'm', 'z')).toEqual(['z', 'm', 'a']);
    expect(ordered(layered, 'b', 'q', 'y')).toEqual(['q', 'b', 'y']);
  });

  it('is one object however often it matches', () => {
    const table = tableOf(source('d', [limited('k')]));
    expect(table.match('d', entriesOf('k=1'))?.rule).toBe(table.match('d', entriesOf('k=2'))?.rule);
  });
});

describe('several sources', () => {
  const first = source('d', [limited('k', 'ab*')], '1.yaml');
  const other = source('e', [limited('k')], '2.yaml');
  const second = source('d', [limited('k', 'a*'), limited('m')], '3.yaml');

  it('add up their rules by domain, wildcards in the order of the files', () => {
    const table = tableOf(first, other, second);
    expect(table.match('d', entriesOf('k=abc'))?.metricKey).toBe('d.k_ab*');
    expect(tableOf(second, other, first).match('d', entriesOf('k=abc'))?.metricKey).toBe('d.k_a*');
    expect(table.match('d', entriesOf('m=1'))?.metricKey).toBe('d.m');
    expect([table.domainCount, table.ruleCount]).toEqual([2, 4]);
    expect(['d', 'e', 'f'].map((domain) => table.hasDomain(domain))).toEqual([true, true, false]);
  });

  it('count as domains without rules, too', () => {
    const table = tableOf(source('z', []), source('', []));
    expect([table.domainCount, table.ruleCount]).toEqual([2, 0]);
    expect(['', 'z', 'd'].map((domain) => table.hasDomain(domain))).toEqual([true, true, false]);
    expect(table.match('z', entriesOf('k=v'))).toBeUndefined();
  });

  it('may be none at all', () => {
    const table = tableOf();
    expect([table.domainCount, table.hasDomain(''), [...table.rlconfigLines()]]).toEqual([0, false, []]);
  });
});

describe('RuleTable.rlconfigLines', () => {
  it('lists limits sorted, parents before children', () => {
    const table = tableOf(
      source('e', [limited('z', 'y*', { shadowMode: true })]),
      source('d', [
        limited('k', 'v', { descriptors: [rule({ key: 's', descriptors: [limited('t')] }), limited('b')] }),
        limited('a', '', {
          rateLimit: limit({ unlimited: true, requestsPerUnit: 3, unit: '' }),
          quotaMode: true,
        }),
      ]),
    );
    expect([...table.rlconfigLines()]).toEqual([
      'd.a: unit=UNKNOWN requests_per_unit=3, shadow_mode: false, quota_mode: true',
      'd.k_v: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false',
      'd.k_v.b: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false',
      'd.k_v.s.t: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false',
      'e.z_y*: unit=MINUTE requests_per_unit=10, shadow_mode: true, quota_mode: false',
    ]);
  });

  it('writes windows as people do, a line for each limit of a rule', () => {
    const limits = [
      limit({ unit: 'second', algorithm: Algorithm.TOKEN_BUCKET, burst: 20 }),
      limit({ unitMultiplier: 5, algorithm: Algorithm.SLIDING_WINDOW }),
      limit({ unit: 'day', name: 'daily' }),
    ];
    const named = rule({ key: 'one', rateLimit: limit({ name: 'unsaid' }) });
    const table = tableOf(source('d', [rule({ key: 'k', limits, shadowMode: true }), named]));
    const modes = 'shadow_mode: true, quota_mode: false';
    expect([...table.rlconfigLines()]).toEqual([
      `d.k: unit=SECOND requests_per_unit=10 algorithm=token_bucket burst=20, ${modes}`,
      `d.k: window=5m requests_per_unit=10 algorithm=sliding_window, ${modes}`,
      `d.k: unit=DAY requests_per_unit=10 name=daily, ${modes}`,
      'd.one: unit=MINUTE requests_per_unit=10, shadow_mode: false, quota_mode: false',
    ]);
  });

  it('writes what rules say for budgets', () => {
    const calendar = { unit: 'month', timezone: 'Europe/Zurich', startsOn: 15 } as const;
    const budget = limit({ unit: 'month', calendar, requestsPerUnit: 2 ** 53 - 1 });
    const rateLimit = { ...budget, hitsUnit: 'tokens' as const, warnAt: [50, 80] };
    const reserve = { ttlSeconds: 60, estimate: 2000, onExpiry: 'charge' as const };
    const table = tableOf(source('d', [rule({ key: 'k', rateLimit, reserve })]));
    expect([...table.rlconfigLines()]).toEqual([
      'd.k: calendar=month@Europe/Zurich@15 requests_per_unit=9007199254740991 hits_unit=tokens warn_at=50,80 algorithm=fixed_window, shadow_mode: false, quota_mode: false, reserve: ttl=60s estimate=2000 on_expiry=charge',
    ]);
  });

  it('goes through rules nested thousands of levels deep', () => {
    let deep = limited('leaf');
    for (let i = 0; i < 5_000; i++) deep = rule({ key: 'k', descriptors: [deep] });
    const lines = [...tableOf(source('d', [deep])).rlconfigLines()];
    expect(lines).toHaveLength(1);
    expect(lines[0]).toMatch(/^d(\.k){5000}\.leaf: unit=MINUTE/);
  });
});

describe('rulesAlong', () => {
  const many = Array.from({ length: 3_000 }, (_, n) =>
    rule({ key: 'tenant', value: `t${n}`, rateLimit: limit({ requestsPerUnit: n + 1 }) }),
  );
  const odd = [
    rule({ key: 'tenant', value: 't1*', rateLimit: limit({ requestsPerUnit: 100_000 }) }),
    rule({
      key: 'tenant',
      rateLimit: limit({ requestsPerUnit: 200_000 }),
      descriptors: [rule({ key: 'below' })],
    }),
  ];
  const table = new RuleTable(compileRules([source('d', [...many.slice(0, 9), ...odd, ...many.slice(9)])]));

  it.each(['t5', 't2999', 't1x', 't1', 'zzz', '', 't0', '\uffff'])(
    'has the rule that tenant=%j finds among thousands, and few others',
    (value) => {
      const entries = [{ key: 'tenant', value }];
      const { rules, sizes } = table.rulesAlong('d', entries)!;
      expect(sizes).toEqual([3_002]);
      expect(rules.length).toBeLessThan(15);
      const [found] = rulesFor(rules, entries[0]!);
      expect(found?.rule.limits[0]?.requestsPerUnit).toBe(
        table.match('d', entries)?.rule.limits[0]?.requestsPerUnit,
      );
    },
  );

  /** Of composites in the order of their declaration: the found one, and the five on each side of the text in the alphabet. */
  function near(composites: readonly string[], text: string, found: string | undefined): string[] {
    const sorted = composites.toSorted((a, b) => (a < b ? -1 : 1));
    const at = sorted.findIndex((one) => one >= text);
    const from = at < 0 ? sorted.length : at;
    const chosen = new Set([found, ...sorted.slice(Math.max(0, from - 5), from + 5)]);
    return composites.filter((one) => chosen.has(one));
  }

  it.each([
    ['t1x', 'tenant_t1*'],
    ['zzz', 'tenant'],
    ['', 'tenant'],
    ['\uffff', 'tenant'],
  ])('has of thousands those beside tenant=%j in the alphabet, on each level', (value, found) => {
    const composites = [...many.slice(0, 9), ...odd, ...many.slice(9)].map((one) =>
      one.value === '' ? one.key : `${one.key}_${one.value}`,
    );
    const deep = odd.map((one) => ({ ...one, descriptors: [...many, rule({ key: 'other' })] }));
    const nested = new RuleTable(
      compileRules([source('d', [...many.slice(0, 9), ...deep, ...many.slice(9)])]),
    );
    const keys = (rules: readonly Rule[]) => rules.map(({ key }) => key);
    const { rules } = nested.rulesAlong('d', [
      { key: 'tenant', value },
      { key: 'tenant', value: 't7' },
    ])!;
    expect(keys(rules)).toEqual(near(composites, `tenant_${value}`, found));
    const below = rules.filter(({ key }) => key === 'tenant' || key === 'tenant_t1*');
    const all = [...many.map((one) => `tenant_${one.value}`), 'other'];
    for (const { descriptors } of below)
      expect(keys(descriptors)).toEqual(near(all, 'tenant_t7', 'tenant_t7'));
    expect(below.length).toBeGreaterThan(0);
    // Without an entry there is no place in the alphabet.
    expect(keys(nested.rulesAlong('d', [])!.rules)).toEqual(['tenant_t0']);
  });

  it('continues below that rule, and ends if no rule is', () => {
    const { rules, sizes } = table.rulesAlong('d', [
      { key: 'tenant', value: 'zzz' },
      { key: 'below', value: '' },
      { key: 'more', value: '' },
    ])!;
    expect(sizes).toEqual([3_002, 1]);
    expect(rules.find(({ key }) => key === 'tenant')?.descriptors.map(({ key }) => key)).toEqual(['below']);
    expect(table.rulesAlong('e', [])).toBeUndefined();
  });
});
