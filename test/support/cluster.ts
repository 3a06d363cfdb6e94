import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { ApiServer, ReadKind } from './api-server.ts';
import { type ControlPlaneProcess, startControlPlane } from './control-plane-process.ts';
import { InProcessControlPlane } from './in-process-control-plane.ts';
import { type InProcessLimiter, startLimiterHere } from './in-process-limiter.ts';
import { type LimiterProcess, startLimiter } from './limiter-process.ts';
import { LoadedDeadline } from './machine-load.ts';
import { outOfTime } from './second-tries.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const namespace = 'weir-system';

/** Installs what a cluster needs before the control plane, and has not yet: the CRDs, the namespace and the least rights. */
export function installPrerequisites(api: ApiServer): void {
  const missing = readdirSync(`${root}crds`).filter((file) => !hasDefinition(api, file));
  api.applyFiles(...missing.map((file) => `${root}crds/${file}`), `${root}examples/kubernetes/rbac.yaml`);
  if (missing.length > 0) awaitCrds(api);
}

/** The file is named after the group and the plural. */
function hasDefinition(api: ApiServer, file: string): boolean {
  const name = file.replace(/^(.*)_(.*)\.yaml$/, '$2.$1');
  return api.read('customresourcedefinitions', { name }) !== undefined;
}

/** A RateLimitFleet in the control plane's namespace: who is expected in the fleet `default`. */
export function applyFleet(api: ApiServer, spec: Record<string, unknown>): void {
  const metadata = { name: 'default', namespace: 'weir-system' };
  const fleet = { apiVersion: 'ratelimit.weir.dev/v1alpha1', kind: 'RateLimitFleet', metadata, spec };
  api.apply(JSON.stringify(fleet));
}

interface Definition {
  metadata: { name: string };
  spec: { group: string; names: { plural: string }; versions: { name: string; served: boolean }[] };
  status?: { conditions?: { type: string; status: string }[] };
}

/**
 * Returns when the installed kinds of Weir can be listed. It keeps this thread, and starts no kubectl, which takes a hundred times
 * as long of a processor.
 */
export function awaitCrds(api: ApiServer): void {
  const deadline = new LoadedDeadline(20_000);
  for (;;) {
    const problem = crdProblem(api);
    if (problem === undefined) return;
    if (deadline.isOver) throw outOfTime(new Error(problem));
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 50);
  }
}

/** Why the kinds cannot be used yet: one that is established may still answer "storage is (re)initializing". */
function crdProblem(api: ApiServer): string | undefined {
  const { items } = JSON.parse(api.get('/apis/apiextensions.k8s.io/v1/customresourcedefinitions').body) as {
    items: Definition[];
  };
  const ours = items.filter(({ metadata }) => metadata.name.endsWith('.ratelimit.weir.dev'));
  if (ours.length === 0) return 'no kind of Weir is installed';
  for (const { metadata, spec, status } of ours) {
    const established = status?.conditions?.find(({ type }) => type === 'Established');
    if (established?.status !== 'True') return `${metadata.name} is not established`;
    for (const { name } of spec.versions.filter(({ served }) => served)) {
      const listed = api.get(`/apis/${spec.group}/${name}/${spec.names.plural}`);
      if (listed.status !== 200) return `${metadata.name}: ${listed.status} ${listed.body}`;
    }
  }
  return undefined;
}

/** Lets the control plane lead by Leases of other names than the usual one, as who sets LEASE_NAME has to. */
export function allowLeases(api: ApiServer, ...names: string[]): void {
  const metadata = { name: 'other-leases', namespace };
  const rbac = 'rbac.authorization.k8s.io';
  const rule = {
    apiGroups: ['coordination.k8s.io'],
    resources: ['leases'],
    verbs: ['get', 'update'],
    resourceNames: names,
  };
  const roleRef = { apiGroup: rbac, kind: 'Role', name: metadata.name };
  const subjects = [{ kind: 'ServiceAccount', name: 'weir-control-plane', namespace }];
  for (const object of [
    { kind: 'Role', rules: [rule] },
    { kind: 'RoleBinding', roleRef, subjects },
  ]) {
    api.apply(JSON.stringify({ apiVersion: `${rbac}/v1`, metadata, ...object }));
  }
}

/** A replica of the control plane that asks this API server with its own least rights. */
export function startReplica(
  api: ApiServer,
  name: string,
  env: Record<string, string> = {},
): Promise<ControlPlaneProcess> {
  return startControlPlane({ env: replicaEnv(api, name, env) });
}

