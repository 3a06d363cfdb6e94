/** Every case in examples/ is loaded, decides what its README says, and has the same rules in its manifest. */

import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { readManifests } from '../../rules/reader/read-manifests.ts';
import { readRuleFiles } from '../../rules/reader/read-rule-files.ts';
import { expectClaims } from '../support/document-claims.ts';
import { exampleCases, exampleRules, examplesFolder, readExample } from '../support/example-cases.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';

it('are the common cases', () => {
  expect(exampleCases).toEqual([
    'concurrency',
    'llm-tokens',
    'login-throttling',
    'per-client-address',
    'per-path-and-method',
    'per-tenant',
    'shadow-rollout',
  ]);
});

describe.each(exampleCases)('examples/%s', (name) => {
  it('has files that its README names', () => {
    expect(readdirSync(join(examplesFolder, name)).sort()).toEqual([
      'README.md',
      'envoy.yaml',
      'manifest.test.yaml',
      'manifest.yaml',
      'rules',
    ]);
  });

  it('has the same rules in its manifest', () => {
    const { manifests, errors, skipped } = readManifests(readExample(name, 'manifest.yaml'), name);
    expect([errors, skipped, manifests.length]).toEqual([[], [], 1]);
    const reading = readSpec(manifests[0]?.spec, name);
    const file = readRuleFiles([{ name, text: exampleRules(name) }], { mergeDomains: false });
    expect([file.errors, file.warnings]).toEqual([[], []]);
    expect(reading).toMatchObject({ ok: true, fleet: 'default', source: file.sources[0] });
  });

  it('decides, and counts, what its README says', () => {
    const claims = fencedBlocks(readExample(name, 'README.md')).filter(({ language }) => language !== 'sh');
    expectClaims(exampleRules(name), claims);
  });
});
