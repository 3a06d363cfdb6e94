/**
 * `weir` as tests start it, more than a thousand times: a run of them bundles it first, as it is in the image, and keeps what
 * Node compiled, so that a start takes less than half the processor time. Outside of such a run it is this checkout's.
 */
import { cpSync, existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import type { TestProject } from 'vitest/node';
import { packagedFiles } from '../../process/files/package-file.ts';
import { bundle } from '../../scripts/bundle.ts';
import { projectRoot } from '../../scripts/commands.ts';

const variable = 'WEIR_PROGRAM';

/** The path of `weir.js`, for Node. */
export let weirProgram = process.env[variable] ?? join(projectRoot, 'bin/weir.js');

/** The program of a thread as the bundle of this run has it, which starts in a fifth of the time; else the given one. */
export function threadProgram(source: URL): URL {
  const name = basename(source.pathname).replace(/\.ts$/, '.js');
  const bundled = join(weirProgram, '../../dist/cli', name);
  return process.env[variable] !== undefined && existsSync(bundled) ? pathToFileURL(bundled) : source;
}

/** Everything of a program but the bundle. */
function programFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'weir-program-'));
  for (const name of ['bin', ...packagedFiles]) {
    cpSync(join(projectRoot, name), join(folder, name), { recursive: true });
  }
  symlinkSync(join(projectRoot, 'node_modules'), join(folder, 'node_modules'));
  return folder;
}

/** Runs something with a program whose sources differ from those on disk, in this process alone. */
export async function withChangedProgram<Result>(
  changed: (path: string) => string | undefined,
  act: () => Promise<Result>,
): Promise<Result> {
  const folder = programFolder();
  const former = weirProgram;
  try {
    await bundle(join(folder, 'dist/cli'), changed);
    weirProgram = join(folder, 'bin/weir.js');
    return await act();
  } finally {
    weirProgram = former;
    rmSync(folder, { recursive: true, force: true });
  }
}

/** What vitest calls once a project: the first makes the bundle of the run. A script that runs many calls it, too. */
export default async function setup(project?: TestProject): Promise<(() => void) | undefined> {
  if (process.env[variable] !== undefined) return undefined;
  const folder = programFolder();
  const build = () => bundle(join(folder, 'dist/cli'));
  await build();
  project?.onTestsRerun(build);
  // https://nodejs.org/api/module.html#module-compile-cache
  process.env['NODE_COMPILE_CACHE'] = join(folder, 'compiled');
  weirProgram = join(folder, 'bin/weir.js');
  process.env[variable] = weirProgram;
  return () => rmSync(folder, { recursive: true, force: true });
}
