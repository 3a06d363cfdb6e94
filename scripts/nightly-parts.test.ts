import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import {
  nightlyFlags,
  nightlyParts,
  nightlyReport,
  nightlyTable,
  type PartOutcome,
  repeating,
} from './nightly-parts.ts';

const namesOf = (args: string[]): string[] | undefined =>
  nightlyFlags(7)
    .parse(args)
    ?.parts.map(({ name }) => name);
const truth = nightlyParts[0]!;
const passed: PartOutcome = { part: truth, seed: 7, failure: undefined, seconds: 605.4, output: 'fine' };
const failed: PartOutcome = {
  part: nightlyParts.find(({ name }) => name === 'soak')!,
  seed: 7,
  failure: 'exit status 1',
  seconds: 59.7,
  output: 'started\n\u001b[31mwrong\u001b[0m\n```\n',
};

describe('the parts of npm run nightly', () => {
  it('are scripts of the project, with the seed', () => {
    const { scripts } = JSON.parse(readFileSync('package.json', 'utf8')) as { scripts: object };
    for (const part of nightlyParts) {
      const args = part.args(123);
      expect(scripts).toHaveProperty([args[0]!]);
      expect(repeating({ part, seed: 123 })).toMatch(/ --seed 123$|^PROPERTY_SEED=123 /);
    }
    expect(repeating(passed)).toBe('npm run truth -- --minutes 10 --seed 7');
  });

  it('run every test that is not in the gate', () => {
    const scripts = nightlyParts.map((part) => part.args(1)[0]);
    expect(scripts).toEqual(expect.arrayContaining(['test:nightly', 'test:kubernetes-versions']));
  });

  it('have names of their own', () => {
    expect(new Set(nightlyParts.map(({ name }) => name)).size).toBe(nightlyParts.length);
  });
});

describe('the command line of npm run nightly', () => {
  it('selects all parts, or the named ones in the order of the list', () => {
    expect(namesOf([])).toEqual(nightlyParts.map(({ name }) => name));
    expect(namesOf(['soak', 'truth'])).toEqual(['truth', 'soak']);
  });

  it('has a seed of its own, or the given one', () => {
    expect(nightlyFlags(7).parse([])).toMatchObject({ seed: 7, report: undefined, list: false });
    expect(nightlyFlags(7).parse(['--seed', '9', '--report', 'a.md', '--list'])).toMatchObject({
      seed: 9,
      report: 'a.md',
      list: true,
    });
    expect(nightlyFlags(7).parse(['--help', 'nothing'])).toBeUndefined();
  });

  it.each([
    [['trust', 'soak', 'x'], /^there is no part trust, x; there are truth, simulate, truth-defect, soak, /],
    [['--seed', '0'], /^--seed is a whole number from 1 to 2147483647, not "0"$/],
    [['--minutes', '1'], /^Unknown option '--minutes'/],
  ])('rejects %j', (args, message) => {
    expect(() => nightlyFlags(7).parse(args)).toThrow(message);
  });
});

describe('the report of npm run nightly', () => {
  it('is a table with the commands that repeat what failed', () => {
    expect(nightlyTable([passed, failed])).toEqual([
      'part   result                 wall time   seed',
      'truth  passed                 10 min 5 s  7',
      'soak   FAILED: exit status 1  1 min 0 s   7',
      'repeat soak with: npm run soak -- --minutes 10 --seed 7',
    ]);
  });

  it('has the last lines of what failed as Markdown, in a block that they cannot end', () => {
    const lines = nightlyReport([passed, failed]).split('\n');
    expect(lines).toContain('| soak | FAILED: exit status 1 | 1 min 0 s | 7 |');
    expect(lines).toContain(
      'Repeat it with `npm run soak -- --minutes 10 --seed 7`. The last lines of its output:',
    );
    expect(lines.slice(lines.indexOf('    started'))).toEqual(['    started', '    wrong', '    ```', '']);
    expect(lines).not.toContain('    fine');
  });

  it('fits into an issue when every part fails with much output', () => {
    const outcomes = nightlyParts.map((part) => ({ ...failed, part, output: 'x\n'.repeat(50_000) }));
    expect(nightlyReport(outcomes).length).toBeLessThan(65_536);
  });
});
