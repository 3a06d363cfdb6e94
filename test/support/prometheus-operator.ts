import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { findServer, goProgram } from './find-server.ts';

const kinds = ['servicemonitors', 'prometheusrules'];

/**
 * Files with the CustomResourceDefinitions of the Prometheus operator that the chart needs, out of the operator's Go
 * module, at the version in test/support/prometheus-operator/go.mod. `npm run test:servers` downloads it.
 */
export function prometheusOperatorDefinitions(): { files: string[] } | { missing: string } {
  const go = findServer(goProgram);
  if ('missing' in go) return go;
  const module = 'github.com/prometheus-operator/prometheus-operator';
  const { status, stdout } = spawnSync(go.path, ['mod', 'download', '-json', module], {
    cwd: join(import.meta.dirname, 'prometheus-operator'),
    env: { ...process.env, GOPROXY: 'off' },
    encoding: 'utf8',
  });
  if (status !== 0) return { missing: `${module} is not in the cache of Go` };
  const { Dir: folder } = JSON.parse(stdout) as { Dir: string };
  const crds = join(folder, 'example/prometheus-operator-crd');
  return { files: kinds.map((kind) => join(crds, `monitoring.coreos.com_${kind}.yaml`)) };
}
