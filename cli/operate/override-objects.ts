/** Overrides as objects of a cluster: creates them beside the domain's RateLimitConfig, finds and removes them. */

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../control-plane/kubernetes/api.ts';
import { KubernetesConfigError } from '../../control-plane/kubernetes/client-config.ts';
import { parseGoDuration } from '../../process/settings/go-values.ts';
import { overrideWords } from '../../rules/describe.ts';
import {
  defaultClass,
  defaultFleet,
  group,
  overrideKind,
  overridePlural,
  plural as rulesPlural,
  version,
} from '../../rules/language/kinds.ts';
import type { Entry } from '../../rules/model.ts';
import { explainDescriptor } from '../../rules/review/explain-descriptor.ts';
import { placedRules } from '../../rules/review/rule-level.ts';
import { Cluster, placeText, reportingClusterErrors, withCluster } from '../shared/cluster.ts';
import { CommandError, durationMs, type ParsedFlags, printProblem, UsageError } from '../shared/flags.ts';
import { programName } from '../shared/io.ts';
import { readOverrideObject } from '../shared/read-rule-texts.ts';
import { type ClusterRules, clusterRules, rulesInForce } from './cluster-rules.ts';
import type { Json } from './limiters.ts';
import { orLimiters } from './operate-command.ts';
import {
  type OverrideOutcome,
  type OverrideSelector,
  type OverrideTarget,
  removalOf,
  withFlagNames,
} from './override-limiters.ts';
import { noRule, shownObject } from './shown-objects.ts';

/** The namespace, class and fleet for the objects of a domain. */
interface Owner {
  namespace: string | undefined;
  className: string;
  fleet: string;
}

/** Returns the target for overrides of a cluster. */
export function objectsTarget(flags: ParsedFlags): OverrideTarget {
  const within = <T>(run: (cluster: Cluster) => Promise<T>) => withCluster(flags, run, orLimiters);
  return {
    put: (wanted) => {
      const waitMs = durationMs(flags, 'wait', { default: '10s', min: '0s', max: '1h' });
      return within((cluster) => putObject(cluster, flags, { wanted, waitMs }));
    },
    list: (domain) =>
      within(async (cluster) => {
        const all = await cluster.listReadable(overridePlural, (one) => one as Json);
        return outcomeOf(
          cluster,
          all.filter(({ spec }) => domain === undefined || spec?.domain === domain),
        );
      }),
    remove: (which) => within((cluster) => removeObjects(cluster, flags, which)),
    draft: (wanted) =>
      reportingClusterErrors(async () => {
        const cluster = clusterIfAny(flags);
        try {
          return await draftObject(cluster, flags, wanted);
        } finally {
          cluster?.close();
        }
      }, orLimiters),
  };
}

/** No cluster is needed to print an object. */
function clusterIfAny(flags: ParsedFlags): Cluster | undefined {
  try {
    return new Cluster(flags);
  } catch (error) {
    if (error instanceof KubernetesConfigError && flags.text('kubeconfig') === undefined) return undefined;
    throw error;
  }
}

async function draftObject(cluster: Cluster | undefined, flags: ParsedFlags, wanted: Json): Promise<Json> {
  const owner = await ownerOf(cluster, flags, wanted.domain);
  return overrideObject(wanted, { ...owner, namespace: owner.namespace ?? cluster?.namespace });
}

/** Creates the object, or replaces the one with the same match, and waits until it is Ready. */
async function putObject(
  cluster: Cluster,
  flags: ParsedFlags,
  { wanted, waitMs }: { wanted: Json; waitMs: number },
): Promise<OverrideOutcome> {
  const object = await draftObject(cluster, flags, wanted);
  const { namespace } = object.metadata;
  if (namespace === undefined) throw new UsageError('choose a namespace with -n');
  const written = await writtenObject(cluster, namespace, object, wanted);
  const { name } = written.metadata;
  printProblem(`ratelimitoverride/${name} ${written.did} ${placeText(namespace)}`);
  const shown = await settled(cluster, { namespace, name, waitMs });
  const isSet = shown.why === undefined || waitMs === 0;
  const {
    overrides: [override],
  } = await outcomeOf(cluster, [shown.object]);
  const isIdle = override!.state === 'NoRule';
  const notes = isIdle
    ? [
        `${namespace}/${name} is set and changes nothing: ${withFlagNames(override!.message)}`,
        `remove it with: ${removalOf(`${namespace}/${name}`, clusterWords(flags))}`,
      ]
    : isSet
      ? []
      : [`${namespace}/${name} is not Ready: ${shown.why}`];
  return { overrides: [override], silent: [], notes, isDone: isSet && !isIdle };
}

