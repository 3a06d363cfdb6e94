import { fieldName } from '../language/tables.ts';
import type { ReadingLists } from '../loaded-source.ts';
import { readManifestDocument } from '../manifest/read-manifests.ts';
import { type CheckOptions, checkSources } from '../validate-sources.ts';
import { type TextPlace, valuePlacer } from '../yaml/places.ts';
import type { ResourceProblem } from './resource.ts';
import { type JsonResource, resourcesFromJson } from './resource-json.ts';

interface ResourceTarget extends Pick<CheckOptions, 'support'> {
  lists: ReadingLists;
}

/** Reads resources of xDS in JSON. Resources of other types are passed over. */
export function readResourceText(file: string, text: string, target: ResourceTarget): void {
  // JSON is YAML, and the reader of YAML knows lines.
  const document = readManifestDocument(text);
  if (!document.ok) {
    if (document.empty) return;
    const { line, column } = document;
    target.lists.errors.add({ code: 'syntax', source: file, text: document.text, path: [], line, column });
    return;
  }
  const placeOf = valuePlacer(document.tape);
  for (const resource of resourcesFromJson(document.value)) addResource(file, resource, placeOf, target);
}

function addResource(
  file: string,
  resource: JsonResource,
  placeOf: (path: readonly (string | number)[]) => TextPlace,
  { lists, support }: ResourceTarget,
): void {
  const { path } = resource;
  if ('otherType' in resource) {
    lists.skipped.push({ file, type: resource.otherType, line: placeOf(path).line });
    return;
  }
  if ('problem' in resource) {
    lists.errors.add({ code: 'wrong-type', source: file, text: resource.problem, path, ...placeOf(path) });
    return;
  }
  const { source } = resource;
  const placeIn = (below: readonly (string | number)[]): TextPlace =>
    placeOf([...path, ...below.map(fieldName)]);
  const before = lists.errors.count;
  const add = ({ code, text, path: below }: ResourceProblem): void => {
    lists.errors.add({ code, source: file, text, path: [...path, ...below], ...placeIn(below) });
  };
  resource.problems.forEach(add);
  checkSources([source], { mergeDomains: false, support }, add);
  if (lists.errors.count > before) return;
  lists.sources.push({
    kind: 'resources',
    file,
    load: undefined,
    source,
    fleet: undefined,
    object: undefined,
    placeOf: placeIn,
  });
}
