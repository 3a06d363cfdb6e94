/** `weir check` of files that nobody wrote on purpose: it says something, at a place that is there, in bounded time. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type CheckedInput, type CheckInputOptions, checkInput } from '../../cli/check/check-input.ts';
import { checkText } from '../../cli/check/check-report.ts';
import { readInput } from '../../cli/shared/read-input.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { caseCount } from '../support/property-cases.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { limitMistakes } from './first-day/limits.ts';
import { manifestMistakes } from './first-day/manifests.ts';
import { ruleMistakes } from './first-day/rules.ts';
import { yamlMistakes } from './first-day/yaml.ts';

const options: CheckInputOptions = {
  mergeDomains: false,
  unleased: undefined,
  unassignable: undefined,
  counterKeys: 'compatible',
  sanitizeDescriptorMetricDots: false,
  allowed: new Set(),
  strictness: 'usual',
  inGoWords: false,
};
const path = join(suiteFolder(), 'rules.yaml');

function checked(text: string, inGoWords = false): CheckedInput {
  writeFileSync(path, text);
  return checkInput(readInput(path, { mergeDomains: false }), { ...options, inGoWords });
}

function errorsOf({ findings }: CheckedInput): CheckedInput['findings'] {
  return findings.filter(({ severity }) => severity === 'error');
}

function errorCount(input: CheckedInput): number {
  return errorsOf(input).length + input.unlisted;
}

const texts = [...yamlMistakes, ...ruleMistakes, ...limitMistakes, ...manifestMistakes].flatMap(({ text }) =>
  typeof text === 'string' ? [text] : [],
);
const pieces = [
  '\t',
  ' ',
  '  ',
  ':',
  ': ',
  '- ',
  '*',
  '&a',
  '{',
  '}',
  '[',
  ']',
  '{{ .x }}',
  '"',
  "'",
  '#',
  '\n',
  '\u001b[2J',
  '\u2028',
];
/** A mistake of the table with something put in, and something cut out. */
const broken = fc
  .tuple(fc.constantFrom(...texts), fc.nat(), fc.constantFrom(...pieces), fc.nat(), fc.nat({ max: 8 }))
  .map(([text, at, piece, from, length]) => {
    const put = at % (text.length + 1);
    const longer = text.slice(0, put) + piece + text.slice(put);
    const cut = from % (longer.length + 1);
    return longer.slice(0, cut) + longer.slice(cut + length);
  });

describe('a check of whatever there is', () => {
  it('marks what is there, and says like the Go program whether it is rejected', () => {
    fc.assert(
      fc.property(broken, (text) => {
        const found = checked(text);
        const lines = text.replace(/^\ufeff/, '').split(/\r\n?|\n/);
        for (const { file, line, column, length, message } of found.findings) {
          expect(message).not.toBe('');
          expect(message).not.toMatch(/unmarshal|config error|undefined/);
          // Rule files within a ConfigMap have lines of their own.
          if (line === undefined || file !== path) continue;
          expect(lines.length).toBeGreaterThanOrEqual(line);
          expect(column! - 1).toBeLessThanOrEqual(lines[line - 1]!.length);
          expect(length).toBeGreaterThanOrEqual(1);
        }
        const go = checked(text, true);
        expect(errorCount(found) > 0).toBe(errorCount(go) > 0);
        expect(errorsOf(found).length > 0).toBe(errorsOf(go).length > 0);
        // biome-ignore lint/suspicious/noControlCharactersInRegex: none may reach a terminal
        expect(checkText([go], (_, shown) => shown)).not.toMatch(/[\u0000-\u0008\u000b-\u001f]/);
      }),
      { numRuns: caseCount(1_000) },
    );
  });

  it.each([
    ['one long word', 'a'.repeat(2_000_000)],
    ['a long word before a star', `domain: ${'a'.repeat(2_000_000)}: *`],
    ['spaces', `domain: {${' '.repeat(2_000_000)}*`],
    ['open brackets', `domain: ${'['.repeat(9_000)}`],
    ['templates', `domain: ${'{{ '.repeat(500_000)}`],
    ['long lines of errors', `domain: d\ndescriptors: [${'{a: 1},'.repeat(20_000)}]`],
  ])('is soon done with %s', (_, text) => {
    // Quadratic work would take minutes.
    const deadline = new LoadedDeadline(20_000);
    expect(errorCount(checked(text))).toBeGreaterThan(0);
    deadline.assertInTime();
  });

  it('reviews more rules, and reports more of them, than a call takes arguments', () => {
    const rules = Array.from({ length: 150_000 }, (_, n) => {
      return `{ key: k.${n}, rate_limit: { unit: day, requests_per_unit: 1 } }`;
    });
    const found = checked(`domain: d\ndescriptors: [${rules.join(',\n')}]`);
    expect(errorCount(found)).toBe(0);
    expect(found.findings.length).toBeGreaterThanOrEqual(rules.length);
  });
});
