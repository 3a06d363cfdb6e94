import { expect, it } from 'vitest';
import { controlPlaneSettingGroups } from '../../control-plane/settings/table.ts';
import { readCallersFile } from '../../limiter/callers/callers-file.ts';
import { limiterSettingGroups } from '../../limiter/settings/settings.ts';
import { readProfilesFile } from '../../rules/proxy/read-profiles.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import {
  chartFolder,
  objectOf,
  podOf,
  type RenderedObject,
  release,
  renderChart,
  runHelm,
  tryChart,
  type Values,
} from '../support/helm-chart.ts';
import { environmentOf, podsOf, programFaults } from './program-faults.ts';
import { rejectedValues } from './rejected-values.ts';
import { valueCases } from './value-cases.ts';

const redis = { url: 'redis:6379' };

/** Read once, as several tests look at each case. */
const caseObjects = new Map<Values, RenderedObject[]>();

function objectsOf(values: Values): RenderedObject[] {
  const objects = caseObjects.get(values) ?? renderChart(values);
  caseObjects.set(values, objects);
  return objects;
}

/** What lint looks for beyond a rendering hardly depends on values. */
const linted = [valueCases[0]!, valueCases.at(-1)!];

/** Objects by what they are and where. */
function identities(objects: readonly RenderedObject[]): string[] {
  return objects.map(
    ({ kind, metadata }) => `${kind} ${metadata.namespace ?? 'the cluster'}/${metadata.name}`,
  );
}

