import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { allowedKinds, warningKinds } from './finding.ts';

describe('kinds of warning', () => {
  it('are waived by name', () => {
    expect([...allowedKinds(['no-rules, dotted-metric', 'no-effect'])]).toEqual([
      'no-rules',
      'dotted-metric',
      'no-effect',
    ]);
  });

  it.each(['', 'dotted', 'no-rules,'])('are not waived by "%s"', (value) => {
    expect(() => allowedKinds([value])).toThrow(
      /^--allow: there is no warning "(?:dotted)?"; there are never-/,
    );
  });

  it('all stand in the document, and no others', () => {
    const document = readFileSync(new URL('../../docs/gitops.md', import.meta.url), 'utf8');
    const [table = ''] = /\| warning \| what it says \|[\s\S]*?\n\n/.exec(document) ?? [];
    const cells = [...table.matchAll(/^\| (`[^|]*) \|/gm)].flatMap(
      ([, cell]) => cell!.match(/[a-z-]+/g) ?? [],
    );
    expect(cells.sort()).toEqual([...warningKinds].sort());
  });
});
