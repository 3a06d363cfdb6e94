import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { formatRuleError } from '../rule-error.ts';
import { readSpec } from './manifest-reader.ts';
import { readManifests } from './read-manifests.ts';
import { readRuleFiles } from './read-rule-files.ts';

const head = 'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfig\n';

function errorsOf(text: string): string[] {
  return readManifests(text, 'limits.yaml').errors.map(formatRuleError);
}

function namesOf(text: string): string[] {
  const { manifests, errors } = readManifests(text, 'limits.yaml');
  expect(errors).toEqual([]);
  return manifests.map(({ metadata: { namespace, name }, line }) => `${namespace}/${name}:${line}`);
}

describe('readManifests', () => {
  it('reads every document, with the line where it begins', () => {
    const text = `# limits\n${head}metadata: {name: a}\n---\n\n${head}metadata:\n  name: b\n  namespace: team\n`;
    expect(namesOf(text)).toEqual(['default/a:2', 'team/b:7']);
  });

  it('leaves the spec unchecked', () => {
    const { manifests } = readManifests(`${head}metadata: {name: a}\nspec: {domain: 5, x: on}`, 'f');
    expect(manifests[0]?.spec).toEqual({ domain: 5, x: true });
  });

  it('reads labels and passes over what else metadata and status hold', () => {
    const text = `${head}metadata: {name: a, labels: {app: shop}, uid: x, generation: 3}\nstatus: {rules: 1}`;
    expect(readManifests(text, 'f').manifests[0]?.metadata).toEqual({
      name: 'a',
      namespace: 'default',
      labels: { app: 'shop' },
    });
  });

  it.each([
    'apiVersion: v1\nkind: List\n',
    'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfigList\n',
  ])('unpacks lists (%j)', (list) => {
    const item = (name: string) =>
      `- apiVersion: ratelimit.weir.dev/v1alpha1\n  kind: RateLimitConfig\n  metadata: {name: ${name}}\n`;
    expect(namesOf(`${list}items:\n${item('a')}${item('b')}`)).toEqual(['default/a:4', 'default/b:7']);
    expect(namesOf(list)).toEqual([]);
  });

  it('notes what is of another kind', () => {
    const text =
      'apiVersion: v1\nkind: ConfigMap\n---\napiVersion: ratelimit.solo.io/v1\nkind: RateLimitConfig\n';
    const configMap = { apiVersion: 'v1', kind: 'ConfigMap' };
    expect(readManifests(text, 'f')).toEqual({
      manifests: [],
      overrides: [],
      rejected: [],
      errors: [],
      skipped: [
        { type: 'v1 ConfigMap', line: 1, value: configMap },
        {
          type: 'ratelimit.solo.io/v1 RateLimitConfig',
          line: 4,
          value: { apiVersion: 'ratelimit.solo.io/v1', kind: 'RateLimitConfig' },
        },
      ],
    });
  });

  it('passes over a fleet, which has no rules', () => {
    const fleet = 'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitFleet\n';
    const { errors, skipped } = readManifests(fleet, 'f');
    expect([errors, skipped.map(({ type }) => type)]).toEqual([
      [],
      ['ratelimit.weir.dev/v1alpha1 RateLimitFleet'],
    ]);
  });

  it('reads the documents beside one that is broken', () => {
    const text = `${head}metadata: {name: a}\n---\na: [\n---\n${head}metadata: {name: b}\n`;
    const { manifests, errors } = readManifests(text, 'limits.yaml');
    expect(manifests.map(({ metadata }) => metadata.name)).toEqual(['a', 'b']);
    expect(errors.map(({ code, line }) => [code, line])).toEqual([['syntax', 5]]);
  });

  const dnsName =
    "must be a DNS name (lower case letters, digits, '-' and '.', at most 253 characters), found";
  const dnsLabel = "must be a DNS label (lower case letters, digits and '-', at most 63 characters), found";
  it.each([
    ['a text', 'shop', ['limits.yaml:1:1: must be an object with apiVersion and kind']],
    ['no type', 'spec: {}', ['limits.yaml:1:1: is required', 'limits.yaml:1:1: is required']],
    ['a kind that is no text', 'apiVersion: v1\nkind: 5', ['limits.yaml:2:7: must be a string']],
    [
      'another version',
      'apiVersion: ratelimit.weir.dev/v1\nkind: RateLimitConfig',
      ['limits.yaml:1:13: must be ratelimit.weir.dev/v1alpha1, found ratelimit.weir.dev/v1'],
    ],
    [
      'another kind of the group',
      'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimit',
      ['limits.yaml:2:7: must be RateLimitConfig or RateLimitOverride, found RateLimit'],
    ],
    ['no name', head, ['limits.yaml:1:1: is required']],
    ['a bad name', `${head}metadata: {name: My_limits}`, [`limits.yaml:3:18: ${dnsName} "My_limits"`]],
    [
      'a long name',
      `${head}metadata: {name: '${'a'.repeat(254)}'}`,
      [`limits.yaml:3:18: ${dnsName} "${'a'.repeat(80)}..."`],
    ],
    ['a number as name', `${head}metadata: {name: 5}`, [`limits.yaml:3:18: ${dnsName} 5`]],
    [
      'a bad namespace',
      `${head}metadata: {name: a, namespace: b.c}`,
      [`limits.yaml:3:32: ${dnsLabel} "b.c"`],
    ],
    [
      'a bad label',
      `${head}metadata: {name: a, labels: {x: on}}`,
      ['limits.yaml:3:33: must be a string, found true'],
    ],
    ['an unknown field', `${head}metadata: {name: a}\nspecs: {}`, ['limits.yaml:4:8: unknown field']],
    ['items that are no list', 'apiVersion: v1\nkind: List\nitems: 5', ['limits.yaml:3:8: must be a list']],
    [
      'an item that is no object',
      'apiVersion: v1\nkind: List\nitems: [5]',
      ['limits.yaml:3:9: must be an object with apiVersion and kind'],
    ],
  ])('rejects %s', (_, text, errors) => {
    expect(errorsOf(text)).toEqual(errors);
  });

  it('names the field of an error', () => {
    const { errors } = readManifests(`${head}metadata: {labels: 5}`, 'f');
    expect(errors.map(({ path }) => path)).toEqual([
      ['metadata', 'name'],
      ['metadata', 'labels'],
    ]);
  });

  it('knows the place of every value', () => {
    const spec = 'spec:\n  domain: shop\n  descriptors:\n  - key: a\n  - {key: b, "rateLimit": {unit: x}}\n';
    const manifest = readManifests(`---\n${head}metadata: {name: a}\n${spec}`, 'f').manifests[0]!;
    const placeOf = (...path: (string | number)[]): string => {
      const { line, column } = manifest.placeOf(path);
      return `${line}:${column}`;
    };
    expect(placeOf('spec', 'domain')).toBe('6:11');
    expect(placeOf('spec', 'descriptors', 0, 'key')).toBe('8:10');
    expect(placeOf('spec', 'descriptors', 1, 'rateLimit', 'unit')).toBe('9:34');
    expect(placeOf('spec', 'descriptors', 1, 'rateLimit', 'requestsPerUnit')).toBe('9:27');
    expect(placeOf('spec', 'descriptors', 2)).toBe('8:3');
    expect(placeOf('spec', 'fleet')).toBe('6:3');
  });
});

describe('examples/manifests', () => {
  const read = (path: string) => readFileSync(new URL(`../../examples/${path}`, import.meta.url), 'utf8');

  it.each(['shop', 'mail'])('%s.yaml has the rules of its rule file', (name) => {
    const { manifests, errors, skipped } = readManifests(read(`manifests/${name}.yaml`), name);
    expect([errors, skipped, manifests.length]).toEqual([[], [], 1]);
    const reading = readSpec(manifests[0]?.spec, name);
    const file = readRuleFiles([{ name, text: read(`rules/${name}.yaml`) }], { mergeDomains: false });
    expect(reading).toMatchObject({ ok: true, fleet: 'default', source: file.sources[0] });
  });
});
