// Plain JavaScript on purpose: it has to run on a Node too old for the rest, to say so.
import { existsSync, readFileSync } from 'node:fs';

/** Runs this program under one of its names. */
export async function runProgram(name) {
  refuseOldNode();
  const source = new URL('../cli/main.ts', import.meta.url);
  const { main } = await import(
    existsSync(source) ? source.href : new URL('../dist/cli/main.js', import.meta.url).href
  );
  process.exitCode = await main(process.argv.slice(2), undefined, name);
}

/** Ends the process with one sentence, and the status of what cannot be run, when the running Node is older than package.json's `engines` asks for. */
export function refuseOldNode() {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
  const wanted = Number(/\d+/.exec(manifest.engines.node)[0]);
  if (Number(process.versions.node.split('.')[0]) >= wanted) return;
  process.stderr.write(
    `weir needs Node ${wanted} or newer and this is Node ${process.versions.node}: in a clone, "npm ci" brings the right one for npm and npx, unless npm ignores install scripts; elsewhere, install it.\n`,
  );
  process.exit(2);
}
