/** Overrides as objects of a cluster: made beside the domain's RateLimitConfig, looked for, and removed. */

import { hash } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApiError } from '../../control-plane/kubernetes/api-error.ts';
import { KubernetesConfigError } from '../../control-plane/kubernetes/client-config.ts';
import { parseGoDuration } from '../../process/settings/go-values.ts';
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
import { readOverride } from '../../rules/override.ts';
import { Cluster, placeText } from '../shared/cluster.ts';
import { CommandError, type ParsedFlags, UsageError } from '../shared/flags.ts';
import { io } from '../shared/io.ts';
import { durationText, type OutputFormat, printedText, table } from '../shared/output.ts';
import type { Json } from './limiters.ts';
import { entriesText } from './operate-command.ts';

/** Where the objects of a domain are, and whose they are. */
interface Owner {
  namespace: string | undefined;
  className: string;
  fleet: string;
}

/** Makes the object, or puts it in the place of the one that has the same match; waits until it is Ready. */
export async function putObject(flags: ParsedFlags, body: Json, format: OutputFormat): Promise<number> {
  const isDry = flags.on('dry-run');
  const waitMs = waitingTime(flags.text('wait'));
  const cluster = clusterOf(flags, isDry);
  try {
    const owner = await ownerOf(cluster, flags, body.domain);
    const namespace = owner.namespace ?? cluster?.namespace;
    const object = overrideObject(body, { ...owner, namespace });
    if (isDry || cluster === undefined || namespace === undefined) {
      io().stdout.write(printedText(object, format === 'text' ? 'yaml' : format, () => ''));
      return 0;
    }
    const written = await writtenObject(cluster, namespace, object, body);
    const { name } = written.metadata;
    io().stderr.write(`weir: ratelimitoverride/${name} ${written.did} ${placeText(namespace)}\n`);
    const shown = await settled(cluster, { namespace, name, waitMs });
    io().stdout.write(printedText(shown.object, format, () => overridesText([rowOf(shown.object)])));
    if (shown.isReady || waitMs === 0) return 0;
    throw new CommandError(`${namespace}/${name} is not Ready: ${shown.why}`);
  } finally {
    cluster?.close();
  }
}

/** To print an object no cluster is needed. */
function clusterOf(flags: ParsedFlags, mayLack: boolean): Cluster | undefined {
  try {
    return new Cluster(flags);
  } catch (error) {
    if (mayLack && error instanceof KubernetesConfigError && flags.text('kubeconfig') === undefined)
      return undefined;
    throw error;
  }
}

/** As the domain's RateLimitConfig has it, where flags do not say otherwise. */
async function ownerOf(cluster: Cluster | undefined, flags: ParsedFlags, domain: string): Promise<Owner> {
  const [className, fleet] = [flags.text('class'), flags.text('fleet')];
  const given = flags.text('namespace');
  const all = cluster === undefined ? [] : await readable(cluster, rulesPlural, domainOwner);
  const owners = all.filter(
    (one) =>
      one.domain === domain &&
      (given ?? one.namespace) === one.namespace &&
      (className ?? one.className) === one.className &&
      (fleet ?? one.fleet) === one.fleet,
  );
  const places = new Map(owners.map((one) => [`${one.namespace} ${one.className} ${one.fleet}`, one]));
  if (places.size > 1) {
    const names = Array.from(
      places.values(),
      (one) => `-n ${one.namespace} --class ${one.className} --fleet ${one.fleet}`,
    );
    throw new UsageError(`domain ${domain} is in several places, choose one: ${names.join('; ')}`);
  }
  const [owner] = places.values();
  if (owner !== undefined) return owner;
  if (cluster !== undefined)
    io().stderr.write(
      `weir: no RateLimitConfig of domain ${JSON.stringify(domain)} was found ${placeText(given)}\n`,
    );
  return {
    namespace: given ?? cluster?.namespace,
    className: className ?? defaultClass,
    fleet: fleet ?? defaultFleet,
  };
}

