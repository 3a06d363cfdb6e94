/** Reads RateLimitFleets and EndpointSlices of the Kubernetes API, and derives the expected limiters. */
import { z } from 'zod';
import type { ApiObject } from '../kubernetes/reflector.ts';
import type { Endpoint, FleetExpectation, FleetObject } from '../model/fleet-object.ts';
import { fleetSpecModel, fleetStatusModel } from '../model/object-models.ts';

/** The API server validates specs against its schema. A schema of another version may have more fields. */
export function readFleet({
  metadata,
  ...fields
}: ApiObject): { item: FleetObject } | { unreadable: string } {
  const { name, uid, generation, resourceVersion } = metadata;
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const spec = fleetSpecModel.safeParse(fields['spec'] ?? {});
  if (!spec.success) return { unreadable: z.prettifyError(spec.error) };
  const status = fleetStatusModel.safeParse(fields['status']);
  return { item: { name, uid, generation, resourceVersion, spec: spec.data, status: status.data } };
}

const endpointModel = z.object({
  addresses: z.array(z.string()),
  conditions: z.object({ ready: z.boolean().nullish(), terminating: z.boolean().nullish() }).nullish(),
  targetRef: z
    .object({ kind: z.string().optional(), name: z.string().optional(), uid: z.string().optional() })
    .nullish(),
  hostname: z.string().nullish(),
});
const sliceModel = z.object({ endpoints: z.array(endpointModel).nullish() });

/** Reads one EndpointSlice. */
export function readSlice({
  metadata: _,
  ...fields
}: ApiObject): { item: Endpoint[] } | { unreadable: string } {
  const slice = sliceModel.safeParse(fields);
  if (!slice.success) return { unreadable: z.prettifyError(slice.error) };
  return { item: (slice.data.endpoints ?? []).map(endpointOf) };
}

function endpointOf({ addresses, conditions, targetRef, hostname }: z.infer<typeof endpointModel>): Endpoint {
  const pod = targetRef?.kind === 'Pod' ? targetRef : undefined;
  const [address = ''] = addresses;
  return {
    key: pod?.uid ?? address,
    name: pod?.name ?? hostname ?? address,
    podUid: pod?.uid,
    addresses,
    // "A nil value should be interpreted as true": discovery.k8s.io/v1, EndpointConditions.
    isReady: conditions?.ready ?? true,
    isTerminating: conditions?.terminating ?? false,
  };
}

/** Joins all slices of a Service. A pod with addresses of both IP families is in two slices. */
export function joinedEndpoints(slices: Iterable<readonly Endpoint[]>): Endpoint[] {
  const joined = new Map<string, Endpoint>();
  for (const endpoint of [...slices].flat()) {
    const other = joined.get(endpoint.key);
    joined.set(
      endpoint.key,
      other === undefined
        ? endpoint
        : {
            ...endpoint,
            addresses: [...new Set([...other.addresses, ...endpoint.addresses])],
            isReady: other.isReady || endpoint.isReady,
            isTerminating: other.isTerminating && endpoint.isTerminating,
          },
    );
  }
  return [...joined.values()];
}

/** `endpoints`: undefined while they are unknown. */
export function expectationOf(
  { spec }: FleetObject,
  endpoints: readonly Endpoint[] | undefined,
): FleetExpectation {
  return {
    count: spec.count,
    endpoints,
    graceMs: spec.disconnectedGraceSeconds * 1_000,
    ignoresDisconnected: spec.onDisconnected === 'Ignore',
  };
}
