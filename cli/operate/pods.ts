/** Finds the limiter pods of a cluster and connects to them through the API server's port-forward. */
import { type Duplex, duplexPair, PassThrough } from 'node:stream';
import { fleetPlural } from '../../rules/language/kinds.ts';
import { type Cluster, isMissing, placeText } from '../shared/cluster.ts';
import { CommandError, type ParsedFlags, UsageError } from '../shared/flags.ts';
import type { LimiterTarget } from './limiters.ts';

/** The label of the chart and of `examples/kubernetes/`. */
const defaultSelector = 'app.kubernetes.io/component=limiter';

interface FoundFleet {
  name: string;
  namespace: string;
  service: { namespace: string; name: string } | undefined;
}

/** Finds pods by label selector, or those of the fleet. Rejects if there are none. */
export async function podsOf(cluster: Cluster, flags: ParsedFlags): Promise<LimiterTarget[]> {
  const place = await whereFrom(cluster, flags);
  return someOf(await podsAt(cluster, place), place);
}

/** Finds the pods of each of these fleets, or else as `podsOf` does. Rejects if there are none. */
export async function podsOfFleets(
  cluster: Cluster,
  flags: ParsedFlags,
  fleets: readonly FoundFleet[],
): Promise<LimiterTarget[]> {
  const wanted = flags.text('fleet');
  const meant = fleets.filter(({ name }) => wanted === undefined || name === wanted);
  if (meant.length === 0 || flags.text('selector') !== undefined) return podsOf(cluster, flags);
  const places = await Promise.all(
    meant.map(async (fleet) => ({ fleet, place: await placeOf(cluster, fleet) })),
  );
  const all = await Promise.all(
    places.map(async ({ fleet, place }) => {
      const pods = await podsAt(cluster, place);
      return pods.map((pod) => ({ ...pod, fleet: `${fleet.namespace}/${fleet.name}` }));
    }),
  );
  return someOf(all.flat(), places[0]!.place);
}

interface PodsPlace {
  namespace: string | undefined;
  selector: string;
}

async function podsAt(cluster: Cluster, { namespace, selector }: PodsPlace): Promise<LimiterTarget[]> {
  const all = await cluster.list('pods', namespace, (pod) => podLimiter(cluster, pod), selector);
  return all.filter((pod) => pod !== undefined);
}

/** @throws CommandError if there are none */
function someOf(pods: LimiterTarget[], { namespace, selector }: PodsPlace): LimiterTarget[] {
  if (pods.length > 0) return pods;
  throw new CommandError(
    `no pods with the labels ${selector} ${placeText(namespace)}: use -n, --fleet, -l or --limiter`,
    2,
  );
}

async function whereFrom(cluster: Cluster, flags: ParsedFlags): Promise<PodsPlace> {
  const given = flags.text('selector');
  if (given !== undefined) return { namespace: cluster.namespace, selector: given };
  const wanted = flags.text('fleet');
  const all = await fleetsOf(cluster);
  const fleets = all.filter(({ name }) => wanted === undefined || name === wanted);
  const [fleet, another] = fleets;
  if (another !== undefined) {
    const names = fleets.map(({ namespace, name }) => `${namespace}/${name}`);
    throw new CommandError(`there are several fleets, choose one by --fleet and -n: ${names.join(', ')}`, 2);
  }
  if (fleet === undefined && wanted !== undefined)
    throw new UsageError(
      `there is no RateLimitFleet "${wanted}"; there are ${all.map(({ name }) => name).join(', ') || 'none'}`,
    );
  return fleet === undefined
    ? { namespace: cluster.namespace, selector: defaultSelector }
    : placeOf(cluster, fleet);
}

/** Returns the namespace and selector of a fleet's pods, from its Service. */
async function placeOf(cluster: Cluster, fleet: FoundFleet): Promise<PodsPlace> {
  if (fleet.service === undefined) return { namespace: fleet.namespace, selector: defaultSelector };
  const { namespace, name } = fleet.service;
  const [labels] = await cluster
    .list('services', namespace, (service) => {
      const { metadata, spec } = service as {
        metadata: { name: string };
        spec: { selector?: Record<string, string> };
      };
      return metadata.name === name ? [spec.selector ?? {}] : [];
    })
    .then((found) => found.flat());
  const pairs = Object.entries(labels ?? {}).map(([key, value]) => `${key}=${value}`);
  return { namespace, selector: pairs.length === 0 ? defaultSelector : pairs.join(',') };
}

/** Lists the fleets that the user may read. */
async function fleetsOf(cluster: Cluster): Promise<FoundFleet[]> {
  const read = (object: unknown): FoundFleet => {
    const { metadata, spec } = object as { metadata: FoundFleet; spec?: Pick<FoundFleet, 'service'> };
    return { name: metadata.name, namespace: metadata.namespace, service: spec?.service };
  };
  try {
    return await cluster.listReadable(fleetPlural, read);
  } catch (error) {
    if (isMissing(error)) return [];
    throw error;
  }
}

interface Pod {
  metadata: { name: string; namespace: string; deletionTimestamp?: string };
  spec?: {
    containers?: {
      ports?: { name?: string; containerPort: number }[];
      env?: { name: string; value?: string }[];
    }[];
  };
  status?: { phase?: string };
}

/** Returns undefined for a pod that has ended or is being deleted. */
function podLimiter(cluster: Cluster, object: unknown): LimiterTarget | undefined {
  const { metadata, spec, status } = object as Pod;
  const { name, namespace } = metadata;
  const phase = status?.phase ?? 'Unknown';
  if (metadata.deletionTimestamp !== undefined || phase === 'Succeeded' || phase === 'Failed')
    return undefined;
  const containers = spec?.containers ?? [];
  const named = containers.flatMap(({ ports = [] }) => ports).find((port) => port.name === 'debug');
  const set = containers.flatMap(({ env = [] }) => env).find((variable) => variable.name === 'DEBUG_PORT');
  const port = named?.containerPort ?? (Number(set?.value) || 6070);
  return {
    address: name,
    of: `${namespace}/${name}`,
    host: '127.0.0.1',
    port,
    connect: () => forwarded(cluster, { namespace, name, port }),
    ...(phase !== 'Running' && { problem: `the pod is ${phase}` }),
  };
}

/** Connects to a port of a pod through the API server. Loads the modules that only this needs. */
async function forwarded(
  { config }: Cluster,
  { namespace, name, port }: { namespace: string; name: string; port: number },
): Promise<Duplex> {
  const { PortForward } = await import('@kubernetes/client-node');
  const [stream, far] = duplexPair();
  const errors = new PassThrough();
  // Errors after the answer do not matter.
  stream.on('error', () => undefined);
  let socket: Awaited<ReturnType<InstanceType<typeof PortForward>['portForward']>>;
  try {
    socket = await new PortForward(config).portForward(namespace, name, [port], far, errors, far);
  } catch (error) {
    throw new Error(`no port-forward to ${namespace}/${name}: ${handshakeText(error)}`);
  }
  errors.on('data', (words: Buffer) => stream.destroy(new Error(`the pod: ${words.toString().trim()}`)));
  if (typeof socket !== 'function') {
    socket.onclose = () => far.end();
    // A closing handshake would keep the process waiting.
    stream.on('close', () => socket.terminate());
  }
  return stream;
}

/** The library rejects with an event or an error. */
function handshakeText(error: unknown): string {
  const { message, error: cause } = (error ?? {}) as { message?: unknown; error?: { message?: unknown } };
  return String(message ?? cause?.message ?? 'the API server rejected it');
}
