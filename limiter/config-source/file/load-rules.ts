import type { CounterKeys } from '../../../rules/counter-keys.ts';
import { readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import type { RuleError } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import type { LoadOutcome, MadeLoad } from '../load-outcome.ts';
import type { FileLayout } from './file-layout.ts';
import { passedOverRules } from './passed-over.ts';
import { readConsistently } from './read-consistently.ts';

/** What one load needs to know. Plain data: it goes to the loading thread. */
export interface LoadRequest {
  layout: FileLayout;
  mergeDomains: boolean;
  /** COUNTER_KEYS: whether to look for counters that could meet, once the rules are handed over. */
  counterKeys: CounterKeys;
  /** Of all rule files together. */
  maxBytes: number;
}

/** From the paths to the bytes of a RuleTable. Blocks; run where nobody waits for answers. */
export function loadRules({
  layout,
  mergeDomains,
  maxBytes,
}: Omit<LoadRequest, 'counterKeys'>): MadeLoad<LoadOutcome> {
  const { listing, contents } = readConsistently(layout, maxBytes);
  const fileErrors = [...listing.errors, ...contents.errors];
  if (fileErrors.some((error) => error.code === 'too-large')) {
    return failed(fileErrors, fileErrors.length);
  }
  const { sources, errors, errorCount, warnings } = readRuleFiles(contents.files, { mergeDomains });
  const total = fileErrors.length + errorCount;
  if (total > 0) return failed([...fileErrors, ...errors], total);
  const outcome: LoadOutcome = {
    ok: true,
    bytes: compileRules(sources),
    sources: sources.length,
    warnings: [...listing.warnings, ...passedOverRules(listing.others, '*.yaml and *.yml'), ...warnings],
  };
  return { outcome, sources };
}

function failed(errors: RuleError[], total: number): MadeLoad<LoadOutcome> {
  return { outcome: { ok: false, errors, total }, sources: [] };
}
