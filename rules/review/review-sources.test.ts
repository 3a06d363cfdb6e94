import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { caseCount } from '../../test/support/property-cases.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { Algorithm } from '../algorithms/registry.ts';
import { compositeOf, type Rule } from '../model.ts';
import { compileRules } from '../table/compile-rules.ts';
import { RuleTable } from '../table/rule-table.ts';
import { idleRules, reviewSources } from './review-sources.ts';

const bucket = (requestsPerUnit: number, burst: number) =>
  limit({ requestsPerUnit, burst, algorithm: Algorithm.TOKEN_BUCKET });

function review(...rules: Rule[]): string[] {
  return reviewSources([source('d', rules)]).map(
    ({ code, path, text }) => `${code} ${path.join('.')}: ${text}`,
  );
}

const terms = { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' as const };

describe('a review', () => {
  it('has nothing to say about rules that are well', () => {
    const named = limit({ name: 'n' });
    expect(
      review(
        rule({ key: 'address', rateLimit: named }),
        rule({ key: 'contract', rateLimit: limit({ replaces: ['n'] }) }),
        rule({ key: 'address', value: '192.0.2.1', rateLimit: limit({ unit: '', unlimited: true }) }),
        rule({ key: 'path', descriptors: [rule({ key: 'plan', rateLimit: limit() })] }),
      ),
    ).toEqual([]);
  });

  it.each([
    [
      'a rule without value behind a pattern for all',
      [rule({ key: 'k', rateLimit: limit() }), rule({ key: 'k', value: '*', rateLimit: limit() })],
      [
        "never-matches descriptors.0.key: no entry with the key 'k' matches this rule: 'k_*' matches all of its values",
      ],
    ],
    [
      'a pattern within an earlier one, below another rule',
      [
        rule({
          key: 'top',
          descriptors: [
            rule({ key: 'k', value: 'a*', rateLimit: limit() }),
            rule({ key: 'k', value: 'ab*', rateLimit: limit() }),
          ],
        }),
      ],
      [
        "shadowed-wildcard descriptors.0.descriptors.1.value: 'k_ab*' never takes effect: 'k_a*' comes before it and matches all its values",
      ],
    ],
    [
      'a rule that changes nothing',
      [rule({ key: 'k', value: 'v' }), rule({ key: 'other', rateLimit: limit() })],
      [
        'no-effect descriptors.0.key: the rule has no limit, no rules below it, and takes no requests from other rules: it has no effect',
      ],
    ],
    [
      'a rule that lets through what another one limits',
      [rule({ key: 'k', value: 'v' }), rule({ key: 'k', rateLimit: limit() })],
      [],
    ],
    [
      'names that nobody has, or only an unlimited rule',
      [
        rule({ key: 'a', rateLimit: limit({ replaces: ['nobody', 'free'] }) }),
        rule({ key: 'b', rateLimit: limit({ name: 'free', unit: '', unlimited: true }) }),
      ],
      [
        "replaces-nothing descriptors.0.rate_limit.replaces.0.name: replaces 'nobody', and no limit in the domain 'd' has that name",
        "replaces-unlimited descriptors.0.rate_limit.replaces.1.name: replaces 'free', which is unlimited, so there is no limit to replace",
      ],
    ],
    [
      'limits that replace each other, whichever stands first',
      [
        rule({ key: 'a', rateLimit: limit({ name: 'a', replaces: ['b'] }) }),
        rule({ key: 'b', rateLimit: limit({ name: 'b', replaces: ['a'] }) }),
        rule({ key: 'c', rateLimit: limit({ name: 'c', replaces: ['a'] }) }),
      ],
      [
        "replaces-each-other descriptors.0.rate_limit.replaces.0.name: replaces 'b', which replaces it: neither limits a request that matches both",
        "replaces-each-other descriptors.1.rate_limit.replaces.0.name: replaces 'a', which replaces it: neither limits a request that matches both",
      ],
    ],
    [
      'limits that replace each other in a ring, once',
      [
        rule({ key: 'a', rateLimit: limit({ name: 'a', replaces: ['b'] }) }),
        rule({ key: 'b', rateLimit: limit({ name: 'b', replaces: ['c'] }) }),
        rule({ key: 'c', rateLimit: limit({ name: 'c', replaces: ['a'] }) }),
        rule({ key: 'd', rateLimit: limit({ name: 'd', replaces: ['a'] }) }),
      ],
      [
        "replaces-each-other descriptors.0.rate_limit.replaces.0.name: replaces 'b', which replaces it through 'c': none of them limits a request that matches all",
      ],
    ],
    [
      'the first of many limits that replace each other in a ring',
      Array.from({ length: 9 }, (_, n) =>
        rule({ key: `k${n}`, rateLimit: limit({ name: `${n}`, replaces: [`${(n + 1) % 9}`] }) }),
      ),
      [
        "replaces-each-other descriptors.0.rate_limit.replaces.0.name: replaces '1', which replaces it through '2', '3', '4', '5', 3 more: none of them limits a request that matches all",
      ],
    ],
    [
      'limits of 0, also in shadow mode',
      [
        rule({ key: 'a', rateLimit: limit({ requestsPerUnit: 0 }) }),
        rule({ key: 'b', rateLimit: limit({ requestsPerUnit: 0 }), shadowMode: true }),
      ],
      [
        'limit-of-zero descriptors.0.rate_limit.requests_per_unit: a limit of 0 makes every request over limit',
        'limit-of-zero descriptors.1.rate_limit.requests_per_unit: a limit of 0 reports every request as over limit',
      ],
    ],
    [
      'bursts of 0, where the limit is none of 0',
      [
        rule({ key: 'a', rateLimit: bucket(5, 0) }),
        rule({ key: 'b', limits: [limit(), bucket(5, 0)], shadowMode: true }),
        rule({ key: 'c', rateLimit: bucket(0, 0) }),
        rule({ key: 'd', rateLimit: bucket(5, 1) }),
        rule({ key: 'e', rateLimit: bucket(0, 7) }),
      ],
      [
        'burst-of-zero descriptors.0.rate_limit.burst: a burst of 0 makes every request over limit',
        'burst-of-zero descriptors.1.rate_limits.1.burst: a burst of 0 reports every request as over limit',
        'limit-of-zero descriptors.2.rate_limit.requests_per_unit: a limit of 0 makes every request over limit',
        'burst-of-zero descriptors.4.rate_limit.burst: a burst of 7 at 0 requests_per_unit makes every request over limit',
      ],
    ],
    [
      'rules that share the statistics of a limit above them',
      [
        rule({
          key: 'a',
          limits: [limit({ name: 'n' }), limit({ unit: 'hour', requestsPerUnit: 20 })],
          descriptors: ['n', '1h', 'm', 'below'].map((key) =>
            rule(
              key === 'below'
                ? { key, descriptors: [rule({ key: 'n', rateLimit: limit() })] }
                : { key, rateLimit: limit() },
            ),
          ),
        }),
      ],
      [
        "shared-metric descriptors.0.descriptors.0.key: 'n' has the statistics of the limit of that name in the rule above it",
        "shared-metric descriptors.0.descriptors.1.key: '1h' has the statistics of the limit of that name in the rule above it",
      ],
    ],
    [
      'a shared pattern that goes on behind its star',
      [
        rule({ key: 'k', value: 'a*', shareThreshold: true, rateLimit: limit() }),
        rule({ key: 'k', value: 'b*c', shareThreshold: true, rateLimit: limit() }),
        rule({ key: 'k', value: 'd*e', rateLimit: limit() }),
      ],
      [
        "inner-shared-wildcard descriptors.1.share_threshold: share_threshold is set, but 'b*c' does not end in '*': all matching values share one counter",
      ],
    ],
    [
      'leases of less than 2 hits',
      [
        rule({ key: 'a', rateLimit: limit({ requestsPerUnit: 399 }), lease: 5_000 }),
        rule({ key: 'b', rateLimit: limit({ requestsPerUnit: 400 }), lease: 5_000 }),
        rule({ key: 'c', rateLimit: limit({ requestsPerUnit: 399 }) }),
        rule({ key: 'd', rateLimit: limit({ requestsPerUnit: 399 }), lease: 0 }),
      ],
      [
        "never-leased descriptors.0.lease: a lease of 0.5% of '399 per minute' is less than 2 hits, so it is not leased",
      ],
    ],
    [
      'reservations that can never be, or lease',
      [
        rule({ key: 'a', rateLimit: limit({ requestsPerUnit: 100 }), reserve: { ...terms, estimate: 101 } }),
        rule({ key: 'b', rateLimit: limit({ requestsPerUnit: 100 }), reserve: { ...terms, estimate: 100 } }),
        rule({ key: 'c', rateLimit: limit({ requestsPerUnit: 0 }), reserve: { ...terms, estimate: 1 } }),
        rule({
          key: 'd',
          rateLimit: limit({ requestsPerUnit: 1 }),
          reserve: { ...terms, estimate: 2 },
          shadowMode: true,
        }),
        rule({ key: 'e', rateLimit: limit({ requestsPerUnit: 1000 }), reserve: terms, lease: 20_000 }),
      ],
      [
        'limit-of-zero descriptors.2.rate_limit.requests_per_unit: a limit of 0 makes every request over limit',
        'never-leased descriptors.4.lease: a lease of 2% beside reserve: limits with reservations are not leased',
        "large-estimate descriptors.0.reserve.estimate: an estimate of 101 never fits '100 per minute': a request without an amount is always rejected",
      ],
    ],
    [
      'limits that count different things, and one request can charge: within a rule, and once in a domain',
      [
        rule({
          key: 'a',
          limits: [limit(), limit({ unit: 'hour', requestsPerUnit: 500, hitsUnit: 'tokens' })],
        }),
        rule({ key: 'b', limits: [limit({ hitsUnit: 'tokens' })] }),
        rule({ key: 'c', descriptors: [rule({ key: 'd', limits: [limit({ hitsUnit: 'bytes' })] })] }),
        rule({ key: 'e', limits: [limit({ hitsUnit: 'micro-dollars' })] }),
        rule({ key: 'f', limits: [limit({ hitsUnit: 'requests' })] }),
      ],
      [
        'mixed-hits-units descriptors.0.rate_limits.1: counts tokens beside a limit that counts requests: a request charges the same number to both',
        "mixed-hits-units descriptors.2.descriptors.0.rate_limit: counts bytes, and 'a' counts tokens: a request with descriptors for both adds the same number to both",
      ],
    ],
    [
      'limits that another one of their rule always keeps, once where two keep each other',
      [
        rule({
          key: 'a',
          limits: [limit({ requestsPerUnit: 6000, unit: 'hour' }), limit({ requestsPerUnit: 100 })],
        }),
        rule({
          key: 'b',
          limits: [limit({ requestsPerUnit: 5999, unit: 'hour' }), limit({ requestsPerUnit: 100 })],
        }),
        rule({ key: 'c', limits: [limit(), limit({ unit: 'hour', requestsPerUnit: 10 })] }),
        rule({
          key: 'd',
          limits: [limit({ requestsPerUnit: 0 }), limit({ unit: 'hour', requestsPerUnit: 0 })],
        }),
      ],
      [
        "never-tighter descriptors.0.rate_limits.0: '6000 per hour' never limits anything: what '100 per minute' beside it allows is always within it",
        "never-tighter descriptors.2.rate_limits.0: '10 per minute' never limits anything: what '10 per hour' beside it allows is always within it",
        'limit-of-zero descriptors.3.rate_limits.0.requests_per_unit: a limit of 0 makes every request over limit',
        'limit-of-zero descriptors.3.rate_limits.1.requests_per_unit: a limit of 0 makes every request over limit',
      ],
    ],
    [
      'what any of several limits replaces',
      [
        rule({ key: 'a', limits: [limit(), limit({ unit: 'day', name: 'a', replaces: ['b', 'nobody'] })] }),
        rule({ key: 'b', rateLimit: limit({ name: 'b', replaces: ['a'] }) }),
      ],
      [
        "never-tighter descriptors.0.rate_limits.0: '10 per minute' never limits anything: what '10 per day' beside it allows is always within it",
        "replaces-each-other descriptors.0.rate_limits.1.replaces.0.name: replaces 'b', which replaces it: neither limits a request that matches both",
        "replaces-nothing descriptors.0.rate_limits.1.replaces.1.name: replaces 'nobody', and no limit in the domain 'd' has that name",
        "replaces-each-other descriptors.1.rate_limit.replaces.0.name: replaces 'a', which replaces it: neither limits a request that matches both",
      ],
    ],
    [
      'dots, but for those in addresses and in rules that are not counted',
      [
        rule({ key: 'a.b', rateLimit: limit() }),
        rule({ key: 'host', value: 'a.example.org', descriptors: [rule({ key: 'p', rateLimit: limit() })] }),
        rule({ key: 'address', value: '10.0.0.1', rateLimit: limit() }),
        rule({ key: 'free', value: 'x.y', rateLimit: limit({ unit: '', unlimited: true }) }),
        rule({ key: 'one', rateLimit: limit({ name: 'v1.0' }) }),
        rule({ key: 'two', limits: [limit({ name: 'v1.0' }), limit({ unit: 'hour', requestsPerUnit: 20 })] }),
      ],
      [
        "dotted-metric descriptors.0.key: 'a.b' has dots: its statistics in 'd' get 1 more level of names",
        "dotted-metric descriptors.1.value: 'a.example.org' has dots: its statistics in 'd' get 2 more levels of names",
        "dotted-metric descriptors.5.rate_limits.0.name: 'v1.0' has dots: its statistics in 'd' get 1 more level of names",
      ],
    ],
  ])('finds %s', (_, rules, expected) => {
    expect(review(...rules)).toEqual(expected);
  });

  it('looks at sources of one domain together, and knows the names in others beside them', () => {
    const wide = source('d', [rule({ key: 'k', value: '*', rateLimit: limit() })], 'a');
    const late = source('d', [rule({ key: 'k', rateLimit: limit({ replaces: ['n'] }) })], 'b');
    expect(reviewSources([wide, late])).toMatchObject([
      { code: 'never-matches', source: 1, other: { source: 0, path: ['descriptors', 0] } },
      { code: 'replaces-nothing', source: 1 },
    ]);
    const beside = source('d', [rule({ key: 'x', rateLimit: limit({ name: 'n' }) })], 'c');
    expect(reviewSources([late], [beside, wide])).toEqual([]);
  });
});

describe('rules that change nothing', () => {
  const piece = fc.constantFrom('a', 'b', '_', '*', '');
  const text = fc.array(piece, { minLength: 1, maxLength: 3 }).map((pieces) => pieces.join(''));
  const some = fc.uniqueArray(
    fc.record({ key: text, value: fc.oneof(fc.constant(''), text), isLimited: fc.boolean() }),
    { minLength: 1, maxLength: 6, selector: compositeOf },
  );
  const entry = fc.record({
    key: fc.array(fc.constantFrom('a', 'b', '_'), { maxLength: 3 }).map((list) => list.join('')),
    value: fc.array(fc.constantFrom('a', 'b', '_', 'x'), { maxLength: 3 }).map((list) => list.join('')),
  });

  it('can be left out without any answer changing', () => {
    let idle = 0;
    fc.assert(
      fc.property(some, fc.array(entry, { minLength: 30, maxLength: 40 }), (written, requests) => {
        const rules = written
          .filter(({ key }) => key !== '')
          .map(({ key, value, isLimited }, index) =>
            rule({ key, value, rateLimit: isLimited ? limit({ name: `n${index}` }) : undefined }),
          );
        const left = new Set(idleRules(rules));
        idle += left.size;
        const whole = new RuleTable(compileRules([source('d', rules)]));
        const rest = new RuleTable(
          compileRules([
            source(
              'd',
              rules.filter((_, index) => !left.has(index)),
            ),
          ]),
        );
        for (const request of requests) {
          expect(rest.match('d', [request])?.rule.limits[0]?.name).toBe(
            whole.match('d', [request])?.rule.limits[0]?.name,
          );
        }
      }),
      { numRuns: caseCount(400) },
    );
    expect(idle).toBeGreaterThan(caseCount(100));
  });
});

describe('limits that replace each other', () => {
  const size = 6;
  const edges = fc.uniqueArray(fc.tuple(fc.nat(size - 1), fc.nat(size - 1)), {
    maxLength: 12,
    selector: ([from, to]) => `${from} ${to}`,
  });

  it('are reported, two or a ring of them, exactly where somebody comes back to where he began', () => {
    fc.assert(
      fc.property(edges, (written) => {
        const replaces = (from: number) => written.filter((edge) => edge[0] === from && edge[1] !== from);
        const reaches = (from: number, to: number, seen = new Set([from])): boolean =>
          replaces(from).some(
            ([, next]) => next === to || (!seen.has(next) && reaches(next, to, seen.add(next))),
          );
        const rules = Array.from({ length: size }, (_, n) => {
          const names = replaces(n).map(([, to]) => `n${to}`);
          return rule({ key: `k${n}`, rateLimit: limit({ name: `n${n}`, replaces: names }) });
        });
        const reported = reviewSources([source('d', rules)])
          .filter(({ code }) => code === 'replaces-each-other')
          .map(({ path, text }) => {
            const [from, nth] = [path[1] as number, path[4] as number];
            return { from, to: replaces(from)[nth]![1], isRing: text.includes('through') };
          });
        const ringEdges = written.filter(([from, to]) => from !== to && reaches(to, from));
        const isMutual = (from: number, to: number) => replaces(to).some(([, back]) => back === from);
        for (const { from, to, isRing } of reported) {
          expect(reaches(to, from)).toBe(true);
          expect(isMutual(from, to)).toBe(!isRing);
        }
        for (const [from, to] of ringEdges) {
          const same = (one: { from: number; to: number; isRing: boolean }) =>
            isMutual(from, to)
              ? one.from === from && one.to === to
              : one.isRing &&
                (one.from === from || reaches(one.from, from)) &&
                (one.from === from || reaches(from, one.from));
          expect(reported.filter(same)).toHaveLength(1);
        }
      }),
      { numRuns: caseCount(300) },
    );
  });
});
