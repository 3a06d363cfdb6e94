/** The packages that a process needs at run time, out of an installation that has those for development as well. */
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

interface LockedPackage {
  /** Packages that only development needs. */
  dev?: boolean;
  devOptional?: boolean;
}

/** What no process reads: types, sources, maps and notes; licenses stay. */
const neverRead = /\.(?:ts|mts|cts|tsx|map|flow|md|markdown)$/;
const license = /^(?:licen[cs]e|notice|copying|copyright)/i;

/** Folders below the project, `node_modules/...`. Those that were not installed here, for another system, are left out. */
export function productionPackages(projectRoot: string): string[] {
  const lock = JSON.parse(readFileSync(join(projectRoot, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>;
  };
  return Object.entries(lock.packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true)
    .map(([path]) => path)
    .filter((path) => existsSync(join(projectRoot, path)));
}

/** Copies them, each without the packages below it, which are in the list themselves. */
export function copyPackages(projectRoot: string, packages: readonly string[], target: string): void {
  for (const path of packages) {
    const nested = join(projectRoot, path, 'node_modules');
    cpSync(join(projectRoot, path), join(target, path), {
      recursive: true,
      dereference: true,
      filter: (source) => source !== nested && (license.test(basename(source)) || !neverRead.test(source)),
    });
  }
}
