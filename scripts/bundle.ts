/**
 * Bundles the programs for the image into a few files instead of hundreds, because a start mostly consists of finding, opening
 * and linking files. All files are in one folder, because threads start from files beside the one that starts them.
 */
import { isAbsolute } from 'node:path';
import { rolldown } from 'rolldown';
import { projectRoot } from './commands.ts';

/** The keys are the names of thread programs in the sources. */
export const entries: Readonly<Record<string, string>> = {
  main: 'cli/main.ts',
  'load-worker': 'limiter/config-source/file/load-worker.ts',
  'load-resources-worker': 'limiter/config-source/xds/load-resources-worker.ts',
  'worker-program': 'limiter/workers/worker-program.ts',
  'counter-collisions-worker': 'control-plane/reconcile/counter-collisions-worker.ts',
};

/**
 * Writes the bundle to `folder`. Packages stay separate, except for two of which a start loads 70 to 100 files each. `changed`
 * returns a text that replaces the source on disk.
 */
export async function bundle(folder: string, changed?: (path: string) => string | undefined): Promise<void> {
  const build = await rolldown({
    cwd: projectRoot,
    input: entries,
    platform: 'node',
    ...(changed && { plugins: [{ name: 'changed-sources', load: (path: string) => changed(path) }] }),
    external: (id) =>
      !id.startsWith('.') && !isAbsolute(id) && !/^(?:zod|@bufbuild\/protobuf)(?:\/|$)/.test(id),
  });
  await build.write({
    dir: folder,
    format: 'esm',
    entryFileNames: '[name].js',
    chunkFileNames: '[name]-[hash].js',
  });
  await build.close();
}
