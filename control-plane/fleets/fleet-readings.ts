/**
 * Reads RateLimitFleets and EndpointSlices of the Kubernetes API. Derives the expected limiters, and, from the labels of namespaces, which
 * of them may use a fleet. Also finds mistakes in these access rules. Pure.
 */

import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import { fleetKind } from '../../rules/language/kinds.ts';
import type { ApiObject, Reading } from '../kubernetes/watch-protocol.ts';
import type { Endpoint, FleetExpectation, FleetObject, FleetProblem } from '../model/config-object.ts';
import { type FleetAccess, fleetDomainOwners } from '../model/domain-owners.ts';
import {
  fleetSpecModel,
  fleetStatusModel,
  type NamespaceSelector,
  selectorValuesProblem,
} from '../model/object-models.ts';
import { accessWatches, type ObjectVersions } from '../model/object-versions.ts';
import { type LabelSelector, type Labels, parseLabelSelector } from '../source/label-selector.ts';

/**
 * The API server validates specs against its schema. A schema of another version may have more fields, which are ignored, or more values.
 * A fleet with an unknown value is not a fleet without an object, which everyone may use. `before`: the object as it was read last.
 */
export function readFleet({ metadata, ...fields }: ApiObject, before?: FleetObject): Reading<FleetObject> {
  const { namespace = '', name, uid, generation, resourceVersion } = metadata;
  if (typeof uid !== 'string') return { unreadable: 'it has no metadata.uid' };
  if (typeof generation !== 'number') return { unreadable: 'it has no metadata.generation' };
  const status = fleetStatusModel.safeParse(fields['status']).data;
  const read = fleetSpecModel.safeParse(fields['spec'] ?? {});
  const identity = { kind: fleetKind, namespace, name, uid };
  const item = { ...identity, generation, resourceVersion, status };
  if (read.success) return { item: { ...item, spec: read.data } };
  const mistakes = read.error.issues.map(
    ({ path, message }) => `${z.core.toDotPath(['spec', ...path])}: ${message}`,
  );
  const spec = before?.spec ?? fleetSpecModel.parse({});
  return { item: { ...item, spec, unreadable: mistakes.join('; ') } };
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

/** The cluster's namespaces, as far as they are known. */
export interface KnownNamespaces {
  /** All namespaces by name. Undefined while they are unknown. */
  all: ReadonlyMap<string, { labels: Labels }> | undefined;
  /** The version of the newest edit that may have changed labels. Undefined before one. */
  edited?: string | undefined;
  /** The reason why the labels cannot be watched now. Undefined if they are watched, or will be soon. */
  outage: string | undefined;
}

type Fault = Omit<FleetProblem, 'meanwhile'>;

const staysKnown = 'the previous value stays in use';
const staysServed = 'limiters keep their rules and get no new ones';

/** The result for one RateLimitFleet. */
export interface AccessReading {
  access: FleetAccess | { unknown: string };
  problem: FleetProblem | undefined;
  /** The facts from which the result was computed. */
  facts: Facts;
  /** The versions of the API server that show these facts. */
  versions: ObjectVersions;
}

interface Facts extends Pick<FleetObject, 'uid' | 'generation' | 'unreadable'> {
  /** Namespaces that the labels select. Undefined if there is no selector, or if the namespaces are unknown. */
  names: readonly string[] | undefined;
  edited: string | undefined;
  outage: string | undefined;
}

export function selectsNamespaces({ spec }: FleetObject): boolean {
  return spec.allowedNamespaces?.from === 'Selector';
}

/**
 * Reads the access rules of a fleet. If they cannot be read, or depend on unknown facts, `before` stays in force for the same fleet.
 * Returns the same value as long as nothing has changed.
 */
export function readAccess(
  fleet: FleetObject,
  namespaces: KnownNamespaces,
  before: AccessReading | undefined,
): AccessReading {
  const { uid, generation, spec, unreadable } = fleet;
  const selector = selectsNamespaces(fleet) ? spec.allowedNamespaces?.selector : undefined;
  const selecting = selector && selectorText(selector);
  const parsed = parseLabelSelector(selecting ?? '');
  const names = selector && 'selects' in parsed ? chosen(namespaces, parsed.selects) : undefined;
  const outage = selector && namespaces.outage;
  const edited = selector && namespaces.edited;
  const facts = { uid, generation, unreadable, names, edited, outage };
  if (isDeepStrictEqual(before?.facts, facts)) return before!;
  const versions = versionsOf(fleet, edited, before);
  const invalid = (message: string) => staying({ reason: 'Invalid', message }, { facts, versions }, before);
  if (unreadable !== undefined) return invalid(unreadable);
  const unfit = (selector?.matchExpressions ?? []).findIndex(hasUnfitValues);
  if (unfit >= 0)
    return invalid(`spec.allowedNamespaces.selector.matchExpressions[${unfit}]: ${selectorValuesProblem}`);
  if ('problem' in parsed) return invalid(`spec.allowedNamespaces.selector: ${parsed.problem}`);
  const domains = fleetDomainOwners(spec.domains ?? []);
  if (!domains.ok) return invalid(`spec.domains: ${domains.errors.join('; ')}`);
  const reported = outage === undefined ? undefined : namespacesUnknown(outage);
  if (selector !== undefined && names === undefined) return staying(reported, { facts, versions }, before);
  const admitted = names && new Set(names);
  const access: FleetAccess = {
    admits: (namespace) => admitted?.has(namespace) ?? true,
    admitted: `allowedNamespaces of its RateLimitFleet allows namespaces with the labels ${selecting}`,
    domains: domains.owners,
  };
  return { access, problem: reported && { ...reported, meanwhile: staysKnown }, facts, versions };
}

/** Returns the same value for the same versions. */
function versionsOf(
  { resourceVersion }: FleetObject,
  edited: string | undefined,
  before: AccessReading | undefined,
): ObjectVersions {
  const versions = {
    ...(resourceVersion !== undefined && { [accessWatches.fleets]: resourceVersion }),
    ...(edited !== undefined && { [accessWatches.namespaces]: edited }),
  };
  return before !== undefined && isDeepStrictEqual(before.versions, versions) ? before.versions : versions;
}

/** Reads a fleet that is not stored yet. A fleet with mistakes is unreadable. */
export function previewedFleet(object: ApiObject): Reading<FleetObject> {
  const reading = readFleet(object);
  const problem = 'item' in reading ? accessProblem(reading.item) : undefined;
  return problem === undefined ? reading : { unreadable: problem };
}

/** Returns the problems of the object itself, independent of namespaces. */
export function accessProblem(fleet: FleetObject): string | undefined {
  return readAccess(fleet, { all: new Map(), outage: undefined }, undefined).problem?.message;
}

function chosen({ all }: KnownNamespaces, selects: LabelSelector): string[] | undefined {
  return all && [...all].flatMap(([name, { labels }]) => (selects(labels) ? name : [])).sort();
}

function namespacesUnknown(outage: string): Fault {
  const message = `spec.allowedNamespaces: the control plane cannot watch labels of namespaces: ${outage}`;
  return { reason: 'NamespacesUnknown', message };
}

/** If there is no fault, namespaces will be read soon. */
function staying(
  fault: Fault | undefined,
  read: Pick<AccessReading, 'facts' | 'versions'>,
  before: AccessReading | undefined,
): AccessReading {
  const why = fault?.message ?? 'the control plane has not read the labels of namespaces yet';
  const isUnknown = before === undefined || 'unknown' in before.access;
  const meanwhile = isUnknown ? staysServed : staysKnown;
  return {
    access: isUnknown ? { unknown: why } : before.access,
    problem: fault && { ...fault, meanwhile },
    ...read,
  };
}

/** Returns whether Kubernetes would reject the expression. `In` without values would select the empty value. */
function hasUnfitValues({
  operator,
  values = [],
}: NonNullable<NamespaceSelector['matchExpressions']>[number]): boolean {
  return (operator === 'In' || operator === 'NotIn') === (values.length === 0);
}

/** Returns a selector in the form of `kubectl get -l`. */
function selectorText({ matchLabels = {}, matchExpressions = [] }: NamespaceSelector): string {
  const pairs = Object.entries(matchLabels).map(([key, value]) => `${keyText(key)}=${value}`);
  const others = matchExpressions.map(({ key, operator, values = [] }) => {
    if (operator === 'Exists') return keyText(key);
    if (operator === 'DoesNotExist') return `!${keyText(key)}`;
    return `${keyText(key)} ${operator === 'In' ? 'in' : 'notin'} (${values.join(',')})`;
  });
  return [...pairs, ...others].join(',');
}

/** A key that contains an operator of the selector language is invalid, instead of being another selector. */
function keyText(key: string): string {
  return key.replace(/[\s=!(),<>]/g, '?');
}
