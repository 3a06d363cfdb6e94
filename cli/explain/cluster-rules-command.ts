import { byAge } from '../../control-plane/model/config-object.ts';
import { plural } from '../../rules/language/kinds.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import { type ShownObject, shownObject } from '../operate/shown-objects.ts';
import { type Cluster, clusterHelp, withCluster } from '../shared/cluster.ts';
import { type ParsedFlags, printProblem } from '../shared/flags.ts';
import { programName } from '../shared/io.ts';
import { type ServedBy, servedByFlags, sourcesServedBy } from '../shared/read-input.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { type CommandReport, outputHelp, reportCommand } from '../shared/report.ts';
import { explanationOf, requestHelp, requestOf } from './explain-command.ts';

const help = `Usage: kubectl weir explain <domain> <key=value> ... [+ <key=value> ...] [flags]

Shows which rule of the cluster's RateLimitConfigs applies to a request and why, level by level, and its object. It uses
only accepted objects, and counts nothing. It reads all namespaces, because a domain belongs to the whole fleet. If you have no
right to do this, -n reads one namespace, and objects of others may be missing.

${requestHelp}  --class <name>              class of the objects, if the domain is in several
  --fleet <name>              fleet of the objects, if the domain is in several
${clusterHelp.replace('the namespace of the context, else "default"', 'all namespaces')}${outputHelp}
  kubectl weir explain shop path=/search/shoes plan=gold

Exit status: 0 when a rule limits each descriptor, or lets it pass as unlimited or replaced. 1 when one has no limit.
2 for a wrong command line, a cluster that does not answer, or rules in force that the cluster does not have.
`;

/** An object with the fields that are needed to read its rules. */
export interface ClusterRules extends ShownObject {
  createdMs: number;
  spec: unknown;
}

export const explainCommand = reportCommand(help, (flags) =>
  withCluster(flags, (cluster) => explainInCluster(flags, cluster)),
);

async function explainInCluster(flags: ParsedFlags, cluster: Cluster): Promise<CommandReport | number> {
  const options = await requestOf(flags.positionals, flags);
  const namespace = cluster.isNamespaceGiven ? cluster.namespace : undefined;
  const objects = await cluster.list(plural, namespace, clusterRules);
  const { sources, notes, problems } = rulesInForce(objects, options.domain, servedByFlags(flags));
  if (namespace !== undefined && !sources.some(({ source }) => source.domain === options.domain))
    notes.push(`only namespace ${namespace} was looked at: the domain may have rules in another one`);
  for (const text of [...notes, ...problems]) printProblem(text);
  if (problems.length > 0) return 2;
  // The control plane accepted these objects together, so several sources of a domain are merged.
  return explanationOf(sources, options, { mergeDomains: true });
}

function clusterRules(value: unknown): ClusterRules {
  const { metadata, spec } = value as { metadata?: { creationTimestamp?: string }; spec?: unknown };
  const createdMs = Date.parse(metadata?.creationTimestamp ?? '');
  return { ...shownObject(value), createdMs: Number.isNaN(createdMs) ? 0 : createdMs, spec };
}

/** The rules by which limiters decide requests of a domain, as far as the cluster shows. */
export interface ClusterRulesInForce {
  /** All rules of the class and fleet that serve the domain. */
  sources: readonly LoadedSource[];
  /** Notes about the domain's objects. */
  notes: string[];
  /** Reasons why the rules in force are not certain. */
  problems: string[];
}

/** @throws UsageError if several classes or fleets have the domain and none is selected */
export function rulesInForce(
  objects: readonly ClusterRules[],
  domain: string,
  chosen: ServedBy,
): ClusterRulesInForce {
  const found: ClusterRulesInForce = { sources: [], notes: [], problems: [] };
  const sources: LoadedSource[] = [];
  for (const object of objects.toSorted(byAge)) {
    const { className, fleet } = object;
    if ((chosen.className ?? className) !== className || (chosen.fleet ?? fleet) !== fleet) continue;
    const reading = readSpec(object.spec, `${object.namespace}/${object.name}`);
    const isOfDomain = object.domain === domain || (reading.ok && reading.source.domain === domain);
    const standing = standingOf(object);
    if (isOfDomain) {
      if (standing.note !== undefined) found.notes.push(standing.note);
      if (standing.problem !== undefined) found.problems.push(standing.problem);
    }
    if (!standing.isInForce) continue;
    if (reading.ok) sources.push(sourceOf(object, reading));
    else if (isOfDomain) {
      const words = reading.errors.map((error) => formatManifestError(error)).join('; ');
      found.problems.push(`${nameOf(object)} cannot be read by this version of ${programName()}: ${words}`);
    }
  }
  const [holder] = sourcesServedBy(
    sources.filter(({ source }) => source.domain === domain),
    chosen,
  );
  found.sources = sources.filter(({ className, fleet }) =>
    holder === undefined ? true : className === holder.className && fleet === holder.fleet,
  );
  return found;
}

/** Whether limiters run the current generation of the object, with notes and problems. */
function standingOf(object: ShownObject): { isInForce: boolean; note?: string; problem?: string } {
  const { conditions, generation, observedGeneration, servedGeneration, why } = object;
  const name = nameOf(object);
  const accepted = conditions.find(({ type }) => type === 'Accepted');
  const isSeen = observedGeneration !== undefined && observedGeneration >= generation;
  if (isSeen && accepted?.status === 'True') {
    if (why === undefined) return { isInForce: true };
    return { isInForce: true, note: `${name} is not in force everywhere: ${why.reason}, ${why.message}` };
  }
  const reason = why === undefined ? 'it is not accepted' : `${why.reason}, ${why.message}`;
  if (servedGeneration === undefined) return { isInForce: false, note: `${name} is not used: ${reason}` };
  const problem = `limiters run generation ${servedGeneration} of ${name}, and its object is at ${generation}: ${reason}`;
  return { isInForce: false, problem };
}

function nameOf({ namespace, name }: ShownObject): string {
  return `${namespace}/${name}`;
}

function sourceOf(
  { namespace, name }: ShownObject,
  { source, fleet, className }: Extract<ReturnType<typeof readSpec>, { ok: true }>,
): LoadedSource {
  const object = { namespace, name, labels: {} };
  return {
    kind: 'manifests',
    file: source.name,
    load: undefined,
    source,
    fleet,
    className,
    object,
    placeOf: () => undefined,
  };
}
