/** Files of this package that programs read when they run: from where it is installed, or out of the single executable. */
import { existsSync, readFileSync } from 'node:fs';
import { getAsset, isSea } from 'node:sea';

/** Those that the single executable carries; scripts/single-executable.ts puts them in. */
export const carriedFiles = [
  'package.json',
  'docs/openapi.json',
  // What `weir init` copies.
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

/** The text of one, by its path in the package. Throws where it is missing. */
export function packageFile(path: string): string {
  if (isSea()) return getAsset(path, 'utf8');
  // Two folders up in the sources and in the image, three in dist/.
  const candidates = ['../..', '../../..'].map((up) => new URL(`${up}/${path}`, import.meta.url));
  const file = candidates.find((url) => existsSync(url));
  if (file === undefined) throw new Error(`${path} is missing beside the program`);
  return readFileSync(file, 'utf8');
}

/** Of this package, by its manifest. */
export function packageVersion(): string {
  return (JSON.parse(packageFile('package.json')) as { version: string }).version;
}
