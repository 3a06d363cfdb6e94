import { defaultClass, defaultFleet } from '../../rules/language/kinds.ts';
import { manifestWords, ruleFileName } from '../../rules/language/tables.ts';
import type { JsonObject } from '../../rules/model.ts';
import { readSpec } from '../../rules/reader/manifest-reader.ts';
import { limitedRules } from '../../rules/review/explain-descriptor.ts';
import { formatManifestError } from '../../rules/rule-error.ts';
import {
  type ManifestIdentity,
  manifestValue,
  objectName,
  omittedField,
  ruleFileValue,
} from '../../rules/write-rules.ts';
import { resourcesToJson } from '../shared/json-resources.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';
import { placeText } from '../shared/text.ts';

/** The spelling to convert to. */
export const targets = ['rules', 'manifest', 'xds'] as const;
export type Target = (typeof targets)[number];

/** Values that the new spelling uses if the old one has none, or instead of its own. */
export interface GivenIdentity {
  name: string | undefined;
  namespace: string | undefined;
  className: string | undefined;
  fleet: string | undefined;
}

export interface Conversion {
  /** The documents of the output. Several manifests make a file of several documents. */
  documents: JsonObject[];
  /** Parts that the new spelling cannot express or leaves out, without harm to the rules themselves. */
  losses: string[];
  /** Rules that the new spelling cannot express at all. */
  problems: string[];
}

export function convertRules(
  loaded: readonly LoadedSource[],
  target: Target,
  given: GivenIdentity,
): Conversion {
  const sources = joinedFiles(loaded);
  if (target === 'manifest') return toManifests(sources, given);
  const losses = sources.flatMap((one) => identityLosses(one, target));
  if (target === 'rules') return { ...toRuleFile(sources), losses };
  const named = sources.map(({ source, object }) => ({
    ...source,
    name: given.name ?? (object === undefined ? source.domain : source.name),
  }));
  return { documents: [resourcesToJson(named) as JsonObject], losses, problems: [] };
}

/** Returns the places of fields without effect that the output omits. The JSON of xDS has all fields. */
export function omittedFields(sources: readonly LoadedSource[], target: Target): string[] {
  if (target === 'xds') return [];
  return sources.flatMap(({ file, kind, placeOf, source }) => {
    return Array.from(limitedRules(source)).flatMap(({ rule, place: path }) => {
      const omitted = omittedField(rule);
      if (omitted === undefined) return [];
      const place = placeOf([...path, ...omitted.path]);
      return [
        `${placeText(file, place)}: ${kind === 'rule-file' ? omitted.why : manifestWords(omitted.why)}`,
      ];
    });
  });
}

/** Several files as one source, with the part of each file, in order. */
interface JoinedSource extends LoadedSource {
  parts: readonly LoadedSource[];
}

/** Joins rule files of one domain into one source. */
function joinedFiles(sources: readonly LoadedSource[]): JoinedSource[] {
  const groups = Map.groupBy<unknown, LoadedSource>(sources, (loaded) =>
    loaded.kind === 'rule-file' ? loaded.source.domain : loaded,
  );
  return [...groups.values()].map((parts) => {
    const descriptors = parts.flatMap(({ source }) => source.descriptors);
    return { ...parts[0]!, source: { ...parts[0]!.source, descriptors }, parts };
  });
}

/** Returns the place of the value at a path of `spec`: `rules.yaml:12:9`, or the file alone. */
function placeOf({ parts }: JoinedSource, [, ...path]: readonly (string | number)[]): string {
  const [first, ...below] = path.map((step) => (typeof step === 'number' ? step : ruleFileName(step)));
  let part = parts[0]!;
  for (const next of parts) {
    part = next;
    const [index] = below;
    const { length } = part.source.descriptors;
    if (typeof index !== 'number' || index < length) break;
    below[0] = index - length;
  }
  return placeText(part.file, part.placeOf(first === undefined ? [] : [first, ...below]));
}

function toRuleFile(sources: readonly LoadedSource[]): Omit<Conversion, 'losses'> {
  const domains = [...new Set(sources.map(({ source }) => source.domain))];
  if (domains.length > 1) {
    const problem = `a rule file has only one domain, choose one by --domain: ${domains.join(', ')}`;
    return { documents: [], problems: [problem] };
  }
  const descriptors = sources.flatMap(({ source }) => source.descriptors);
  return { documents: [ruleFileValue({ domain: domains[0]!, descriptors })], problems: [] };
}

function toManifests(sources: readonly JoinedSource[], given: GivenIdentity): Conversion {
  const conversion: Conversion = { documents: [], losses: [], problems: [] };
  const names = new Set<string>();
  for (const loaded of sources) {
    const identity = identityOf(loaded, given);
    const key = `${identity.namespace ?? ''}/${identity.name}`;
    if (names.has(key)) {
      const problem = `several objects would be called '${identity.name}': use --domain and --name`;
      conversion.problems.push(`${loaded.file}: ${problem}`);
    }
    names.add(key);
    const manifest = manifestValue(loaded.source, identity);
    const reading = readSpec(manifest['spec'], identity.name);
    if (reading.ok) conversion.documents.push(manifest);
    else {
      for (const error of reading.errors) {
        const where = placeOf(loaded, error.path);
        conversion.problems.push(`${where}: a manifest cannot express it: ${formatManifestError(error)}`);
      }
    }
  }
  return conversion;
}

function identityOf(
  { source, object, fleet, className }: LoadedSource,
  given: GivenIdentity,
): ManifestIdentity {
  return {
    name: given.name ?? object?.name ?? objectName(source.domain),
    namespace: given.namespace ?? object?.namespace,
    labels: object?.labels ?? {},
    fleet: given.fleet ?? fleet ?? defaultFleet,
    className: given.className ?? className,
  };
}

/** The name and namespace of an object do not affect its rules, so losing them is not reported. */
function identityLosses(
  { object, fleet, className = defaultClass, source }: LoadedSource,
  target: Target,
): string[] {
  const what = target === 'rules' ? 'a rule file' : 'a resource';
  const losses: string[] = [];
  if (fleet !== undefined && fleet !== defaultFleet) {
    losses.push(`${what} cannot specify a fleet: the output omits the fleet '${fleet}' of ${source.name}`);
  }
  if (className !== defaultClass) {
    losses.push(
      `${what} cannot specify a class: the output omits the class '${className}' of ${source.name}`,
    );
  }
  const labels = Object.keys(object?.labels ?? {});
  if (labels.length > 0)
    losses.push(`${what} has no labels: ${labels.join(', ')} of ${source.name} are lost`);
  return losses;
}
