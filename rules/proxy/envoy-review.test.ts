import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { proxyKinds } from '../finding-kinds.ts';
import { readRuleFiles } from '../reader/read-rule-files.ts';
import { readEnvoyConfiguration } from './envoy-configuration.ts';
import { reviewEnvoy } from './envoy-review.ts';

const rules = `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: path
    value: /search*
    descriptors:
      - key: plan
        rate_limit: { unit: minute, requests_per_unit: 5 }
`;

const type = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3';
const filter = (more = '', name = 'envoy.filters.http.ratelimit'): string => `
  - name: ${name}
    typed_config:
      "@type": ${type}.RateLimit
      domain: shop
      rate_limit_service: { transport_api_version: V3, grpc_service: { envoy_grpc: { cluster_name: weir } } }
      ${more}`;
const address = '{ actions: [{ remote_address: {} }] }';
const header = (key: string, more = ''): string =>
  `{ request_headers: { header_name: x, descriptor_key: ${key}${more} } }`;
const search = `{ actions: [${header('path')}, ${header('plan')}] }`;
/** Both rules are asked for. */
const good = `rate_limits: [${address}, ${search}]`;

/** A connection manager with the filter, and one route with this behind its cluster. */
const manager = (route: string, { filters = filter(), host = '' } = {}): string => `http_filters: ${filters}
route_config:
  virtual_hosts:
    - name: all
      domains: ["*"]
      ${host}
      routes:
        - match: { prefix: / }
          ${route}
`;
const forwarded = (limits: string): string => `route: { cluster: service, ${limits} }`;
/** The limiter's cluster. */
const localhost = (discovery: string, more = ''): string =>
  `{ name: weir, type: ${discovery}, ${more}http2_protocol_options: {}, load_assignment: { endpoints: [{ lb_endpoints: [{ endpoint: { address: { socket_address: { address: localhost, port_value: 8081 } } } }] }] } }`;

function review(envoy: string, rulesText = rules): { reported: string[]; isOpen: boolean } {
  const { located, errors } = readRuleFiles([{ name: 'rules.yaml', text: rulesText }], {
    mergeDomains: false,
  });
  expect(errors).toEqual([]);
  const configuration = readEnvoyConfiguration([{ path: 'envoy.yaml', text: envoy }]);
  const { findings, isOpen } = reviewEnvoy(configuration, located);
  const reported = findings.map(
    ({ severity, code, file, line, text }) => `${severity} ${code} ${file}:${line}: ${text}`,
  );
  return { reported, isOpen };
}

const reported = (envoy: string, rulesText?: string): string[] => review(envoy, rulesText).reported;

