import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { load } from 'js-yaml';
import { beforeAll, describe, expect, it } from 'vitest';
import type { ConfigStatus } from '../../control-plane/model/config-object.ts';
import { statusModel } from '../../control-plane/model/object-models.ts';
import { readStatus } from '../../control-plane/source/kubernetes-source.ts';
import { descriptorLevels } from '../../rules/language/fields.ts';
import type { ApiServer, KubectlResult } from '../support/api-server.ts';
import { awaitCrds } from '../support/cluster.ts';
import { describeWithBareApiServer } from '../support/describe-with-api-server.ts';
import { documentedMistakes, inNewerWords, rejectionLines } from '../support/documented-mistakes.ts';
import { eventually } from '../support/eventually.ts';
import { exampleCases, examplesFolder } from '../support/example-cases.ts';
import { kubectlScalars } from '../support/kubectl-scalars.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { acceptedSpecs, nested, rejectedSpecs } from '../support/rejected-specs.ts';

const root = join(import.meta.dirname, '../..');
const crdFolder = join(root, 'crds');
const crdFile = join(crdFolder, 'ratelimit.weir.dev_ratelimitconfigs.yaml');
const examples = join(root, 'examples/manifests');

function config(spec: unknown, name = 'shop'): string {
  return JSON.stringify({
    apiVersion: 'ratelimit.weir.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name, namespace: 'default' },
    spec,
  });
}

/** 100 rules in each of `lists` lists. */
function rulesByTheHundred(lists: number): unknown {
  const below = Array.from({ length: 100 }, (_, n) => ({
    key: 'user',
    value: `u${n}`,
    rateLimit: { unit: 'minute', requestsPerUnit: 5 },
  }));
  return Array.from({ length: lists }, (_, n) => ({ key: 'path', value: `/p${n}`, descriptors: below }));
}

const status: ConfigStatus = {
  observedGeneration: 1,
  domain: 'shop',
  fleet: 'default',
  rules: 4,
  servedVersion: '0123456789abcdef',
  servedGeneration: 1,
  conditions: (['Accepted', 'Programmed', 'Ready', 'Supported'] as const).map((type) => ({
    type,
    status: type === 'Accepted' ? 'True' : 'False',
    reason: type === 'Accepted' ? 'Valid' : 'Refused',
    message: type === 'Accepted' ? '' : 'lim-0 refuses: too many',
    lastTransitionTime: '2026-01-01T00:00:00Z',
    observedGeneration: 1,
  })),
};

describe('the CRD file', () => {
  it('lets each level have 10,000 rules', () => {
    const maxItems = [...readFileSync(crdFile, 'utf8').matchAll(/maxItems: (\d+)/g)].map(([, max]) => max);
    expect(maxItems.filter((max) => max === '10000')).toHaveLength(descriptorLevels);
  });

  it('unrolls at least six levels of rules, and says how many', () => {
    let schema = (load(readFileSync(crdFile, 'utf8')) as Definition).spec.versions[0]!.schema.openAPIV3Schema;
    schema = schema.properties!['spec']!;
    expect(schema.properties!['descriptors']!.description).toContain(`at most ${descriptorLevels} levels`);
    let levels = 0;
    for (let list = schema.properties!['descriptors']!; list.items?.properties?.['key']; levels++) {
      list = list.items.properties['descriptors']!;
    }
    expect(levels).toBe(descriptorLevels);
    expect(levels).toBeGreaterThanOrEqual(6);
  });

  it('describes the status that the control plane writes', () => {
    expect(statusModel.parse(status)).toEqual(status);
  });
});

interface Schema {
  description?: string;
  items?: Schema;
  properties?: Record<string, Schema>;
}

interface Definition {
  spec: { versions: { schema: { openAPIV3Schema: Schema } }[] };
}

