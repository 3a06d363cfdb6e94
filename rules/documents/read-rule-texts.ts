import type { EmbeddedText, LoadedSource, ReadingLists, RuleText, SkippedObject } from '../loaded-source.ts';
import { type RuleError, RuleErrorList } from '../rule-error.ts';
import type { CheckOptions } from '../validate-sources.ts';
import { readResourceText } from '../xds/read-resource-text.ts';
import { decodeYaml } from '../yaml/text.ts';
import { readManifestText } from './read-manifest-text.ts';
import { readRuleFileTexts, textKind } from './read-rule-file-texts.ts';

export interface TextsReading {
  /** What could be read, in the order of the texts; also beside errors in other texts. */
  sources: LoadedSource[];
  skipped: SkippedObject[];
  /** Rule files that were found within the texts, by the names that errors give them. */
  embedded: EmbeddedText[];
  /** Overrides that are good: objects, and those of files for OVERRIDES_DIR. */
  overrides: number;
  errors: RuleError[];
  /** Errors, those beyond the listed ones too. */
  errorCount: number;
  /** What is accepted and has no effect. */
  warnings: RuleError[];
}

/**
 * Reads texts of any of the three spellings. Rule files are read as one load of a limiter; manifests and resources each
 * by itself, because what they are loaded with is decided elsewhere.
 */
export function readRuleTexts(texts: readonly RuleText[], options: CheckOptions): TextsReading {
  const lists: ReadingLists = {
    sources: [],
    skipped: [],
    embedded: [],
    overrides: 0,
    errors: new RuleErrorList(),
    warnings: new RuleErrorList(),
  };
  const ruleFiles: RuleText[] = [];
  for (const file of texts) {
    const text = decodeYaml(file.text);
    const kind = typeof text === 'string' ? textKind(text) : 'rule-file';
    if (kind === 'rule-file') ruleFiles.push(file);
    else if (kind === 'manifests') readManifestText(file.path, text as string, options, lists);
    else readResourceText(file.path, text as string, { lists, support: options.support });
  }
  readRuleFileTexts(ruleFiles, options, lists);
  const order = new Map(texts.map(({ path }, index) => [path, index]));
  for (const { path, container } of lists.embedded) order.set(path, order.get(container)!);
  lists.sources.sort((a, b) => order.get(a.file)! - order.get(b.file)!);
  return {
    sources: lists.sources,
    skipped: lists.skipped,
    embedded: lists.embedded,
    overrides: lists.overrides,
    errors: lists.errors.errors,
    errorCount: lists.errors.count,
    warnings: lists.warnings.errors,
  };
}
