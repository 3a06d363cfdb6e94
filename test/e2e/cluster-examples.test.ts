/**
 * The examples for clusters: real CustomResourceDefinitions accept the objects, and a real Envoy that is configured as they
 * say, by hand as the projects do it, limits by their rules. No controller of those projects runs here.
 */
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { awaitCrds } from '../support/cluster.ts';
import { type ForeignModule, foreignModules } from '../support/definitions.ts';
import { describeWithBareApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandsToRun } from '../support/documents.ts';
import { type EnvoyProcess, startEnvoy } from '../support/envoy.ts';
import { examplesFolder, readExample } from '../support/example-cases.ts';
import { type ExampleEnvoy, envoyAt } from '../support/example-envoy.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { runWeir } from '../support/weir-command.ts';

interface K8sObject {
  apiVersion: string;
  kind: string;
  metadata: { name: string; namespace?: string };
  spec: Record<string, unknown>;
}

/** Folders, and of which module's version their READMEs speak. */
const examples: Readonly<Record<string, string[]>> = {
  contour: ['github.com/projectcontour/contour'],
  emissary: ['github.com/emissary-ingress/emissary/v3'],
  'envoy-gateway': ['github.com/envoyproxy/gateway', 'sigs.k8s.io/gateway-api'],
  istio: ['istio.io/api'],
  'istio-ambient': ['istio.io/api', 'sigs.k8s.io/gateway-api'],
  kgateway: ['github.com/kgateway-dev/kgateway/v2', 'sigs.k8s.io/gateway-api'],
  kuadrant: ['github.com/kuadrant/kuadrant-operator', 'istio.io/api', 'sigs.k8s.io/gateway-api'],
};
const names = Object.keys(examples);

/** No objects: files that programs read. */
const isConfiguration = (object: K8sObject): boolean => [undefined, 'EnvoyGateway'].includes(object.kind);

/** Of all YAML files of a folder that are objects. */
function objectsOf(name: string): K8sObject[] {
  return readdirSync(join(examplesFolder, name))
    .filter((file) => file.endsWith('.yaml'))
    .flatMap((file) => objectsIn(readExample(name, file)))
    .filter((object) => !isConfiguration(object));
}

function objectsIn(text: string): K8sObject[] {
  return parseAllDocuments(text).map((document) => document.toJS() as K8sObject);
}

function objectOf<Spec>(name: string, file: string, kind: string): Spec {
  const found = objectsIn(readExample(name, file)).find((object) => object.kind === kind);
  if (found === undefined) throw new Error(`examples/${name}/${file} has no ${kind}`);
  return found.spec as Spec;
}

describe.each(names)('examples/%s', (name) => {
  it('names its files in the README, and the versions that it was checked against', () => {
    const readme = readExample(name, 'README.md');
    const files = readdirSync(join(examplesFolder, name)).filter(
      (file) => file !== 'README.md' && file !== 'tests',
    );
    expect(files.filter((file) => !readme.includes(`(${file})`))).toEqual([]);
    const text = readFileSync(join(import.meta.dirname, '../support/definitions/go.mod'), 'utf8');
    for (const module of examples[name] ?? []) {
      const version = text
        .split('\n')
        .find((line) => line.trim().startsWith(`${module} `))
        ?.trim();
      const number = version?.split(' v')[1] as string;
      expect(readme, `${module} ${number}`).toContain(number);
    }
    expect(readme).toContain('429');
    expect(readme).toMatch(/did\s+not\s+run\s+this\s+example\s+in\s+a\s+cluster/);
  });

  it('has rules that weir check finds nothing in', () => {
    const { status, stdout, stderr } = runWeir(['check', `examples/${name}/rules.yaml`]);
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout).not.toMatch(/warning/);
  });

  it("names the Service that the chart's limiters have", () => {
    const objects = objectsIn(readExample('kubernetes', 'install.yaml'));
    const service = objects.find(
      ({ kind, metadata }) => kind === 'Service' && /limiter$/.test(metadata.name),
    );
    expect(service?.metadata).toMatchObject({ name: 'weir-limiter', namespace: 'weir-system' });
    const port = expect.objectContaining({ port: 8081, appProtocol: 'grpc' });
    expect(service?.spec['ports']).toContainEqual(port);
    const text = JSON.stringify(objectsOf(name));
    expect(text).toMatch(/weir-limiter/);
    expect(text).toMatch(/8081/);
  });
});