describeWithBareApiServer('RateLimitConfigs on the API server', (api) => {
  const apply = (spec: unknown, ...options: string[]): KubectlResult =>
    api().kubectl(['apply', '--server-side', '-f', '-', ...options], { input: config(spec) });

  const tryApply = (spec: unknown) => api().tryApply(JSON.parse(config(spec)));

  /** Kubernetes 1.30. */
  let isOldest: boolean;

  beforeAll(async () => {
    await installed(api());
    const { minor } = JSON.parse(api().mustKubectl(['version', '-o', 'json'])).serverVersion;
    isOldest = Number(minor) === 30;
  });

  it.each(readdirSync(crdFolder))('are established, with a structural schema: %s', (file) => {
    const path = ['-f', join(crdFolder, file), '-o', 'jsonpath={.status.conditions[*].type}'];
    const conditions = api().mustKubectl(['get', ...path]);
    expect(conditions).toContain('Established');
    expect(conditions).not.toContain('NonStructuralSchema');
  });

  it.each(readdirSync(examples))('are accepted as in examples/manifests/%s', (file) => {
    const args = ['apply', '--server-side', '--dry-run=server', '-f', join(examples, file)];
    expect(api().mustKubectl(args)).toContain('serverside-applied (server dry run)');
  });

  it.each(exampleCases)('are accepted as in examples/%s', (name) => {
    const file = join(examplesFolder, name, 'manifest.yaml');
    const args = ['apply', '--server-side', '--dry-run=server', '--validate=strict', '-f', file];
    expect(api().mustKubectl(args)).toContain('serverside-applied (server dry run)');
  });

  it.each(acceptedSpecs)('are accepted and stored as written: $name', ({ spec }) => {
    const { status, warnings, body } = tryApply(spec);
    expect([status, warnings]).toEqual([201, []]);
    expect(JSON.parse(body).spec).toEqual({ className: 'weir', fleet: 'default', ...spec });
  });

  it.each(rejectedSpecs)('are rejected with $name', ({ spec, server }) => {
    const { status, body } = tryApply(spec);
    expect(inNewerWords(JSON.parse(body).message)).toContain(server);
    expect(status).toBeGreaterThanOrEqual(400);
  });

  it.each(documentedMistakes)('are said to be wrong in these words: $name', async (mistake) => {
    const lines = await rejectionLines(api(), 'default', mistake.spec);
    expect(lines.map(inNewerWords)).toEqual(isOldest ? mistake.oldestServer : mistake.server);
  });

  it.each(['strict', 'warn', 'ignore'])(
    'are rejected one level too deep, with field validation %s',
    (validation) => {
      const input = config({ domain: 'deep', descriptors: [nested(9)] });
      const result = api().kubectl(['create', `--validate=${validation}`, '-f', '-'], { input });
      const path = `spec${'.descriptors[0]'.repeat(8)}.descriptors`;
      expect(result.stderr).toMatch(
        validation === 'strict' ? `unknown field "${path}[0].key"` : `${path}: Too many`,
      );
      expect(result.status).toBe(1);
    },
  );

  it('hold 10,000 rules, as many as etcd takes', () => {
    const deadline = new LoadedDeadline(10_000);
    const { status, stderr } = apply({ domain: 'wide', descriptors: rulesByTheHundred(100) });
    expect([status, stderr]).toEqual([0, '']);
    deadline.assertInTime();
  });

  it('are replaced list by list', () => {
    const name = 'lists';
    const applyAs = (keys: string[]): void => {
      const input = config({ domain: 'lists', descriptors: keys.map((key) => ({ key })) }, name);
      api().mustKubectl(['apply', '--server-side', '-f', '-'], { input });
    };
    applyAs(['b', 'a', 'c']);
    applyAs(['c', 'b']);
    const keys = api().mustKubectl(['get', 'rlc', name, '-o', 'jsonpath={.spec.descriptors[*].key}']);
    expect(keys).toBe('c b');
  });

  it('are explained', () => {
    expect(api().mustKubectl(['explain', 'rlc.spec.descriptors'])).toMatch(
      /key\s+<string> -required-\n.*Case-sensitive/,
    );
    expect(api().mustKubectl(['explain', 'rlc.spec'])).toContain('Rules nest at most 8');
  });

  it('are listed with their columns', () => {
    api().mustKubectl(['apply', '-f', '-'], { input: config({ domain: 'mail' }, 'columns') });
    const patch = [
      'patch',
      'rlc',
      'columns',
      '--subresource=status',
      '--type=merge',
      '-p',
      JSON.stringify({ status }),
    ];
    api().mustKubectl(patch);
    const [head, row] = api().mustKubectl(['get', 'rlc', 'columns']).split('\n');
    expect(head?.split(/\s+/)).toEqual(['NAME', 'DOMAIN', 'RULES', 'ACCEPTED', 'PROGRAMMED', 'READY', 'AGE']);
    expect(row?.split(/\s+/).slice(0, -1)).toEqual(['columns', 'mail', '4', 'True', 'False', 'False']);
    const [wideHead, wideRow] = api().mustKubectl(['get', 'rlc', 'columns', '-o', 'wide']).split('\n');
    expect(wideHead?.split(/\s+/).slice(6)).toEqual(['FLEET', 'REASON', 'MESSAGE', 'AGE']);
    expect(wideRow).toContain('Refused   lim-0 refuses: too many');
    expect(api().mustKubectl(['get', 'weir'])).toContain('columns');
    const written = api().mustKubectl(['get', 'rlc', 'columns', '-o', 'jsonpath={.status}']);
    expect(JSON.parse(written)).toEqual(status);
  });

  it('are found by their domain if Kubernetes knows selectable fields, which 1.30 drops', () => {
    for (const name of ['chosen', 'other'])
      api().mustKubectl(['apply', '-f', '-'], { input: config({ domain: `by-${name}` }, name) });
    const selector = ['get', 'rlc', '--field-selector=spec.domain=by-chosen', '-o', 'name'];
    const { stdout, stderr } = api().kubectl(selector);
    if (!isOldest) expect(stdout.trim()).toBe('ratelimitconfig.ratelimit.weir.dev/chosen');
    else expect(stderr).toContain('field label not supported: spec.domain');
  });

  it('take conditions and fields that a newer control plane applies, and read those they know', () => {
    api().mustKubectl(['apply', '-f', '-'], { input: config({ domain: 'newer' }, 'newer') });
    const [condition] = status.conditions;
    const newer = { ...status, conditions: [{ ...condition, type: 'Enforced' }, ...status.conditions] };
    const applied = { ...newer, enforcedBy: { name: 'lim-0' } };
    const { spec: _, ...named } = JSON.parse(config({}, 'newer'));
    const apply = ['apply', '--server-side', '--subresource=status', '--field-manager=newer', '-f', '-'];
    api().mustKubectl(apply, { input: JSON.stringify({ ...named, status: applied }) });
    const written = JSON.parse(api().mustKubectl(['get', 'rlc', 'newer', '-o', 'jsonpath={.status}']));
    expect(written).toEqual(applied);
    expect(readStatus(written)).toEqual(status);
    const endless = { ...condition, type: 'T'.repeat(317) };
    const refused = api().kubectl(apply, {
      input: JSON.stringify({ ...named, status: { ...status, conditions: [endless] } }),
    });
    expect(inNewerWords(refused.stderr)).toContain('conditions[0].type: Too long: may not be more than 316');
  });

  it('keep their status when the spec is applied', () => {
    const { stdout } = api().kubectl(['apply', '--server-side', '-f', '-', '-o', 'json'], {
      input: JSON.stringify({ ...JSON.parse(config({ domain: 'mail' }, 'own-status')), status }),
    });
    expect(JSON.parse(stdout)).not.toHaveProperty('status');
  });

  it('have the scalars that kubectl reads', () => {
    const data = kubectlScalars.map(([scalar], n) => `v${n}: ${scalar}\n`).join('');
    const input = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n${data}`;
    const text = api().mustKubectl(['patch', '--local', '--type=json', '-p', '[]', '-f', '-', '-o', 'json'], {
      input,
    });
    const read = JSON.parse(text);
    expect(kubectlScalars.map(([scalar], n) => [scalar, read[`v${n}`] ?? null])).toEqual(kubectlScalars);
  });
});

/** Resolves when objects can be made and kubectl can explain them. */
async function installed(api: ApiServer): Promise<void> {
  api.mustKubectl(['apply', '-f', crdFolder]);
  awaitCrds(api);
  await eventually(() => {
    api.mustKubectl(['get', 'rlc']);
    api.mustKubectl(['explain', 'rlc.spec']);
  });
}