describe('reviewEnvoy', () => {
  it.each<[string, string]>([
    ['a route', manager(forwarded(good))],
    [
      'camelCase',
      manager(forwarded(good)).replaceAll('rate_limits', 'rateLimits').replace('http_filters', 'httpFilters'),
    ],
    ['a virtual host', manager('route: { cluster: service }', { host: good })],
    [
      'RateLimitPerRoute',
      manager(`route: { cluster: service }
          typed_per_filter_config: { envoy.filters.http.ratelimit: { "@type": ${type}.RateLimitPerRoute, ${good} } }`),
    ],
    [
      'RateLimitPerRoute in a FilterConfig, of a weighted cluster',
      manager(`route:
            weighted_clusters:
              clusters:
                - name: service
                  typed_per_filter_config:
                    envoy.filters.http.ratelimit:
                      "@type": type.googleapis.com/envoy.config.route.v3.FilterConfig
                      config: { "@type": ${type}.RateLimitPerRoute, ${good} }`),
    ],
    [
      'a TypedStruct',
      manager(`route: { cluster: service }
          typed_per_filter_config:
            envoy.filters.http.ratelimit:
              "@type": type.googleapis.com/xds.type.v3.TypedStruct
              type_url: ${type}.RateLimitPerRoute
              value: { ${good} }`),
    ],
    ['the filter itself', manager('route: { cluster: service }', { filters: filter(good) })],
    [
      'the stage of the filter',
      manager(forwarded(good.replaceAll('{ actions', '{ stage: 2, actions')), {
        filters: filter('stage: 2'),
      }),
    ],
    [
      'the route and its host',
      manager(forwarded(`include_vh_rate_limits: true, rate_limits: [${address}]`), {
        host: `rate_limits: [${search}]`,
      }),
    ],
    [
      "Istio's cluster with an authority",
      manager(forwarded(good)).replace(
        'cluster_name: weir',
        "cluster_name: 'outbound|8081||weir.shop.svc', authority: weir.shop.svc",
      ),
    ],
    ...['V4_PREFERRED', 'V4_ONLY', 'ALL'].map((family): [string, string] => [
      `localhost, looked up as ${family}`,
      `${manager(forwarded(good))}clusters: [${localhost('LOGICAL_DNS', `dns_lookup_family: ${family}, `)}]\n`,
    ]),
    ['a list alone', good],
    [
      'values that only Envoy knows',
      manager(
        forwarded(
          `rate_limits: [${address}, { actions: [${header('path')}, { metadata: { descriptor_key: plan, metadata_key: { key: a, path: [{ key: b }] } } }] }]`,
        ),
      ),
    ],
  ])('finds nothing wrong with %s', (_, envoy) => {
    expect(review(envoy)).toEqual({ reported: [], isOpen: false });
  });

  it('finds a key that no rule has, and the rule that it was for', () => {
    const limits = `rate_limits: [${address}, { actions: [${header('path')}, ${header('plann')}] }]`;
    expect(reported(manager(forwarded(limits)))).toEqual([
      'error unmatched-descriptor envoy.yaml:15: this limits nothing: no rule matches the descriptor (path, plann)',
      'error unreached-rule rules.yaml:8: no descriptor (path, plan) of the domain "shop" reaches this rule',
    ]);
  });

  it.each<[string, string, string]>([
    [
      'a descriptor that is too short',
      manager(forwarded(`${good.slice(0, -1)}, { actions: [${header('path')}] }]`)),
      'error unmatched-descriptor envoy.yaml:15: this limits nothing: path=/search* has no limit for the descriptor (path)',
    ],
    [
      'one that is too long',
      manager(forwarded(`${good.slice(0, -1)}, { actions: [{ remote_address: {} }, ${header('plan')}] }]`)),
      'error unmatched-descriptor envoy.yaml:15: this limits nothing: no rule matches the descriptor (remote_address, plan)',
    ],
    [
      'a value that no rule has',
      manager(
        forwarded(
          `${good.slice(0, -1)}, { actions: [{ generic_key: { descriptor_key: path, descriptor_value: /a } }] }]`,
        ),
      ),
      'error unmatched-descriptor envoy.yaml:15: this limits nothing: no rule matches the descriptor (path=/a)',
    ],
    [
      'another stage',
      manager(forwarded(`${good.slice(0, -1)}, { stage: 1, actions: [{ remote_address: {} }] }]`)),
      'error unread-rate-limits envoy.yaml:15: this limits nothing: it is for filters of stage 1, and the filter has stage 0',
    ],
    [
      'a route to no cluster',
      `${manager(forwarded(good))}        - match: { prefix: /b }
          direct_response: { status: 200 }
          typed_per_filter_config: { envoy.filters.http.ratelimit: { "@type": ${type}.RateLimitPerRoute, ${good} } }
`,
      'error unread-rate-limits envoy.yaml:18: this limits nothing: Envoy asks about routes that go to a cluster, and about no others (and in 1 more place)',
    ],
    [
      'a filter of another name',
      manager(`${forwarded(good)}
          typed_per_filter_config: { ratelimit: { "@type": ${type}.RateLimitPerRoute, ${good} } }`),
      'error unread-rate-limits envoy.yaml:16: no rate limit filter is called "ratelimit", so no filter reads this',
    ],
    [
      'a host whose only route has a list of its own',
      manager(forwarded(good), { host: good }),
      'error unread-rate-limits envoy.yaml:12: this limits nothing: rate_limits of the route on line 15 replace it (and in 1 more place)',
    ],
    [
      'a route whose list gives way to that of its RateLimitPerRoute',
      manager(`${forwarded(`rate_limits: [${address}]`)}
          typed_per_filter_config: { envoy.filters.http.ratelimit: { "@type": ${type}.RateLimitPerRoute, ${good} } }`),
      'error unread-rate-limits envoy.yaml:15: this limits nothing: the rate_limits of a RateLimitPerRoute on line 16 replace it',
    ],
    [
      'a host that some routes hide',
      `${manager('route: { cluster: service }', { host: good })}        - match: { prefix: /b }
          route: { cluster: service, rate_limits: [${address}] }
`,
      'warning shadowed-rate-limits envoy.yaml:17: the rate_limits of the virtual host are not read here: those of the route replace them',
    ],
    [
      'what a request is charged when it is over',
      manager(forwarded(good.replace('{ actions', '{ apply_on_stream_done: true, actions'))),
      'warning charged-later rules.yaml:3: descriptors of (remote_address) are charged after requests, so by themselves they limit nothing',
    ],
    [
      'a filter that is off',
      manager(forwarded(good), { filters: filter('filter_enabled: { default_value: { numerator: 0 } }') }),
      'error rate-limits-off envoy.yaml:2: the rate limit filter "envoy.filters.http.ratelimit" is off: enabled for 0%',
    ],
    [
      'a list that the runtime disables',
      `${manager(forwarded(good.replace('{ actions', '{ disable_key: k, actions')))}layered_runtime:
  layers: [{ name: a, static_layer: { ratelimit.k.http_filter_enabled: 0 } }]
`,
      'error rate-limits-off envoy.yaml:15: this limits nothing: ratelimit.k.http_filter_enabled is 0 in the runtime',
    ],
    [
      'a cluster without HTTP/2',
      `${manager(forwarded(good))}clusters: [{ name: weir }]
`,
      'error rate-limit-service envoy.yaml:16: the cluster "weir" of the limiter has no HTTP/2, so no request reaches the limiter',
    ],
    [
      "Istio's cluster without an authority",
      manager(forwarded(good)).replace('cluster_name: weir', "cluster_name: 'outbound|8081||weir.shop.svc'"),
      'warning rate-limit-service envoy.yaml:6: the rate limit filter "envoy.filters.http.ratelimit" has no authority: a sidecar before the limiter rejects that of "outbound|8081||weir.shop.svc", and all requests pass',
    ],
    [
      'localhost, which is looked up as ::1',
      `${manager(forwarded(good))}clusters: [${localhost('STRICT_DNS')}]
`,
      'warning rate-limit-service envoy.yaml:16: the cluster "weir" of the limiter uses ::1 for localhost, where limiters do not listen by default: all requests pass',
    ],
    [
      'a cluster that is not there',
      `${manager(forwarded(good))}clusters: [{ name: service }]
`,
      'error rate-limit-service envoy.yaml:6: there is no cluster "weir" for the rate limit filter "envoy.filters.http.ratelimit"',
    ],
    [
      'a filter without the version of the protocol',
      manager(forwarded(good)).replace('transport_api_version: V3, ', ''),
      'error rate-limit-service envoy.yaml:6: the rate limit filter "envoy.filters.http.ratelimit" does not set transport_api_version: V3',
    ],
    [
      'an action that Envoy refuses',
      manager(forwarded(`${good.slice(0, -1)}, { actions: [{ generic_key: {} }] }]`)),
      'error invalid-rate-limit envoy.yaml:15: generic_key: expected descriptor_value',
    ],
    [
      'a list one level too high',
      manager(`route: { cluster: service }
          ${good}`),
      'error invalid-rate-limit envoy.yaml:16: a route has no rate_limits beside its match: they belong one level down, below "route:"',
    ],
    ['what is no YAML', `${manager(forwarded(good))}---\na: [`, 'error syntax envoy.yaml:17: yaml: '],
  ])('finds %s', (_, envoy, finding) => {
    const all = reported(envoy);
    expect(all).toHaveLength(1);
    expect(all[0]).toContain(finding);
  });

  it('finds routes without a filter, and a filter without lists', () => {
    const router = '[{ name: envoy.filters.http.router }]';
    expect(reported(manager(forwarded(good), { filters: router }))[0]).toBe(
      'error unread-rate-limits envoy.yaml:9: these rate_limits limit nothing: there is no rate limit filter before the routes',
    );
    expect(reported(manager('route: { cluster: service }'))[0]).toBe(
      'error filter-without-rate-limits envoy.yaml:2: the rate limit filter "envoy.filters.http.ratelimit" limits nothing: no route has rate_limits for it',
    );
  });

  it('finds a domain without rules, and rules that no proxy asks for', () => {
    expect(reported(manager(forwarded(good)).replace('domain: shop', 'domain: shpo'))).toEqual([
      'error domain-without-rules envoy.yaml:5: no rules have the domain "shpo": nothing is limited; did you mean "shop"?',
      'warning unused-domain rules.yaml:1: no rate limit filter asks for the domain "shop"',
    ]);
  });

  it('knows how long the prefix of a masked address is', () => {
    const masked = (value: string): string => `domain: shop
descriptors:
  - key: masked_remote_address
    value: ${value}
    rate_limit: { unit: day, requests_per_unit: 1 }
`;
    const limits = 'rate_limits: [{ actions: [{ masked_remote_address: { v4_prefix_mask_len: 24 } }] }]';
    expect(reported(manager(forwarded(limits)), masked('192.0.2.0/24'))).toEqual([]);
    expect(reported(manager(forwarded(limits)), masked('10.0.0.0/8'))).toHaveLength(2);
  });

  it('does not report rules that routes from elsewhere may ask for', () => {
    const elsewhere = `http_filters: ${filter()}\nrds: { route_config_name: all }\n`;
    expect(review(elsewhere)).toEqual({ reported: [], isOpen: true });
    const routes = `---\nname: all\nvirtual_hosts: [{ name: a, domains: ["*"], rate_limits: [${address}] }]\n`;
    expect(review(elsewhere + routes)).toEqual({
      reported: [
        'error unreached-rule rules.yaml:8: no descriptor (path, plan) of the domain "shop" reaches this rule',
      ],
      isOpen: false,
    });
  });

  describe('of a rule with reserve', () => {
    const reserving = (more = '') => `domain: shop
descriptors:
  - key: team
    reserve: { ttl: 60s${more} }
    rate_limit: { unit: day, requests_per_unit: 600 }
`;
    const team = [header('team'), header('reservation_id')];
    const settling = [...team, '{ generic_key: { descriptor_key: settle, descriptor_value: "true" } }'];
    const item = (actions: string[], more = '') => `{ actions: [${actions}]${more} }`;
    const reserves = item(team);
    const settles = item(settling, ', apply_on_stream_done: true');
    const asking = (...items: string[]) => manager(forwarded(`rate_limits: [${items}]`));

    it.each([
      ['both calls', asking(reserves, settles)],
      ['only the one that settles, which is charged', asking(item([header('team')]), settles)],
      ['neither marker', asking(item([header('team')]))],
      [
        'the second call on another route',
        `${asking(reserves)}        - match: { prefix: /b }
          route: { cluster: service, rate_limits: [${settles}] }
`,
      ],
      [
        'an action that nobody knows, which may settle',
        asking(
          reserves,
          item(['{ extension: { name: x, typed_config: {} } }'], ', apply_on_stream_done: true'),
        ),
      ],
    ])('takes %s', (_, envoy) => {
      expect(reported(envoy, reserving())).toEqual([]);
    });

    it('reports once of a list that reaches many rules', () => {
      const others = Array.from(
        { length: 9 },
        (_, n) =>
          `  - { key: team, value: t${n}, reserve: {}, rate_limit: { unit: day, requests_per_unit: 6 } }\n`,
      );
      expect(reported(asking(reserves), reserving() + others.join(''))).toEqual([
        expect.stringMatching(
          /^warning never-committed .* of team, team=t0, team=t1, team=t2, team=t3 \.\.\.$/,
        ),
      ]);
    });

    it.each([
      ['only the call that reserves', asking(reserves), '', 'is released'],
      ['it twice', asking(reserves, item(team, ', stage: 0')), '', 'is released'],
      ['a rule that charges what expires', asking(reserves), ', on_expiry: charge', 'stays charged'],
      ['a second call before the request', asking(reserves, item(settling)), '', 'is released'],
      [
        'a second call without settle',
        asking(reserves, item(team, ', apply_on_stream_done: true')),
        '',
        'is released',
      ],
    ])('finds that nothing commits with %s', (_, envoy, more, end) => {
      expect(reported(envoy, reserving(more))).toEqual([
        expect.stringMatching(
          `^warning never-committed envoy.yaml:\\d+: this reserves, but no request commits: the whole amount ${end} after the ttl of team( \\(and in 1 more place\\))?$`,
        ),
      ]);
    });
  });

  it('reports once of many rules with the same keys', () => {
    const many = Array.from(
      { length: 100 },
      (_, n) => `  - { key: user, value: u${n}, rate_limit: { unit: day, requests_per_unit: 1 } }\n`,
    );
    expect(reported(manager(forwarded(good)), rules + many.join(''))).toEqual([
      'error unreached-rule rules.yaml:10: no descriptor (user) of the domain "shop" reaches this rule, nor 99 more of these keys',
    ]);
  });
});

it('finds what docs/envoy.md lists, and nothing else', () => {
  const document = readFileSync(new URL('../../docs/envoy.md', import.meta.url), 'utf8');
  const [, table = ''] = /\| finding \| severity \|.*\n([\s\S]*?)\n\n/.exec(document) ?? [];
  const listed = [...table.matchAll(/^\| `([a-z-]+)` \|/gm)].map(([, code]) => code);
  expect(listed.sort()).toEqual(proxyKinds.toSorted());
});
