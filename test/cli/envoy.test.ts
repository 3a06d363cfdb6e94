import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { startEnvoy } from '../support/envoy.ts';
import { type ExampleEnvoy, exampleEnvoy } from '../support/example-envoy.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { runWeir } from '../support/weir-command.ts';

/** Values that Envoy takes from each kind of source. */
const rules = `domain: edge
descriptors:
  - key: remote_address
    rate_limit: { unit: day, requests_per_unit: 1000 }
  - key: masked_remote_address
    value: 127.0.0.0/8
    rate_limit: { unit: day, requests_per_unit: 1000 }
  - key: generic_key
    value: all*
    rate_limit: { unit: day, requests_per_unit: 1000 }
  - key: path
    value: /search*
    share_threshold: true
    descriptors:
      - key: plan
        rate_limit: { unit: day, requests_per_unit: 2 }
      - key: plan
        value: gold
        rate_limit: { unit: day, requests_per_unit: 4 }
  - key: word
    rate_limit: { unit: day, requests_per_unit: 1 }
  - key: bot
    value: "yes"
    rate_limit: { unit: day, requests_per_unit: 1 }
`;
const sources = [
  ...['--from', 'plan=header:x-level', '--from', 'word=query:q', '--from', 'bot=header_match:x-bot'],
];

describe('weir envoy', () => {
  it('writes the list of rate limits, and what is to be filled in', () => {
    const { status, stdout, stderr } = runWeir(['envoy', 'examples/rules', '--domain', 'shop']);
    expect(stdout).toBe(`rate_limits:
  # for remote_address
  - actions:
      - remote_address: {}
  # for path=/search*, plan; path=/search*, plan=gold
  # FILL IN: where "plan" comes from; Weir assumes the header x-plan; to use another source, pass --from plan=...
  # :path includes the query: /a?b=c and /a are different values
  - actions:
      - request_headers:
          header_name: ":path"
          descriptor_key: path
      - request_headers:
          header_name: x-plan
          descriptor_key: plan
  # for path=/checkout
  # :path includes the query: /a?b=c and /a are different values
  - actions:
      - request_headers:
          header_name: ":path"
          descriptor_key: path
`);
    expect(stderr).toBe(
      'weir: fill in where "plan" comes from; Weir assumes the header x-plan; to use another source, pass --from plan=...\n',
    );
    expect(status).toBe(0);
  });

  it('keeps what a rule says on the line of its comment', () => {
    const input =
      'domain: d\ndescriptors: [{key: "a\\n- b", rate_limit: {unit: day, requests_per_unit: 1}}]\n';
    const { stdout } = runWeir(['envoy', '-'], { input });
    expect(parse(stdout)).toEqual({
      rate_limits: [{ actions: [{ request_headers: { header_name: 'x-a-b', descriptor_key: 'a\n- b' } }] }],
    });
  });

  it('has names looked up as IPv4 addresses first, if limiters listen', () => {
    const written = (limiter: string): string =>
      runWeir([
        ...['envoy', 'examples/rules', '--domain', 'shop'],
        ...['--output', 'filter', '--limiter', limiter],
      ]).stdout;
    expect(written('localhost:8081')).toContain(
      '    type: STRICT_DNS\n    dns_lookup_family: V4_PREFERRED\n',
    );
    expect(written('127.0.0.1:8081')).not.toContain('dns_lookup_family');
  });

  it.each([
    [['examples/rules'], 'a filter has one domain, choose one by --domain: mail, shop'],
    [['examples/rules', '--domain', 'x'], 'there are no rules for the domain "x"; there are mail, shop'],
    [['examples/rules', '-o', 'yml'], '--output is rate_limits, filter, bootstrap or istio, not "yml"'],
    [['examples/rules', '--limiter', 'x'], '--limiter is host:port, not "x"'],
    [['examples/rules', '--from', 'plan=x-plan'], '--from is <key>=<source> with a source of header:<name>'],
    [['examples/rules', '--from', 'ip=remote_address'], 'Envoy calls this entry remote_address'],
    [
      ['examples/rules', '--domain', 'shop', '--from', 'plna=header:x-plan'],
      '--from: no rule has the key "plna"; did you mean "plan"?',
    ],
    [[], 'envoy needs rules: a file or a folder'],
  ])('rejects %j', (args, message) => {
    const { status, stdout, stderr } = runWeir(['envoy', ...args]);
    expect(stderr).toContain(message);
    expect(stdout).toBe('');
    expect(status).toBe(2);
  });
});

