import type { ReadingLists, RuleText, TextKind } from '../loaded-source.ts';
import { documentTexts, readManifestDocument } from '../manifest/read-manifests.ts';
import { looksLikeOverrides, readOverrideFile } from '../overrides/read-override.ts';
import { readRuleFiles } from '../reader/read-rule-files.ts';
import type { RuleError } from '../rule-error.ts';
import type { CheckOptions } from '../validate-sources.ts';
import { decodeYaml } from '../yaml/text.ts';

/** Reads rule files as a limiter does: all of them together; and of OVERRIDES_DIR those beside them, of which errors count alone. Their sources count only when none of them has an error. */
export function readRuleFileTexts(
  files: readonly RuleText[],
  options: CheckOptions & { load?: string },
  lists: ReadingLists,
): void {
  const rules = files.filter(({ text }) => !looksLikeOverrides(text));
  for (const { path, text } of files) {
    if (!looksLikeOverrides(text)) continue;
    // When they end is for the limiter to say.
    const options = { nowMs: 0, maxSeconds: Number.POSITIVE_INFINITY };
    const { overrides, errors } = readOverrideFile(path, text, options);
    lists.overrides += overrides.length;
    for (const error of errors) lists.errors.add(error);
  }
  const named = rules.map(({ path, text }) => ({ name: path, text }));
  const { sources, places, errors, errorCount, warnings } = readRuleFiles(named, options);
  for (const error of errors) lists.errors.add(error);
  lists.errors.addUnlisted(errorCount - errors.length);
  for (const warning of warnings) lists.warnings.add(warning);
  for (const file of rules) for (const warning of unreadDocuments(file)) lists.warnings.add(warning);
  for (const source of sources) {
    lists.sources.push({
      kind: 'rule-file',
      file: source.name,
      load: options.load,
      source,
      fleet: undefined,
      object: undefined,
      placeOf: places.get(source)!,
    });
  }
}

/** Limiters, Go's as well, read the first document of a file and pass over the others. */
export function unreadDocuments({ path, text }: RuleText): RuleError[] {
  const decoded = decodeYaml(text);
  if (typeof decoded !== 'string' || !/^---/m.test(decoded)) return [];
  const written = documentTexts(decoded).filter((document) => {
    const reading = readManifestDocument(document.text);
    return reading.ok || !reading.empty;
  });
  return written.slice(1).map(({ firstLine }) => ({
    code: 'unread-document',
    source: path,
    text: 'only the first document of a rule file is read, this one has no effect',
    path: [],
    line: firstLine,
    column: 1,
  }));
}

const objectField = /^["']?(?:apiVersion|kind)["']?[ \t]*:/m;
const objectFieldInJson = /"(?:apiVersion|kind)"\s*:/;
const resourceFieldInJson = /"(?:@type|typeUrl|type_url|resources)"\s*:/;

/**
 * `manifests` for Kubernetes objects of any kind, `resources` for JSON of xDS (a resource with its `@type`, or a
 * discovery response), and `rule-file` for everything else.
 */
export function textKind(text: string): TextKind {
  if (!/^\uFEFF?\s*[{[]/.test(text)) return objectField.test(text) ? 'manifests' : 'rule-file';
  if (objectFieldInJson.test(text)) return 'manifests';
  return resourceFieldInJson.test(text) ? 'resources' : 'rule-file';
}
