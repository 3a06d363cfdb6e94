/** What a change means for the requests that the rule is for. */
export type Effect =
  /** Limited, and were not. */
  | 'new'
  /** Not limited any more. */
  | 'gone'
  | 'stricter'
  | 'looser'
  /** Stricter for some requests and looser for others. */
  | 'mixed'
  /** The same requests are refused; what counts or reports them may be called otherwise. */
  | 'same';

/** A limit that refuses nothing any more: it became unlimited, or is in shadow mode. */
export type Passing = 'unlimited' | 'shadow';

export interface RuleChange {
  kind: 'added' | 'removed' | 'changed' | 'moved';
  fleet: string;
  domain: string;
  /** Names of the rules that lead to it, itself the last: `path=/search*`, `plan`. */
  rule: string[];
  /** Fields as rule files spell them, with `undefined` for what is not written. */
  fields: FieldChange[];
  /** Of all together. */
  effect: Effect;
  /** Each that the change has for some requests; `same` only where it is all. */
  effects: Effect[];
  /** Why what was refused passes now, where the limit itself is still there. */
  passes: Passing[];
  /** Why, in words; the first says what the effect is. */
  notes: string[];
}

export interface FieldChange {
  name: string;
  before: string | undefined;
  after: string | undefined;
}
