import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { findServer, goProgram } from './find-server.ts';

const monitoring = 'example/prometheus-operator-crd/monitoring.coreos.com';

/** Where their modules have them. */
const files: Readonly<Record<string, readonly string[]>> = {
  'github.com/prometheus-operator/prometheus-operator': [
    `${monitoring}_servicemonitors.yaml`,
    `${monitoring}_prometheusrules.yaml`,
  ],
  'github.com/cert-manager/cert-manager': [
    'deploy/crds/cert-manager.io_issuers.yaml',
    'deploy/crds/cert-manager.io_certificates.yaml',
  ],
};

/**
 * Files with the CustomResourceDefinitions of others that the chart needs, out of their Go modules, at the versions in
 * test/support/definitions/go.mod. `npm run test:servers` downloads them.
 */
export function foreignDefinitions(): { files: string[] } | { missing: string } {
  const go = findServer(goProgram);
  if ('missing' in go) return go;
  const found: string[] = [];
  for (const [module, names] of Object.entries(files)) {
    const { status, stdout } = spawnSync(go.path, ['mod', 'download', '-json', module], {
      cwd: join(import.meta.dirname, 'definitions'),
      env: { ...process.env, GOPROXY: 'off' },
      encoding: 'utf8',
    });
    if (status !== 0) return { missing: `${module} is not in the cache of Go` };
    const { Dir: folder } = JSON.parse(stdout) as { Dir: string };
    found.push(...names.map((name) => join(folder, name)));
  }
  return { files: found };
}
