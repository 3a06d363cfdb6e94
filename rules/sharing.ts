/** `share_threshold`: all values that a pattern matches share one counter. This file finds the meaning for a rule, in any spelling. */
import { compositeOf, type Rule } from './model.ts';

/** The field to which errors and warnings about it point. */
export const sharingField = 'share_threshold';

/** The pattern, as the matcher compares it; undefined where each value has its own counter. */
export function sharedPattern(rule: Rule): string | undefined {
  return rule.shareThreshold ? compositeOf(rule) : undefined;
}

/** Returns why a rule cannot share a counter. Undefined if it can. */
export function sharingProblem(rule: Rule): string | undefined {
  const pattern = sharedPattern(rule);
  if (pattern === undefined || pattern.includes('*')) return undefined;
  return `share_threshold can only be used with wildcard values (containing '*'), but found key '${pattern}'`;
}

/**
 * Returns what is odd about a pattern that goes on after its last `*`. The Go service accepts it, although its documentation
 * rules it out. `text`: as the rule has it.
 */
export function sharingOddity(rule: Rule, text: string): { text: string; hint: string } | undefined {
  if (sharedPattern(rule)?.endsWith('*') !== false) return undefined;
  return {
    text: `share_threshold is set, but '${text}' does not end in '*': all matching values share one counter`,
    hint: "end the pattern in '*', or remove share_threshold so that each value has its own counter",
  };
}
