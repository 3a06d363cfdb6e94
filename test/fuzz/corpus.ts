import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';

/** The inputs kept for a target. */
export function readCorpus(folder: string, target: string): Uint8Array[] {
  const path = join(folder, target);
  mkdirSync(path, { recursive: true });
  return readdirSync(path)
    .filter((name) => name.endsWith('.bin'))
    .sort()
    .map((name) => readFileSync(join(path, name)));
}

/** Keeps an input under a name made of its contents; returns where, from the current folder. */
export function saveInput(folder: string, target: string, kind: string, input: Uint8Array): string {
  const digest = createHash('sha256').update(input).digest('hex').slice(0, 12);
  const path = join(folder, target, `${kind}-${digest}.bin`);
  writeFileSync(path, input);
  return relative(process.cwd(), path);
}

/** The target to which a file of a corpus belongs. */
export function targetOf(path: string): string {
  return basename(dirname(path));
}