function domainOwner(object: unknown): Owner & { domain: string } {
  const { metadata, spec = {} } = object as {
    metadata: { namespace: string };
    spec?: Partial<Owner & { domain: string }>;
  };
  const { className = defaultClass, fleet = defaultFleet, domain = '' } = spec;
  return { namespace: metadata.namespace, className, fleet, domain };
}

/** Objects of the namespace that is given, else of all namespaces, else, without the right to, of the context's. */
async function readable<T>(cluster: Cluster, plural: string, read: (object: unknown) => T): Promise<T[]> {
  if (cluster.isNamespaceGiven || cluster.namespace === undefined)
    return cluster.list(plural, cluster.namespace, read);
  try {
    return await cluster.list(plural, undefined, read);
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error;
    return cluster.list(plural, cluster.namespace, read);
  }
}

/** Named after what it is for, so that the same again is the same object; a grant after its id. */
export function overrideObject(body: Json, { namespace, className, fleet }: Owner): Json {
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

async function writtenObject(
  cluster: Cluster,
  namespace: string,
  object: Json,
  body: Json,
): Promise<{ metadata: { name: string }; did: string }> {
  const known = await cluster.list(overridePlural, namespace, (one) => one as Json);
  const same =
    known.find((one) => one.metadata.name === object.metadata.name) ??
    known.find((one) => hasPlace(one.spec, body));
  if (same === undefined) {
    const made = (await cluster.write('POST', overridePlural, { namespace, body: object })) as Json;
    return { metadata: made.metadata, did: 'was made' };
  }
  // The same grant again gives nothing more.
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

/** `for` counts from the creation of an object, which this one has behind it. */
function dated(spec: Json): Json {
  if (spec.for === undefined) return spec;
  const { for: _, ...rest } = spec;
  const nowMs = Date.now();
  const reading = readOverride(
    { domain: spec.domain, match: spec.match, block: true, reason: 'x', for: spec.for },
    {
      source: 'api',
      id: 'x',
      createdMs: nowMs,
      by: '',
      fromMs: nowMs,
      maxSeconds: Number.MAX_SAFE_INTEGER,
      refusesPast: true,
    },
  );
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

/** Looks until the control plane has said what becomes of this generation. */
async function settled(
  cluster: Cluster,
  { namespace, name, waitMs }: { namespace: string; name: string; waitMs: number },
): Promise<{ object: Json; isReady: boolean; why: string }> {
  const endMs = performance.now() + waitMs;
  for (;;) {
    const object = (await cluster.get(overridePlural, name, namespace)) as Json;
    const conditions: Json[] = object.status?.conditions ?? [];
    const isSeen = object.status?.observedGeneration === object.metadata.generation;
    const ready = conditions.find(({ type }) => type === 'Ready');
    const refused = conditions.find(({ type, status }) => type === 'Accepted' && status === 'False');
    if (isSeen && ready?.status === 'True') return { object, isReady: true, why: '' };
    const said = refused ?? ready;
    const why =
      isSeen && said !== undefined
        ? `${said.reason}, ${said.message}`
        : 'no control plane has written a status of it yet';
    if ((isSeen && refused !== undefined) || performance.now() >= endMs)
      return { object, isReady: false, why };
    await sleep(250);
  }
}

/** @throws UsageError */
function waitingTime(text: string | undefined): number {
  const ms = parseGoDuration(text ?? '10s');
  if (ms !== undefined && ms >= 0 && ms <= 3_600_000) return ms;
  throw new UsageError(`--wait is a duration from 0s to 1h, not "${text}"`);
}

/** In the form of `/v1/overrides`, as far as an object tells it. */
function rowOf({ metadata, spec = {}, status = {} }: Json): Json {
  const ready = (status.conditions ?? []).find(({ type }: Json) => type === 'Ready');
  const endsAt = status.endsAt ?? spec.expiresAt;
  const secondsLeft =
    endsAt === undefined ? undefined : Math.max(0, (Date.parse(endsAt) - Date.now()) / 1000);
  const { for: length, ...rest } = spec;
  return {
    ...rest,
    name: `${metadata.namespace}/${metadata.name}`,
    match: (spec.match ?? []).map(({ key, value = '' }: Partial<Entry>) => ({ key, value })),
    // Nobody has fixed the end yet.
    secondsLeft: secondsLeft ?? (length === undefined ? null : (parseGoDuration(length) ?? 0) / 1000),
    standing: ready === undefined ? 'NoStatus' : ready.status === 'True' ? 'Ready' : ready.reason,
    message: ready?.status === 'True' ? '' : (ready?.message ?? ''),
  };
}

export async function listObjects(
  flags: ParsedFlags,
  domain: string | undefined,
  format: OutputFormat,
): Promise<number> {
  const cluster = new Cluster(flags);
  try {
    const all = await readable(cluster, overridePlural, (one) => one as Json);
    const items = all.filter(({ spec }) => domain === undefined || spec?.domain === domain);
    io().stdout.write(printedText({ overrides: items }, format, () => overridesText(items.map(rowOf))));
    return 0;
  } finally {
    cluster.close();
  }
}

/** By the object's name, or by what it is for. */
export async function removeObjects(
  flags: ParsedFlags,
  what: string | { domain: string; entries: readonly Entry[] },
  format: OutputFormat,
): Promise<number> {
  const cluster = new Cluster(flags);
  try {
    const all = await readable(cluster, overridePlural, (one) => one as Json);
    const isMeant = ({ metadata, spec }: Json): boolean =>
      typeof what === 'string'
        ? [metadata.name, `${metadata.namespace}/${metadata.name}`].includes(what)
        : hasPlace(spec, { domain: what.domain, match: what.entries, limit: spec?.limit ?? '' });
    const meant = all.filter(isMeant);
    if (meant.length === 0)
      throw new CommandError(
        `there is no such override ${placeText(flags.text('namespace'))}: "weir override list" shows those that there are`,
      );
    if (typeof what === 'string' && meant.length > 1)
      throw new UsageError(`"${what}" is in several namespaces: say which by -n`);
    for (const { metadata } of meant) await cluster.write('DELETE', overridePlural, metadata);
    io().stdout.write(printedText({ removed: meant }, format, () => removedText(meant.map(rowOf))));
    return 0;
  } finally {
    cluster.close();
  }
}

/** One line each. */
export function overridesText(overrides: readonly Json[]): string {
  if (overrides.length === 0) return 'no overrides\n';
  return table(
    overrides.map((one) => ({
      ID: one.source === 'api' ? one.id : one.name,
      ...(one.source !== undefined && { SOURCE: one.source }),
      DOMAIN: one.domain,
      MATCH: entriesText(one.match),
      EFFECT: effectText(one),
      LEFT:
        one.secondsLeft === null || one.secondsLeft === undefined
          ? one.grant === undefined
            ? 'permanent'
            : 'its window'
          : durationText(one.secondsLeft),
      STANDING: one.standing,
      ...(Array.isArray(one.limiters) && { LIMITERS: one.limiters.length }),
      ...(overrides.some(({ createdBy }) => createdBy) && { BY: one.createdBy }),
      REASON: one.reason,
      ...(overrides.some(({ message }) => message) && { MESSAGE: one.message }),
    })),
  );
}

/** They stand there as they were before. */
export function removedText(overrides: readonly Json[]): string {
  const [words, were] =
    overrides.length === 1
      ? ['1 override was', 'As it was']
      : [`${overrides.length} overrides were`, 'As they were'];
  const rows = overrides.length === 0 ? '' : `\n${were}:\n${overridesText(overrides)}`;
  return `${words} removed\n${rows}`;
}

function effectText({ requestsPerUnit, unit, unlimited, shadow, block, grant, limit }: Json): string {
  const of = limit ? ` (${limit})` : '';
  if (requestsPerUnit !== undefined) return `${requestsPerUnit}${unit ? ` a ${unit}` : ''}${of}`;
  if (grant !== undefined) return `${grant} more${of}`;
  return unlimited ? `unlimited${of}` : shadow ? `shadow${of}` : block ? `block${of}` : '';
}