describeWithServer('weir envoy, with Envoy', envoyProgram, (envoyPath) => {
  const folder = suiteFolder();
  let limiter: LimiterProcess;
  let port: number;
  let servicePort: number;
  let adminPort: number;

  beforeAll(async () => {
    mkdirSync(join(folder, 'config'));
    writeFileSync(join(folder, 'config/edge.yaml'), rules);
    limiter = await startLimiter({ env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: folder } });
    [port, servicePort, adminPort] = [await freePort(), await freePort(), await freePort()];
  }, 60_000);
  afterAll(() => limiter.stop());

  const written = (output: string): string => {
    const { stdout, stderr } = runWeir([
      ...['envoy', join(folder, 'config'), '--output', output, ...sources],
      ...['--limiter', `127.0.0.1:${limiter.ports.grpc}`],
    ]);
    expect(stderr).toBe('');
    return stdout
      .replaceAll('port_value: 10000', `port_value: ${port}`)
      .replaceAll('port_value: 10001', `port_value: ${servicePort}`)
      .replace('port_value: 9901', `port_value: ${adminPort}`)
      .replace('timeout: "0.25s"\n', 'timeout: "20s"\n')
      .replace('failure_mode_deny: false', 'failure_mode_deny: true');
  };

  const statuses = async (
    path: string,
    headers: Record<string, string>,
    times: number,
  ): Promise<number[]> => {
    const seen: number[] = [];
    for (let n = 0; n < times; n++) seen.push((await httpAsk(port, path, { headers })).status);
    return seen;
  };

  it('writes a complete configuration, which asks for every rule', async () => {
    const envoy = await startEnvoy(envoyPath, written('bootstrap'));
    try {
      expect(await statuses('/search/a', { 'x-level': 'free' }, 3)).toEqual([200, 200, 429]);
      expect(await statuses('/search/a', { 'x-level': 'gold' }, 5)).toEqual([200, 200, 200, 200, 429]);
      expect(await statuses('/?q=shoes', {}, 2)).toEqual([200, 429]);
      expect(await statuses('/', { 'x-bot': '1' }, 2)).toEqual([200, 429]);
      const counted = (await httpAsk(adminPort, '/stats')).body;
      expect(counted).toMatch(/^cluster[.]service[.]ratelimit[.]over_limit: 4$/m);
      const { body } = await httpAsk(limiter.ports.debug, '/stats');
      for (const rule of ['remote_address', 'masked_remote_address_127', 'generic_key_all'])
        expect(body).toMatch(new RegExp(`rate_limit[.]edge[.]${rule}\\S*[.]total_hits: [1-9]`));
    } finally {
      await envoy.stop();
    }
  }, 60_000);

  it('writes a filter, a cluster and descriptors that fit into a configuration', async () => {
    const part = parse(written('filter')) as Record<string, unknown>;
    const config = exampleEnvoy('per-tenant');
    const { listeners } = config.static_resources;
    const manager = listeners[0]!.filter_chains[0]!.filters[0].typed_config as Record<string, unknown>;
    listeners[0]!.address.socket_address.port_value = port;
    const { http_filters, typed_per_filter_config, clusters } = part;
    const hello = { match: { prefix: '/' }, route: { cluster: 'service' }, typed_per_filter_config };
    const route_config = { virtual_hosts: [{ name: 'all', domains: ['*'], routes: [hello] }] };
    Object.assign(manager, { http_filters, route_config });
    listeners[1]!.address.socket_address.port_value = servicePort;
    const [service] = config.static_resources.clusters;
    service!.load_assignment.endpoints[0]!.lb_endpoints[0]!.endpoint.address.socket_address.port_value =
      servicePort;
    config.static_resources.clusters = [
      service!,
      ...(clusters as ExampleEnvoy['static_resources']['clusters']),
    ];
    const envoy = await startEnvoy(envoyPath, config);
    try {
      expect(await statuses('/search/b', { 'x-level': 'silver' }, 3)).toEqual([200, 200, 429]);
    } finally {
      await envoy.stop();
    }
  }, 60_000);
});
