/** What the image adds to its base, below a folder, by the steps of the Dockerfile. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

/** A limiter of it that counts in memory, at any ports of loopback. */
export const imageInMemory = {
  HOST: '127.0.0.1',
  PORT: '0',
  GRPC_HOST: '127.0.0.1',
  GRPC_PORT: '0',
  DEBUG_HOST: '127.0.0.1',
  DEBUG_PORT: '0',
  BACKEND_TYPE: 'memory',
  DISABLE_STATS: 'true',
  RUNTIME_APPDIRECTORY: 'rules',
  RUNTIME_WATCH_ROOT: 'false',
};

export interface ImageFiles {
  root: string;
  /** Those that the image sets, and nothing else: no PATH either. */
  env: Record<string, string>;
  remove(): void;
}

/** Without `isWarm` no code is compiled yet, which takes half of the time. */
export function makeImageFiles({ isWarm = true } = {}): ImageFiles {
  const root = mkdtempSync(join(tmpdir(), 'weir-image-'));
  const remove = (): void => rmSync(root, { recursive: true, force: true });
  try {
    for (const script of ['image-files.ts', ...(isWarm ? ['image-warm-up.ts'] : [])]) {
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
