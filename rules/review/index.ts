/** What rules do by the matcher's order: which of them are never found, and what else is hardly meant. */
export { FirstPattern } from './first-pattern.ts';
export {
  type MeetingBounds,
  meetingBounds,
  meetingCounters,
} from './meeting-counters.ts';
export { type PlacedRule, placedRules } from './placed-rule.ts';
export { reviewSources } from './review-sources.ts';
export {
  type LoadWarning,
  meetingWarning,
  placedWarnings,
  type ReviewedLoad,
  type ReviewOptions,
  type RulesReview,
  reviewLoad,
} from './reviewed-load.ts';
export {
  compositeOf,
  type FoundHow,
  patternsOverlap,
  rulesFor,
} from './rule-level.ts';
export type { RuleWarning } from './rule-warning.ts';
