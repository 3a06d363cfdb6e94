import type { LimitEffect } from './limit-effect.ts';
import type { Effect, RuleChange } from './rule-change.ts';

/** What a change means, of everything that it does to some requests. */
export type Meaning = Pick<RuleChange, 'effect' | 'effects' | 'notes' | 'passes'>;

/** We chose it: lines that one change may have. */
const mostNotes = 6;

/** Puts effects together; `moreNotes` say what does not decide whether requests are refused. */
export function meaningOf(found: readonly LimitEffect[], moreNotes: readonly string[] = []): Meaning {
  const telling = found.filter(({ effect }) => effect !== 'same');
  const effects = [...new Set(telling.map(({ effect }) => effect))];
  const words = [...new Set(telling.map(({ note }) => note)), ...moreNotes];
  const notes = words.length > 0 ? words : found.slice(0, 1).map(({ note }) => note);
  const unsaid = notes.length - mostNotes;
  return {
    effect: combined(effects),
    effects: effects.length === 0 ? ['same'] : effects,
    notes: unsaid > 0 ? [...notes.slice(0, mostNotes), `and ${unsaid} more`] : notes,
    passes: [...new Set(telling.flatMap(({ passes }) => passes ?? []))],
  };
}

function combined(effects: readonly Effect[]): Effect {
  const [first = 'same', ...others] = effects;
  if (others.length === 0) return first;
  if (effects.every((effect) => effect === 'new' || effect === 'stricter')) return 'stricter';
  return effects.every((effect) => effect === 'gone' || effect === 'looser') ? 'looser' : 'mixed';
}
