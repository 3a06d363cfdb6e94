import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { awaitCrd } from '../support/cluster.ts';
import { describeWithChart } from '../support/describe-with-chart.ts';
import { eventually } from '../support/eventually.ts';
import {
  chartFolder,
  podOf,
  type RenderedObject,
  renderChart,
  renderChartText,
  runHelm,
  type Values,
} from '../support/helm-chart.ts';
import { valueCases } from './value-cases.ts';

const redis = { url: 'redis:6379' };

/** What the control plane does with RateLimitConfigs, in a namespace that it serves. */
const inServed = [
  'list ratelimitconfigs.ratelimit.weir.dev',
  'watch ratelimitconfigs.ratelimit.weir.dev',
  'patch ratelimitconfigs.ratelimit.weir.dev --subresource=status',
  'create events.events.k8s.io',
  'patch events.events.k8s.io',
];

/** Of no namespace. */
const everywhere = ['create tokenreviews.authentication.k8s.io'];

/** What it does in its own namespace. */
const inOwn = [
  ...['get', 'update'].map((verb) => `${verb} leases.coordination.k8s.io weir-control-plane`),
  ...['list', 'watch', 'create', 'patch', 'delete'].map((verb) => `${verb} leases.coordination.k8s.io`),
  ...['list', 'watch', 'create', 'patch', 'delete'].map((verb) => `${verb} configmaps`),
];

/** All rights of the account in the namespace, one line for each verb, without those that everybody has. */
type Rights = (account: string, namespace: string) => string[];

describeWithChart('the objects of the chart', (api, definitions) => {
  beforeAll(async () => {
    const files = ['crds/ratelimit.weir.dev_ratelimitconfigs.yaml', ...definitions];
    api().mustKubectl(['apply', '--server-side', ...files.flatMap((file) => ['-f', file])]);
    awaitCrd(api());
    for (const namespace of ['weir-system', 'shop', 'monitoring'])
      api().mustKubectl(['create', 'namespace', namespace]);
    const restricted = 'pod-security.kubernetes.io/enforce=restricted';
    api().mustKubectl(['label', 'namespace', 'weir-system', restricted]);
    await eventually(() => {
      for (const kind of ['servicemonitors', 'prometheusrules'])
        api().mustKubectl(['get', `${kind}.monitoring.coreos.com`]);
    });
  });

  const dryRun = (input: string) =>
    api().kubectl(
      ['apply', '--server-side', '--dry-run=server', '--validate=strict', '--force-conflicts', '-f', '-'],
      { input },
    );

  it.each(valueCases)('are accepted, every one, with $name', ({ values }) => {
    const objects = renderChart(values);
    const { status, stdout, stderr } = dryRun(renderChartText(values));
    expect([status, stderr]).toEqual([0, '']);
    expect(stdout.trim().split('\n')).toHaveLength(objects.length);
  });

  it('are refused by that server with a field that does not exist', () => {
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
      api().mustKubectl(['apply', '-f', '-'], { input: text });
      onTestFinished(() => void api().mustKubectl(['delete', '-f', '-'], { input: text }));
    };
    const can = (account: string, namespace: string, question: string) =>
      api()
        .kubectl(['auth', 'can-i', ...question.split(' '), '-n', namespace, `--as=${account}`])
        .stdout.trim();
    const account = 'system:serviceaccount:weir-system:weir-control-plane';
    const listed: Rights = (who, namespace) => {
      const table = api().mustKubectl([
        'auth',
        'can-i',
        '--list',
        '--no-headers',
        '-n',
        namespace,
        `--as=${who}`,
      ]);
      return table.split('\n').flatMap(rightsOfLine).sort();
    };

    it('to the control plane for what it does in all namespaces, and for nothing else', async () => {
      const own = listed(account, 'weir-system');
      expect(own).toEqual([]);
      install({ redis });
      await eventually(() => {
        expect(listed(account, 'shop')).toEqual([...inServed, ...everywhere].sort());
        expect(listed(account, 'weir-system')).toEqual([...inServed, ...inOwn, ...everywhere].sort());
      });
      expect(can(account, 'shop', 'list ratelimitconfigs.ratelimit.weir.dev -A')).toBe('yes');
      expect(can(account, 'shop', 'list configmaps')).toBe('no');
      expect(can(account, 'weir-system', 'get secrets')).toBe('no');
      expect(listed('system:serviceaccount:weir-system:weir-limiter', 'weir-system')).toEqual([]);
    });

    it('in the watched namespaces alone where there are such', async () => {
      install({ redis, controlPlane: { watchNamespaces: ['shop'] } });
      await eventually(() => {
        expect(listed(account, 'shop')).toEqual([...inServed, ...everywhere].sort());
        expect(listed(account, 'weir-system')).toEqual([...inOwn, ...everywhere].sort());
        expect(listed(account, 'default')).toEqual(everywhere);
      });
      expect(can(account, 'shop', 'list ratelimitconfigs.ratelimit.weir.dev -A')).toBe('no');
    });
  });

  it('are installed, upgraded and uninstalled by Helm, but for the definition of RateLimitConfigs', () => {
    const helm = (command: readonly string[], values?: Values) => {
      const run = runHelm([...command, '--namespace', 'shop'], values, api().kubeconfig());
      expect([run.status, run.stderr.replaceAll(/^(level|W\d|time).*\n/gm, '')]).toEqual([0, '']);
      return run.stdout;
    };
    const replicas = () =>
      api().mustKubectl([
        'get',
        'deployment',
        'weir-limiter',
        '-n',
        'shop',
        '-o',
        'jsonpath={.spec.replicas}',
      ]);
    api().mustKubectl(['delete', '-f', 'crds/']);
    const fixed = (count: number) => ({
      redis,
      limiter: { autoscaling: { enabled: false }, replicas: count },
    });
    helm(['install', 'weir', chartFolder], fixed(3));
    expect(replicas()).toBe('3');
    helm(['upgrade', 'weir', chartFolder], fixed(4));
    expect(replicas()).toBe('4');
    helm(['uninstall', 'weir', '--cascade=background']);
    expect(api().kubectl(['get', 'service', 'weir-limiter', '-n', 'shop']).stderr).toContain('not found');
    expect(api().mustKubectl(['get', 'crd', '-o', 'name'])).toContain('ratelimitconfigs.ratelimit.weir.dev');
    awaitCrd(api());
  });
});

function rights(objects: readonly RenderedObject[]): RenderedObject[] {
  return objects.filter(({ kind }) => /Role|ServiceAccount/.test(kind));
}

/** `configmaps  []  []  [list watch]` as one question for each verb; nothing for paths and for reviews of oneself. */
function rightsOfLine(line: string): string[] {
  const match = /^(\S+)\s+\[.*?\]\s+\[(.*?)\]\s+\[(.*?)\]$/.exec(line.trim());
  const [, resource = '', object = '', verbs = ''] = match ?? [];
  if (resource === '' || resource.startsWith('self')) return [];
  const [name = '', subresource] = resource.split('/');
  const suffix = `${subresource === undefined ? '' : ` --subresource=${subresource}`}${object && ` ${object}`}`;
  return verbs.split(' ').map((verb) => `${verb} ${name}${suffix}`);
}
