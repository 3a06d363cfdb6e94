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
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
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
const isConfiguration = (object: K8sObject): boolean => object.kind === 'EnvoyGateway';

/** Of all YAML files of a folder that are objects. */
function objectsOf(name: string): K8sObject[] {
  return readdirSync(join(examplesFolder, name))
    .filter((file) => file.endsWith('.yaml'))
    .flatMap((file) => objectsIn(readExample(name, file)))
    .filter((object) => object.kind !== undefined && !isConfiguration(object));
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
    const files = readdirSync(join(examplesFolder, name)).filter((file) => file !== 'README.md');
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
    expect(readme).toMatch(/not\s+run\s+in\s+a\s+cluster/);
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

/** A newer API server refuses what rules on strings of any length may cost: kgateway's on durations. */
function boundStrings<Schema>(schema: Schema): Schema {
  if (typeof schema !== 'object' || schema === null) return schema;
  if (Array.isArray(schema)) return schema.map(boundStrings) as Schema;
  const entries = Object.entries(schema).map(([key, value]) => [key, boundStrings(value)]);
  const isRuled = 'x-kubernetes-validations' in schema && 'type' in schema && schema.type === 'string';
  return { ...(isRuled && { maxLength: 64 }), ...Object.fromEntries(entries) };
}

const found = foreignModules('examples');

const isWithout = 'missing' in found && process.env['CI'] !== 'true';

describe.skipIf(isWithout)("by the projects' own definitions", () => {
  describeWithApiServer('the objects of examples', (api) => {
    const dryRun = (objects: readonly object[]) =>
      api().kubectl(['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', '-'], {
        input: JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects }),
      });

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
        if (namespace !== 'default') api().mustKubectl(['create', 'namespace', namespace]);
      }
    }, 120_000);

    it.each(names)('are accepted as in examples/%s', (name) => {
      const objects = objectsOf(name);
      const { status, stdout, stderr } = dryRun(objects);
      expect([status, stderr]).toEqual([0, '']);
      expect(stdout.trim().split('\n')).toHaveLength(objects.length);
    });

    it.each(names)('are refused with a field that nobody knows, as in examples/%s', (name) => {
      const others = objectsOf(name).filter(({ kind }) => kind !== 'Secret');
      for (const object of others) {
        const { status, stderr } = dryRun([{ ...object, spec: { ...object.spec, weirUnknown: 1 } }]);
        expect([object.kind, status, stderr]).toEqual([
          object.kind,
          1,
          expect.stringContaining('weirUnknown'),
        ]);
      }
    });
  });
});

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

/** What a controller writes of the domain that it was told. */
function filterOf(domain: string): Record<string, unknown> {
  const rls = { transport_api_version: 'V3', grpc_service: { envoy_grpc: { cluster_name: 'weir' } } };
  const type = 'type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit';
  const config = { '@type': type, domain, rate_limit_service: rls };
  return { name: 'envoy.filters.http.ratelimit', typed_config: config };
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

const parts: readonly [example: string, what: string, part: () => EnvoyPart][] = [
  ['istio', 'the gateway', () => partOfEnvoyFilter('istio', 'envoyfilter-gateway.yaml')],
  ['istio', 'a sidecar', () => partOfEnvoyFilter('istio', 'envoyfilter-sidecar.yaml')],
  ['istio-ambient', 'the gateway', () => partOfEnvoyFilter('istio-ambient', 'gateway.yaml')],
  ['kuadrant', 'the gateway', () => partOfEnvoyFilter('kuadrant', 'envoy-filter.yaml')],
  ['envoy-gateway', 'the patched gateway', partOfPatchPolicy],
  ['contour', 'the proxy', partOfContour],
  ['emissary', 'the mapping', partOfEmissary],
  ['kgateway', 'the route', partOfKgateway],
];

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
    limiter = await startLimiter({
      env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: root, RUNTIME_APPDIRECTORY: 'config' },
    });
    const service = await freePort();
    const configs: ExampleEnvoy[] = [];
    for (const [example, , part] of parts) {
      const { filter, rateLimits } = part();
      const settings = filter['typed_config'] as Record<string, unknown>;
      expect(settings['domain']).toBe('shop');
      const weir = { grpc_service: { envoy_grpc: { cluster_name: 'weir' } }, transport_api_version: 'V3' };
      const own = { ...filter, typed_config: { ...settings, domain: example, rate_limit_service: weir } };
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
    const all = [...listeners, backend];
    envoy = await startEnvoy(envoyPath, { static_resources: { ...first.static_resources, listeners: all } });
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
});
