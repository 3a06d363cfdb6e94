/** The cluster that kubectl would use: its kubeconfig, contexts and namespaces, with kubectl's flags. */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import { ApiError, unreadable } from '../../control-plane/kubernetes/api.ts';
import { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { KubernetesConfigError, loadKubernetesConfig } from '../../control-plane/kubernetes/client-config.ts';
import { packageVersion } from '../../process/files/package-file.ts';
import { group, version } from '../../rules/language/kinds.ts';
import { namespaceProblem } from '../../rules/reader/read-manifests.ts';
import { CommandError, type ParsedFlags, timeoutMs, UsageError } from './flags.ts';
import { io } from './io.ts';

/** Flags that these commands share with kubectl. */
export const clusterHelp = `  -n, --namespace <name>      look in this namespace (default: the namespace of the context, else "default")
  -A, --all-namespaces        look in all namespaces
      --context <name>        a context of the kubeconfig (default: its current-context)
      --kubeconfig <file>     the kubeconfig (default: the files of KUBECONFIG, else ~/.kube/config, else the pod's account)
      --timeout <t>           how long to wait for each answer (default 30s)
`;

/** Runs a command that uses a cluster. An error of the cluster is one line on standard error, with exit status 2. */
export function withCluster<T>(
  flags: ParsedFlags,
  run: (cluster: Cluster) => Promise<T>,
  otherwise?: string,
): Promise<T> {
  return reportingClusterErrors(async () => {
    const cluster = new Cluster(flags);
    return run(cluster).finally(() => cluster.close());
  }, otherwise);
}

/** Turns an error of the cluster into the end of the command, with status 2. `otherwise` says what to do if no cluster is configured. */
export async function reportingClusterErrors<T>(run: () => Promise<T>, otherwise = ''): Promise<T> {
  try {
    return await run();
  } catch (error) {
    if (!(error instanceof ApiError || error instanceof KubernetesConfigError)) throw error;
    const hint = error instanceof KubernetesConfigError ? otherwise : '';
    throw new CommandError(error.message + hint, 2, { cause: error });
  }
}

/** The API groups and versions of resources of Kubernetes itself; all others are Weir's. */
const ofKubernetes: ReadonlyMap<string, string> = new Map([
  ['pods', 'v1'],
  ['services', 'v1'],
  ['leases', 'coordination.k8s.io/v1'],
]);

function fullName(plural: string): string {
  const [apiGroup, apiVersion] = (ofKubernetes.get(plural) ?? `${group}/${version}`).split('/');
  return apiVersion === undefined ? plural : `${plural}.${apiGroup}`;
}

/** Chosen: the page size of kubectl. Some objects have 1 MB. */
const pageSize = 500;

interface Asked {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  plural: string;
  namespace: string | undefined;
  name?: string | undefined;
  query?: Readonly<Record<string, string | number | undefined>>;
  body?: unknown;
}

const verbs: Readonly<Record<string, string>> = { POST: 'create', PUT: 'update', DELETE: 'delete' };

interface Page {
  metadata?: { continue?: string };
  items?: unknown;
}

export class Cluster {
  readonly #client: KubernetesClient;
  readonly config: KubeConfig;
  /** Undefined for all namespaces. */
  readonly namespace: string | undefined;
  /** Whether the command line names the namespace, and not the context. */
  readonly isNamespaceGiven: boolean;

  /** @throws UsageError, or KubernetesConfigError if no cluster is configured */
  constructor(flags: ParsedFlags) {
    const given = flags.text('namespace');
    const problem = given === undefined ? undefined : namespaceProblem(given);
    if (problem !== undefined) throw new UsageError(`--namespace ${problem}`);
    this.isNamespaceGiven = given !== undefined;
    this.config = loadKubernetesConfig({
      kubeconfig: kubeconfigPaths(flags.text('kubeconfig')),
      context: flags.text('context'),
      serviceHost: io().env['KUBERNETES_SERVICE_HOST'],
      servicePort: io().env['KUBERNETES_SERVICE_PORT'],
      home: io().env['HOME'],
    });
    const { config } = this;
    this.#client = new KubernetesClient({
      config,
      userAgent: `kubectl-weir/${packageVersion()}`,
      timeoutMs: timeoutMs(flags, '30s'),
    });
    this.namespace = flags.on('all-namespaces') ? undefined : (given ?? this.#client.namespace ?? 'default');
  }

  /** Reads all objects of a kind in a namespace, or in all namespaces, page by page. Only the results of `read` stay in memory. */
  async list<T>(
    plural: string,
    namespace: string | undefined,
    read: (object: unknown) => T,
    labelSelector?: string,
  ): Promise<T[]> {
    let all: T[] = [];
    let query: { limit?: number; continue?: string } = { limit: pageSize };
    for (;;) {
      try {
        const { metadata, items } = await this.#ask<Page>({
          plural,
          namespace,
          query: { ...query, labelSelector },
        });
        if (!Array.isArray(items)) throw unreadable(`${this.#client.server}: the answer is not a list`);
        for (const item of items) all.push(read(item));
        if (!metadata?.continue) return all;
        query = { limit: pageSize, continue: metadata.continue };
      } catch (error) {
        // The server drops the pages of an old list after a while. As kubectl does, the rest is then read at once.
        if (!(error instanceof ApiError && error.status === 410 && query.continue !== undefined)) throw error;
        all = [];
        query = {};
      }
    }
  }

  /** Like `list`, in the given namespace, or in all namespaces or, without that right, in the namespace of the context. */
  async listReadable<T>(plural: string, read: (object: unknown) => T): Promise<T[]> {
    if (this.isNamespaceGiven || this.namespace === undefined) return this.list(plural, this.namespace, read);
    try {
      return await this.list(plural, undefined, read);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 403)) throw error;
      return this.list(plural, this.namespace, read);
    }
  }

  /** Reads one object, in the namespace of the command by default. */
  get(plural: string, name: string, namespace = this.namespace): Promise<unknown> {
    return this.#ask({ plural, namespace, name });
  }

  /** Creates an object (POST), replaces it (PUT), or deletes it (DELETE). */
  write(
    method: 'POST' | 'PUT' | 'DELETE',
    plural: string,
    { namespace, name, body }: { namespace: string; name?: string | undefined; body?: unknown },
  ): Promise<unknown> {
    return this.#ask({ method, plural, namespace, name, body });
  }

  close(): void {
    this.#client.close();
  }

  async #ask<T>(what: Asked): Promise<T> {
    const { method = 'GET', plural, namespace, name, query, body } = what;
    const within = namespace === undefined ? '' : `/namespaces/${namespace}`;
    const api = ofKubernetes.get(plural) ?? `${group}/${version}`;
    const path = `/${api.includes('/') ? 'apis' : 'api'}/${api}${within}/${plural}${name === undefined ? '' : `/${name}`}`;
    try {
      return await this.#client.request<T>({ method, path, ...(query && { query }), body });
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      const message = this.#rejectionText(error, what);
      throw new ApiError({ status: error.status, reason: error.reason, message, cause: error });
    }
  }

  /** Returns what to do, followed by the server's message. */
  #rejectionText(
    { status, reason, message }: ApiError,
    { method = 'GET', plural, namespace, name }: Asked,
  ): string {
    const place = placeText(namespace);
    if (status === 401) return `${this.#client.server} does not accept these credentials (${message})`;
    if (status === 403) {
      const verb = verbs[method] ?? (name === undefined ? 'list' : 'get');
      const right = `"${verb}" on ${fullName(plural)} ${place}`;
      const other = namespace === undefined ? '; -n looks in one namespace' : '';
      return `the right to ${right} is missing${other} (${message})`;
    }
    if (status === 404 && name !== undefined && reason === 'NotFound' && /"[^"]+" not found$/.test(message))
      return `there is no ${fullName(plural)} "${name}" ${place}`;
    // The answer to a create in an unknown namespace.
    if (status === 404 && /\bnamespaces "[^"]+" not found$/.test(message))
      return `there is no namespace "${namespace}"`;
    if (status === 404 && !ofKubernetes.has(plural)) {
      const what = `${this.#client.server} knows no ${plural} of ${group}/${version}`;
      return `${what}: install the definitions by "kubectl apply -f crds/"`;
    }
    return message;
  }
}

/** Whether the error means a missing right or definition. */
export function isMissing(error: unknown): error is ApiError {
  return error instanceof ApiError && (error.status === 403 || error.status === 404);
}

/** For example `in namespace shop`. */
export function placeText(namespace: string | undefined): string {
  return namespace === undefined ? 'in all namespaces' : `in namespace ${namespace}`;
}

/** As for kubectl, a kubeconfig has precedence over the service account of a pod. */
function kubeconfigPaths(given: string | undefined): string | undefined {
  if (given !== undefined) {
    if (existsSync(given)) return given;
    throw new KubernetesConfigError(`--kubeconfig ${given}: no such file`);
  }
  if (io().env['KUBECONFIG']) return io().env['KUBECONFIG'];
  const inHome = join(io().env['HOME'] ?? '', '.kube', 'config');
  return existsSync(inHome) ? inHome : undefined;
}
