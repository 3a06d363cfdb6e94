import type { RuleChange } from '../../rules/compare/rule-change.ts';
import { UsageError } from '../shared/flags.ts';
import { effectOrder } from './diff-report.ts';

/** What `--fail-on` may name: effects, and the two ways of being looser that let everything pass. */
const failingWords = [...effectOrder, 'unlimited', 'shadow'] as const;

/**
 * Reads `--fail-on gone,unlimited`; `none` alone is an empty set. Undefined when the flag is not there.
 * @throws UsageError
 */
export function failingEffects(values: readonly string[]): ReadonlySet<string> | undefined {
  if (values.length === 0) return undefined;
  const words = values.flatMap((value) => value.split(',')).map((word) => word.trim());
  if (words.length === 1 && words[0] === 'none') return new Set();
  for (const word of words) {
    if (failingWords.some((known) => known === word)) continue;
    throw new UsageError(
      `--fail-on: there is no effect "${word}"; it takes ${failingWords.join(', ')}, or none`,
    );
  }
  return new Set(words);
}

/** Changes of which one is among the effects. */
export function failingChanges(
  changes: readonly RuleChange[],
  effects: ReadonlySet<string>,
): readonly RuleChange[] {
  return changes.filter((change) => wordsOf(change).some((word) => effects.has(word)));
}

/** What `--fail-on` may call a change, the most telling word first. */
function wordsOf({ effect, effects, passes }: RuleChange): string[] {
  return [...passes, effect, ...effects];
}

/** `2 changes that --fail-on names: shop: remote_address (gone), ...`. */
export function failureText(changes: readonly RuleChange[], named: ReadonlySet<string>): string {
  const shown = changes.slice(0, 5).map((change) => {
    const word = wordsOf(change).find((one) => named.has(one));
    return `${change.domain}: ${change.rule.join(' > ')} (${word})`;
  });
  const more = changes.length > shown.length ? ', ...' : '';
  const noun = changes.length === 1 ? 'change' : 'changes';
  return `failed: ${changes.length} ${noun} that --fail-on names: ${shown.join(', ')}${more}`;
}
