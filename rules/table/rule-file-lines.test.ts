import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { yamlText } from '../../cli/shared/yaml-text.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import { anyRules } from '../../test/support/rule-arbitraries.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import type { JsonObject } from '../model.ts';
import { readRuleFiles } from '../reader/read-rule-files.ts';
import { compileRules } from './compile-rules.ts';
import { RuleTable } from './rule-table.ts';

describe('the rules of a table as JSON', () => {
  it('have a line for each top-level rule, in the order of declaration', () => {
    const table = new RuleTable(
      compileRules([
        source('d', [
          rule({ key: 'k', value: 'b', rateLimit: limit({ name: 'n', replaces: ['m'] }), shadowMode: true }),
          rule({
            key: 'a',
            descriptors: [rule({ key: 'c', rateLimit: limit({ unit: '', unlimited: true }) })],
          }),
        ]),
        source('e', []),
      ]),
    );
    expect([...table.ruleFileLines()]).toEqual([
      '[',
      '{"domain":"d","descriptors":[',
      '{"key":"k_b","rate_limit":{"unit":"minute","requests_per_unit":10,"name":"n","replaces":[{"name":"m"}]},"shadow_mode":true},',
      '{"key":"a","descriptors":[{"key":"c","rate_limit":{"unlimited":true}}]}',
      ']},',
      '{"domain":"e","descriptors":[',
      ']}',
      ']',
    ]);
  });

  it('make the same table again', () => {
    fc.assert(
      fc.property(anyRules, anyRules, (one, other) => {
        const table = new RuleTable(compileRules([source('d', one), source('e', other)]));
        const files = JSON.parse([...table.ruleFileLines()].join('\n')) as JsonObject[];
        const texts = files.map((file, index) => ({ name: `${index}`, text: yamlText(file) }));
        const { sources, errors } = readRuleFiles(texts, { mergeDomains: false });
        expect(errors).toEqual([]);
        expect(new RuleTable(compileRules(sources)).contentHash).toBe(table.contentHash);
      }),
      { numRuns: caseCount(75) },
    );
  });
});