/**
 * As `startReplica`, in this process, for a tenth of what a program takes of a processor. It answers nobody while the test keeps this thread, as
 * kubectl does: an API server that asks a webhook of it meanwhile would wait in vain.
 */
export async function startReplicaHere(
  api: ApiServer,
  name: string,
  env: Record<string, string> = {},
): Promise<InProcessControlPlane> {
  const replica = await InProcessControlPlane.start({ env: replicaEnv(api, name, env) });
  // Throws where it did not start.
  void replica.ports;
  return replica;
}

function replicaEnv(api: ApiServer, name: string, env: Record<string, string>): Record<string, string> {
  return {
    KUBECONFIG: api.kubeconfig('control-plane'),
    POD_NAME: name,
    POD_NAMESPACE: namespace,
    ...env,
  };
}

/** A limiter that counts in memory and takes its rules from the control plane at these ports. */
export function startXdsLimiter(
  xdsPort: number,
  name: string,
  env: Record<string, string> = {},
): Promise<LimiterProcess> {
  return startLimiter({ env: xdsLimiterEnv(xdsPort, name, env) });
}

/** As `startXdsLimiter`, in this process. */
export function startXdsLimiterHere(
  xdsPort: number,
  name: string,
  env: Record<string, string> = {},
): Promise<InProcessLimiter> {
  return startLimiterHere({ env: xdsLimiterEnv(xdsPort, name, env) });
}

function xdsLimiterEnv(xdsPort: number, name: string, env: Record<string, string>): Record<string, string> {
  return {
    BACKEND_TYPE: 'memory',
    CONFIG_TYPE: 'GRPC_XDS_DELTA',
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${xdsPort}`,
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms',
    POD_NAME: name,
    ...env,
  };
}

/** Pods of the service account `limiter` in the control plane's namespace. Nothing runs them: they are there for their uids. */
export function createPods(api: ApiServer, names: readonly string[]): Map<string, string> {
  api.createServiceAccount('limiter', namespace);
  const uids = names.map((name): [string, string] => {
    const containers = [{ name: 'limiter', image: 'weir' }];
    const spec = { serviceAccountName: 'limiter', automountServiceAccountToken: false, containers };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec };
    api.apply(JSON.stringify(pod));
    return [name, api.read('pods', { name, namespace }).metadata.uid];
  });
  return new Map(uids);
}

export interface PlayedEndpoints {
  /** Beside the pods. */
  service: string;
  uids: ReadonlyMap<string, string>;
  ready: readonly string[];
  unready?: readonly string[];
}

/** As the cluster's own controller writes them. */
export function writeEndpoints(
  api: ApiServer,
  { service, uids, ready, unready = [] }: PlayedEndpoints,
): void {
  const endpoint = (name: string, isReady: boolean, index: number) => ({
    addresses: [`10.0.${Number(isReady)}.${index + 1}`],
    conditions: { ready: isReady },
    targetRef: { kind: 'Pod', name, namespace, uid: uids.get(name) },
  });
  const slice = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: `${service}-x`, namespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: 'IPv4',
    endpoints: [
      ...ready.map((name, index) => endpoint(name, true, index)),
      ...unready.map((name, index) => endpoint(name, false, index)),
    ],
    ports: [{ port: 8081 }],
  };
  api.apply(JSON.stringify(slice));
}

/** The status of a RateLimitConfig's condition as `True AllLimiters`, empty while there is none. */
export function conditionOf(api: ApiServer, name: string, type: string, namespace = 'default'): string {
  return statusAndReason(conditionIn(api, { kind: 'ratelimitconfigs', name, namespace }, type));
}

/** As `conditionOf`, its message. */
export function messageOf(api: ApiServer, name: string, type: string, namespace = 'default'): string {
  return conditionIn(api, { kind: 'ratelimitconfigs', name, namespace }, type)?.message ?? '';
}

export interface WrittenCondition {
  type: string;
  status: string;
  reason: string;
  message: string;
}

/** As an object of the API server has it; undefined while there is none. Throws where there is no such object. */
export function conditionIn(
  api: ApiServer,
  { kind, ...where }: { kind: ReadKind; name: string; namespace: string },
  type: string,
): WrittenCondition | undefined {
  const object = api.read(kind, where);
  if (object === undefined) throw new Error(`there is no ${kind} ${where.namespace}/${where.name}`);
  const conditions: WrittenCondition[] = object.status?.conditions ?? [];
  return conditions.find((condition) => condition.type === type);
}

/** As `True AllLimiters`. */
export function statusAndReason(condition: WrittenCondition | undefined): string {
  return condition === undefined ? '' : `${condition.status} ${condition.reason}`;
}
