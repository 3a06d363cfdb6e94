/** Reviews an override with the rules of its domain: whether it has an effect, and hints for its author. */
import { limitLabel, unusedUnitWords } from '../describe.ts';
import type { RuleMatcher } from '../match-result.ts';
import type { Entry, Limit, Rule } from '../model.ts';
import { isPattern, type Override } from '../override.ts';
import { unknownDomainWords } from '../rule-error.ts';
import { unknownKeyWords } from './explain-descriptor.ts';

/** The rules that an override changes. */
export interface OverriddenRules extends RuleMatcher {
  /** Returns the rules near the entries, level by level. Undefined if there is no such domain. */
  rulesAlong(domain: string, entries: readonly Entry[]): { rules: readonly Rule[] } | undefined;
}

export function limitsOf({ domain, match }: Override, rules: RuleMatcher): readonly Limit[] {
  return rules.match(domain, match)?.rule.limits ?? [];
}

/** Returns a note that the rules have no such domain or key, which may be mistyped. Undefined if they have both. */
function unmatchedWords({ domain, match }: Override, rules: OverriddenRules): string | undefined {
  const along = rules.rulesAlong(domain, match);
  // The list of domains must not be shown to all callers that may change this override.
  if (along === undefined) return unknownDomainWords(domain, []);
  return unknownKeyWords(domain, along.rules, match);
}

/**
 * Returns the reason why an override has no effect with these rules. Undefined if it has an effect, and for patterns, whose matches are
 * unknown. `limits`: the limits of the rule that matches it.
 */
export function ruleProblem(
  override: Override,
  rules: OverriddenRules,
  limits: readonly Limit[],
): string | undefined {
  if (isPattern(override)) return undefined;
  const { limit, effect } = override;
  const isNumber = effect.kind === 'limit' || effect.kind === 'grant';
  if (limits.length === 0) {
    const works =
      limit === '' && (effect.kind === 'limit' ? effect.unit !== undefined : effect.kind !== 'grant');
    if (works) return undefined;
    const what = unmatchedWords(override, rules) ?? 'no rule with a limit matches';
    return effect.kind === 'limit' && limit === '' ? `requestsPerUnit needs a unit, as ${what}` : what;
  }
  const names = limits.map((one) => limitLabel(limits, one));
  if (limit !== '')
    return names.includes(limit)
      ? undefined
      : `the rule has no limit ${JSON.stringify(limit)}, but ${names.join(', ')}`;
  return isNumber && limits.length > 1
    ? `the rule has several limits: choose one with limit, one of ${names.join(', ')}`
    : undefined;
}

/** Returns a hint about an override that has an effect, such as a key that no rule has. Empty if there is nothing to add. */
export function effectNote(override: Override, rules: OverriddenRules, limits: readonly Limit[]): string {
  return limits.length > 0 && !isPattern(override)
    ? unusedUnitWords(override, limits)
    : (unmatchedWords(override, rules) ?? '');
}
