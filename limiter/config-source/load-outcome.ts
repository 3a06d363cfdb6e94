import type { CounterKeys } from '../../rules/counter-keys.ts';
import type { RuleSource } from '../../rules/model.ts';
import { type MeetingsSummary, meetingCounters, meetingsSummary } from '../../rules/review/index.ts';
import type { RuleError } from '../../rules/rule-error.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import type { LoadedRules } from './config-source.ts';

/** A good load as a thread hands it over: the bytes of a RuleTable. */
export interface CompiledRules {
  ok: true;
  bytes: ArrayBuffer;
  sources: number;
  warnings: RuleError[];
  /** Rules whose counters could meet in one key; undefined: none, or with unambiguous keys. */
  meetings: MeetingsSummary | undefined;
}

export interface FailedLoad {
  ok: false;
  errors: RuleError[];
  /** Of all errors, those that the list had no room for included. */
  total: number;
}

export type LoadOutcome = CompiledRules | FailedLoad;

export function meetingsIn(
  sources: readonly RuleSource[],
  counterKeys: CounterKeys,
): MeetingsSummary | undefined {
  return counterKeys === 'compatible' ? meetingsSummary(meetingCounters(sources)) : undefined;
}

/** Throws when the bytes are not those of a table. */
export function loadedRules(
  { bytes, sources, warnings, meetings }: CompiledRules,
  loadMs: number,
): LoadedRules {
  const table = new RuleTable(bytes);
  return { table, domains: table.domainCount, rules: table.ruleCount, sources, loadMs, warnings, meetings };
}
