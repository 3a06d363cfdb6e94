/** Files of this package that programs read at run time: from the installed package, or from the single executable. */
import { existsSync, readFileSync } from 'node:fs';
import { getAsset, isSea } from 'node:sea';

/** The files that the single executable contains; scripts/single-executable.ts adds them. */
export const packagedFiles = [
  'package.json',
  'docs/openapi.json',
  // Files that `weir init` copies.
  'examples/caddy/Caddyfile',
  'examples/haproxy/haproxy.cfg',
  'examples/haproxy/weir.lua',
  'examples/nginx/nginx.conf',
  'examples/nginx/weir.conf',
  'examples/traefik/dynamic.yaml',
  'examples/traefik/traefik.yaml',
  'schemas/callers.json',
  'schemas/profiles.json',
  'schemas/ratelimitconfig.json',
  'schemas/ratelimitfleet.json',
  'schemas/ratelimitoverride.json',
  'schemas/rules.json',
] as const;

/** Returns the text of a file by its path in the package. @throws if it is missing */
export function packageFile(path: string): string {
  if (isSea()) return getAsset(path, 'utf8');
  // The package is two levels up in the sources and in the image, three in dist/.
  const candidates = ['../..', '../../..'].map((up) => new URL(`${up}/${path}`, import.meta.url));
  const file = candidates.find((url) => existsSync(url));
  if (file === undefined) throw new Error(`${path} is missing beside the program`);
  return readFileSync(file, 'utf8');
}

/** The version of this package, from its manifest. */
export function packageVersion(): string {
  return (JSON.parse(packageFile('package.json')) as { version: string }).version;
}
