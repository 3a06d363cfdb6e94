import { unwrittenWords } from '../../rules/describe.ts';
import { defaultFleet } from '../../rules/language/kinds.ts';
import { escaped, type TextStyler } from '../shared/text.ts';
import type { Effect, FieldChange, RuleChange } from './limit-effect.ts';

const marks = {
  added: ['+', 'green'],
  removed: ['-', 'red'],
  changed: ['~', 'yellow'],
  moved: ['^', 'yellow'],
} as const;

/** Formats changes for people, in the words of the rule language, with their effect. */
export function diffText(changes: readonly RuleChange[], paint: TextStyler): string {
  if (changes.length === 0) return 'no changes\n';
  const lines = changes.flatMap((change) => changeLines(change, paint));
  return `${[...lines, summary(changes)].join('\n')}\n`;
}

function changeLines(change: RuleChange, paint: TextStyler): string[] {
  const { kind, domain, rule, fields, effect, notes } = change;
  const [mark, style] = marks[kind];
  const lines = [paint(style, escaped(`${mark} ${domain}${placeWords(change)}: ${rule.join(' > ')}`))];
  if (fields.length > 0) lines.push(`    ${escaped(fieldWords(kind, fields).join(', '))}`);
  const [first, ...more] = notes.map(escaped);
  lines.push(`    ${paint('bold', effect)}: ${first}`);
  return [...lines, ...more.map((note) => `    ${note}`)];
}

/** Returns for example ` (class a, fleet b)`, without the default class and fleet. */
export function placeWords({ className, fleet }: Pick<RuleChange, 'className' | 'fleet'>): string {
  const named = [className && `class ${className}`, fleet !== defaultFleet && `fleet ${fleet}`];
  const names = named.filter(Boolean);
  return names.length === 0 ? '' : ` (${names.join(', ')})`;
}

/** Returns a text for each field, for example `unit: hour -> day`. */
export function fieldWords(kind: RuleChange['kind'], fields: readonly FieldChange[]): string[] {
  return fields.map(({ name, before, after }) => {
    if (kind === 'added') return `${name}: ${after}`;
    return kind === 'removed'
      ? `${name}: ${before}`
      : `${name}: ${before ?? unwrittenWords(name)} -> ${after ?? unwrittenWords(name)}`;
  });
}

function summary(changes: readonly RuleChange[]): string {
  return `${changes.length} change${changes.length === 1 ? '' : 's'}: ${effectCountsText(changes)}`;
}

/** Returns for example `1 new, 2 stricter`. */
export function effectCountsText(changes: readonly RuleChange[]): string {
  const effects = Object.entries(effectCounts(changes)).map(([effect, number]) => `${number} ${effect}`);
  return effects.join(', ');
}

/** The order in which effects are counted and listed. */
export const effectOrder: readonly Effect[] = ['new', 'stricter', 'mixed', 'looser', 'gone', 'same'];

/** Counts the effects that occur. */
export function effectCounts(changes: readonly RuleChange[]): Partial<Record<Effect, number>> {
  const counts: Partial<Record<Effect, number>> = {};
  for (const effect of effectOrder) {
    const number = changes.filter((change) => change.effect === effect).length;
    if (number > 0) counts[effect] = number;
  }
  return counts;
}
