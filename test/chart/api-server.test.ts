import { readFileSync } from 'node:fs';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import type { ResourceRule } from '../support/api-server.ts';
import { awaitCrds } from '../support/cluster.ts';
import { describeWithChart } from '../support/describe-with-chart.ts';
import { eventually } from '../support/eventually.ts';
import {
  chartFolder,
  installedOf,
  podOf,
  type RenderedObject,
  renderChart,
  renderChartText,
  runHelm,
  type Values,
} from '../support/helm-chart.ts';
import { releasesOn, removeDefinitions } from './releases.ts';
import { valueCases } from './value-cases.ts';

const redis = { url: 'redis:6379' };

/** What the control plane does with RateLimitConfigs, in a namespace that it serves. */
const inServed = [
  ...['ratelimitconfigs', 'ratelimitoverrides'].flatMap((kind) => [
    `list ${kind}.ratelimit.weir.dev`,
    `watch ${kind}.ratelimit.weir.dev`,
    `patch ${kind}.ratelimit.weir.dev --subresource=status`,
  ]),
  'create events.events.k8s.io',
  'patch events.events.k8s.io',
];

/** Of no namespace. */
const everywhere = ['create tokenreviews.authentication.k8s.io'];

/** Of no namespace either; not where namespaces are named. */
const unlessNamed = ['list namespaces', 'watch namespaces'];

/** What it does in its own namespace. */
const inOwn = [
  ...['get', 'update'].map((verb) => `${verb} leases.coordination.k8s.io weir-control-plane`),
  ...['list', 'watch', 'create', 'patch', 'delete'].map((verb) => `${verb} leases.coordination.k8s.io`),
  ...['list', 'watch', 'create', 'patch', 'delete'].map((verb) => `${verb} configmaps`),
  ...['list', 'watch', 'create'].map((verb) => `${verb} ratelimitfleets.ratelimit.weir.dev`),
  'patch ratelimitfleets.ratelimit.weir.dev --subresource=status',
  ...['list', 'watch'].map((verb) => `${verb} endpointslices.discovery.k8s.io`),
];

/** All rights of the account in the namespace, one line for each verb, without those that everybody has. */
type Rights = (account: string, namespace: string) => string[];

