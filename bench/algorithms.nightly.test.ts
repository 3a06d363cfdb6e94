import { execFileSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { readDocument } from '../test/support/documents.ts';

it('gives the figures of docs/rules-algorithms.md', () => {
  const script = fileURLToPath(new URL('./algorithms.ts', import.meta.url));
  const printed = execFileSync(process.execPath, [script], { encoding: 'utf8' });
  const rows = printed.split('\n').filter((line) => line.startsWith('| ') && line.includes('%'));
  expect(rows).toHaveLength(8);
  const document = readDocument('docs/rules-algorithms.md').split('\n');
  for (const row of rows) expect(document).toContain(row);
}, 120_000);