/** Shows objects, each with what it changes. */
async function outcomeOf(cluster: Cluster, objects: readonly Json[]): Promise<OverrideOutcome> {
  const rules = objects.length === 0 ? [] : await readableRules(cluster);
  const overrides = objects.map((object) => ({ ...overrideOf(object), words: wordsOf(rules, object) }));
  return { overrides, silent: [], notes: [], isDone: true };
}

/** Reads the rules of the cluster. A person who may only read overrides gets none. */
async function readableRules(cluster: Cluster): Promise<ClusterRules[]> {
  try {
    return await cluster.listReadable(rulesPlural, clusterRules);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return [];
  }
}

/** Takes the owner from the domain's RateLimitConfig, unless flags name it. */
async function ownerOf(cluster: Cluster | undefined, flags: ParsedFlags, domain: string): Promise<Owner> {
  const [className, fleet] = [flags.text('class'), flags.text('fleet')];
  const given = flags.text('namespace');
  const all = cluster === undefined ? [] : await cluster.listReadable(rulesPlural, domainOwner);
  const owners = all.filter(
    (one) =>
      one.domain === domain &&
      (given ?? one.namespace) === one.namespace &&
      (className ?? one.className) === one.className &&
      (fleet ?? one.fleet) === one.fleet,
  );
  // Objects that want the domain of another object are not accepted.
  const accepted = owners.filter(({ isAccepted }) => isAccepted);
  const candidates = accepted.length > 0 ? accepted : owners;
  const places = new Map(candidates.map((one) => [`${one.namespace} ${one.className} ${one.fleet}`, one]));
  if (places.size > 1) {
    const names = Array.from(
      places.values(),
      (one) => `-n ${one.namespace} --class ${one.className} --fleet ${one.fleet}`,
    );
    throw new UsageError(`domain ${domain} exists in several places, choose one: ${names.join('; ')}`);
  }
  const [owner] = places.values();
  if (owner !== undefined) return owner;
  if (cluster !== undefined)
    printProblem(`no RateLimitConfig of domain ${JSON.stringify(domain)} was found ${placeText(given)}`);
  return {
    namespace: given ?? cluster?.namespace,
    className: className ?? defaultClass,
    fleet: fleet ?? defaultFleet,
  };
}

function domainOwner(object: Json): Owner & { domain: string; isAccepted: boolean } {
  const { className = defaultClass, fleet = defaultFleet, domain = '' } = object.spec ?? {};
  const isAccepted = conditionOf(object, 'Accepted')?.status === 'True';
  return { namespace: object.metadata.namespace, className, fleet, domain, isAccepted };
}

/** Names the object after its match, so that the same override is the same object. A grant is named after its id. */
function overrideObject(body: Json, { namespace, className, fleet }: Owner): Json {
  const { id, domain, ...rest } = body;
  const place = id ?? JSON.stringify([domain, body.limit ?? '', body.match]);
  const slug = domain
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
    .slice(0, 40)
    .replace(/-$/, '');
  const name = [...(slug === '' ? [] : [slug]), hash('sha256', place).slice(0, 8)].join('-');
  return {
    apiVersion: `${group}/${version}`,
    kind: overrideKind,
    metadata: { name, ...(namespace !== undefined && { namespace }) },
    spec: {
      ...(className !== defaultClass && { className }),
      ...(fleet !== defaultFleet && { fleet }),
      domain,
      ...rest,
    },
  };
}

interface WrittenObject {
  metadata: { name: string };
  did: string;
}

/** Chosen: others rarely write the same object several times in a row. */
const maxWrites = 5;

