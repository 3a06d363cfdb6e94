/** Names and labels of what the control plane keeps in its own namespace. */

/** Field manager of every server-side apply. */
export const fieldManager = 'weir-control-plane';

/** Says what an object of ours is for; the watches select by it. */
export const roleLabel = 'ratelimit.weir.dev/role';

export type ObjectRole = 'replica' | 'limiters' | 'kept-spec';

export function managedLabels(role?: ObjectRole): Record<string, string> {
  const labels = { 'app.kubernetes.io/name': 'weir', 'app.kubernetes.io/managed-by': fieldManager };
  return role === undefined ? labels : { ...labels, [roleLabel]: role };
}

/** The Lease by which a replica says that it lives. */
export function replicaLeaseName(replica: string): string {
  return `weir-replica-${replica}`;
}
