// Plain JavaScript on purpose: it has to run on a Node too old for the rest, to say so.
import { existsSync, readFileSync } from 'node:fs';

/** Runs this program under one of its names. */
export async function runProgram(name) {
  exitOnOldNode();
  const source = new URL('../cli/main.ts', import.meta.url);
  const { main } = await import(
    existsSync(source) ? source.href : new URL('../dist/cli/main.js', import.meta.url).href
  );
  process.exitCode = await main(process.argv.slice(2), undefined, name);
}

/** Ends the process with one sentence, and the status of what cannot be run, when the running Node is too old. */
export function exitOnOldNode() {
  if (!isTooOld(process.versions.node)) return;
  process.stderr.write(
    `weir needs Node ${wantedNode} or newer and this is Node ${process.versions.node}: in a clone, "npm ci" brings the right one for npm and bin/weir, unless npm ignores install scripts or leaves out development dependencies; elsewhere, install it.\n`,
  );
  process.exit(2);
}

/** The oldest that is new enough, by package.json's `engines`. */
export const wantedNode = Number(
  /\d+/.exec(JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')).engines.node)[0],
);

export function isTooOld(version) {
  return Number(version.split('.')[0]) < wantedNode;
}
