/**
 * `npm run generate`: writes all committed files that are made from others. With `--check`, writes nothing and fails if a
 * committed file is stale.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
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

mustRun('buf', ['lint']);
if (process.argv.includes('--check')) {
  checkGenerated();
  mustRun('node', ['scripts/settings-doc.ts', '--check']);
  mustRun('node', ['scripts/crd.ts', '--check']);
  mustRun('node', ['scripts/schemas.ts', '--check']);
  mustRun('node', ['scripts/tables-doc.ts', '--check']);
  mustRun('node', ['scripts/chart.ts', '--check']);
  mustRun('node', ['scripts/draw-algorithms.ts', '--check']);
  mustRun('node', ['scripts/openapi.ts', '--check']);
} else {
  mustRun('buf', ['generate']);
  mustRun('node', ['scripts/settings-doc.ts']);
  mustRun('node', ['scripts/crd.ts']);
  mustRun('node', ['scripts/schemas.ts']);
  mustRun('node', ['scripts/tables-doc.ts']);
  mustRun('node', ['scripts/chart.ts']);
  mustRun('node', ['scripts/draw-algorithms.ts']);
  mustRun('node', ['scripts/openapi.ts']);
}
