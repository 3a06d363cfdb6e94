import {
  type ExplainedDescriptor,
  type ExplainOptions,
  explainDescriptors,
} from '../../limiter/operate/explain.ts';
import { placedRules } from '../../rules/review/rule-level.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import type { LoadedSource } from '../shared/read-rule-texts.ts';

export interface ExplainedRequest {
  hasDomain: boolean;
  /** All domains with rules. */
  domains: string[];
  descriptors: ShownDescriptor[];
}

/** A descriptor, with the answer of a limiter if one was queried. */
export interface ShownDescriptor extends ExplainedDescriptor {
  /** The overrides, in words. */
  overrides?: readonly string[] | undefined;
  /** The limits that result from rules and overrides, with their counters. Undefined if no override matches. */
  inForce?: readonly { words: string; key: string | undefined }[] | undefined;
}

/** `sources` are those of one load. */
export function explainRequest(sources: readonly LoadedSource[], options: ExplainOptions): ExplainedRequest {
  const rules = sources.map(({ source }) => source);
  const table = new RuleTable(compileRules(rules));
  const { domain } = options;
  const top = rules.flatMap((source, index) =>
    source.domain === domain ? placedRules(source.descriptors, index, []) : [],
  );
  const descriptors = explainDescriptors(table, top, options);
  const domains = [...new Set(rules.map((source) => source.domain))];
  return { hasDomain: table.hasDomain(domain), domains, descriptors };
}
