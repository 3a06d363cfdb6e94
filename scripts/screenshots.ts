/** `npm run screenshots`: takes the pictures of the consoles in docs/ while the tests of the consoles run. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun, projectRoot } from './commands.ts';

const folder = join(projectRoot, 'docs', 'pictures');
/** The largest size of a picture, because every copy of the repository contains all pictures. */
const maxBytes = 150_000;

mustRun('vitest', ['run', 'test/console', '--project', 'tests'], {
  env: { ...process.env, SCREENSHOTS_FOLDER: folder },
});
const sizes = readdirSync(folder).map((name) => ({ name, bytes: statSync(join(folder, name)).size }));
for (const { name, bytes } of sizes) console.log(`docs/pictures/${name}: ${Math.ceil(bytes / 1_000)} kB`);
process.exitCode = sizes.some(({ bytes }) => bytes > maxBytes) ? 1 : 0;
