/**
 * `node scripts/image-files.ts <folder>`: what the image adds to its base, below a folder that stands for the image's
 * root: /app (this package with its production dependencies), /nodejs (Node and its libraries), /bin/weir and /bin/ratelimit.
 */
import { chmodSync, copyFileSync, cpSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { bundle } from './bundle.ts';
import { projectRoot } from './commands.ts';
import { copyPackages, productionPackages } from './production-packages.ts';
import { sharedLibraries } from './shared-libraries.ts';

const [given] = process.argv.slice(2);
if (given === undefined) {
  console.error('usage: node scripts/image-files.ts <folder>');
  process.exit(2);
}
const root = resolve(given);
const app = join(root, 'app');
const nodejs = join(root, 'nodejs');

rmSync(app, { recursive: true, force: true });
rmSync(nodejs, { recursive: true, force: true });
mkdirSync(join(app, 'compile-cache'), { recursive: true });
await copyApp();
copyNode();
writeProgram('weir', '');
// The limiter and nothing else, as in the image of the Go service.
writeProgram('ratelimit', "process.argv.splice(2, 0, 'limiter');\n");

async function copyApp(): Promise<void> {
  // The folder that bin/weir.js looks in.
  await bundle(join(app, 'dist', 'cli'));
  for (const name of ['bin', 'console', 'crds', 'examples', 'schemas', 'package.json', 'LICENSE']) {
    cpSync(join(projectRoot, name), join(app, name), { recursive: true });
  }
  mkdirSync(join(app, 'docs'));
  copyFileSync(join(projectRoot, 'docs', 'openapi.json'), join(app, 'docs', 'openapi.json'));
  copyPackages(projectRoot, productionPackages(projectRoot), app);
}

function copyNode(): void {
  mkdirSync(join(nodejs, 'bin'), { recursive: true });
  mkdirSync(join(nodejs, 'lib'), { recursive: true });
  copyFileSync(process.execPath, join(nodejs, 'bin', 'node'));
  chmodSync(join(nodejs, 'bin', 'node'), 0o755);
  for (const library of sharedLibraries(process.execPath)) {
    copyFileSync(library, join(nodejs, 'lib', basename(library)));
  }
  const license = join(dirname(process.execPath), '..', 'LICENSE');
  if (existsSync(license)) copyFileSync(license, join(nodejs, 'LICENSE'));
}

/** Named by its whole path: the image has no `env` to look for Node, and no shell. */
function writeProgram(name: string, before: string): void {
  const program = join(root, 'bin', name);
  mkdirSync(dirname(program), { recursive: true });
  const entry = JSON.stringify(join(app, 'bin', 'weir.js'));
  writeFileSync(program, `#!${join(nodejs, 'bin', 'node')}\n${before}import(${entry});\n`);
  chmodSync(program, 0o755);
}
