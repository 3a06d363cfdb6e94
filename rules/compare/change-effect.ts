/** What changes of rules mean for requests: those that the rules are for are asked of both versions. */

import { limitWords } from '../limit-words.ts';
import type { Rule } from '../model.ts';
import { ruleName } from '../review/explain-descriptor.ts';
import type { Sides } from './compare-domain.ts';
import type { Crossing, CrossingEffect, Crossings } from './crossing.ts';
import { type LimitEffect, limitEffect } from './limit-effect.ts';
import { limitTraits } from './limit-traits.ts';
import { type Meaning, meaningOf } from './meaning.ts';
import { nameNotes } from './name-notes.ts';
import { replacingEffects } from './replacing-effect.ts';
import type { FieldChange } from './rule-change.ts';
import { sharingBelow } from './sharing-effect.ts';

const neverFound = 'no request finds this rule: other rules of its level come first';
const unsure: LimitEffect = {
  effect: 'mixed',
  note: 'so many patterns fit the same requests that not all were compared',
};

/** Of a rule that one version has: `kind` says which. The effects of rules below it are their own. */
export function crossingMeaning(
  kind: 'added' | 'removed',
  crossings: readonly Crossing[],
  source: Crossings,
): Meaning {
  const doubts = source.isComplete ? [] : [unsure];
  const [first, ...others] = crossings.flatMap((crossing) => source.effects(crossing));
  if (first === undefined) return meaningOf([...doubts, { effect: 'same', note: neverFound }]);
  const telling = others.filter(({ effect }) => effect !== 'same');
  const found = [first, ...telling.map((one) => ({ ...one, note: otherNote(kind, one) })), ...doubts];
  const meaning = meaningOf(found);
  const name = lastLimited(first.other);
  if (name === undefined || (first.effect === 'same' && meaning.effect !== 'same')) return meaning;
  const where = kind === 'added' ? `before, '${name}' was for them` : `now '${name}' is for them`;
  return { ...meaning, notes: meaning.notes.toSpliced(1, 0, where) };
}

/** Of a pattern that stands before others now, which had its requests. */
export function movedMeaning(
  overtaken: readonly Rule[],
  crossings: readonly Crossing[],
  source: Crossings,
): Meaning {
  const isOvertaken = new Set<Rule | undefined>(overtaken);
  const found = crossings
    .filter(({ own, other }) => own.length === other.length && isOvertaken.has(other.at(-1)))
    .flatMap((crossing) => source.deepEffects(crossing));
  const doubts = source.isComplete ? [] : [unsure];
  const names = overtaken.slice(0, 3).map((one) => `'${ruleName({ rule: one })}'`);
  const more = overtaken.length > names.length ? ` and ${overtaken.length - names.length} more` : '';
  const moved = `stands before ${names.join(', ')}${more} now: what fits both finds this one`;
  const plain =
    found.length === 0 ? { effect: 'same' as const, note: 'others take what fits both' } : undefined;
  const meaning = meaningOf([...found, ...doubts, ...(plain === undefined ? [] : [plain])]);
  return { ...meaning, notes: [moved, ...meaning.notes] };
}

export function changedMeaning(
  change: { before: readonly Rule[]; after: readonly Rule[]; fields: readonly FieldChange[] },
  sides: Sides,
): Meaning {
  const [was, is] = [change.before.at(-1)!, change.after.at(-1)!];
  const found = [
    limitEffect(limitTraits(was), limitTraits(is)),
    ...replacingEffects(was, is, sides),
    ...sharingBelow(was, is),
  ];
  return meaningOf(found, nameNotes(change, sides));
}

/** `takes requests from 'path=/ab*' (10 per minute): 1000 per minute instead of 10 per minute`. */
function otherNote(kind: 'added' | 'removed', { other, note, longerKey }: CrossingEffect): string {
  if (longerKey !== undefined) return `of requests with a longer key, such as '${longerKey}': ${note}`;
  const limit = other?.at(-1)?.rateLimit;
  if (other === undefined || limit === undefined) return `of some of its requests: ${note}`;
  const verb = kind === 'added' ? 'takes requests from' : 'leaves requests to';
  return `${verb} '${pathName(other)}' (${limitWords(limit)}): ${note}`;
}

function lastLimited(path: readonly Rule[] | undefined): string | undefined {
  const rule = path?.at(-1);
  return rule?.rateLimit === undefined ? undefined : ruleName({ rule });
}

function pathName(path: readonly Rule[]): string {
  return path.map((rule) => ruleName({ rule })).join(' > ');
}
