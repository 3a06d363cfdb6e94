/** What the image adds to its base, below a folder, by the steps of the Dockerfile. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export interface ImageFiles {
  root: string;
  /** Those that the image sets, and nothing else: no PATH either. */
  env: Record<string, string>;
  remove(): void;
}

export function makeImageFiles(): ImageFiles {
  const root = mkdtempSync(join(tmpdir(), 'weir-image-'));
  const remove = (): void => rmSync(root, { recursive: true, force: true });
  try {
    for (const script of ['image-files.ts', 'image-warm-up.ts']) {
      const path = fileURLToPath(new URL(`../../scripts/${script}`, import.meta.url));
      execFileSync(process.execPath, [path, root], { stdio: 'pipe' });
    }
  } catch (error) {
    remove();
    throw error;
  }
  return {
    root,
    env: {
      NODE_ENV: 'production',
      NODE_COMPILE_CACHE: join(root, 'app', 'compile-cache'),
      LD_LIBRARY_PATH: join(root, 'nodejs', 'lib'),
    },
    remove,
  };
}
