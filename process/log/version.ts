import { existsSync, readFileSync } from 'node:fs';

/** Version of this package, from its manifest: one folder up in the sources, two in dist/. */
export function packageVersion(): string {
  const candidates = ['../package.json', '../../package.json'].map((path) => new URL(path, import.meta.url));
  const manifest = candidates.find((url) => existsSync(url));
  if (manifest === undefined) throw new Error('package.json is missing beside the program');
  const { version } = JSON.parse(readFileSync(manifest, 'utf8')) as { version: string };
  return version;
}
