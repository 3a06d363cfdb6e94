import { spawnSync } from 'node:child_process';
import { globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { helmProgram } from '../support/find-server.ts';
import {
  chartFolder,
  installedOf,
  objectOf,
  type RenderedObject,
  release,
  renderChart,
  runHelm,
  type Values,
} from '../support/helm-chart.ts';

const root = join(import.meta.dirname, '../..');
const redis = { url: 'redis:6379' };
const production = 'charts/weir/examples/production.yaml';
const read = (path: string): string => readFileSync(join(root, path), 'utf8');

describeWithServer('what the chart has in common with the rest', helmProgram, () => {
  it.each(['ratelimitconfigs', 'ratelimitfleets'])('is the definition of %s in crds/', (plural) => {
    const objects = renderChart({ redis });
    const { metadata, spec } = objectOf(objects, 'CustomResourceDefinition', `${plural}.ratelimit.weir.dev`);
    const own = parse(read(`crds/ratelimit.weir.dev_${plural}.yaml`)) as RenderedObject;
    expect([metadata.name, spec]).toEqual([own.metadata.name, own.spec]);
  });

  it('are the rights in examples/kubernetes/rbac.yaml', () => {
    const example = parseAllDocuments(read('examples/kubernetes/rbac.yaml')).map(
      (document) => document.toJS() as RenderedObject,
    );
    const objects = renderChart({ redis });
    for (const kind of ['Role', 'ClusterRole']) {
      // The chart makes what it needs for tokens a role of its own: of the cluster, whatever namespaces are watched.
      const own = objects.filter((each) => each.kind === kind).flatMap(({ rules }) => rules);
      expect(own).toEqual(objectOf(example, kind).rules);
    }
  });

  it('are the alerts and the dashboard, unchanged', () => {
    const switches = { prometheusRule: { enabled: true }, dashboard: { enabled: true } };
    const objects = renderChart({ redis, ...switches });
    expect(objectOf(objects, 'PrometheusRule').spec).toEqual(parse(read('charts/weir/alerts/weir.yaml')));
    const text = objectOf(objects, 'ConfigMap').data?.['weir.json'] ?? '';
    expect(JSON.parse(text)).toEqual(JSON.parse(read('charts/weir/dashboards/weir.json')));
  });

  it('is examples/kubernetes/install.yaml, which is made of it', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/chart.ts', '--check'], {
      cwd: root,
      encoding: 'utf8',
    });
    expect([stderr, status]).toEqual(['', 0]);
    const ours = read('examples/kubernetes/install.yaml').match(/^kind: .*/gm) ?? [];
    const kinds = installedOf(renderChart({ redis })).map(({ kind }) => `kind: ${kind}`);
    expect([...ours].sort()).toEqual(['kind: Namespace', ...kinds].sort());
  });

  it('is the icon, as Chart.yaml has it', () => {
    const { icon } = parse(read('charts/weir/Chart.yaml')) as { icon: string };
    const [, base64 = ''] = /^data:image\/svg\+xml;base64,(.*)$/.exec(icon) ?? [];
    expect(Buffer.from(base64, 'base64').toString()).toBe(read('charts/weir/icon.svg'));
  });

  it('is the oldest Kubernetes that is tested, which docs/versions.md names beside the newest', () => {
    const versionIn = (folder: string) =>
      /k8s\.io\/kubernetes v(\S+)/.exec(read(`test/support/${folder}/go.mod`))?.[1] ?? '';
    const oldest = versionIn('apiserver-oldest');
    const { kubeVersion } = parse(read('charts/weir/Chart.yaml')) as { kubeVersion: string };
    expect(kubeVersion).toBe(`>=${oldest.split('.').slice(0, 2).join('.')}.0-0`);
    const tested = read('docs/versions.md').match(/(?<=^\| )\d+\.\d+\.\d+(?= \|)/gm);
    expect(tested).toEqual([versionIn('apiserver'), oldest]);
  });

  it('is the version', () => {
    const { version, appVersion } = parse(read('charts/weir/Chart.yaml')) as Record<string, string>;
    const own = (JSON.parse(read('package.json')) as { version: string }).version;
    expect([version, appVersion]).toEqual([own, own]);
    const { info } = JSON.parse(read('docs/openapi.json')) as { info: { version: string } };
    const library = JSON.parse(read('packages/limiter/package.json')) as { version: string };
    expect([info.version, library.version]).toEqual([own, own]);
    const definitions = globSync('crds/*.yaml', { cwd: root }).map(
      (path) => (parse(read(path)) as RenderedObject).metadata.labels['app.kubernetes.io/version'],
    );
    expect(definitions).toEqual([own, own, own]);
    const install = read('examples/kubernetes/install.yaml');
    const named = install.matchAll(/(?:app\.kubernetes\.io\/version: |image: \S+\/weir:)(\d\S+)/g);
    expect([...new Set([...named].map(([, one]) => one))]).toEqual([own]);
    const documents = ['cli', 'install', 'library', 'kubernetes', 'pull-requests'].map((name) =>
      read(`docs/${name}.md`),
    );
    const inCommands = documents
      .join('\n')
      .matchAll(/(?:weir(?:-limits-limiter)?[-:]|weir@v|rev: v)(\d+\.\d+\.\d+)/g);
    expect([...new Set([...inCommands].map(([, one]) => one))]).toEqual([own]);
  });

  it('are the commands and values of its README and of the README, which are accepted', () => {
    const own = read('charts/weir/README.md') + read('charts/weir/RECIPES.md');
    const named = blocksOf(own, 'yaml').map(
      (text) => [/^# (values-\S+\.yaml)\n/.exec(text)?.[1], parse(text)] as [string, Values],
    );
    const blocks: Record<string, Values> = Object.fromEntries(named);
    expect(Object.keys(blocks)).toEqual([
      ...['values-files.yaml', 'values-istio.yaml', 'values-redis-tls.yaml', 'values-gitops.yaml'],
      ...['values-migrate.yaml', 'values-tenants.yaml', 'values-cert-manager.yaml', 'values-xds-tls.yaml'],
    ]);
    const installs = [own, read('docs/kubernetes.md')].flatMap((text) =>
      blocksOf(text, 'sh').flatMap(installsOf),
    );
    expect(installs).toHaveLength(6);
    const valuesOf: Record<string, Values> = {
      ...blocks,
      [production]: parse(read(production)),
    };
    for (const words of installs) {
      const end = words.indexOf('-f');
      const given = end === -1 ? words : words.slice(0, end);
      const values = end === -1 ? {} : valuesOf[words[end + 1] as string];
      expect(values, words.join(' ')).toBeDefined();
      const { status, stderr } = runHelm(['template', ...given], values);
      expect([status, stderr]).toEqual([0, '']);
    }
    for (const [name, values] of Object.entries(blocks)) {
      expect(renderChart({ redis, ...values }).length, name).toBeGreaterThan(4);
    }
    const filter = objectOf(renderChart(blocks['values-istio.yaml'] as Values), 'EnvoyFilter');
    const authority = 'weir-limiter.weir-system.svc.cluster.local';
    const asked = { authority, cluster_name: `outbound|8081||${authority}` };
    expect(JSON.stringify(filter.spec)).toContain(JSON.stringify(asked));
    const partsOf = (page: string) =>
      blocksOf(read(page), 'yaml').flatMap((text) => (text.startsWith('limiter:') ? [parse(text)] : []));
    const parts = [partsOf('docs/callers.md'), partsOf('docs/forward-auth.md')];
    expect(parts.map(({ length }) => length)).toEqual([1, 1]);
    for (const values of parts.flat()) expect(renderChart({ redis, ...values }).length).toBeGreaterThan(4);
  });

  it('are the Secrets that the production example names and its README makes, by name and key', () => {
    const text = JSON.stringify(renderChart(parse(read(production))));
    const keyed = [...text.matchAll(/"secretKeyRef":\{"key":"([^"]+)","name":"([^"]+)"/g)];
    const named = keyed.map(([, key, name]) => `${name} ${key}`);
    const mounted = [...text.matchAll(/"secretName":"([^"]+)"/g)].map(([, name]) => `${name} ca.crt`);
    const commands = blocksOf(read('charts/weir/README.md') + read('charts/weir/RECIPES.md'), 'sh')
      .join('')
      .replaceAll('\\\n', ' ');
    const made = [...commands.matchAll(/create secret generic (\S+) (.*)/g)].flatMap(([, name, from = '']) =>
      [...from.matchAll(/--from-(?:literal|file)=([\w.]+)/g)].map(([, key]) => `${name} ${key}`),
    );
    expect([...named, ...mounted].sort()).toEqual(made.sort());
  });

  it('lets Prometheus and the proxies alone reach the pods of the production example', () => {
    const policies = renderChart(parse(read(production))).filter(({ kind }) => kind === 'NetworkPolicy');
    const from = (policy: RenderedObject, port: string) =>
      policy.spec.ingress.find((each: { ports: { port: string }[] }) =>
        each.ports.some((allowed) => allowed.port === port),
      )?.from[0].namespaceSelector?.matchLabels['kubernetes.io/metadata.name'];
    expect(policies).toHaveLength(2);
    for (const policy of policies) expect(from(policy, 'metrics')).toBe('monitoring');
    expect(from(objectOf(policies, 'NetworkPolicy', 'limiter'), 'grpc')).toBe('gateway');
  });

  it('is all in the package that Helm makes', () => {
    const folder = mkdtempSync(join(tmpdir(), 'weir-chart-package-'));
    const values = { redis, prometheusRule: { enabled: true }, dashboard: { enabled: true } };
    const render = (chart: string) =>
      runHelm(['template', release.name, chart, '--namespace', release.namespace], values).stdout;
    try {
      const { status, stderr } = runHelm(['package', chartFolder, '--destination', folder]);
      expect([status, stderr]).toEqual([0, '']);
      expect(render(join(folder, 'weir-0.1.0.tgz'))).toBe(render(chartFolder));
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  });
});

function blocksOf(markdown: string, language: string): string[] {
  const block = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, 'gs');
  return [...markdown.matchAll(block)].map((match) => match[1] as string);
}

/** The arguments of each `helm install`, without those that `helm template` does not take. */
function installsOf(script: string): string[][] {
  const lines = script.replaceAll('\\\n', ' ').split('\n');
  const installs = lines.filter((line) => line.startsWith('helm install '));
  return installs.map((line) => {
    const words = line.replace('helm install', '').trim().split(/\s+/);
    return words.filter((word) => word !== '--create-namespace' && word !== '--wait');
  });
}
