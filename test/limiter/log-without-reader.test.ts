import { describe, expect, it } from 'vitest';
import { spawnControlPlane } from '../support/control-plane-process.ts';
import { spawnLimiter } from '../support/limiter-process.ts';

/** As in `weir limiter 2>&1 | head`: the program that read the log has ended, and the next line meets a broken pipe. */
describe('a program whose log has lost its reader', () => {
  const programs = {
    limiter: () =>
      spawnLimiter({
        env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: 'examples', RUNTIME_APPDIRECTORY: 'rules' },
      }),
    'control plane': () =>
      spawnControlPlane({ env: { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: 'examples/manifests' } }),
  };
  it.each(['limiter', 'control plane'] as const)('ends at a signal: %s', async (name) => {
    const program = programs[name]();
    await program.printed(/Listening for HTTP/);
    program.process.stderr?.destroy();
    program.process.stdout?.destroy();
    expect(await program.stop('SIGTERM')).toEqual({ code: 0, signal: null });
  });
});
