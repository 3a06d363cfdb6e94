import { it } from 'vitest';
import type { ApiServer } from './api-server.ts';
import { foreignModules } from './definitions.ts';
import { describeWithBareApiServer } from './describe-with-api-server.ts';
import { describeWithServer } from './describe-with-server.ts';
import { helmProgram } from './find-server.ts';

/**
 * A suite with Helm and an API server, which knows the objects of the Prometheus operator and of cert-manager
 * when `definitions` were applied. What is missing skips the suite, or fails it with CI=true.
 */
export function describeWithChart(
  name: string,
  suite: (api: () => ApiServer, definitions: readonly string[]) => void,
): void {
  describeWithServer(name, helmProgram, () => {
    const found = foreignModules('chart');
    if ('modules' in found) {
      const files = found.modules.flatMap((module) => module.files);
      describeWithBareApiServer('on a real API server', (api) => suite(api, files));
    } else if (process.env['CI'] === 'true') {
      it('has the definitions of others', () => {
        throw new Error(found.missing);
      });
    } else {
      it.skip(`runs (${found.missing})`, () => {});
    }
  });
}
