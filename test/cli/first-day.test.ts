/**
 * What `weir check` says to the mistakes of a user's first day: the whole answer to each. Every finding ends in one line that
 * names the correction.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkInput } from '../../cli/check/check-input.ts';
import { checkText } from '../../cli/check/check-report.ts';
import { readInput } from '../../cli/shared/read-input.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { folderMistakes } from './first-day/folders.ts';
import { limitMistakes } from './first-day/limits.ts';
import { manifestMistakes } from './first-day/manifests.ts';
import type { Mistake } from './first-day/mistake.ts';
import { ruleMistakes } from './first-day/rules.ts';
import { yamlMistakes } from './first-day/yaml.ts';

const mistakes: readonly Mistake[] = [
  ...yamlMistakes,
  ...ruleMistakes,
  ...limitMistakes,
  ...manifestMistakes,
  ...folderMistakes,
];

/** What is printed, with paths as they are below the folder. */
function answerTo(text: Mistake['text']): string {
  const folder = temporaryFolder();
  const files = typeof text === 'string' ? { 'rules.yaml': text } : text;
  for (const [name, content] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), content);
  }
  const path = join(folder, typeof text === 'string' ? 'rules.yaml' : 'rules');
  const input = readInput(path, { mergeDomains: false, othersToo: true });
  const checked = checkInput(input, {
    mergeDomains: false,
    unleased: undefined,
    unassignable: undefined,
    counterKeys: 'compatible',
    sanitizeDescriptorMetricDots: false,
    allowed: new Set(),
    strictness: 'usual',
    inGoWords: false,
  });
  return checkText([checked], (_, shown) => shown).replaceAll(`${folder}/`, '');
}

describe("the mistakes of a user's first day", () => {
  it.each(mistakes)('$name', ({ text, answer }) => {
    const shown = answerTo(text);
    expect(shown).toBe(answer);
    const findings = shown.match(/: (?:error|warning): /g) ?? [];
    expect(findings.length).toBeGreaterThan(0);
    expect(shown.match(/^ {2}hint: /gm)).toHaveLength(findings.length);
  });

  it('are 42 at least', () => {
    expect(mistakes.length).toBeGreaterThanOrEqual(42);
  });
});
