/** Something that is accepted, and hardly meant. */
export interface RuleWarning {
  code: RuleWarningCode;
  /** Position in the list of sources that were reviewed. */
  source: number;
  /** In the spelling of rule files; leads to the value. */
  path: readonly (string | number)[];
  text: string;
  hint: string;
  /** Another rule that it speaks of. */
  other?: { source: number; path: readonly (string | number)[] };
}

export type RuleWarningCode =
  | 'never-matches'
  | 'shadowed-wildcard'
  | 'no-effect'
  | 'replaces-nothing'
  | 'replaces-unlimited'
  | 'replaces-each-other'
  | 'limit-of-zero'
  | 'taken-as-written'
  | 'no-rules'
  | 'dotted-metric'
  | 'meeting-counters'
  | 'duplicate-domain';