interface Definition extends K8sObject {
  spec: {
    group: string;
    names: { kind: string };
    conversion?: object;
    versions: { name: string; storage: boolean }[];
  };
}

it.each([
  commandsToRun('examples/compose/README.md'),
  commandsToRun('examples/istio/README.md'),
  commandsToRun('examples/istio-ambient/README.md'),
  commandsToRun('examples/kuadrant/README.md'),
])('%s finds that both sides fit', (command, ...others) => {
  expect(others).toEqual([]);
  const [program, ...args] = command?.split(' ') ?? [];
  expect(program).toBe('bin/weir');
  const { status, stdout } = runWeir(args);
  expect([status, stdout]).toEqual([0, expect.stringContaining('descriptors and rules fit together')]);
});

/** As kubectl can apply them here: no templates, and only what is wanted, each as `apiVersion kind`. */
function definitionsOf(modules: readonly ForeignModule[], wanted: ReadonlySet<string>): object[] {
  const texts = modules.flatMap(({ files }) => files.map((file) => readFileSync(file, 'utf8')));
  const all = texts.flatMap(
    (text) => objectsIn(text.replaceAll(/^\{\{.*\n?/gm, '')) as (Definition | null)[],
  );
  return all.flatMap((one) => {
    if (one?.kind !== 'CustomResourceDefinition') return [];
    const { apiVersion, kind, metadata } = one;
    const { conversion: _, ...spec } = one.spec;
    const versions = spec.versions
      .filter((version) => wanted.has(`${spec.group}/${version.name} ${spec.names.kind}`))
      .map((version) => boundStrings({ ...version, storage: true }));
    const { name, annotations } = metadata as { name: string; annotations?: object };
    return versions.length === 0
      ? []
      : [{ apiVersion, kind, metadata: { name, annotations }, spec: { ...spec, versions } }];
  });
}

/** A newer API server rejects what rules on strings of any length may cost: kgateway's on durations. */
function boundStrings<Schema>(schema: Schema): Schema {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(boundStrings) as Schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, boundStrings(value)]);
  const isRuled = 'x-kubernetes-validations' in schema && 'type' in schema && schema.type === 'string';
  return { ...(isRuled && { maxLength: 64 }), ...Object.fromEntries(entries) };
}

const found = foreignModules('examples');

