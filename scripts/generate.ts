/** `npm run generate`: writes all committed files that are made from others. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { defineFlags, scriptFlags } from '../test/support/script-flags.ts';
import { mustRun, projectRoot } from './commands.ts';

function filesBelow(folder: string): Map<string, string> {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  );
  return new Map(
    files
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
      .map((path) => [path.slice(folder.length), readFileSync(path, 'utf8')]),
  );
}

function checkGenerated(): void {
  const fresh = mkdtempSync(join(tmpdir(), 'weir-generate-'));
  try {
    mustRun('buf', ['generate', '--output', fresh]);
    const wanted = filesBelow(join(fresh, 'gen'));
    const committed = filesBelow(join(projectRoot, 'gen'));
    const paths = new Set([...wanted.keys(), ...committed.keys()]);
    const stale = [...paths].filter((path) => wanted.get(path) !== committed.get(path));
    if (stale.length > 0) {
      console.error(`gen/ is stale, run "npm run generate": ${stale.join(', ')}`);
      process.exit(1);
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

const { check } = scriptFlags(
  defineFlags({
    help: `Usage: npm run generate -- [--check]

Writes all committed files that are made from others.

  --check  writes nothing, and fails if a committed file is stale
`,
    rows: { check: { type: 'boolean' } },
  }),
);
const generators = ['settings-doc', 'crd', 'schemas', 'tables-doc', 'chart', 'draw-algorithms', 'openapi'];

mustRun('buf', ['lint']);
if (check) checkGenerated();
else mustRun('buf', ['generate']);
for (const name of generators) mustRun('node', [`scripts/${name}.ts`, ...(check ? ['--check'] : [])]);
