import { describe, it } from 'vitest';
import { findServer, type ServerProgram } from './find-server.ts';

/**
 * A suite that needs a server. Where the server is missing the suite is skipped, with the reason in its name; with
 * CI=true it fails instead.
 */
export function describeWithServer(
  name: string,
  program: ServerProgram,
  suite: (path: string) => void,
): void {
  const found = findServer(program);
  if ('path' in found) {
    describe(name, () => suite(found.path));
  } else if (process.env['CI'] === 'true') {
    it(`${name}: has its server`, () => {
      throw new Error(found.missing);
    });
  } else {
    describe.skip(`${name} (${found.missing})`, () => it('runs', () => {}));
  }
}
