import type { Rule } from '../model.ts';
import { compositeOf } from '../review/rule-level.ts';
import { isRefusing, type LimitEffect } from './limit-effect.ts';
import { limitTraits } from './limit-traits.ts';

/** What sharing by the rules above a limit means for its counters; that of the last rules is part of their limits. */
export function sharingEffects(before: readonly Rule[], after: readonly Rule[]): LimitEffect[] {
  if (!isLimiting(before.at(-1)) || !isLimiting(after.at(-1))) return [];
  const [wasLast, isLast] = [before.length - 1, after.length - 1];
  return before.flatMap((was, level) => {
    const is = after[level];
    if (is === undefined) return [];
    const isParent = level < wasLast && level < isLast;
    return sharingEffect(was, is).filter(({ effect }) => isParent || effect === 'mixed');
  });
}

/** Of a rule whose sharing changes, for the limits that both versions have below it. */
export function sharingBelow(was: Rule, is: Rule): LimitEffect[] {
  if (was.shareThreshold === is.shareThreshold || !hasLimitBelow(was, is)) return [];
  return sharingEffect(was, is);
}

function sharingEffect(was: Rule, is: Rule): LimitEffect[] {
  const before = was.shareThreshold ? compositeOf(was) : undefined;
  const after = is.shareThreshold ? compositeOf(is) : undefined;
  if (before === after) return [];
  if (before === undefined) {
    return [{ effect: 'stricter', note: 'all values share the counters of limits below it' }];
  }
  if (after === undefined) {
    return [{ effect: 'looser', note: 'each value has counters of its own for limits below it' }];
  }
  return [{ effect: 'mixed', note: 'shares its counter with other values than before' }];
}

function hasLimitBelow(was: Rule, is: Rule): boolean {
  const now = new Map(is.descriptors.map((rule) => [compositeOf(rule), rule]));
  return was.descriptors.some((rule) => {
    const later = now.get(compositeOf(rule));
    if (later === undefined) return false;
    return (isLimiting(rule) && isLimiting(later)) || hasLimitBelow(rule, later);
  });
}

function isLimiting(rule: Rule | undefined): boolean {
  const traits = limitTraits(rule);
  return traits !== undefined && isRefusing(traits);
}
