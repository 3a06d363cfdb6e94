/** What changes between two sets of rules, and what that means for requests. */
export { compareSources } from '../compare/compare-sources.ts';
export type { Effect, FieldChange, Passing, RuleChange } from '../compare/rule-change.ts';
