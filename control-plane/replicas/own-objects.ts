/** The objects in the control plane's own namespace: their names and labels, and how they are written and deleted. */
import { createHash } from 'node:crypto';
import { hasStatus, type KubernetesApi } from '../kubernetes/api.ts';

export interface ReplicaNameOptions {
  /** POD_NAME. If it is unset or empty, the host's name and a random text form the name. */
  podName: string | undefined;
  hostName: string;
  /** A number from 0 to below 1. */
  random(): number;
}

/** Chosen: leaves room for the text before and after it in a name of at most 253 characters. */
const longestName = 200;

/** Returns a DNS label that differs for every replica that runs at the same time. It is part of the names of the replica's objects. */
export function replicaName({ podName, hostName, random }: ReplicaNameOptions): string {
  if (podName !== undefined && podName !== '') return asLabel(podName);
  const suffix = Math.floor(random() * 36 ** 5)
    .toString(36)
    .padStart(5, '0');
  return asLabel(`${hostName}-${suffix}`);
}

/** Removes dots, because they separate a name from the number of a part. */
function asLabel(text: string): string {
  const label = text
    .toLowerCase()
    .replace(/[^a-z0-9-]+/g, '-')
    .replace(/^-+|-+$/g, '');
  if (label !== '' && label.length <= longestName) return label;
  const hash = createHash('sha256').update(text).digest('hex').slice(0, 10);
  return label === '' ? hash : `${label.slice(0, longestName - 11).replace(/-+$/, '')}-${hash}`;
}

/** The field manager of every server-side apply. */
export const fieldManager = 'weir-control-plane';

/**
 * The query and type of server-side apply. The object then has the content of the body, and no other fields that this manager wrote
 * before.
 */
export const serverSideApply = {
  method: 'PATCH',
  query: { fieldManager, force: true },
  contentType: 'application/apply-patch+yaml',
} as const;

/** The label for the purpose of an object. The watches select by it. */
export const roleLabel = 'ratelimit.weir.dev/role';

export type ObjectRole = 'replica' | 'limiters' | 'kept-spec' | 'removed' | 'domains';

export function managedLabels(role?: ObjectRole): Record<string, string> {
  const labels = { 'app.kubernetes.io/name': 'weir', 'app.kubernetes.io/managed-by': fieldManager };
  return role === undefined ? labels : { ...labels, [roleLabel]: role };
}

/** Returns the name of the Lease object that shows that a replica is alive. */
export function replicaLeaseName(replica: string): string {
  return `weir-replica-${replica}`;
}

/** The object whose deletion deletes another one. */
export interface Owner {
  apiVersion: string;
  kind: string;
  name: string;
  uid: string;
}

/** Succeeds if the object does not exist. With `resourceVersion`, it leaves an object that was written since. */
export async function deleteObject(
  client: KubernetesApi,
  {
    path,
    timeoutMs,
    resourceVersion,
  }: { path: string; timeoutMs: number; resourceVersion?: string | undefined },
): Promise<void> {
  const body = resourceVersion === undefined ? {} : { preconditions: { resourceVersion } };
  try {
    await client.request({ method: 'DELETE', path, timeoutMs, body });
  } catch (error) {
    if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error;
  }
}
