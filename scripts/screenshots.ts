/** `npm run screenshots`: the pictures of the consoles in docs/, taken while the tests of the consoles use them. */
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { mustRun, projectRoot } from './commands.ts';

const folder = join(projectRoot, 'docs', 'pictures');
/** Of each: they are a part of every copy of the repository. */
const maxBytes = 150_000;

mustRun('vitest', ['run', 'test/console', '--project', 'tests'], {
  env: { ...process.env, SCREENSHOTS_FOLDER: folder },
});
const sizes = readdirSync(folder).map((name) => ({ name, bytes: statSync(join(folder, name)).size }));
for (const { name, bytes } of sizes) console.log(`docs/pictures/${name}: ${Math.ceil(bytes / 1_000)} kB`);
process.exitCode = sizes.some(({ bytes }) => bytes > maxBytes) ? 1 : 0;
