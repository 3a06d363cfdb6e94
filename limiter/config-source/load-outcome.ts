import type { RuleSource } from '../../rules/model.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import type { LoadedRules } from './config-source.ts';

/** A good load as a thread hands it over: the bytes of a RuleTable. */
export interface CompiledRules {
  ok: true;
  bytes: ArrayBuffer;
  sources: number;
  warnings: RuleError[];
}

export interface FailedLoad {
  ok: false;
  errors: RuleError[];
  /** Of all errors, those that the list had no room for included. */
  total: number;
}

export type LoadOutcome = CompiledRules | FailedLoad;

/** A load where it was made: what of it goes to others, and the rules as they were read, none where it failed. */
export interface MadeLoad<Outcome> {
  outcome: Outcome;
  sources: readonly RuleSource[];
}

/** Throws when the bytes are not those of a table. */
export function loadedRules({ bytes, sources, warnings }: CompiledRules, loadMs: number): LoadedRules {
  const table = new RuleTable(bytes);
  return { table, domains: table.domainCount, rules: table.ruleCount, sources, loadMs, warnings };
}
