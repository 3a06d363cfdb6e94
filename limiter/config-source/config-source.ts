import type { Override } from '../../rules/override.ts';
import type { RuleError, RuleErrorCode } from '../../rules/rule-error.ts';
import { type RuleLayer, RuleTable } from '../../rules/table/rule-table.ts';
import type { ReviewedLoad, RulesReview } from './load-review.ts';

/** The result of a good load. It replaces all rules of the previous load. */
export interface LoadedRules {
  table: RuleTable;
  domains: number;
  /** The number of descriptors on all levels. */
  rules: number;
  /** The number of files or resources that were read. */
  sources: number;
  /** The duration of the load, without the wait for the end of a burst of changes. */
  loadMs: number;
}

export type RulesReviewOutcome = RulesReview | { problem: string };

export interface ConfigListener {
  /**
   * If it returns a promise, the rules are in force in all workers once it settles. Until then, the source acknowledges and loads
   * nothing.
   */
  loaded(result: LoadedRules): void | Promise<void>;
  /** Called with all overrides of the control plane when any of them has changed. Settles when they are in force in all workers. */
  overrides?(overrides: readonly Override[]): Promise<void>;
  /** The loaded rules equal the rules in force. Failed loads may have occurred in between. */
  unchanged(loadMs: number): void;
  /**
   * The review of the last loaded rules, some time after `loaded`. Rules that are replaced before that are not reviewed. If the review
   * failed, `review` contains the reason.
   */
  reviewed(review: RulesReviewOutcome): void;
  /** The load failed, and the rules of the last good load stay in force. `total` also counts errors that `errors` does not list. */
  failed(errors: readonly RuleError[], total: number): void;
  /** The source cannot see changes until `reachable`. Reported once for each outage. */
  unreachable(reason: string): void;
  /** The source sees changes again. A load follows if changes may have been missed. */
  reachable(): void;
}

/** The origin of rules. It runs one load at a time. */
export interface ConfigSource {
  /**
   * Follows changes and begins the first load, whose result goes to the listener.
   * Rejects with a ConfigSourceError when rules can never arrive.
   */
  start(listener: ConfigListener): Promise<void>;
  /** Stops the source. The listener is not called again, not even for a load that is running. */
  close(): Promise<void>;
}

export type ConfigSourceErrorCode = 'unwatchable' | 'app-directory-outside' | 'bad-credentials';

/** The source cannot start because of its settings or environment, not because of the rules. */
export class ConfigSourceError extends Error {
  readonly code: ConfigSourceErrorCode;

  constructor(code: ConfigSourceErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ConfigSourceError';
    this.code = code;
  }
}

/** A good load as a thread returns it: the bytes of a RuleTable, or of a layer over the RuleTable in force. */
export interface CompiledRules extends RuleLayer {
  ok: true;
  bytes: ArrayBuffer;
  sources: number;
}

export interface FailedLoad {
  ok: false;
  errors: RuleError[];
  /** The number of all errors, including those that the list does not hold. */
  total: number;
}

/** An error about a whole file, resource or load, without a place in a document. */
export function unplacedError(code: RuleErrorCode, source: string, text: string): RuleError {
  return { code, source, text, path: [], line: undefined, column: undefined };
}

/** A load that could not read anything. */
export function brokenLoad(source: string, text: string): FailedLoad {
  return { ok: false, errors: [unplacedError('unreadable', source, text)], total: 1 };
}

export type LoadOutcome = CompiledRules | FailedLoad;

/** The result of a load in its thread: the outcome that the thread returns, and the rules to review, if there are new ones. */
export interface MadeLoad<Outcome> {
  outcome: Outcome;
  reviewed: (() => ReviewedLoad) | undefined;
}

/** `before`: the rules in force. @throws if the bytes are not those of a table */
export function loadedRules(
  { sources, ...layer }: CompiledRules,
  loadMs: number,
  before?: RuleTable,
): LoadedRules {
  const table = RuleTable.with(before, layer);
  return { table, domains: table.domainCount, rules: table.ruleCount, sources, loadMs };
}
