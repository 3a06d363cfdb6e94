/** Which tests show that a setting makes a difference: rows of a table, or a test file that names it. */
import { globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { projectRoot } from '../../scripts/commands.ts';

/** A setting, and what a running program shows with each of its values. */
interface SettingRow {
  setting: string;
  seen: Record<string, unknown>;
}

type Groups = readonly { settings: Record<string, { name: string }> }[];

/** Declares the tests of the table in `file`. `others`: files that may test what it leaves out, as patterns. */
export function describeSettingRows(
  rows: readonly SettingRow[],
  groups: Groups,
  { file, others }: { file: string; others: readonly string[] },
): void {
  describe('these tests', () => {
    it('are there for every setting, or other tests that name it', () => {
      const elsewhere = globSync(others, { cwd: projectRoot, exclude: [file, 'test/released/**'] })
        .map((path) => readFileSync(join(projectRoot, path), 'utf8'))
        .join('\n');
      const named = new Set(elsewhere.match(/\b[A-Z][A-Z0-9_]+\b/g));
      const tabled = rows.map(({ setting }) => setting);
      const all = groups.flatMap(({ settings }) => Object.values(settings).map(({ name }) => name));
      expect(all.filter((name) => !tabled.includes(name) && !named.has(name))).toEqual([]);
      expect(tabled.filter((name) => !all.includes(name))).toEqual([]);
    });

    it('see each setting make a difference', () => {
      for (const { setting, seen } of rows) {
        const different = new Set(Object.values(seen).map((one) => JSON.stringify(one)));
        expect([setting, different.size]).toEqual([setting, Object.keys(seen).length]);
        expect(different.size).toBeGreaterThan(1);
      }
    });
  });
}
