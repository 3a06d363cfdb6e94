/** The definitions of objects, where Helm and kubectl both applied them. api-server.test.ts installs and uninstalls a release. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { beforeAll, beforeEach, expect, it, vi } from 'vitest';
import { awaitCrds } from '../support/cluster.ts';
import { describeWithChart } from '../support/describe-with-chart.ts';
import { findServer, kubectlProgram } from '../support/find-server.ts';
import { chartFolder } from '../support/helm-chart.ts';
import { releasesOn, removeDefinitions } from './releases.ts';

// Each runs Helm and kubectl many times, on a machine that others use, too.
vi.setConfig({ testTimeout: 180_000 });

const redis = { url: 'redis:6379' };

describeWithChart('releases', (api) => {
  const definition = 'crd/ratelimitconfigs.ratelimit.weir.dev';
  const { helm, install, uninstall } = releasesOn(api);
  const upgrade = (...flags: string[]) => helm(['upgrade', 'weir', chartFolder, ...flags], { redis });
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

  beforeAll(() => api().createNamespace('shop'));
  beforeEach(async () => {
    // Of a test that failed.
    if (api().names('secrets', { namespace: 'shop' }, 'owner=helm').length > 0) uninstall();
    await removeDefinitions(api());
  });

  it('leave a definition alone that kubectl applied before, and say how to update it', () => {
    applyDefinition('apply');
    expect(install()).toMatch(
      /ratelimitconfigs\.ratelimit\.weir\.dev is of no release, so the chart does not change it/,
    );
    expect(owner()).toBe('');
    const notes = upgrade();
    expect(notes).toContain(howToUpdate);
    api().mustKubectl(howToUpdate.split(' ').slice(1));
    upgrade();
    giveToChart();
    expect(upgrade('--force-conflicts')).not.toContain('the chart does not change it');
    expect(owner()).toBe('weir');
    uninstall();
    expect(api().mustKubectl(['get', definition, '-o', 'name'])).toContain('ratelimitconfigs');
  });

  it('are upgraded after kubectl applied the definition that Helm installed', () => {
    expect(install()).not.toContain('the chart does not change it');
    applyDefinition('apply');
    upgrade();
    // Another version of it.
    const column = `jsonpath={.spec.versions[0].additionalPrinterColumns[0].name}`;
    const text = readFileSync('crds/ratelimit.weir.dev_ratelimitconfigs.yaml', 'utf8');
    const input = text.replace('- name: Domain', '- name: Newer');
    api().mustKubectl(['apply', '-f', '-'], { input });
    const notes = upgrade();
    expect(notes).toContain(
      'is kept by kubectl (kubectl-client-side-apply), so the chart does not change it',
    );
    expect(notes).toContain(howToUpdate);
    expect(api().mustKubectl(['get', definition, '-o', column])).toBe('Newer');
    giveToChart();
    expect(upgrade('--force-conflicts')).not.toContain('the chart does not change it');
    expect([owner(), api().mustKubectl(['get', definition, '-o', column])]).toEqual(['weir', 'Domain']);
    uninstall();
  });

  it('never lose the definition and its objects, also when kubectl replaced it', () => {
    install();
    awaitCrds(api());
    api().apply(object);
    applyDefinition('replace');
    expect(owner()).toBe('');
    expect(upgrade()).toContain(howToUpdate);
    expect(api().mustKubectl(['get', 'rlc', '-n', 'shop', '-o', 'name'])).toContain('/kept');
    uninstall();
    expect(api().mustKubectl(['get', 'rlc', '-n', 'shop', '-o', 'name'])).toContain('/kept');
  });
});
