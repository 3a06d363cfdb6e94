/** What the chart makes for those around it: meshes, certificates, policies, people, nodes and `helm test`. */
import { expect, it } from 'vitest';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import {
  objectOf,
  podOf,
  type RenderedObject,
  renderChart,
  testPodOf,
  type Values,
} from '../support/helm-chart.ts';

const redis = { url: 'redis:6379' };

function variablesOf(objects: readonly RenderedObject[], program: 'limiter' | 'control-plane') {
  const { env } = podOf(objects, program).spec.containers[0];
  return Object.fromEntries(env.map(({ name, value }) => [name, value]));
}

function volumesOf(objects: readonly RenderedObject[], program: 'limiter' | 'control-plane') {
  const { volumes = [] } = podOf(objects, program).spec;
  return Object.fromEntries(volumes.map(({ name, secret }) => [name, secret?.secretName]));
}

function protocolsOf(values: Values, nameEnd: string): string[] {
  const { ports } = objectOf(renderChart(values), 'Service', nameEnd).spec;
  return ports.map(
    ({ name, appProtocol }: { name: string; appProtocol: string }) => `${name} ${appProtocol}`,
  );
}

describeWithServer('the chart', helmProgram, () => {
  it('lets no pod that is not ready hold up a drain of its node', () => {
    const budgets = renderChart({ redis }).filter(({ kind }) => kind === 'PodDisruptionBudget');
    expect(budgets.map(({ spec }) => spec.unhealthyPodEvictionPolicy)).toEqual([
      'AlwaysAllow',
      'AlwaysAllow',
    ]);
  });

  it('shows a mesh what its ports speak', () => {
    expect(protocolsOf({ redis }, '-limiter')).toEqual(['grpc grpc', 'http http', 'metrics http']);
    expect(protocolsOf({ redis }, '-control-plane')).toEqual(['xds grpc', 'metrics http']);
    const limiter = { grpcTls: { existingSecret: 'a' }, httpTls: { existingSecret: 'b' } };
    const tls = { redis, limiter, certManager: { enabled: true } };
    expect(protocolsOf(tls, '-limiter')).toEqual(['grpc tls', 'http https', 'metrics http']);
    expect(protocolsOf(tls, '-control-plane')).toEqual(['xds tls', 'metrics http']);
    const lookup = { signingSecret: 'a' };
    const secretLookup = { tokenSecret: 'b', allowPlain: true };
    const open = { redis, controlPlane: { webhooks: lookup, secretLookup } };
    expect(protocolsOf(open, '-control-plane')).toEqual(['xds grpc', 'metrics http', 'api http']);
  });

  it('sends callers to near pods when that is enabled, and does not mention it otherwise', () => {
    const service = (trafficDistribution?: string) =>
      ['-limiter', '-control-plane'].map((nameEnd) => {
        const own = { service: { ...(trafficDistribution && { trafficDistribution }) } };
        return objectOf(renderChart({ redis, limiter: own, controlPlane: own }), 'Service', nameEnd).spec
          .trafficDistribution;
      });
    expect(service()).toEqual([undefined, undefined]);
    expect(service('PreferSameZone')).toEqual(['PreferSameZone', 'PreferSameZone']);
  });

  it('gives people rights through the roles that they have, none of them on status', () => {
    const roles = renderChart({ redis, aggregatedRoles: { enabled: true } }).filter(({ metadata }) =>
      /-(view|edit|admin)$/.test(metadata.name),
    );
    const aggregated = roles.map(({ kind, metadata, rules }) => [
      `${kind} ${metadata.name}`,
      Object.keys(metadata.labels).filter((label) => label.startsWith('rbac.')),
      rules,
    ]);
    const rule = (verbs: string[], ...more: string[]) => [
      {
        apiGroups: ['ratelimit.weir.dev'],
        resources: ['ratelimitconfigs', 'ratelimitoverrides', ...more],
        verbs,
      },
    ];
    const label = (role: string) => [`rbac.authorization.k8s.io/aggregate-to-${role}`];
    expect(aggregated).toEqual([
      ['ClusterRole weir-system-weir-view', label('view'), rule(['get', 'list', 'watch'], 'ratelimitfleets')],
      ['ClusterRole weir-system-weir-edit', label('edit'), rule(['create', 'delete', 'patch', 'update'])],
      ['ClusterRole weir-system-weir-admin', label('admin'), rule(['deletecollection'])],
    ]);
  });

  it('renders objects of the values, given as YAML or as text, with its own templates', () => {
    const data = { release: '{{ .Release.Name }}', plain: '1' };
    const extraObjects = [
      { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a' }, data },
      'apiVersion: v1\nkind: Secret\nmetadata:\n  name: {{ include "weir.limiter.name" . }}-more\n',
    ];
    const objects = renderChart({ redis, extraObjects });
    expect(objectOf(objects, 'ConfigMap', 'a').data).toEqual({ release: 'weir', plain: '1' });
    expect(objectOf(objects, 'Secret').metadata.name).toBe('weir-limiter-more');
  });

  it('has the API server ask about what is served here, by a certificate of cert-manager or of a Secret', () => {
    const asked = (values: Values) => {
      const objects = renderChart({ redis, networkPolicy: { enabled: true }, ...values });
      const { metadata, ...own } = objectOf(objects, 'ValidatingWebhookConfiguration', '-control-plane');
      const { webhooks } = own as unknown as { webhooks: Record<string, unknown>[] };
      const policy = objectOf(objects, 'NetworkPolicy', '-control-plane').spec.ingress;
      return { objects, name: metadata.name, annotations: metadata.annotations, webhooks, policy };
    };
    const made = asked({ certManager: { enabled: true }, admission: { enabled: true } });
    expect(made.name).toBe('weir-system-weir-control-plane');
    expect(made.annotations).toEqual({
      'cert-manager.io/inject-ca-from': 'weir-system/weir-control-plane-admission-tls',
    });
    const certificate = objectOf(made.objects, 'Certificate', '-admission-tls').spec;
    expect(certificate.dnsNames).toContain('weir-control-plane.weir-system.svc');
    const service = {
      ...{ name: 'weir-control-plane', namespace: 'weir-system' },
      ...{ path: '/validate', port: 19_002 },
    };
    const [configs, fleets] = made.webhooks;
    expect(configs).toMatchObject({
      clientConfig: { service },
      failurePolicy: 'Ignore',
      sideEffects: 'None',
    });
    expect(configs?.['namespaceSelector']).toBeUndefined();
    const ownNamespace = { matchLabels: { 'kubernetes.io/metadata.name': 'weir-system' } };
    expect(fleets).toMatchObject({ clientConfig: { service }, namespaceSelector: ownNamespace });
    expect(volumesOf(made.objects, 'control-plane')).toMatchObject({
      'admission-tls': 'weir-control-plane-admission-tls',
    });
    expect(variablesOf(made.objects, 'control-plane')).toMatchObject({
      ADMISSION_PORT: '19002',
      ADMISSION_TLS_CERT: '/etc/weir/admission-tls/tls.crt',
    });
    expect(made.policy).toContainEqual({ ports: [{ port: 'admission' }] });

    const caBundle = '-----BEGIN CERTIFICATE-----';
    const from = [{ ipBlock: { cidr: '10.0.0.0/28' } }];
    const given = asked({
      admission: { enabled: true, tlsSecret: 'own', caBundle, failurePolicy: 'Fail' },
      controlPlane: { watchNamespaces: ['shop'] },
      networkPolicy: { enabled: true, admissionFrom: from },
    });
    expect(given.annotations).toBeUndefined();
    expect(given.webhooks[0]).toMatchObject({
      clientConfig: { caBundle: Buffer.from(caBundle).toString('base64') },
      failurePolicy: 'Fail',
      namespaceSelector: {
        matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'In', values: ['shop'] }],
      },
    });
    expect(volumesOf(given.objects, 'control-plane')).toMatchObject({ 'admission-tls': 'own' });
    expect(given.policy).toContainEqual({ ports: [{ port: 'admission' }], from });
  });

  it('has cert-manager make what both ends of xDS mount, and binds the limiters by the name in theirs', () => {
    const controlPlane = { webhooks: { signingSecret: 'a' }, secretLookup: { tokenSecret: 'b' } };
    const objects = renderChart({
      redis,
      certManager: { enabled: true },
      limiter: { fleet: 'edge' },
      controlPlane,
    });
    const certificates = objects.filter(({ kind, spec }) => kind === 'Certificate' && !spec.isCA);
    const secrets = certificates.map(({ spec }) => [spec.secretName, spec.usages[1], spec.issuerRef.name]);
    expect(secrets).toEqual([
      ['weir-control-plane-xds-tls', 'server auth', 'weir-ca'],
      ['weir-control-plane-api-tls', 'server auth', 'weir-ca'],
      ['weir-limiter-xds-tls', 'client auth', 'weir-ca'],
    ]);
    const [server, , client] = certificates;
    const [host] = variablesOf(objects, 'limiter')['CONFIG_GRPC_XDS_SERVER_URL']?.split(':') ?? [];
    expect(server?.spec.dnsNames).toContain(host);
    expect(variablesOf(objects, 'control-plane')).toMatchObject({
      XDS_CLIENT_FLEETS: `${client?.spec.dnsNames[0]}=edge`,
      XDS_TLS_CLIENT_CACERT: '/etc/weir/xds-tls/ca.crt',
      API_TLS_CERT: '/etc/weir/api-tls/tls.crt',
    });
    expect(volumesOf(objects, 'control-plane')).toMatchObject({
      'xds-tls': 'weir-control-plane-xds-tls',
      'api-tls': 'weir-control-plane-api-tls',
    });
    expect(volumesOf(objects, 'limiter')).toEqual({ 'xds-tls': 'weir-limiter-xds-tls' });
    const issuers = objects.filter(({ kind }) => kind === 'Issuer').map(({ metadata }) => metadata.name);
    expect(issuers.sort()).toEqual(['weir-ca', 'weir-self-signed']);
    const roles = objects.filter(({ kind }) => kind === 'ClusterRole').map(({ metadata }) => metadata.name);
    // Nobody's token is asked about.
    expect(roles).toEqual(['weir-system-weir-control-plane']);
  });

  it('takes certificates of an issuer that is there, and makes no authority then', () => {
    const issuerRef = { name: 'company', kind: 'ClusterIssuer' };
    const objects = renderChart({ redis, certManager: { enabled: true, issuerRef } });
    expect(objects.filter(({ kind, spec }) => kind === 'Issuer' || spec?.isCA)).toEqual([]);
    expect(objectOf(objects, 'Certificate', '-limiter-xds-tls').spec.issuerRef).toEqual({
      ...issuerRef,
      group: 'cert-manager.io',
    });
  });

  it('bounds whom pods reach by policies for the way out, when it is asked to', () => {
    const policies = (egress: object, more: Values = {}) =>
      renderChart({ redis, ...more, networkPolicy: { enabled: true, egress } }).filter(
        ({ kind }) => kind === 'NetworkPolicy',
      );
    for (const { spec } of policies({}))
      expect([spec.policyTypes, spec.egress]).toEqual([['Ingress'], undefined]);
    const store = [{ to: [{ podSelector: { matchLabels: { app: 'redis' } } }], ports: [{ port: 6379 }] }];
    const dns = { ports: [53, 53].map((port, n) => ({ port, protocol: ['UDP', 'TCP'][n] })) };
    const labels = { name: 'weir', instance: 'weir', component: 'control-plane' };
    const matchLabels = Object.fromEntries(
      Object.entries(labels).map(([name, value]) => [`app.kubernetes.io/${name}`, value]),
    );
    const own = policies({ enabled: true, store });
    expect(own.map(({ spec }) => spec.policyTypes)).toEqual(Array(2).fill(['Ingress', 'Egress']));
    expect(objectOf(own, 'NetworkPolicy', '-limiter').spec.egress).toEqual([
      dns,
      ...store,
      { to: [{ podSelector: { matchLabels } }], ports: [{ port: 18_000 }] },
    ]);
    expect(objectOf(own, 'NetworkPolicy', '-control-plane').spec.egress).toEqual([
      dns,
      { ports: [{ port: 443 }, { port: 6443 }] },
    ]);
    const away = { controlPlane: { enabled: false }, limiter: { xdsAddress: 'weir.other.svc:18001' } };
    const [limiter] = policies({ enabled: true, store, limiter: [{ ports: [{ port: 4317 }] }] }, away);
    expect(limiter?.spec.egress.slice(2)).toEqual([
      { ports: [{ port: 4317 }] },
      { ports: [{ port: 18_001 }] },
    ]);
  });

  it('lets the pod of helm test through to limiters that only some may ask', () => {
    const networkPolicy = {
      enabled: true,
      limiterFrom: [{ podSelector: { matchLabels: { app: 'envoy' } } }],
    };
    const allowed = (values: Values) =>
      objectOf(renderChart({ redis, networkPolicy, ...values }), 'NetworkPolicy', '-limiter').spec.ingress[0]
        .from;
    const [, test] = allowed({});
    expect(testPodOf(renderChart({ redis })).metadata.labels).toMatchObject(test.podSelector.matchLabels);
    expect(allowed({ helmTest: { enabled: false } })).toHaveLength(1);
  });

  it('tests by a rule of its own if its control plane serves it, else by one of the values, else not', () => {
    const asked = (values: Values) => {
      const objects = renderChart({ redis, ...values });
      const rule = objects.find(({ kind }) => kind === 'RateLimitConfig');
      const pod = objects.find(({ kind }) => kind === 'Pod') && testPodOf(objects);
      const { args = [] } = pod?.spec.containers[0] ?? {};
      return [
        args.find((one) => one.startsWith('--domain')),
        rule && [rule.metadata.namespace, rule.spec.fleet],
      ];
    };
    const own = '--domain=weir-helm-test';
    expect(asked({})).toEqual([own, ['weir-system', 'default']]);
    const watchNamespaces = ['shop', 'mail'];
    expect(asked({ limiter: { fleet: 'edge' }, controlPlane: { watchNamespaces } })).toEqual([
      own,
      ['shop', 'edge'],
    ]);
    const named = { helmTest: { domain: 'shop', descriptor: 'a=b' } };
    expect(asked(named)).toEqual(['--domain=shop', undefined]);
    const files = { controlPlane: { enabled: false }, limiter: { existingRulesConfigMap: 'rules' } };
    expect(asked(files)).toEqual([undefined, undefined]);
    expect(asked({ ...files, ...named })).toEqual(['--domain=shop', undefined]);
    expect(asked({ helmTest: { enabled: false } })).toEqual([undefined, undefined]);
    expect(asked({ controlPlane: { labelSelector: 'team in (a,b)' } })).toEqual([undefined, undefined]);
    const chosen = objectOf(
      renderChart({ redis, controlPlane: { labelSelector: 'team=a' } }),
      'RateLimitConfig',
    );
    expect(chosen.metadata.labels).toMatchObject({ team: 'a' });
  });
});
