/** Every example in the pages on the rule language is loaded, and what they say about it is asked. */

import { describe, expect, it } from 'vitest';
import { parseDescriptors } from '../../cli/test/decision-steps.ts';
import { StatsRegistry } from '../../limiter/stats/registry/stats-registry.ts';
import { VirtualLimiter } from '../../replay/virtual-limiter.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { readManifests } from '../../rules/reader/read-manifests.ts';
import { decidedBy } from '../support/decided-document.ts';
import { expectClaims, settings } from '../support/document-claims.ts';
import { documentPaths, readDocument } from '../support/documents.ts';
import { type FencedBlock, fencedBlocks } from '../support/fenced-blocks.ts';

const pages = documentPaths('docs').filter((path) =>
  /\/((budgets-)?rules[\w-]*|leases|quotas|fail-closed)\.md$/.test(path),
);

/** One example with the claims about it. */
interface Example {
  page: string;
  rules: FencedBlock;
  claims: FencedBlock[];
}

const examples = pages.flatMap((page) => {
  const found: Example[] = [];
  for (const block of fencedBlocks(readDocument(page))) {
    if (isEnvoy(block)) continue;
    if (block.language === 'yaml') found.push({ page, rules: block, claims: [] });
    else if (/^(decisions|statistics)$/.test(block.language)) found.at(-1)?.claims.push(block);
  }
  return found;
});
const isManifest = ({ rules }: Example): boolean => rules.text.startsWith('apiVersion:');

/** What Envoy is reported, which test/e2e/teams-document.test.ts shows to one. */
function isEnvoy({ language, text }: FencedBlock): boolean {
  return language === 'yaml' && text.startsWith('rate_limits:');
}

describe('the pages on rules', () => {
  const manifests = examples.filter(isManifest);

  it.each(manifests)('have manifests, which are accepted: $page', ({ page, rules }) => {
    const { manifests: read, errors } = readManifests(rules.text, page);
    expect([errors, read.length]).toEqual([[], 1]);
    expect(readSpec(read[0]?.spec, page)).toMatchObject({ ok: true });
  });

  it('have one for all rules, and one for budgets', () => expect(manifests).toHaveLength(2));

  const decided = examples
    .filter((example) => !isManifest(example))
    .map((example) => ({ ...example, place: `${example.page}:${example.rules.line}` }));

  it('have examples on every page', () => {
    expect(new Set(decided.map(({ page }) => page))).toEqual(new Set(pages));
  });

  it.each(decided)('says what is decided about the example in $place', ({ rules, claims }) => {
    expectClaims(rules.text, claims);
  });

  it('sends the metadata of its example back', () => {
    const { rules, claims } = decided.find(({ rules }) =>
      /^ +metadata: \{ owner/m.test(rules.text),
    ) as Example;
    const { rules: table, settings: read } = decidedBy(rules.text, settings(claims[0]?.info as string));
    const limiter = new VirtualLimiter({ rules: table, settings: read, stats: new StatsRegistry() });
    const request = { domain: 'billing', descriptors: parseDescriptors('tenant=acme'), hitsAddend: 0 };
    expect(JSON.stringify(limiter.decide(Date.now(), request))).toContain('"owner":"payments"');
  });

  it('names every field of the language', () => {
    const text = readDocument('docs/rules.md');
    for (const field of fields) expect(text, field).toMatch(new RegExp(`\\b${field}:`));
  });
});

const fields = [
  ...[
    'domain',
    'descriptors',
    'key',
    'value',
    'rate_limit',
    'unit',
    'requests_per_unit',
    'unlimited',
    'name',
  ],
  ...[
    'replaces',
    'shadow_mode',
    'quota_mode',
    'detailed_metric',
    'value_to_metric',
    'share_threshold',
    'metadata',
  ],
];
