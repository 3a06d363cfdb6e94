import { execFileSync } from 'node:child_process';
import { chmodSync, chownSync, copyFileSync, existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { startProgram } from '../../scripts/started-program.ts';
import { imageInMemory, makeImageFiles } from '../support/image-files.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const imageUser = 65532;
const setpriv = '/usr/bin/setpriv';
const mayBeAnotherUser = process.getuid?.() === 0 && existsSync(setpriv);

describe('the image', () => {
  it.runIf(mayBeAnotherUser)(
    'has its code compiled for a user that does not own it',
    { timeout: 120_000 },
    async () => {
      const image = makeImageFiles({ isWarm: false });
      onTestFinished(() => image.remove());
      const cache = join(image.root, 'app', 'compile-cache');
      const scripts = temporaryFolder();
      chownSync(cache, imageUser, imageUser);
      for (const folder of [image.root, scripts]) chmodSync(folder, 0o755);
      for (const name of ['image-warm-up.ts', 'started-program.ts']) {
        copyFileSync(join(import.meta.dirname, '../../scripts', name), join(scripts, name));
      }
      const node = join(image.root, 'nodejs', 'bin', 'node');
      execFileSync(node, [join(scripts, 'image-warm-up.ts'), image.root], {
        uid: imageUser,
        gid: imageUser,
        // As in the stage that builds: it keeps no code of its own compiled.
        env: { LD_LIBRARY_PATH: join(image.root, 'nodejs', 'lib') },
        stdio: 'pipe',
      });
      const entries = readdirSync(cache, { recursive: true, withFileTypes: true });
      expect(entries.filter((entry) => entry.isFile()).length).toBeGreaterThan(30);
      for (const entry of entries) {
        const path = join(entry.parentPath, entry.name);
        expect(statSync(path).mode & 0o777).toBe(entry.isDirectory() ? 0o755 : 0o644);
        chownSync(path, 0, 0);
      }
      chownSync(cache, 0, 0);
      const program = await startProgram({
        command: setpriv,
        args: [
          ...[`--reuid=${imageUser}`, `--regid=${imageUser}`, '--clear-groups'],
          join(image.root, 'bin', 'ratelimit'),
        ],
        env: {
          ...image.env,
          ...imageInMemory,
          RUNTIME_ROOT: join(image.root, 'app', 'examples'),
          NODE_DEBUG_NATIVE: 'COMPILE_CACHE',
        },
        until: /Listening for HTTP/,
      });
      await program.stop();
      expect(program.output().match(/ was accepted/g)?.length ?? 0).toBeGreaterThan(30);
    },
  );
});
