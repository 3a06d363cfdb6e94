import type { Rule } from '../model.ts';
import { FirstPattern } from './first-pattern.ts';
import { compositeOf } from './rule-level.ts';

/**
 * Positions of rules of one level that change nothing: without a limit and without rules below, and no other rule would
 * take their entries. Patterns are not judged. A rule that lets through what another one would limit is not among them.
 */
export function idleRules(level: readonly Rule[]): number[] {
  const composites = level.map(compositeOf);
  const known = new Set(composites);
  const patterns = new FirstPattern(composites);
  const isIdle = (rule: Rule, composite: string): boolean => {
    if (rule.rateLimit !== undefined || rule.descriptors.length > 0 || composite.includes('*')) return false;
    // Whatever splits into key and value in this text would find a rule for that key alone.
    for (let end = composite.indexOf('_'); end !== -1; end = composite.indexOf('_', end + 1)) {
      if (known.has(composite.slice(0, end))) return false;
    }
    return patterns.indexFor(composite) === undefined;
  };
  return level.flatMap((rule, index) => (isIdle(rule, composites[index]!) ? [index] : []));
}
