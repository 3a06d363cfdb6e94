import type { MatchedRule } from '../../rules/match-result.ts';
import { Unit } from '../../rules/model.ts';

/** A rule as it is matched: 10 a minute and nothing else; what the test is about is given. */
export function matchedRule(given: Partial<MatchedRule> = {}): MatchedRule {
  return {
    unit: Unit.MINUTE,
    requestsPerUnit: 10,
    unlimited: false,
    shadowMode: false,
    quotaMode: false,
    name: '',
    replaces: [],
    metadata: undefined,
    ...given,
  };
}
