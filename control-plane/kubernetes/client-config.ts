/** The address of the Kubernetes API and the credentials for it. The Kubernetes library runs login plugins. */
import { existsSync, readFileSync } from 'node:fs';
import { isIPv6 } from 'node:net';
import { dirname, join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { errorText, isSystemError, systemErrorReason } from '../../process/log/error-text.ts';
import { readDocument } from '../../rules/yaml/document.ts';

export interface KubernetesConfigOptions {
  /** KUBECONFIG: paths separated by `:`. Missing files are skipped. Empty if it is not set. */
  kubeconfig?: string | undefined;
  /** The context to use instead of the `current-context` in the files. */
  context?: string | undefined;
  /** KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT, which every pod has. */
  serviceHost?: string | undefined;
  servicePort?: string | undefined;
  /** HOME. `.kube/config` in it is read if there is no other configuration. */
  home?: string | undefined;
  /** The folder with a pod's token. Defaults to Kubernetes' path. */
  serviceAccountFolder?: string;
}

/** The configuration does not define access to the Kubernetes API, or it cannot be read. */
export class KubernetesConfigError extends Error {
  override readonly name = 'KubernetesConfigError';
}

const defaultServiceAccountFolder = '/var/run/secrets/kubernetes.io/serviceaccount';

/** Uses the first configuration that exists: KUBECONFIG, the pod's service account, `~/.kube/config`. Throws a KubernetesConfigError. */
export function loadKubernetesConfig(options: KubernetesConfigOptions): KubeConfig {
  const paths = (options.kubeconfig ?? '').split(':').filter((path) => path !== '');
  if (paths.length > 0) return fromFiles(paths, `KUBECONFIG=${options.kubeconfig}`, options.context);
  const inCluster = fromServiceAccount(options);
  if (inCluster !== undefined) return inCluster;
  const inHome = options.home ? join(options.home, '.kube', 'config') : undefined;
  if (inHome !== undefined && existsSync(inHome)) return fromFiles([inHome], inHome, options.context);
  throw new KubernetesConfigError(
    `cannot find the Kubernetes API: KUBECONFIG is not set, this is not a pod with a service account, and ${inHome ?? '~/.kube/config'} does not exist`,
  );
}

/** Merges several files as kubectl does: the first of two definitions of the same thing wins. */
function fromFiles(paths: readonly string[], what: string, context: string | undefined): KubeConfig {
  const present = paths.filter((path) => existsSync(path));
  if (present.length === 0) throw new KubernetesConfigError(`${what}: no such file`);
  const merged = new KubeConfig();
  for (const path of present) {
    const next = readFile(path);
    for (const list of ['clusters', 'users', 'contexts'] as const) {
      const known = new Set(merged[list].map(({ name }) => name));
      const added = next[list].filter(({ name }) => !known.has(name));
      (merged[list] as unknown[]).push(...added);
    }
    merged.currentContext ||= next.currentContext;
  }
  if (context !== undefined) merged.currentContext = context;
  checkContext(merged, { what, name: context === undefined ? 'current-context' : 'context' });
  return merged;
}

function readFile(path: string): KubeConfig {
  const config = new KubeConfig();
  try {
    const document = readDocument(readFileSync(path, 'utf8'), 'typed');
    if ('offset' in document || document.hasMore) throw new Error('no YAML, or several documents');
    // The library also reads JSON, with the same meaning.
    config.loadFromString(JSON.stringify(document.value));
    addTokenFiles(config, document.value);
    config.makePathsAbsolute(dirname(path));
  } catch (error) {
    // The parser's message may quote the file, and with it a password.
    const reason = isSystemError(error) ? systemErrorReason(error) : 'not a kubeconfig file';
    throw new KubernetesConfigError(`${path}: ${reason}`);
  }
  return config;
}

/** The library supports a user's `tokenFile` only as an authProvider. As there, it is used if there is no token. */
function addTokenFiles(config: KubeConfig, document: unknown): void {
  const entries = (document as { users?: { name?: unknown; user?: { tokenFile?: unknown } }[] }).users ?? [];
  for (const { name, user } of entries) {
    const tokenFile = user?.tokenFile;
    if (typeof tokenFile !== 'string') continue;
    config.users = config.users.map((known) =>
      known.name !== name || known.token
        ? known
        : { ...known, authProvider: { name: 'tokenFile', config: { tokenFile } } },
    );
  }
}

function checkContext(config: KubeConfig, { what, name }: { what: string; name: string }): void {
  const { currentContext } = config;
  if (!currentContext) throw new KubernetesConfigError(`${what}: ${name} is not set`);
  if (!config.contexts.some(({ name }) => name === currentContext)) {
    throw new KubernetesConfigError(`${what}: ${name} "${currentContext}" is not among its contexts`);
  }
  const cluster = config.getCurrentCluster();
  if (cluster === null) {
    throw new KubernetesConfigError(`${what}: the cluster of context "${currentContext}" is not defined`);
  }
  if (config.getCurrentUser() === null) {
    throw new KubernetesConfigError(`${what}: the user of context "${currentContext}" is not defined`);
  }
  try {
    new URL(cluster.server);
  } catch (error) {
    throw new KubernetesConfigError(`${what}: server of cluster "${cluster.name}": ${errorText(error)}`);
  }
}

/** The library reads the token again once a minute, because Kubernetes replaces it. */
function fromServiceAccount(options: KubernetesConfigOptions): KubeConfig | undefined {
  const { serviceHost, servicePort, serviceAccountFolder = defaultServiceAccountFolder } = options;
  const tokenFile = join(serviceAccountFolder, 'token');
  if (!serviceHost || !servicePort || !existsSync(tokenFile)) return undefined;
  const host = isIPv6(serviceHost) ? `[${serviceHost}]` : serviceHost;
  const config = new KubeConfig();
  const namespace = namespaceIn(join(serviceAccountFolder, 'namespace'));
  config.loadFromOptions({
    clusters: [
      {
        name: 'in-cluster',
        server: `https://${host}:${servicePort}`,
        caFile: join(serviceAccountFolder, 'ca.crt'),
        skipTLSVerify: false,
      },
    ],
    users: [{ name: 'in-cluster', authProvider: { name: 'tokenFile', config: { tokenFile } } }],
    contexts: [{ name: 'in-cluster', cluster: 'in-cluster', user: 'in-cluster', ...namespace }],
    currentContext: 'in-cluster',
  });
  return config;
}

function namespaceIn(path: string): { namespace?: string } {
  try {
    const namespace = readFileSync(path, 'utf8').trim();
    return namespace === '' ? {} : { namespace };
  } catch {
    return {};
  }
}
