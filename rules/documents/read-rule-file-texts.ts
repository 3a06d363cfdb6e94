import { documentTexts, readYamlDocument } from '../manifest/index.ts';
import { type DecodedFile, decodeRuleFile } from '../reader/read-rule-file.ts';
import { readRuleFiles } from '../reader/read-rule-files.ts';
import { decodeYaml } from '../yaml/text.ts';
import type { ReadingLists, RuleText } from './read-rule-texts.ts';

/** Reads rule files as a limiter does: all of them together. Their sources count only when none of them has an error. */
export function readRuleFileTexts(
  files: readonly RuleText[],
  options: { mergeDomains: boolean; load?: string },
  lists: ReadingLists,
): void {
  const named = files.map(({ path, text }) => ({ name: path, text }));
  const { sources, errors, errorCount, warnings } = readRuleFiles(named, options);
  for (const error of errors) lists.errors.add(error);
  lists.errors.addUnlisted(errorCount - errors.length);
  for (const warning of warnings) lists.warnings.add(warning);
  for (const file of files) warnOfUnreadDocuments(file, lists);
  const textOf = new Map(files.map((file) => [file.path, file]));
  for (const source of sources) {
    lists.sources.push({
      kind: 'rule-file',
      file: source.name,
      load: options.load,
      source,
      fleet: undefined,
      object: undefined,
      placeOf: placer(textOf.get(source.name)!),
    });
  }
}

/** Decodes the file again at the first question: most sources are never asked. */
function placer({ path, text }: RuleText): DecodedFile['placeOf'] {
  let decoded: DecodedFile | undefined;
  return (steps) => {
    decoded ??= decodeRuleFile({ name: path, text });
    return decoded.placeOf(steps);
  };
}

/** Limiters, Go's as well, read the first document of a file and pass over the others. */
function warnOfUnreadDocuments({ path, text }: RuleText, { warnings }: ReadingLists): void {
  const decoded = decodeYaml(text);
  if (typeof decoded !== 'string' || !/^---/m.test(decoded)) return;
  const written = documentTexts(decoded).filter((document) => {
    const reading = readYamlDocument(document.text);
    return reading.ok || !reading.empty;
  });
  for (const { firstLine } of written.slice(1)) {
    warnings.add({
      code: 'unread-document',
      source: path,
      text: 'only the first document of a rule file is read, this one has no effect',
      path: [],
      line: firstLine,
      column: 1,
    });
  }
}
