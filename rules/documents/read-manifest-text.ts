import { fieldName } from '../language/tables.ts';
import type { ReadingLists, RuleText } from '../loaded-source.ts';
import { type Manifest, readManifests } from '../manifest/read-manifests.ts';
import { readSpec, type SpecReading } from '../manifest/read-spec.ts';
import { readOverride } from '../overrides/read-override.ts';
import { formatManifestError } from '../rule-error.ts';
import type { CheckOptions } from '../validate-sources.ts';
import { readRuleFileTexts, textKind } from './read-rule-file-texts.ts';

/** The rule files among the entries of a ConfigMap: `*.yaml` and `*.yml`, as a limiter reads its folder. */
function configMapFiles(file: string, object: Readonly<Record<string, unknown>>): RuleText[] {
  if (object['apiVersion'] !== 'v1' || object['kind'] !== 'ConfigMap') return [];
  const { name, namespace } = fieldsOf(object['metadata']);
  const place = [namespace, name].filter((part) => typeof part === 'string').join('/');
  return Object.entries(fieldsOf(object['data'])).flatMap(([key, text]) => {
    if (!/\.ya?ml$/.test(key) || typeof text !== 'string' || !isRuleFile(text)) return [];
    return [{ path: `${file} ConfigMap ${place}/${key}`, text }];
  });
}

/** ConfigMaps hold the files of other programs, too: told by `descriptors`, or by `domain` in the first place. */
function isRuleFile(text: string): boolean {
  if (textKind(text) !== 'rule-file') return false;
  return (
    /^["']?descriptors["']?[ \t]*:/m.test(text) || /^(?:\s|#.*\n|---)*["']?domain["']?[ \t]*:/.test(text)
  );
}

function fieldsOf(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

/**
 * Reads RateLimitConfigs among Kubernetes objects, as the control plane does, and the rule files that ConfigMaps carry, as
 * a limiter does that mounts them. Objects of other kinds are passed over.
 */
export function readManifestText(
  file: string,
  text: string,
  options: CheckOptions,
  lists: ReadingLists,
): void {
  const { manifests, overrides, refused, errors, skipped } = readManifests(text, file);
  for (const error of errors) lists.errors.add({ ...error, text: formatManifestError(error) });
  for (const { type, line, value } of skipped) {
    const files = configMapFiles(file, value);
    if (files.length === 0) lists.skipped.push({ file, type, line });
    // Each ConfigMap is a load of its own: which of them a limiter mounts is not said here.
    else readRuleFileTexts(files, { ...options, load: files[0]!.path }, lists);
    for (const one of files) lists.embedded.push({ ...one, container: file });
  }
  for (const manifest of manifests) addManifest(file, manifest, options, lists);
  for (const override of overrides) checkOverride(file, override, lists);
  for (const { spec, metadata, placeOf } of refused) {
    addSpecErrors(file, { reading: readSpec(spec, metadata.name, options.support), placeOf }, lists);
  }
}

function addManifest(
  file: string,
  { metadata, spec, placeOf }: Manifest,
  { support }: CheckOptions,
  lists: ReadingLists,
): void {
  const reading = readSpec(spec, `${metadata.namespace}/${metadata.name}`, support);
  if (!reading.ok) {
    addSpecErrors(file, { reading, placeOf }, lists);
    return;
  }
  lists.sources.push({
    kind: 'manifests',
    file,
    load: undefined,
    source: reading.source,
    fleet: reading.fleet,
    className: reading.className,
    object: metadata,
    placeOf: (path) => placeOf(['spec', ...path.map(fieldName)]),
  });
}

/** A RateLimitOverride. Where it goes, and when it ends, is for the control plane to say. */
function checkOverride(file: string, { metadata, spec, placeOf }: Manifest, lists: ReadingLists): void {
  const { className: _, fleet: __, ...rest } = fieldsOf(spec);
  const name = `${metadata.namespace}/${metadata.name}`;
  const { problems = [] } = readOverride(rest, {
    ...{ source: 'object', id: name, name, createdMs: 0, by: '', fromMs: 0 },
    ...{ maxSeconds: Number.POSITIVE_INFINITY, refusesPast: false },
  });
  lists.overrides += problems.length === 0 ? 1 : 0;
  for (const { path: below, text: problem } of problems) {
    const path = ['spec', ...below];
    const text = formatManifestError({ path, text: problem });
    lists.errors.add({ code: 'wrong-type', source: file, text, path, ...placeOf(path) });
  }
}

function addSpecErrors(
  file: string,
  { reading, placeOf }: { reading: SpecReading; placeOf: Manifest['placeOf'] },
  lists: ReadingLists,
): void {
  if (reading.ok) return;
  for (const error of reading.errors) {
    const { line, column } = placeOf(error.path);
    lists.errors.add({ ...error, source: file, text: formatManifestError(error), line, column });
  }
  lists.errors.addUnlisted(reading.errorCount - reading.errors.length);
}