/** Names that a program reads where no definition says so, by what its module says. */
describe.skipIf('missing' in found && process.env['CI'] !== 'true')('files of configuration', () => {
  const sourceOf = (module: string, file: string): string => {
    if ('missing' in found) throw new Error(found.missing);
    const { folder = '' } = found.modules.find(({ path }) => path === module) ?? {};
    return readFileSync(join(folder, file), 'utf8');
  };

  it('of Envoy Gateway have fields that it knows', () => {
    const types = ['envoygateway_types.go', 'shared_types.go', 'kubernetes_helpers.go'].map((file) =>
      sourceOf('github.com/envoyproxy/gateway', `api/v1alpha1/${file}`),
    );
    const known = new Set([...types.join('').matchAll(/json:"(\w+)/g)].map(([, name]) => name as string));
    const { apiVersion, kind, ...config } = parse(
      readExample('envoy-gateway', 'envoy-gateway.yaml'),
    ) as Record<string, unknown>;
    expect([apiVersion, kind]).toEqual(['gateway.envoyproxy.io/v1alpha1', 'EnvoyGateway']);
    expect(keysOf(config).filter((key) => !known.has(key))).toEqual([]);
  });

  it('of Contour, in the README, have fields that it knows', () => {
    const [, text = ''] =
      /```yaml\n(rateLimitService:\n.*?)```/s.exec(readExample('contour', 'README.md')) ?? [];
    const known = sourceOf('github.com/projectcontour/contour', 'examples/contour/01-contour-config.yaml');
    const keys = keysOf(parse(text));
    expect(keys).toHaveLength(5);
    expect(keys.filter((key) => !known.includes(`# ${key}:`) && !known.includes(`#   ${key}:`))).toEqual([]);
  });

  it('of Istio have fields that a provider has', () => {
    const proto = sourceOf('istio.io/api', 'mesh/v1alpha1/config.proto');
    const body =
      proto.split('message EnvoyExternalAuthorizationHttpProvider')[1]?.split('\n    }\n')[0] ?? '';
    const known = [...body.matchAll(/^ +[\w.<>, ]+ (\w+) = \d+/gm)].map(([, name = '']) =>
      name.replace(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
    );
    expect(known.length).toBeGreaterThan(10);
    const provider = waypointProvider();
    expect(Object.keys(provider).filter((key) => !known.includes(key))).toEqual([]);
    expect(provider).toMatchObject({ service: 'weir-limiter.weir-system.svc.cluster.local', port: 8080 });
  });

  it("of Weir's chart have values that it has, and mount the profiles where they are read", () => {
    const { limiter } = parse(readExample('istio-ambient', 'weir-values.yaml')) as {
      limiter: { extraEnv: { name: string; value: string }[]; extraVolumeMounts: { mountPath: string }[] };
    };
    const values = parse(readFileSync('charts/weir/values.yaml', 'utf8')) as { limiter: object };
    expect(Object.keys(limiter).filter((key) => !Object.hasOwn(values.limiter, key))).toEqual([]);
    const [{ name, value } = { name: '', value: '' }] = limiter.extraEnv;
    expect([name, value]).toEqual([
      'PROFILES_FILE',
      `${limiter.extraVolumeMounts[0]?.mountPath}/profiles.yaml`,
    ]);
  });
});

/** Of maps within maps. */
function keysOf(value: unknown): string[] {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return [];
  return Object.entries(value).flatMap(([key, inner]) => [key, ...keysOf(inner)]);
}

const isWithout = 'missing' in found && process.env['CI'] !== 'true';

describe.skipIf(isWithout)("by the projects' own definitions", () => {
  describeWithBareApiServer('the objects of examples', (api) => {
    beforeAll(() => {
      if ('missing' in found) throw new Error(found.missing);
      const all = names.flatMap(objectsOf);
      const items = definitionsOf(
        found.modules,
        new Set(all.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`)),
      );
      const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items });
      api().mustKubectl(['apply', '--server-side', '-f', 'crds/', '-f', '-'], { input });
      awaitCrds(api());
      api().mustKubectl(['wait', '--for=condition=Established', 'crd', '--all', '--timeout=60s']);
      for (const namespace of new Set(all.map(({ metadata }) => metadata.namespace as string))) {
        if (namespace !== 'default') api().createNamespace(namespace);
      }
    }, 120_000);

    it.each(names)('are accepted as in examples/%s', (name) => {
      for (const object of objectsOf(name))
        expect(api().tryApply(object)).toMatchObject({ status: 201, warnings: [] });
    });

    it.each(names)('are rejected with an unknown field, as in examples/%s', (name) => {
      const others = objectsOf(name).filter(({ kind }) => kind !== 'Secret');
      for (const object of others) {
        const { status, body } = api().tryApply({ ...object, spec: { ...object.spec, weirUnknown: 1 } });
        expect([object.kind, status, body]).toEqual([
          object.kind,
          expect.toBeOneOf([400, 500]),
          expect.stringContaining('weirUnknown'),
        ]);
      }
    });
  });
});

const rateLimitFilter = 'envoy.filters.http.ratelimit';

interface EnvoyPart {
  filter: Record<string, unknown>;
  rateLimits: unknown[];
}

interface EnvoyFilterSpec {
  configPatches: { applyTo: string; patch: { value: { typed_config?: object; rate_limits?: unknown[] } } }[];
}

/** As Istio inserts and merges it. */
function partOfEnvoyFilter(name: string, file: string): EnvoyPart {
  const { configPatches } = objectOf<EnvoyFilterSpec>(name, file, 'EnvoyFilter');
  const value = (kind: string) => configPatches.find(({ applyTo }) => applyTo === kind)?.patch.value;
  return {
    filter: value('HTTP_FILTER') as Record<string, unknown>,
    rateLimits: value('VIRTUAL_HOST')?.rate_limits as unknown[],
  };
}

function partOfPatchPolicy(): EnvoyPart {
  const { jsonPatches } = objectOf<{
    jsonPatches: { type: string; operation: { value: Record<string, unknown> | unknown[] } }[];
  }>('envoy-gateway', 'envoy-patch-policy.yaml', 'EnvoyPatchPolicy');
  const value = (end: string) => jsonPatches.find(({ type }) => type.endsWith(end))?.operation.value;
  return {
    filter: value('.Listener') as Record<string, unknown>,
    rateLimits: value('.RouteConfiguration') as unknown[],
  };
}

/** What a controller writes of the domain that it was reported. */
function filterOf(domain: string): Record<string, unknown> {
  const rls = { transport_api_version: 'V3', grpc_service: { envoy_grpc: { cluster_name: 'weir' } } };
  const type = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit';
  const config = { '@type': type, domain, rate_limit_service: rls };
  return { name: rateLimitFilter, typed_config: config };
}

/** internal/envoy/v3/ratelimit.go of Contour 1.33: a rate limit for each descriptor. */
function partOfContour(): EnvoyPart {
  interface Entry {
    requestHeader?: { headerName: string; descriptorKey: string };
    remoteAddress?: object;
  }
  const { rateLimitService } = objectOf<{ rateLimitService: { domain: string } }>(
    'contour',
    'contour-configuration.yaml',
    'ContourConfiguration',
  );
  const { virtualhost } = objectOf<{
    virtualhost: { rateLimitPolicy: { global: { descriptors: { entries: Entry[] }[] } } };
  }>('contour', 'http-proxy.yaml', 'HTTPProxy');
  const rateLimits = virtualhost.rateLimitPolicy.global.descriptors.map(({ entries }) => ({
    actions: entries.map(({ requestHeader: header }) =>
      header === undefined
        ? { remote_address: {} }
        : { request_headers: { header_name: header.headerName, descriptor_key: header.descriptorKey } },
    ),
  }));
  return { filter: filterOf(rateLimitService.domain), rateLimits };
}

/** python/ambassador/envoy/v3/v3ratelimitaction.py of Emissary 3.9: a rate limit for each group of the service's domain. */
function partOfEmissary(): EnvoyPart {
  interface Label {
    request_headers?: { header_name: string; key: string };
    remote_address?: object;
  }
  const { domain } = objectOf<{ domain: string }>('emissary', 'rate-limit-service.yaml', 'RateLimitService');
  const { labels } = objectOf<{ labels: Record<string, Record<string, Label[]>[]> }>(
    'emissary',
    'mapping.yaml',
    'Mapping',
  );
  const rateLimits = (labels[domain] ?? []).flatMap((group) =>
    Object.values(group).map((one) => ({
      actions: one.map(({ request_headers: header }) =>
        header === undefined
          ? { remote_address: {} }
          : { request_headers: { header_name: header.header_name, descriptor_key: header.key } },
      ),
    })),
  );
  return { filter: filterOf(domain), rateLimits };
}

/** pkg/kgateway/extensions2/plugins/trafficpolicy/global_rate_limit_plugin.go of kgateway 2.2: one of all entries. */
function partOfKgateway(): EnvoyPart {
  const { rateLimit: service } = objectOf<{ rateLimit: { domain: string } }>(
    'kgateway',
    'gateway-extension.yaml',
    'GatewayExtension',
  );
  const { rateLimit } = objectOf<{
    rateLimit: { global: { descriptors: { entries: { type: string; header: string }[] }[] } };
  }>('kgateway', 'traffic-policy.yaml', 'TrafficPolicy');
  const entries = rateLimit.global.descriptors.flatMap((descriptor) => descriptor.entries);
  expect(entries.map(({ type }) => type)).toEqual(['Header']);
  const actions = entries.map(({ header }) => ({
    request_headers: { header_name: header, descriptor_key: header },
  }));
  return { filter: filterOf(service.domain), rateLimits: [{ actions }] };
}

/** The one provider of istiod-values.yaml. */
function waypointProvider(): Record<string, unknown> {
  const { meshConfig } = parse(readExample('istio-ambient', 'istiod-values.yaml')) as {
    meshConfig: { extensionProviders: { name: string; envoyExtAuthzHttp: Record<string, unknown> }[] };
  };
  const { provider } = objectOf<{ provider: { name: string } }>(
    'istio-ambient',
    'waypoint.yaml',
    'AuthorizationPolicy',
  );
  const found = meshConfig.extensionProviders.find(({ name }) => name === provider.name);
  if (found === undefined) throw new Error(`istiod-values.yaml has no provider ${provider.name}`);
  return found.envoyExtAuthzHttp;
}

/** pilot/pkg/security/authz/builder/extauthz.go of Istio 1.31. */
function waypointFilter(): Record<string, unknown> {
  const provider = waypointProvider();
  const names = (key: string) => ({ patterns: (provider[key] as string[]).map((exact) => ({ exact })) });
  return {
    name: 'envoy.filters.http.ext_authz',
    typed_config: {
      '@type': 'type.googleapis.com/envoy.extensions.filters.http.ext_authz.v3.ExtAuthz',
      transport_api_version: 'V3',
      failure_mode_allow: false,
      allowed_headers: names('includeRequestHeadersInCheck'),
      http_service: {
        path_prefix: provider['pathPrefix'],
        server_uri: { uri: 'http://weir', cluster: 'weir-http', timeout: '20s' },
        authorization_response: {
          allowed_client_headers: names('headersToDownstreamOnDeny'),
          allowed_client_headers_on_success: names('headersToDownstreamOnAllow'),
        },
      },
    },
  };
}

const parts: readonly [example: string, what: string, part: () => EnvoyPart][] = [
  ['istio', 'the gateway', () => partOfEnvoyFilter('istio', 'envoyfilter-gateway.yaml')],
  ['istio', 'a sidecar', () => partOfEnvoyFilter('istio', 'envoyfilter-sidecar.yaml')],
  ['istio-ambient', 'the gateway', () => partOfEnvoyFilter('istio-ambient', 'gateway.yaml')],
  ['istio-ambient', 'the waypoint', () => ({ filter: waypointFilter(), rateLimits: [] })],
  ['kuadrant', 'the gateway', () => partOfEnvoyFilter('kuadrant', 'envoy-filter.yaml')],
  ['envoy-gateway', 'the patched gateway', partOfPatchPolicy],
  ['contour', 'the proxy', partOfContour],
  ['emissary', 'the mapping', partOfEmissary],
  ['kgateway', 'the route', partOfKgateway],
];

/** The filter of an example, for another domain, and the limiter by the name that it has in examples/envoy. */
function askingFor(domain: string, filter: Record<string, unknown>): Record<string, unknown> {
  const settings = filter['typed_config'] as Record<string, unknown>;
  expect(settings['domain']).toBe('shop');
  const weir = { grpc_service: { envoy_grpc: { cluster_name: 'weir' } }, transport_api_version: 'V3' };
  return { ...filter, typed_config: { ...settings, domain, rate_limit_service: weir } };
}

describeWithServer('an Envoy configured as examples for clusters say', envoyProgram, (envoyPath) => {
  const root = suiteFolder();
  let limiter: LimiterProcess;
  let envoy: EnvoyProcess;
  const ports: number[] = [];

  beforeAll(async () => {
    mkdirSync(join(root, 'config'));
    // One limiter for all, so each has a domain of its own.
    for (const [example] of parts) {
      const { stdout } = runWeir(['convert', `examples/${example}/rules.yaml`, '--to', 'rules']);
      expect(stdout).toMatch(/^domain: shop$/m);
      writeFileSync(
        join(root, 'config', `${example}.yaml`),
        stdout.replace(/^domain: .*/m, `domain: ${example}`),
      );
    }
    const profiles = join(root, 'profiles.yaml');
    const text = readExample('istio-ambient', 'profiles.yaml');
    writeFileSync(profiles, text.replace('domain: shop', 'domain: istio-ambient'));
    const places = { RUNTIME_ROOT: root, RUNTIME_APPDIRECTORY: 'config', PROFILES_FILE: profiles };
    limiter = await startLimiter({ env: { BACKEND_TYPE: 'memory', ...places } });
    const service = await freePort();
    const configs: ExampleEnvoy[] = [];
    for (const [example, , part] of parts) {
      const { filter, rateLimits } = part();
      const own = filter['name'] === rateLimitFilter ? askingFor(example, filter) : filter;
      const type = 'type.googleapis.com/envoy.extensions.filters.http.router.v3.Router';
      const router = { name: 'envoy.filters.http.router', typed_config: { '@type': type } };
      const routes = [{ match: { prefix: '/' }, route: { cluster: 'service' } }];
      const host = { name: 'all', domains: ['*'], routes, rate_limits: rateLimits };
      const text = JSON.stringify({
        http_filters: [own, router],
        route_config: { virtual_hosts: [host] },
      });
      const listener = await freePort();
      ports.push(listener);
      configs.push(envoyAt(text, { listener, limiter: limiter.ports.grpc, service }));
    }
    const [first] = configs as [ExampleEnvoy];
    const listeners = configs.flatMap(({ static_resources: { listeners } }, index) =>
      listeners.map((listener) => ({ ...listener, name: `listener-${index}` })),
    );
    // envoyAt leaves the service to its caller: the second listener of examples/envoy.
    const [, backend] = (parse(readExample('envoy', 'envoy.yaml')) as ExampleEnvoy).static_resources
      .listeners;
    if (backend === undefined) throw new Error('examples/envoy/envoy.yaml has no service');
    backend.address.socket_address.port_value = service;
    const { clusters } = first.static_resources;
    const http = structuredClone(clusters.find(({ name }) => name === 'service'));
    if (http === undefined) throw new Error('examples/envoy/envoy.yaml has no service');
    const [endpoint] = http.load_assignment.endpoints[0]!.lb_endpoints;
    endpoint!.endpoint.address.socket_address.port_value = limiter.ports.http;
    clusters.push({ ...http, name: 'weir-http' });
    envoy = await startEnvoy(envoyPath, {
      static_resources: { clusters, listeners: [...listeners, backend] },
    });
  }, 60_000);
  afterAll(async () => {
    await envoy?.stop();
    await limiter?.stop();
  });

  it.each(parts.map(([example, what], index) => ({ example, what, index })))(
    'limits at $what of $example',
    async ({ index }) => {
      const statuses = async (user: string, count: number): Promise<number[]> => {
        const seen: number[] = [];
        for (let i = 0; i < count; i++) {
          const response = await fetch(`http://127.0.0.1:${ports[index]}/`, { headers: { 'x-user': user } });
          await response.arrayBuffer();
          seen.push(response.status);
        }
        return seen;
      };
      // Twice as many and one: a minute may end in between.
      const seen = await statuses(`ann-${index}`, 11);
      expect(seen.slice(0, 5)).toEqual([200, 200, 200, 200, 200]);
      expect(seen).toContain(429);
      expect(new Set(seen)).toEqual(new Set([200, 429]));
      expect(await statuses(`bob-${index}`, 1)).toEqual([200]);
    },
    30_000,
  );

  it('shows the client of a waypoint when to come again, and leaves its path alone', async () => {
    const index = parts.findIndex(([, what]) => what === 'the waypoint');
    const headers = { 'x-user': 'eve' };
    const seen: Response[] = [];
    for (let i = 0; i < 11; i++)
      seen.push(
        await fetch(`http://127.0.0.1:${ports[index]}//a/%zz/b?c=//`, { headers, redirect: 'manual' }),
      );
    expect(new Set(seen.map(({ status }) => status))).toEqual(new Set([200, 429]));
    const refused = seen.find(({ status }) => status === 429);
    expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(seen[0]?.headers.get('ratelimit-remaining')).toBe('4');
  }, 30_000);
});
