import type { Override } from '../../rules/override.ts';
import type { ReviewedLoad, RulesReview } from '../../rules/review/reviewed-load.ts';
import type { RuleError, RuleErrorCode } from '../../rules/rule-error.ts';
import { type RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';

/** A good load: replaces all rules of the load before it. */
export interface LoadedRules {
  table: RuleTable;
  domains: number;
  /** Descriptors on all levels. */
  rules: number;
  /** How many files (or resources) were read. */
  sources: number;
  /** From the start of the load to the table in hand; the wait for a burst of changes to end is not in it. */
  loadMs: number;
}

export type ReviewOutcome = RulesReview | { problem: string };

export interface ConfigListener {
  /** With a promise the rules are in force everywhere only when it settles: nothing is acknowledged or loaded before. */
  loaded(result: LoadedRules): void | Promise<void>;
  /** All overrides of a control plane, when any of them has changed. Settles when it is in force everywhere. */
  overrides?(overrides: readonly Override[]): Promise<void>;
  /** What was to be loaded is what is in force: also after loads that failed. */
  unchanged(loadMs: number): void;
  /**
   * What is to be said of the rules last loaded: some time after `loaded`, and not of rules that others replace before. Where
   * nobody could look at them to the end, why.
   */
  reviewed(review: ReviewOutcome): void;
  /** The rules of the last good load stay in force. `total` counts the errors that `errors` had no room for as well. */
  failed(errors: readonly RuleError[], total: number): void;
  /** Changes are not noticed until `reachable`. Reported once, however long it lasts. */
  unreachable(reason: string): void;
  /** Changes are noticed again; a load follows where something may have been missed. */
  reachable(): void;
}

/** Where rules come from. Loads come one after another, never two at once. */
export interface ConfigSource {
  /**
   * Follows changes and begins the first load, whose result goes to the listener.
   * Rejects with a ConfigSourceError when rules can never arrive.
   */
  start(listener: ConfigListener): Promise<void>;
  /** The listener is not called again, not even for a load under way. */
  close(): Promise<void>;
}

export type ConfigSourceErrorCode = 'unwatchable' | 'app-directory-outside' | 'bad-credentials';

/** A source that cannot start: a fault of its settings or of its surroundings, not of the rules. */
export class ConfigSourceError extends Error {
  readonly code: ConfigSourceErrorCode;

  constructor(code: ConfigSourceErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConfigSourceError';
    this.code = code;
  }
}

/** A good load as a thread hands it over: the bytes of a RuleTable, or of what goes over the one in force. */
export interface CompiledRules extends RuleLayer {
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

/** An error about a whole file, resource or load, without a place in a document. */
export function unplacedError(code: RuleErrorCode, source: string, text: string): RuleError {
  return { code, source, text, path: [], line: undefined, column: undefined };
}

/** Nothing could be loaded at all. */
export function brokenLoad(source: string, text: string): FailedLoad {
  return { ok: false, errors: [unplacedError('unreadable', source, text)], total: 1 };
}

export type LoadOutcome = CompiledRules | FailedLoad;

/** A load where it was made: what of it goes to others, and what is there to review; undefined for no new rules. */
export interface MadeLoad<Outcome> {
  outcome: Outcome;
  reviewed: (() => ReviewedLoad) | undefined;
}

/** Throws when the bytes are not those of a table. `before`: the rules in force. */
export function loadedRules(
  { sources, ...layer }: CompiledRules,
  loadMs: number,
  before?: RuleTable,
): LoadedRules {
  const table = RuleTable.with(before, layer);
  return { table, domains: table.domainCount, rules: table.ruleCount, sources, loadMs };
}