describeWithServer('the chart', helmProgram, () => {
  it.each(linted)('passes lint with $name', ({ values }) => {
    const { status, stdout } = runHelm(['lint', '--strict', chartFolder], values);
    expect(status, stdout).toBe(0);
    expect(stdout).not.toMatch(/WARNING|ERROR/);
  });

  it.each(valueCases)('gives both programs an environment without a fault, with $name', ({ values }) => {
    expect(programFaults(objectsOf(values))).toEqual([]);
  });

  it.each(valueCases)('sets variables that the programs know, with $name', ({ values }) => {
    for (const pod of podsOf(objectsOf(values))) {
      const { name: program, env } = pod.spec.containers[0];
      const groups = program === 'limiter' ? limiterSettingGroups : controlPlaneSettingGroups;
      const known = groups.flatMap(({ settings }) => Object.values(settings).map(({ name }) => name));
      // Given by the case itself, and none of ours.
      const names = env.map(({ name }) => name).filter((name) => name !== 'NODE_EXTRA_CA_CERTS');
      expect(names.filter((name) => !known.includes(name))).toEqual([]);
    }
  });

  it.each(valueCases)('names ports and pods that are there, with $name', ({ values }) => {
    const objects = objectsOf(values);
    for (const pod of podsOf(objects)) {
      const container = pod.spec.containers[0];
      const ports = container.ports.map(({ name }) => name);
      const { startupProbe, livenessProbe, readinessProbe } = container;
      for (const probe of [startupProbe, livenessProbe, readinessProbe]) {
        if (probe !== undefined) expect(ports).toContain(probe.httpGet.port);
      }
      const volumes = (pod.spec.volumes ?? []).map(({ name }) => name);
      expect((container.volumeMounts ?? []).map(({ name }) => name)).toEqual(volumes);
      const owned = objects.filter(
        ({ kind, metadata }) => kind !== 'Deployment' && metadata.name.endsWith(container.name),
      );
      for (const { kind, spec } of owned) {
        const selector = spec?.podSelector?.matchLabels ?? spec?.selector?.matchLabels ?? spec?.selector;
        if (selector !== undefined) expect(pod.metadata.labels, kind).toMatchObject(selector);
        if (kind !== 'Service') continue;
        for (const { targetPort } of spec.ports) expect(ports).toContain(targetPort);
      }
    }
  });

  it.each(valueCases)('makes each object once, with $name', ({ values }) => {
    const names = identities(objectsOf(values));
    expect(names).toEqual([...new Set(names)]);
  });

  it('makes these objects by default', () => {
    expect(identities(renderChart({ redis })).sort()).toEqual([
      'ClusterRole the cluster/weir-system-weir-control-plane',
      'ClusterRole the cluster/weir-system-weir-control-plane-tokens',
      'ClusterRoleBinding the cluster/weir-system-weir-control-plane',
      'ClusterRoleBinding the cluster/weir-system-weir-control-plane-tokens',
      'CustomResourceDefinition the cluster/ratelimitconfigs.ratelimit.weir.dev',
      'CustomResourceDefinition the cluster/ratelimitfleets.ratelimit.weir.dev',
      'CustomResourceDefinition the cluster/ratelimitoverrides.ratelimit.weir.dev',
      'Deployment weir-system/weir-control-plane',
      'Deployment weir-system/weir-limiter',
      'HorizontalPodAutoscaler weir-system/weir-limiter',
      'Pod weir-system/weir-test',
      'PodDisruptionBudget weir-system/weir-control-plane',
      'PodDisruptionBudget weir-system/weir-limiter',
      'RateLimitConfig weir-system/weir-test',
      'Role weir-system/weir-control-plane-replicas',
      'RoleBinding weir-system/weir-control-plane-replicas',
      'Service weir-system/weir-control-plane',
      'Service weir-system/weir-limiter',
      'ServiceAccount weir-system/weir-control-plane',
      'ServiceAccount weir-system/weir-limiter',
    ]);
  });

  it('gives rights in the watched namespaces alone', () => {
    const watched = { controlPlane: { watchNamespaces: ['shop', 'weir-system'] }, redis };
    const rights = identities(renderChart(watched)).filter((identity) => /Role/.test(identity));
    expect(rights.filter((identity) => !identity.includes('Binding')).sort()).toEqual([
      // Tokens are of no namespace.
      'ClusterRole the cluster/weir-system-weir-control-plane-tokens',
      'Role shop/weir-control-plane',
      'Role weir-system/weir-control-plane',
      'Role weir-system/weir-control-plane-replicas',
    ]);
    const withoutAccounts = {
      ...watched.controlPlane,
      xds: { serviceAccounts: false, allowAnonymous: true },
    };
    const fewer = identities(renderChart({ ...watched, controlPlane: withoutAccounts }));
    expect(fewer.filter((identity) => /ClusterRole/.test(identity))).toEqual([]);
  });

  it('binds the limiters of the release to their fleet, and mounts the token that proves it', () => {
    const objects = renderChart({ redis, limiter: { fleet: 'edge', serviceAccount: { name: 'own' } } });
    const env = environmentOf(podOf(objects, 'control-plane').spec.containers[0]);
    expect(env['XDS_CLIENT_FLEETS']).toBe('system:serviceaccount:weir-system:own=edge');
    expect(env['FLEET_SERVICES']).toMatch(/^edge=weir-system\/[a-z-]+$/);
    expect(env['XDS_ALLOW_ANONYMOUS']).toBeUndefined();
    const { spec } = podOf(objects, 'limiter');
    expect(environmentOf(spec.containers[0])['CONFIG_GRPC_XDS_TOKEN_FILE']).toBe('/etc/weir/xds-token/token');
    const source = { audience: 'weir-control-plane', expirationSeconds: 3600, path: 'token' };
    expect(spec.volumes).toEqual([
      { name: 'xds-token', projected: { defaultMode: 0o440, sources: [{ serviceAccountToken: source }] } },
    ]);
    expect(spec.automountServiceAccountToken).toBe(false);
  });

  it('lets the control plane get and update the Lease that it leads by, and no other', () => {
    const named = (values: object) => {
      const role = renderChart({ redis, ...values }).find(
        ({ kind, metadata }) => kind === 'Role' && metadata.name.endsWith('-replicas'),
      ) as unknown as { rules: { resourceNames?: string[]; verbs: string[] }[] };
      return role.rules.flatMap(({ resourceNames, verbs }) =>
        resourceNames ? [[resourceNames, verbs]] : [],
      );
    };
    expect(named({})).toEqual([[['weir-control-plane'], ['get', 'update']]]);
    const extraEnv = [{ name: 'LEASE_NAME', value: 'leader' }];
    expect(named({ controlPlane: { extraEnv } })).toEqual([[['leader'], ['get', 'update']]]);
  });

  it('keeps the definitions on uninstall, unless configured otherwise', () => {
    const kept = (values: object) =>
      renderChart({ redis, ...values })
        .filter(({ kind }) => kind === 'CustomResourceDefinition')
        .map(({ metadata }) => metadata.annotations);
    const keep = { 'helm.sh/resource-policy': 'keep' };
    expect(kept({})).toEqual([keep, keep, keep]);
    expect(kept({ crds: { keep: false } })).toEqual([undefined, undefined, undefined]);
  });

  it('keeps the debug port on loopback, outside of the Service and the pod', () => {
    const objects = renderChart({ redis });
    const container = podOf(objects, 'limiter').spec.containers[0];
    expect(environmentOf(container)['DEBUG_HOST']).toBe('127.0.0.1');
    const exposed = JSON.stringify([container.ports, objectOf(objects, 'Service', 'limiter').spec.ports]);
    expect(exposed).not.toContain('6070');
  });

  it('lets neither Redis nor rules restart a limiter', () => {
    const { startupProbe, livenessProbe, readinessProbe } = podOf(renderChart({ redis }), 'limiter').spec
      .containers[0];
    expect(startupProbe?.httpGet).toEqual({ path: '/livez', port: 'metrics' });
    expect(livenessProbe?.httpGet).toEqual({ path: '/livez', port: 'metrics' });
    expect(readinessProbe?.httpGet).toEqual({ path: '/healthcheck', port: 'http' });
  });

  it('asks the port of HTTP whether a limiter lives that has none of metrics', () => {
    const limiter = { metrics: { enabled: false } };
    const container = podOf(renderChart({ redis, limiter }), 'limiter').spec.containers[0];
    expect(container.livenessProbe?.httpGet).toEqual({ path: '/livez', port: 'http' });
    expect(container.livenessProbe?.failureThreshold).toBe(6);
    // It opens when the store and the rules are there.
    expect(container.startupProbe).toMatchObject({
      httpGet: { path: '/livez', port: 'http' },
      failureThreshold: 2_147_483_647,
    });
  });

  it('lets probes ask by HTTPS if HTTP is over TLS, and those of metrics not', () => {
    const schemes = (limiter: object) => {
      const { startupProbe, livenessProbe, readinessProbe } = podOf(
        renderChart({ redis, limiter }),
        'limiter',
      ).spec.containers[0];
      return [startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet.scheme);
    };
    const httpTls = { existingSecret: 'http-tls' };
    expect(schemes({})).toEqual([undefined, undefined, undefined]);
    expect(schemes({ httpTls })).toEqual([undefined, undefined, 'HTTPS']);
    expect(schemes({ httpTls, metrics: { enabled: false } })).toEqual(['HTTPS', 'HTTPS', 'HTTPS']);
  });

  it('writes a file of callers that the limiter takes, word for word', () => {
    const entries = [
      {
        name: 'a',
        token_sha256: `1e${'0'.repeat(62)}`,
        domains: ['1e6', '007'],
        requests_per_second: 1_000_000,
      },
      { name: 'b', certificate: [{ dns: 'b.*' }, { cn: 'yes' }], domains: ['*'], rights: ['ask', 'refund'] },
      { anonymous: true, domains: ['null'] },
    ];
    const objects = renderChart({ redis, limiter: { callers: { entries } } });
    const file = readCallersFile(objectOf(objects, 'ConfigMap', '-callers').data?.['callers.yaml'] ?? '');
    expect(file).toEqual(readCallersFile(JSON.stringify({ callers: entries })));
    expect(file.problems).toBeUndefined();
    const { spec } = podOf(objects, 'limiter');
    expect(environmentOf(spec.containers[0])['CALLERS_FILE']).toBe('/etc/weir/callers/callers.yaml');
  });

  it('writes a file of profiles that the limiter takes, as it was given', () => {
    const range = { start: 1_000_000, end: 9_007_199_254_740_991 };
    const headers = [
      { name: 'x-size', range_match: range },
      { name: 'x-path', safe_regex_match: { regex: '<a&b>' } },
    ];
    const actions = [
      { header_value_match: { descriptor_value: '1e6', headers } },
      { generic_key: { descriptor_value: '007' } },
    ];
    const profiles = { shop: { domain: 'null', trustedHops: 1, rate_limits: [{ actions }] } };
    const objects = renderChart({ redis, limiter: { profiles } });
    const text = objectOf(objects, 'ConfigMap', '-profiles').data?.['profiles.yaml'] ?? '';
    const { problems, ...file } = readProfilesFile(text);
    expect(problems).toBeUndefined();
    const given = readProfilesFile(JSON.stringify({ profiles }));
    expect(file).toMatchObject({ profiles: 'profiles' in given && given.profiles });
    const { spec } = podOf(objects, 'limiter');
    expect(environmentOf(spec.containers[0])['PROFILES_FILE']).toBe('/etc/weir/profiles/profiles.yaml');
    // A whole folder: kubelets do not renew a file that is mounted by `subPath`.
    const mount = { name: 'profiles', mountPath: '/etc/weir/profiles', readOnly: true };
    expect(spec.containers[0].volumeMounts).toContainEqual(mount);
    const own = { existingProfilesConfigMap: 'own', existingProfilesConfigMapKey: 'a.yaml' };
    const pod = podOf(renderChart({ redis, limiter: own }), 'limiter').spec;
    expect(environmentOf(pod.containers[0])['PROFILES_FILE']).toBe('/etc/weir/profiles/a.yaml');
    expect(pod.volumes).toContainEqual({ name: 'profiles', configMap: { name: 'own' } });
  });

  it.each(['LoadBalancer', 'NodePort'])('keeps metrics out of a %s', (type) => {
    const objects = renderChart({ redis, limiter: { service: { type } } });
    const names = (nameEnd: string) =>
      objectOf(objects, 'Service', nameEnd).spec.ports.map(({ name }: { name: string }) => name);
    expect(names('-limiter')).toEqual(['grpc', 'http']);
    expect(names('-limiter-metrics')).toEqual(['metrics']);
    const { spec, metadata } = objectOf(objects, 'Service', '-limiter-metrics');
    expect(spec.type).toBe('ClusterIP');
    const { labels } = podOf(objects, 'limiter').metadata;
    expect([labels, metadata.labels]).toEqual([
      expect.objectContaining(spec.selector),
      expect.objectContaining(spec.selector),
    ]);
  });

  it('gives Services the addresses and load balancers that they are to have', () => {
    const families = { ipFamilyPolicy: 'RequireDualStack', ipFamilies: ['IPv6', 'IPv4'] };
    const outside = {
      loadBalancerClass: 'service.example/lb',
      loadBalancerSourceRanges: ['203.0.113.0/24'],
      externalTrafficPolicy: 'Local',
    };
    const service = { type: 'LoadBalancer', ...outside, ...families };
    const values = { redis, listenAddress: '::', limiter: { service }, controlPlane: { service: families } };
    const fieldsOf = (objects: readonly RenderedObject[], nameEnd: string) => {
      const { selector: _, ports: __, ...fields } = objectOf(objects, 'Service', nameEnd).spec;
      return fields;
    };
    const objects = renderChart(values);
    expect(fieldsOf(objects, '-limiter')).toEqual(service);
    expect(fieldsOf(objects, '-limiter-metrics')).toEqual({ type: 'ClusterIP', ...families });
    expect(fieldsOf(objects, '-control-plane')).toEqual(families);
    expect(fieldsOf(renderChart({ redis }), '-limiter')).toEqual({ type: 'ClusterIP' });
  });

  it.each(['limiter', 'control-plane'] as const)(
    'gives the pods of the %s what other charts do',
    (program) => {
      const first = { name: 'first', image: 'first:1' };
      const beside = { name: 'beside', image: 'beside:1' };
      const pod = {
        runtimeClassName: 'gvisor',
        dnsPolicy: 'None',
        dnsConfig: { nameservers: ['10.0.0.10'] },
        hostAliases: [{ ip: '10.0.0.20', hostnames: ['redis.example'] }],
      };
      const own = {
        ...pod,
        extraInitContainers: [first],
        extraContainers: [beside],
        revisionHistoryLimit: 0,
      };
      const values = program === 'limiter' ? { limiter: own } : { controlPlane: own };
      const objects = renderChart({ redis, ...values });
      const { containers, ...spec } = podOf(objects, program).spec;
      expect(spec).toMatchObject({ ...pod, initContainers: [first] });
      expect(containers).toEqual([expect.objectContaining({ name: program }), beside]);
      expect(objectOf(objects, 'Deployment', program).spec.revisionHistoryLimit).toBe(0);
      const names = Object.keys(podOf(renderChart({ redis }), program).spec);
      expect(names.filter((name) => name in pod || name === 'initContainers')).toEqual([]);
    },
  );

  it('says Prometheus how to scrape, and where', () => {
    const serviceMonitor = {
      enabled: true,
      namespace: 'monitoring',
      interval: '30s',
      scrapeTimeout: '9s',
      relabelings: [{ action: 'labeldrop', regex: 'a' }],
      metricRelabelings: [{ action: 'labeldrop', regex: 'b' }],
    };
    const { metadata, spec } = objectOf(renderChart({ redis, serviceMonitor }), 'ServiceMonitor', 'limiter');
    expect([metadata.namespace, spec.namespaceSelector]).toEqual([
      'monitoring',
      { matchNames: [release.namespace] },
    ]);
    const { enabled: _, namespace: __, ...endpoint } = serviceMonitor;
    expect(spec.endpoints).toEqual([{ port: 'metrics', ...endpoint }]);
    const common = renderChart({ redis, serviceMonitor: { enabled: true } });
    expect(objectOf(common, 'ServiceMonitor', 'limiter')).toMatchObject({
      metadata: { namespace: release.namespace },
      spec: { endpoints: [{ port: 'metrics', interval: '15s' }] },
    });
  });

  it('pulls the image with Secrets by name, those of parent charts first, and each once', () => {
    const values = {
      global: { imagePullSecrets: ['a', { name: 'b' }] },
      imagePullSecrets: [{ name: 'a' }, 'c'],
    };
    const { imagePullSecrets } = podOf(renderChart({ redis, ...values }), 'limiter').spec;
    expect(imagePullSecrets).toEqual([{ name: 'a' }, { name: 'b' }, { name: 'c' }]);
  });

  it('makes names that a Service may have, and that stay apart if they are cut', () => {
    const named = (fullnameOverride: string) =>
      objectOf(renderChart({ redis, fullnameOverride }), 'Service', '-limiter').metadata.name;
    const [one, other] = [named(`${'a'.repeat(40)}b`), named(`${'a'.repeat(40)}c`)];
    expect(one).toMatch(/^a{33}-[0-9a-f]{6}-limiter$/);
    expect(other).toMatch(/^a{33}-[0-9a-f]{6}-limiter$/);
    expect(one).not.toBe(other);
    expect(named('a'.repeat(40))).toBe(`${'a'.repeat(40)}-limiter`);
    const dotted = runHelm(['template', 'a.b', chartFolder], { redis });
    expect([dotted.status, dotted.stdout]).toEqual([0, expect.stringContaining('name: "a-b-weir-limiter"')]);
  });

  it('gives a pod longer to end than its program takes', () => {
    const { spec } = podOf(renderChart({ redis }), 'limiter');
    expect(environmentOf(spec.containers[0])['SHUTDOWN_DRAIN_DELAY']).toBe('5s');
    expect(spec.terminationGracePeriodSeconds).toBe(60);
  });

  it('keeps a limiter without good rules of a ConfigMap out of service, and one of a control plane not', () => {
    const health = (values: Values) =>
      environmentOf(podOf(renderChart({ redis, ...values }), 'limiter').spec.containers[0])[
        'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED'
      ];
    const files = { existingRulesConfigMap: 'rules' };
    expect(health({ controlPlane: { enabled: false }, limiter: files })).toBe('true');
    expect(health({})).toBeUndefined();
  });

  it('lets proxies find new limiters within minutes', () => {
    const ages = (limiter: object) => {
      const [container] = podOf(renderChart({ redis, limiter }), 'limiter').spec.containers;
      const environment = environmentOf(container);
      return [environment['GRPC_MAX_CONNECTION_AGE'], environment['GRPC_MAX_CONNECTION_AGE_GRACE']];
    };
    expect(ages({})).toEqual(['300s', '60s']);
    expect(ages({ maxConnectionAgeSeconds: 0, maxConnectionAgeGraceSeconds: 0 })).toEqual(['0s', '0s']);
  });

  it('lets extraEnv go before what the chart sets itself', () => {
    const limiter = { extraEnv: [{ name: 'LOG_LEVEL', value: 'debug' }] };
    const container = podOf(renderChart({ redis, limiter }), 'limiter').spec.containers[0];
    expect(environmentOf(container)['LOG_LEVEL']).toBe('debug');
  });

  it('leaves the number of limiters to the autoscaler, or to limiter.replicas', () => {
    const replicas = (limiter: object) =>
      objectOf(renderChart({ redis, limiter }), 'Deployment', 'limiter').spec.replicas;
    expect(replicas({})).toBeUndefined();
    expect(replicas({ autoscaling: { enabled: false }, replicas: 4 })).toBe(4);
  });

  it('names the image by registry, repository, and tag or digest', () => {
    const named = (image: object) => podOf(renderChart({ redis, image }), 'limiter').spec.containers[0].image;
    expect(named({})).toBe('weir:0.1.0');
    expect(named({ registry: 'a.example', repository: 'b/weir', tag: '9' })).toBe('a.example/b/weir:9');
    const digest = `sha256:${'a'.repeat(64)}`;
    expect(named({ tag: '9', digest })).toBe(`weir@${digest}`);
  });

  it.each(rejectedValues)('says: %s', (message, values) => {
    const { status, stderr } = tryChart(values);
    expect(status).toBe(1);
    expect(stderr).toContain(message);
  });
});
