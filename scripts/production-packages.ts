/** Selects the packages that a process needs at run time from an installation with development packages. */
import { cpSync, existsSync, readFileSync } from 'node:fs';
import { basename, join } from 'node:path';

interface LockedPackage {
  /** Packages that only development needs. */
  dev?: boolean;
  devOptional?: boolean;
}

/** Files that no process reads: types, sources, maps and notes. Licenses stay. */
const neverRead = /\.(?:ts|mts|cts|tsx|map|flow|md|markdown)$/;
const license = /^(?:licen[cs]e|notice|copying|copyright)/i;

/** Returns folders below the project, `node_modules/...`. Packages for another system, which are not installed here, are left out. */
export function productionPackages(projectRoot: string): string[] {
  const lock = JSON.parse(readFileSync(join(projectRoot, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>;
  };
  return Object.entries(lock.packages)
    .filter(([path, { dev, devOptional }]) => path !== '' && dev !== true && devOptional !== true)
    .map(([path]) => path)
    .filter((path) => existsSync(join(projectRoot, path)));
}

/** Copies the packages, each without the packages below it, which the list contains themselves. */
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