/** Writes the object, again if the control plane or another user wrote it at the same time. */
async function writtenObject(
  cluster: Cluster,
  namespace: string,
  object: Json,
  body: Json,
): Promise<WrittenObject> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await writeOnce(cluster, namespace, object, body);
    } catch (error) {
      const isConflict = error instanceof ApiError && error.status === 409;
      if (!isConflict || attempt === maxWrites) throw error;
    }
  }
}

async function writeOnce(
  cluster: Cluster,
  namespace: string,
  object: Json,
  body: Json,
): Promise<WrittenObject> {
  const known = await cluster.list(overridePlural, namespace, (one) => one as Json);
  const same =
    known.find((one) => one.metadata.name === object.metadata.name) ??
    known.find((one) => hasPlace(one.spec, body));
  if (same === undefined) {
    const made = (await cluster.write('POST', overridePlural, { namespace, body: object })) as Json;
    return { metadata: made.metadata, did: 'was made' };
  }
  // Applying the same grant again adds nothing.
  if (body.grant !== undefined) return { metadata: same.metadata, did: 'is there already' };
  const { name, resourceVersion } = same.metadata;
  const metadata = { ...same.metadata, name, resourceVersion };
  await cluster.write('PUT', overridePlural, {
    namespace,
    name,
    body: { ...same, metadata, spec: dated(object.spec) },
  });
  return { metadata: same.metadata, did: 'was replaced' };
}

/** Replaces `for`, which counts from the creation of an object, because this object already exists. */
function dated(spec: Json): Json {
  if (spec.for === undefined) return spec;
  const { for: _, ...rest } = spec;
  const timed = { domain: spec.domain, match: spec.match, block: true, reason: 'x', for: spec.for };
  const reading = readOverrideObject(timed, { namespace: '', name: 'x' }, Date.now());
  return { ...rest, expiresAt: new Date(reading.override!.endsMs!).toISOString().replace(/\.\d+Z$/, 'Z') };
}

function hasPlace(
  spec: Json,
  { domain, match, limit = '' }: { domain: string; match: readonly Entry[]; limit?: string },
): boolean {
  if (spec?.grant !== undefined || spec?.domain !== domain || (spec.limit ?? '') !== limit) return false;
  const entries = (all: readonly Partial<Entry>[]) =>
    JSON.stringify(all.map(({ key, value = '' }) => [key, value]));
  return entries(spec.match ?? []) === entries(match);
}

/** Polls until the object is Ready or rejected. `why`: the reason if it is not Ready. */
async function settled(
  cluster: Cluster,
  { namespace, name, waitMs }: { namespace: string; name: string; waitMs: number },
): Promise<{ object: Json; why: string | undefined }> {
  const endMs = performance.now() + waitMs;
  for (;;) {
    const object = (await cluster.get(overridePlural, name, namespace)) as Json;
    const { why, generation, observedGeneration } = shownObject(object);
    if (why === undefined) return { object, why };
    const isRejected = why.type === 'Accepted' && why.status === 'False';
    if (isRejected || performance.now() >= endMs) {
      const isSeen = observedGeneration === generation;
      const words = isSeen ? `${why.reason}, ${why.message}` : 'no control plane has written its status yet';
      return { object, why: words };
    }
    await sleep(250);
  }
}

/** Returns what the override changes according to the accepted rules of its domain; undefined if it is not valid. */
function wordsOf(rules: readonly ClusterRules[], { metadata, spec = {} }: Json): string | undefined {
  const { className = defaultClass, fleet = defaultFleet } = spec;
  const { override } = readOverrideObject(spec, metadata, Date.now());
  if (override === undefined) return undefined;
  const inForce = rulesInForce(rules, override.domain, { className, fleet });
  const sources = inForce.sources.filter(({ source }) => source.domain === override.domain);
  const top = sources.flatMap(({ source }, index) => placedRules(source.descriptors, index, []));
  const { outcome } = explainDescriptor(top, override.match);
  return overrideWords(override, outcome.kind === 'found' ? outcome.placed.rule.limits : []);
}

function conditionOf({ status }: Json, type: string): Json | undefined {
  return status?.conditions?.find((one: Json) => one.type === type);
}

