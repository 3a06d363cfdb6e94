import { afterAll, afterEach, beforeAll, describe, it } from 'vitest';
import { type ApiServer, startApiServer } from './api-server.ts';
import { apiServerProgram, etcdProgram, findServer, kubectlProgram } from './find-server.ts';

/**
 * A suite with an API server of its own, started before its tests and stopped after them. Where a program is missing
 * the suite is skipped, with the reason in its name; with CI=true it fails instead.
 */
export function describeWithApiServer(name: string, suite: (api: () => ApiServer) => void): void {
  const missing = [etcdProgram, apiServerProgram, kubectlProgram].flatMap((program) => {
    const found = findServer(program);
    return 'missing' in found ? [found.missing] : [];
  });
  if (missing.length === 0) {
    describe(name, () => {
      let server: ApiServer | undefined;
      beforeAll(async () => {
        server = await startApiServer();
      });
      // A test that failed while it had stopped the server leaves it to the next one as it found it.
      afterEach(async () => {
        if (server?.serverRuns === false) await server.startServer();
      });
      afterAll(async () => {
        await server?.stop();
      });
      suite(() => server as ApiServer);
    });
  } else if (process.env['CI'] === 'true') {
    it(`${name}: has its servers`, () => {
      throw new Error(missing.join('; '));
    });
  } else {
    describe.skip(`${name} (${missing.join('; ')})`, () => it('runs', () => {}));
  }
}
