import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
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
  const found: string[] = [];
  for (const [module, names] of Object.entries(files)) {
    const at = moduleFolder(module);
    if ('missing' in at) return at;
    found.push(...names.map((name) => join(at.folder, name)));
  }
  return { files: found };
}

function moduleFolder(module: string): { folder: string } | { missing: string } {
  const go = findServer(goProgram);
  if ('missing' in go) return go;
  const { status, stdout } = spawnSync(go.path, ['mod', 'download', '-json', module], {
    cwd: join(import.meta.dirname, 'definitions'),
    env: { ...process.env, GOPROXY: 'off' },
    encoding: 'utf8',
  });
  if (status !== 0) return { missing: `${module} is not in the cache of Go` };
  return { folder: (JSON.parse(stdout) as { Dir: string }).Dir };
}

/** The JSON Schema of SARIF 2.1.0, errata 01, out of a module that has it as a text of Go. */
export function sarifSchema(): { schema: object } | { missing: string } {
  const at = moduleFolder('github.com/owenrumney/go-sarif/v3');
  if ('missing' in at) return at;
  const text = readFileSync(join(at.folder, 'pkg/report/v210/sarif/schema.go'), 'utf8');
  const { $schema: _, id: __, ...schema } = JSON.parse(text.split('`', 2)[1]!) as Record<string, unknown>;
  return { schema };
}
