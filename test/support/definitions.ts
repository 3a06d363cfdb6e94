import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { findServer, goProgram } from './find-server.ts';

const monitoring = 'example/prometheus-operator-crd/monitoring.coreos.com';
const kgateway = 'install/helm/kgateway-crds/templates/gateway.kgateway.dev';
const envoyGateway = 'charts/gateway-crds-helm/templates/generated/gateway.envoyproxy.io';

/** By who needs them; where their modules have them. */
const files = {
  chart: {
    'github.com/prometheus-operator/prometheus-operator': [
      `${monitoring}_servicemonitors.yaml`,
      `${monitoring}_prometheusrules.yaml`,
    ],
    'github.com/cert-manager/cert-manager': [
      'deploy/crds/cert-manager.io_issuers.yaml',
      'deploy/crds/cert-manager.io_certificates.yaml',
    ],
  },
  examples: {
    'istio.io/api': ['kubernetes/customresourcedefinitions.gen.yaml'],
    'sigs.k8s.io/gateway-api': [
      'config/crd/standard/gateway.networking.k8s.io_gateways.yaml',
      'config/crd/standard/gateway.networking.k8s.io_httproutes.yaml',
    ],
    'github.com/projectcontour/contour': ['examples/contour/01-crds.yaml'],
    'github.com/emissary-ingress/emissary/v3': ['pkg/api/getambassador.io/crds.yaml'],
    'github.com/kgateway-dev/kgateway/v2': [
      `${kgateway}_gatewayextensions.yaml`,
      `${kgateway}_trafficpolicies.yaml`,
    ],
    'github.com/envoyproxy/gateway': [
      `${envoyGateway}_backendtrafficpolicies.yaml`,
      `${envoyGateway}_envoypatchpolicies.yaml`,
    ],
    'github.com/kuadrant/kuadrant-operator': ['config/crd/bases/kuadrant.io_authpolicies.yaml'],
  },
  traefik: {
    'github.com/traefik/traefik/v3': [
      'docs/content/reference/dynamic-configuration/traefik.io_middlewares.yaml',
    ],
  },
  sarif: {
    'github.com/owenrumney/go-sarif/v3': ['pkg/report/v210/sarif/schema.go'],
  },
  compose: {
    'github.com/compose-spec/compose-go/v2': ['schema/compose-spec.json'],
  },
} as const satisfies Record<string, Readonly<Record<string, readonly string[]>>>;

export type DefinitionUser = keyof typeof files;

export interface ForeignModule {
  /** As in go.mod. */
  path: string;
  version: string;
  folder: string;
  files: string[];
}

/**
 * What others have defined that this user needs, out of their Go modules, at the versions in
 * test/support/definitions/go.mod. `npm run test:servers` downloads them.
 */
export function foreignModules(user: DefinitionUser): { modules: ForeignModule[] } | { missing: string } {
  const go = findServer(goProgram);
  if ('missing' in go) return go;
  const modules: ForeignModule[] = [];
  for (const [path, names] of Object.entries<readonly string[]>(files[user])) {
    const { status, stdout } = spawnSync(go.path, ['mod', 'download', '-json', path], {
      cwd: join(import.meta.dirname, 'definitions'),
      env: { ...process.env, GOPROXY: 'off' },
      encoding: 'utf8',
    });
    if (status !== 0) return { missing: `${path} is not in the cache of Go` };
    const { Dir: folder, Version: version } = JSON.parse(stdout) as { Dir: string; Version: string };
    modules.push({ path, version, folder, files: names.map((name) => join(folder, name)) });
  }
  return { modules };
}

/** Of all users, the first that is missing. */
export function missingDefinitions(): string | undefined {
  for (const user of Object.keys(files) as DefinitionUser[]) {
    const found = foreignModules(user);
    if ('missing' in found) return found.missing;
  }
  return undefined;
}

/** The JSON Schema of SARIF 2.1.0, errata 01, out of a module that has it as a text of Go. */
export function sarifSchema(): { schema: object } | { missing: string } {
  const found = foreignModules('sarif');
  if ('missing' in found) return found;
  const text = readFileSync(found.modules[0]!.files[0]!, 'utf8');
  const { $schema: _, id: __, ...schema } = JSON.parse(text.split('`', 2)[1]!) as Record<string, unknown>;
  return { schema };
}
