import type { CounterKeys } from '../../../rules/counter-keys.ts';
import { readRuleFiles } from '../../../rules/reader/read-rule-files.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import { type LoadOutcome, meetingsIn } from '../load-outcome.ts';
import type { FileLayout } from './file-layout.ts';
import { passedOverRules } from './passed-over.ts';
import { readConsistently } from './read-consistently.ts';

/** What one load needs to know. Plain data: it goes to the loading thread. */
export interface LoadRequest {
  layout: FileLayout;
  mergeDomains: boolean;
  /** COUNTER_KEYS. */
  counterKeys: CounterKeys;
  /** Of all rule files together. */
  maxBytes: number;
}

/** From the paths to the bytes of a RuleTable. Blocks; run where nobody waits for answers. */
export function loadRules({ layout, mergeDomains, counterKeys, maxBytes }: LoadRequest): LoadOutcome {
  const { listing, contents } = readConsistently(layout, maxBytes);
  const fileErrors = [...listing.errors, ...contents.errors];
  if (fileErrors.some((error) => error.code === 'too-large')) {
    return { ok: false, errors: fileErrors, total: fileErrors.length };
  }
  const { sources, errors, errorCount, warnings } = readRuleFiles(contents.files, { mergeDomains });
  const total = fileErrors.length + errorCount;
  if (total > 0) return { ok: false, errors: [...fileErrors, ...errors], total };
  return {
    ok: true,
    bytes: compileRules(sources),
    sources: sources.length,
    warnings: [...listing.warnings, ...passedOverRules(listing.others, '*.yaml and *.yml'), ...warnings],
    meetings: meetingsIn(sources, counterKeys),
  };
}
