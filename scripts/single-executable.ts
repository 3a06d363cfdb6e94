/** `npm run executable`: builds the command line as one program that needs no installed Node, from the sources of this checkout. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { rolldown } from 'rolldown';
import { packagedFiles } from '../process/files/package-file.ts';
import { defineFlags, FlagError, scriptFlags } from '../test/support/script-flags.ts';
import { mustRun, projectRoot } from './commands.ts';

/** Starts the program with the name under which it was called: a link named kubectl-weir makes it a plugin of kubectl. */
const entry = `
import { basename } from 'node:path';
import { main } from ${JSON.stringify(join(projectRoot, 'cli/main.ts'))};
const name = basename(process.argv0) === 'kubectl-weir' ? 'kubectl weir' : 'weir';
void main(process.argv.slice(2), undefined, name).then((status) => {
  process.exitCode = status;
});
`;

/** Replaces the commands that start threads from other files, which a single file does not have. */
const withoutProcesses = `
import { CommandError, commandOf } from ${JSON.stringify(join(projectRoot, 'cli/shared/flags.ts'))};
const without = 'this program is the command line alone: limiter and control plane come as image, chart or npm package';
const command = commandOf('Not here: ' + without + '.\\n', async () => {
  throw new CommandError(without);
});
export { command as limiterCommand, command as controlPlaneCommand };
`;
const replaced = /\/(?:limiter|control-plane)-command\.ts$/;

/** Bundles all packages into one file. Minifying halves its size and makes its start 20% faster. */
async function writeBundle(file: string): Promise<void> {
  const modules: Readonly<Record<string, string>> = { '\0entry': entry, '\0processes': withoutProcesses };
  const build = await rolldown({
    cwd: projectRoot,
    input: { weir: '\0entry' },
    platform: 'node',
    external: /^node:/,
    // The executable has no files on disk. Code that reads files of the package uses process/files/package-file.ts.
    transform: { define: { 'import.meta.url': '"file:///weir"', 'import.meta': '{}' } },
    plugins: [
      {
        name: 'single-executable',
        resolveId: (id) => (id === '\0entry' ? id : replaced.test(id) ? '\0processes' : undefined),
        load: (id) => modules[id],
      },
    ],
  });
  await build.write({ file, format: 'cjs', minify: true, codeSplitting: false });
  await build.close();
}

/** V8's code cache halves the start time, and works only on one kind of processor. */
async function makeExecutable(output: string, node: string | undefined): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-executable-'));
  try {
    // The program contains the name of this file. A name with the folder would make each build different.
    const main = 'weir.cjs';
    await writeBundle(join(folder, main));
    const assets = Object.fromEntries(packagedFiles.map((path) => [path, join(projectRoot, path)]));
    const config = {
      main,
      output,
      assets,
      useCodeCache: node === undefined,
      disableExperimentalSEAWarning: true,
      ...(node === undefined ? {} : { executable: node }),
    };
    writeFileSync(join(folder, 'config.json'), JSON.stringify(config));
    // The seed makes builds reproducible.
    mustRun(process.execPath, ['--random-seed=1', '--build-sea', 'config.json'], { cwd: folder });
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

const { file, node } = scriptFlags(
  defineFlags({
    help: `Usage: npm run executable -- <file> [--node <program>]

Writes the command line into this file, as one program that needs no Node installed.

  --node <program>  the Node of the program, such as one for another processor (default: the one that runs this script)
`,
    rows: { node: { type: 'string' } },
    takesWords: true,
    read: (values, [output, ...others]) => {
      if (output === undefined || others.length > 0) throw new FlagError('give one file to write');
      return { ...values, file: output };
    },
  }),
);
await makeExecutable(resolve(file), node === undefined ? undefined : resolve(node));
