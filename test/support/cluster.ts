import { fileURLToPath } from 'node:url';
import type { ApiServer, ReadKind } from './api-server.ts';
import { type ControlPlaneProcess, startControlPlane } from './control-plane-process.ts';
import { type LimiterProcess, startLimiter } from './limiter-process.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Installs what a cluster needs before the control plane: the CRDs, the namespace and the least rights. */
export function installPrerequisites(api: ApiServer): void {
  api.mustKubectl(['apply', '-f', `${root}crds`, '-f', `${root}examples/kubernetes/rbac.yaml`]);
  awaitCrds(api);
}

/** A RateLimitFleet in the control plane's namespace: who is expected in the fleet `default`. */
export function applyFleet(api: ApiServer, spec: Record<string, unknown>): void {
  const metadata = { name: 'default', namespace: 'weir-system' };
  const fleet = { apiVersion: 'ratelimit.weir.dev/v1alpha1', kind: 'RateLimitFleet', metadata, spec };
  api.mustKubectl(['apply', '-f', '-'], { input: JSON.stringify(fleet) });
}

/**
 * Returns when the installed kinds of Weir can be listed. kubectl's own wait fails while a new object has no conditions
 * at all, and an established kind may still answer "storage is (re)initializing".
 */
export function awaitCrds(api: ApiServer): void {
  const kinds = api
    .mustKubectl(['get', 'crd', '-o', 'name'])
    .split('\n')
    .filter((name) => name.endsWith('.ratelimit.weir.dev'))
    .map((name) => name.replace(/^.*\//, ''));
  if (kinds.length === 0) throw new Error('no kind of Weir is installed');
  untilItWorks(api, ['wait', '--for=condition=Established', ...kinds.map((kind) => `crd/${kind}`)]);
  untilItWorks(api, ['get', kinds.join(','), '--all-namespaces']);
}

function untilItWorks(api: ApiServer, args: string[]): void {
  for (let attempt = 1; ; attempt++) {
    const { status, stderr } = api.kubectl(args);
    if (status === 0) return;
    if (attempt === 20) throw new Error(stderr);
  }
}

/** Lets the control plane lead by Leases of other names than the usual one, as who sets LEASE_NAME has to. */
export function allowLeases(api: ApiServer, ...names: string[]): void {
  const args = ['--namespace=weir-system', '--dry-run=client', '-o', 'json'];
  const leases = ['--resource=leases.coordination.k8s.io', ...names.map((name) => `--resource-name=${name}`)];
  const account = '--serviceaccount=weir-system:weir-control-plane';
  for (const object of [
    ['create', 'role', 'other-leases', '--verb=get,update', ...leases, ...args],
    ['create', 'rolebinding', 'other-leases', '--role=other-leases', account, ...args],
  ]) {
    api.mustKubectl(['apply', '-f', '-'], { input: api.mustKubectl(object) });
  }
}

/** A replica of the control plane that asks this API server with its own least rights. */
export function startReplica(
  api: ApiServer,
  name: string,
  env: Record<string, string> = {},
): Promise<ControlPlaneProcess> {
  return startControlPlane({
    env: {
      KUBECONFIG: api.kubeconfig('control-plane'),
      POD_NAME: name,
      POD_NAMESPACE: 'weir-system',
      ...env,
    },
  });
}

/** A limiter that counts in memory and takes its rules from the control plane at these ports. */
export function startXdsLimiter(
  xdsPort: number,
  name: string,
  env: Record<string, string> = {},
): Promise<LimiterProcess> {
  return startLimiter({
    env: {
      BACKEND_TYPE: 'memory',
      CONFIG_TYPE: 'GRPC_XDS_DELTA',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${xdsPort}`,
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '100ms',
      POD_NAME: name,
      ...env,
    },
  });
}

const namespace = 'weir-system';

/** Pods of the service account `limiter` in the control plane's namespace. Nothing runs them: they are there for their uids. */
export function createPods(api: ApiServer, names: readonly string[]): Map<string, string> {
  api.mustKubectl(['create', 'serviceaccount', 'limiter', '-n', namespace]);
  const uids = names.map((name): [string, string] => {
    const containers = [{ name: 'limiter', image: 'weir' }];
    const spec = { serviceAccountName: 'limiter', automountServiceAccountToken: false, containers };
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace }, spec };
    api.mustKubectl(['create', '-f', '-'], { input: JSON.stringify(pod) });
    return [name, api.mustKubectl(['get', 'pod', name, '-n', namespace, '-o', 'jsonpath={.metadata.uid}'])];
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
  api.mustKubectl(['apply', '-f', '-'], { input: JSON.stringify(slice) });
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