describeWithChart('the objects of the chart', (api, definitions) => {
  beforeAll(async () => {
    const files = ['crds/', ...definitions];
    api().mustKubectl(['apply', '--server-side', ...files.flatMap((file) => ['-f', file])]);
    awaitCrds(api());
    for (const namespace of ['weir-system', 'shop', 'monitoring']) api().createNamespace(namespace);
    const restricted = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    api().label('namespaces', { name: 'weir-system' }, restricted);
    await eventually(() => {
      for (const kind of ['servicemonitors', 'prometheusrules'])
        expect(api().get(`/apis/monitoring.coreos.com/v1/${kind}`).status).toBe(200);
    });
  });

  const dryRun = (input: string) =>
    api().kubectl(
      ['apply', '--server-side', '--dry-run=server', '--validate=strict', '--force-conflicts', '-f', '-'],
      { input },
    );

  it('are accepted, every one, with all kinds of values', { timeout: 120_000 }, () => {
    // As Helm writes them, since kubectl reads YAML in its own way. Most are the same with many values.
    const documents = new Set(
      valueCases.flatMap(({ values }) =>
        renderChartText(values)
          .split(/^---$/m)
          .map((text) => text.replaceAll(/^# Source: .*$/gm, '').trim())
          .filter((text) => text !== ''),
      ),
    );
    expect(documents.size).toBeGreaterThan(3 * valueCases.length);
    const { status, stdout, stderr } = dryRun([...documents].join('\n---\n'));
    const deprecated = /^Warning: .*"PreferClose" is deprecated.*\n/gm;
    expect([status, stderr.replace(deprecated, '')]).toEqual([0, '']);
    expect(stdout.trim().split('\n')).toHaveLength(documents.size);
  });

  it('are rejected by that server with a field that does not exist', () => {
    const text = renderChartText({ redis }).replace('enableServiceLinks:', 'enableServiceLink:');
    const { status, stderr } = dryRun(text);
    expect(status).toBe(1);
    expect(stderr).toContain('.spec.template.spec.enableServiceLink: field not declared in schema');
  });

  it.each(['limiter', 'control-plane'] as const)(
    'make a %s that the standard "restricted" admits',
    (name) => {
      const pod = podOf(renderChart({ redis }), name);
      const asObject = (more: object) =>
        JSON.stringify({
          apiVersion: 'v1',
          kind: 'Pod',
          metadata: { name, namespace: 'weir-system' },
          spec: { ...pod.spec, ...more },
        });
      expect(dryRun(asObject({})).stderr).toBe('');
      const refused = dryRun(asObject({ securityContext: { runAsUser: 0 } }));
      expect(refused.stderr).toContain('violates PodSecurity "restricted:latest"');
    },
  );

  describe('give rights', () => {
    const install = (values: Values) => {
      const text = JSON.stringify({ kind: 'List', apiVersion: 'v1', items: rights(renderChart(values)) });
      api().apply(text);
      onTestFinished(() => void api().deleteAll(text));
    };
    const can = (account: string, namespace: string, question: string) =>
      api()
        .kubectl(['auth', 'can-i', ...question.split(' '), '-n', namespace, `--as=${account}`])
        .stdout.trim();
    const account = 'system:serviceaccount:weir-system:weir-control-plane';
    const all: Rights = (who, namespace) => {
      return [...new Set(api().rightsOf(who, namespace).flatMap(rightsOfRule))].sort();
    };
    const listed: Rights = (who, namespace) => {
      const everybodys = new Set(all('system:serviceaccount:weir-system:nobody', namespace));
      return all(who, namespace).filter((right) => !everybodys.has(right));
    };

    it('to the control plane for what it does in all namespaces, and for nothing else', async () => {
      const own = listed(account, 'weir-system');
      expect(own).toEqual([]);
      install({ redis });
      await eventually(() => {
        expect(listed(account, 'shop')).toEqual([...inServed, ...everywhere, ...unlessNamed].sort());
        expect(listed(account, 'weir-system')).toEqual(
          [...inServed, ...inOwn, ...everywhere, ...unlessNamed].sort(),
        );
      });
      expect(can(account, 'shop', 'list ratelimitconfigs.ratelimit.weir.dev -A')).toBe('yes');
      expect(can(account, 'shop', 'list configmaps')).toBe('no');
      expect(can(account, 'weir-system', 'get secrets')).toBe('no');
      expect(listed('system:serviceaccount:weir-system:weir-limiter', 'weir-system')).toEqual([]);
    });

    it('to people by the roles that they have, on objects and not on their status', async () => {
      install({ redis, aggregatedRoles: { enabled: true } });
      const person = 'somebody';
      const rightsBy = async (role: string) => {
        const name = `weir-system-weir-${role}`;
        const rbac = 'rbac.authorization.k8s.io';
        const where = { name: 'person', namespace: 'shop' };
        const binding = {
          apiVersion: `${rbac}/v1`,
          kind: 'RoleBinding',
          metadata: where,
          roleRef: { apiGroup: rbac, kind: 'ClusterRole', name },
          subjects: [{ apiGroup: rbac, kind: 'User', name: person }],
        };
        api().apply(JSON.stringify(binding));
        await eventually(() => expect(listed(person, 'shop')).not.toEqual([]));
        const found = listed(person, 'shop');
        api().delete('rolebindings', where);
        await eventually(() => expect(listed(person, 'shop')).toEqual([]));
        return found;
      };
      const rules = (...verbs: string[]) =>
        ['ratelimitconfigs', 'ratelimitoverrides'].flatMap((kind) =>
          verbs.map((verb) => `${verb} ${kind}.ratelimit.weir.dev`),
        );
      const fleets = ['get', 'list', 'watch'].map((verb) => `${verb} ratelimitfleets.ratelimit.weir.dev`);
      expect(await rightsBy('view')).toEqual([...rules('get', 'list', 'watch'), ...fleets].sort());
      expect(await rightsBy('edit')).toEqual(rules('create', 'delete', 'patch', 'update').sort());
      expect(await rightsBy('admin')).toEqual(rules('deletecollection'));
    });

    it('in the watched namespaces alone if there are such', async () => {
      install({ redis, controlPlane: { watchNamespaces: ['shop'] } });
      await eventually(() => {
        expect(listed(account, 'shop')).toEqual([...inServed, ...everywhere].sort());
        expect(listed(account, 'weir-system')).toEqual([...inOwn, ...everywhere].sort());
        expect(listed(account, 'default')).toEqual(everywhere);
      });
      expect(can(account, 'shop', 'list ratelimitconfigs.ratelimit.weir.dev -A')).toBe('no');
    });
  });

  it('are applied without Helm, as examples/kubernetes/install.yaml has them, and again', {
    timeout: 120_000,
  }, () => {
    const file = 'examples/kubernetes/install.yaml';
    const apply = () => api().mustKubectl(['apply', '--server-side', '--validate=strict', '-f', file]);
    const names = (text: string) => text.replaceAll(' serverside-applied', '').trim().split('\n');
    const first = names(apply());
    expect(names(apply())).toEqual(first);
    const installed = installedOf(renderChart({ redis }));
    expect(first).toHaveLength(installed.length + 1);
    // What the server has is what it would have by Helm.
    expect(readFileSync(file, 'utf8')).not.toMatch(/helm\.sh\/chart|: Helm$/m);
    for (const { kind, metadata, spec } of installed.filter((one) => one.kind === 'Deployment')) {
      const get = ['get', kind, metadata.name, '-n', 'weir-system', '-o', 'json'];
      expect(JSON.parse(api().mustKubectl(get)).spec.template.spec).toMatchObject(spec.template.spec);
    }
    const notNamespace = first.filter((name) => !/^namespace|^customresource/.test(name));
    api().mustKubectl(['delete', '-n', 'weir-system', ...notNamespace]);
  });

  it('are installed, upgraded and uninstalled by Helm, except for the definition of RateLimitConfigs', {
    timeout: 180_000,
  }, async () => {
    await removeDefinitions(api());
    const definition = 'crd/ratelimitconfigs.ratelimit.weir.dev';
    const { helm, install, uninstall } = releasesOn(api);
    const replicas = () => {
      const path = 'jsonpath={.spec.replicas}';
      return api().mustKubectl(['get', 'deployment', 'weir-limiter', '-n', 'shop', '-o', path]);
    };
    const fixed = (count: number) => ({
      redis,
      limiter: { autoscaling: { enabled: false }, replicas: count },
    });
    helm(['install', 'weir', chartFolder], fixed(3));
    expect(replicas()).toBe('3');
    const second = ['install', 'second', chartFolder, '--namespace', 'shop'];
    const rejected = runHelm(second, { redis }, api().kubeconfig());
    expect([rejected.status, rejected.stderr]).toEqual([
      1,
      expect.stringContaining(
        'the namespace shop has the control plane of the release weir: install this release',
      ),
    ]);
    const limiters = { redis, crds: { enabled: false }, controlPlane: { enabled: false } };
    helm(['install', 'second', chartFolder], { ...limiters, limiter: { fleet: 'b', xdsAddress: 'a:18000' } });
    uninstall('second');
    helm(['upgrade', 'weir', chartFolder], fixed(4));
    expect(replicas()).toBe('4');
    uninstall();
    expect(api().kubectl(['get', 'service', 'weir-limiter', '-n', 'shop']).stderr).toContain('not found');
    expect(api().mustKubectl(['get', definition, '-o', 'name'])).toContain('ratelimitconfigs');
    // Another release finds what the first one left.
    expect(install('other')).toContain(
      'is of the release weir in the namespace shop, so the chart does not change it',
    );
    uninstall('other');
  });
});

function rights(objects: readonly RenderedObject[]): RenderedObject[] {
  return objects.filter(({ kind }) => /Role|ServiceAccount/.test(kind));
}

/** One question for each verb; nothing for reviews of oneself. */
function rightsOfRule({
  verbs,
  apiGroups = [''],
  resources = [],
  resourceNames = [''],
}: ResourceRule): string[] {
  return apiGroups.flatMap((group) =>
    resources
      .filter((resource) => !resource.startsWith('self'))
      .flatMap((resource) => {
        const [kind = '', subresource] = resource.split('/');
        const name = group === '' ? kind : `${kind}.${group}`;
        const suffix = subresource === undefined ? '' : ` --subresource=${subresource}`;
        return resourceNames.flatMap((object) =>
          verbs.map((verb) => `${verb} ${name}${suffix}${object && ` ${object}`}`),
        );
      }),
  );
}
