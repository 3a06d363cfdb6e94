import type { ReviewedLoad } from '../../rules/review/index.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import type { LoadedRules } from './config-source.ts';

/** A good load as a thread hands it over: the bytes of a RuleTable. */
export interface CompiledRules {
  ok: true;
  bytes: ArrayBuffer;
  sources: number;
}

export interface FailedLoad {
  ok: false;
  errors: RuleError[];
  /** Of all errors, those that the list had no room for included. */
  total: number;
}

export type LoadOutcome = CompiledRules | FailedLoad;

/** A load where it was made: what of it goes to others, and what is there to review; undefined for no new rules. */
export interface MadeLoad<Outcome> {
  outcome: Outcome;
  reviewed: (() => ReviewedLoad) | undefined;
}

/** Throws when the bytes are not those of a table. */
export function loadedRules({ bytes, sources }: CompiledRules, loadMs: number): LoadedRules {
  const table = new RuleTable(bytes);
  return { table, domains: table.domainCount, rules: table.ruleCount, sources, loadMs };
}
