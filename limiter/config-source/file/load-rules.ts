import { unreadDocuments } from '../../../rules/documents/index.ts';
import { readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import type { ReviewedLoad, ReviewOptions } from '../../../rules/review/index.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import type { LoadOutcome, MadeLoad } from '../load-outcome.ts';
import type { FileLayout } from './file-layout.ts';
import { passedOverRules } from './passed-over.ts';
import { readConsistently } from './read-consistently.ts';

/** What one load needs to know. Plain data: it goes to the loading thread. */
export interface LoadRequest extends ReviewOptions {
  layout: FileLayout;
  mergeDomains: boolean;
  /** Of all rule files together. */
  maxBytes: number;
}

/** From the paths to the bytes of a RuleTable. Blocks; run where nobody waits for answers. */
export function loadRules({
  layout,
  mergeDomains,
  maxBytes,
}: Omit<LoadRequest, keyof ReviewOptions>): MadeLoad<LoadOutcome> {
  const { listing, contents } = readConsistently(layout, maxBytes);
  const fileErrors = [...listing.errors, ...contents.errors];
  if (fileErrors.some((error) => error.code === 'too-large')) {
    return failed(fileErrors, fileErrors.length);
  }
  const { sources, places, errors, errorCount, warnings } = readRuleFiles(contents.files, { mergeDomains });
  const total = fileErrors.length + errorCount;
  if (total > 0) return failed([...fileErrors, ...errors], total);
  const reviewed = (): ReviewedLoad => ({
    sources: sources.map((source) => ({ source, file: source.name, placeOf: places.get(source)! })),
    warnings: [
      ...listing.warnings,
      ...passedOverRules(listing.others, '*.yaml and *.yml'),
      ...warnings,
      ...contents.files.flatMap(({ name, text }) => unreadDocuments({ path: name, text })),
    ],
  });
  return { outcome: { ok: true, bytes: compileRules(sources), sources: sources.length }, reviewed };
}

function failed(errors: RuleError[], total: number): MadeLoad<LoadOutcome> {
  return { outcome: { ok: false, errors, total }, reviewed: undefined };
}
