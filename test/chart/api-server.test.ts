import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { awaitCrds } from '../support/cluster.ts';
import { describeWithChart } from '../support/describe-with-chart.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, kubectlProgram } from '../support/find-server.ts';
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
    const all: Rights = (who, namespace) => {
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
        const binding = ['rolebinding', 'person', '--namespace=shop'];
        api().mustKubectl(['create', ...binding, `--clusterrole=${name}`, `--user=${person}`]);
        await eventually(() => expect(listed(person, 'shop')).not.toEqual([]));
        const found = listed(person, 'shop');
        api().mustKubectl(['delete', ...binding]);
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

  // Each runs Helm and kubectl many times, on a machine that others use, too.
  describe('with Helm', { timeout: 180_000 }, () => {
    const definition = 'crd/ratelimitconfigs.ratelimit.weir.dev';
    const helm = (command: readonly string[], values?: Values, namespace = 'shop') => {
      const run = runHelm([...command, '--namespace', namespace], values, api().kubeconfig());
      expect([run.status, run.stderr.replaceAll(/^(level|W\d|time).*\n/gm, '')]).toEqual([0, '']);
      return run.stdout;
    };
    const install = (name = 'weir', namespace?: string) =>
      helm(['install', name, chartFolder], { redis }, namespace);
    const upgrade = (...flags: string[]) => helm(['upgrade', 'weir', chartFolder, ...flags], { redis });
    const uninstall = (name = 'weir', namespace?: string) =>
      void helm(['uninstall', name, '--cascade=background'], {}, namespace);
    const applyDefinition = (...how: string[]) => api().mustKubectl([...how, '-f', 'crds/']);
    const owner = () =>
      api().mustKubectl([
        'get',
        definition,
        '-o',
        'jsonpath={.metadata.annotations.meta\\.helm\\.sh/release-name}',
      ]);
    const object = JSON.stringify({
      apiVersion: 'ratelimit.weir.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'kept', namespace: 'shop' },
      spec: { domain: 'kept' },
    });
    /** As the README says it, but for the upgrade. */
    const giveToChart = () => {
      const readme = readFileSync(join(chartFolder, 'README.md'), 'utf8');
      const block = /^CRDS=(?:.|\n)*?(?=^helm upgrade)/m.exec(readme)?.[0] ?? '';
      const kubectl = findServer(kubectlProgram) as { path: string };
      const PATH = [dirname(kubectl.path), process.env['PATH']].join(delimiter);
      const env = { PATH, HOME: api().folder, KUBECONFIG: api().kubeconfig() };
      const { status, stderr } = spawnSync('sh', ['-ec', block.replaceAll('weir-system', 'shop')], {
        env,
        encoding: 'utf8',
      });
      expect([status, stderr, block.length > 100]).toEqual([0, '', true]);
    };
    const howToUpdate = 'kubectl apply --server-side --force-conflicts -f crds/';

    beforeEach(() => {
      api().kubectl(['delete', '-f', 'crds/']);
      runHelm(['uninstall', 'weir', '--namespace', 'shop'], {}, api().kubeconfig());
    });
    afterAll(() => {
      applyDefinition('apply', '--server-side', '--force-conflicts');
      awaitCrds(api());
    });

    it('are installed, upgraded and uninstalled, but for the definition of RateLimitConfigs', () => {
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
      helm(['upgrade', 'weir', chartFolder], fixed(4));
      expect(replicas()).toBe('4');
      uninstall();
      expect(api().kubectl(['get', 'service', 'weir-limiter', '-n', 'shop']).stderr).toContain('not found');
      expect(api().mustKubectl(['get', definition, '-o', 'name'])).toContain('ratelimitconfigs');
      // Another release finds what the first one left.
      expect(install('other')).toContain('is of the release weir in the namespace shop, and left as it is');
      uninstall('other');
    });

    it('leave a definition alone that kubectl applied before, and say how to update it', () => {
      applyDefinition('apply');
      expect(install()).toMatch(/ratelimitconfigs\.ratelimit\.weir\.dev is of no release, and left as it is/);
      expect(owner()).toBe('');
      const notes = upgrade();
      expect(notes).toContain(howToUpdate);
      api().mustKubectl(howToUpdate.split(' ').slice(1));
      upgrade();
      giveToChart();
      expect(upgrade('--force-conflicts')).not.toContain('left as it is');
      expect(owner()).toBe('weir');
      uninstall();
      expect(api().mustKubectl(['get', definition, '-o', 'name'])).toContain('ratelimitconfigs');
    });

    it('are upgraded after kubectl applied the definition that Helm installed', () => {
      expect(install()).not.toContain('left as it is');
      applyDefinition('apply');
      upgrade();
      // Another version of it.
      const column = `jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}`;
      const text = readFileSync('crds/ratelimit.weir.dev_ratelimitconfigs.yaml', 'utf8');
      const input = text.replace('- name: Domain', '- name: Newer');
      api().mustKubectl(['apply', '-f', '-'], { input });
      const notes = upgrade();
      expect(notes).toContain('is kept by kubectl (kubectl-client-side-apply), and left as it is');
      expect(notes).toContain(howToUpdate);
      expect(api().mustKubectl(['get', definition, '-o', column])).toBe('Newer');
      giveToChart();
      expect(upgrade('--force-conflicts')).not.toContain('left as it is');
      expect([owner(), api().mustKubectl(['get', definition, '-o', column])]).toEqual(['weir', 'Domain']);
      uninstall();
    });

    it('never lose the definition and its objects, also when kubectl replaced it', () => {
      install();
      awaitCrds(api());
      api().mustKubectl(['apply', '-f', '-'], { input: object });
      applyDefinition('replace');
      expect(owner()).toBe('');
      expect(upgrade()).toContain(howToUpdate);
      expect(api().mustKubectl(['get', 'rlc', '-n', 'shop', '-o', 'name'])).toContain('/kept');
      uninstall();
      expect(api().mustKubectl(['get', 'rlc', '-n', 'shop', '-o', 'name'])).toContain('/kept');
    });
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