/** Converts an object to the form of `/v1/overrides`. No limiter has reported it. */
export function overrideOf({ metadata, spec = {}, status: stored = {} }: Json): Json {
  // The status of an older generation describes an override that was replaced.
  const isOutdated = stored.observedGeneration < metadata.generation;
  const status: Json = isOutdated ? {} : stored;
  const ready = (status.conditions ?? []).find(({ type }: Json) => type === 'Ready');
  const idle = ready?.status === 'True' ? noRule(status.conditions) : undefined;
  const { className: _class, fleet: _fleet, for: length, match = [], ...rest } = spec;
  const endsAt = status.endsAt ?? spec.expiresAt ?? null;
  // The end is not fixed yet.
  const lengthSeconds = length === undefined ? null : (parseGoDuration(length) ?? 0) / 1000;
  const name = `${metadata.namespace}/${metadata.name}`;
  return {
    id: name,
    source: 'object',
    name,
    limit: '',
    ...rest,
    match: match.map(({ key, value = '' }: Partial<Entry>) => ({ key, value })),
    ...(endsAt !== null && { expiresAt: endsAt }),
    createdAt: metadata.creationTimestamp ?? null,
    endsAt,
    secondsLeft:
      endsAt === null ? lengthSeconds : Math.max(0, Math.round((Date.parse(endsAt) - Date.now()) / 1000)),
    createdBy: '',
    state:
      (idle && 'NoRule') ??
      states[ready?.reason] ??
      ready?.reason ??
      (isOutdated ? 'NotObserved' : 'NoStatus'),
    message: idle?.message ?? (ready?.status === 'True' ? '' : (ready?.message ?? '')),
    limiters: [],
  };
}

/** Maps the words of objects to those of limiters. */
const states: Readonly<Record<string, string>> = { Ready: 'InForce', Expired: 'Ended' };

/** Removes objects by name, or by their match. */
async function removeObjects(
  cluster: Cluster,
  flags: ParsedFlags,
  which: OverrideSelector,
): Promise<OverrideOutcome> {
  const all = await cluster.listReadable(overridePlural, (one) => one as Json);
  const isMeant = ({ metadata, spec }: Json): boolean =>
    'id' in which
      ? namesOf(metadata).includes(which.id)
      : hasPlace(spec, { domain: which.domain, match: which.entries, limit: spec?.limit ?? '' });
  const meant = all.filter(isMeant);
  if (meant.length === 0) throw new CommandError(absenceText(all, which, flags.text('namespace')));
  if ('id' in which && meant.length > 1)
    throw new UsageError(`"${which.id}" is in several namespaces: choose one with -n`);
  const outcome = await outcomeOf(cluster, meant);
  for (const { metadata } of meant) await cluster.write('DELETE', overridePlural, metadata);
  return outcome;
}

/** Returns the names of an object in a cluster, in several namespaces, and in lists of limiters. */
function namesOf({ namespace, name }: Json): string[] {
  return [name, `${namespace}/${name}`, `override/${namespace}/${name}`];
}

/** Returns the text for an absent override, as limiters do: entries alone do not identify a grant. */
function absenceText(
  objects: readonly Json[],
  which: OverrideSelector,
  namespace: string | undefined,
): string {
  const isGrant = ({ spec }: Json): boolean =>
    'domain' in which &&
    spec?.grant !== undefined &&
    hasPlace({ ...spec, grant: undefined }, { ...which, match: which.entries, limit: spec.limit ?? '' });
  const grants = objects.filter(isGrant).map(({ metadata }) => `${metadata.namespace}/${metadata.name}`);
  if (grants.length > 0)
    return `these entries have only grants; remove a grant by its ID: ${grants.join(', ')}`;
  return `there is no such override ${placeText(namespace)}: "${programName()} override list" shows all overrides`;
}

/** Returns the flags of a command that asks the same cluster. */
function clusterWords(flags: ParsedFlags): string[] {
  return ['context', 'kubeconfig'].flatMap((name) => {
    const value = flags.text(name);
    return value === undefined ? [] : [`--${name}`, value];
  });
}
