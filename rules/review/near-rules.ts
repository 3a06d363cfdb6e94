import type { Entry } from '../request.ts';
import type { PlacedRule } from './placed-rule.ts';

/** We chose it: who has hundreds of values for a key wants to see the nearest, not all. */
const shown = 5;

/** Those of the rules that an entry nearly fits: the same key, or one that differs in case or by little marks. */
export function nearRules(rules: readonly PlacedRule[], { key, value }: Entry): PlacedRule[] {
  const ranked: { placed: PlacedRule; rank: number }[] = [];
  for (const placed of rules) {
    const { rule } = placed;
    const isSameKey = rule.key === key;
    if (!isSameKey && plain(rule.key) !== plain(key)) continue;
    const isSameValue = rule.value === value || plain(rule.value) === plain(value);
    const common = commonLength(rule.value, value);
    ranked.push({ placed, rank: (isSameValue ? 0 : 1_000_000) + (isSameKey ? 0 : 500_000) - common });
  }
  return ranked
    .sort((a, b) => a.rank - b.rank)
    .slice(0, shown)
    .map(({ placed }) => placed);
}

function plain(text: string): string {
  return text.toLowerCase().replace(/[-_. ]/g, '');
}

function commonLength(a: string, b: string): number {
  let length = 0;
  while (length < a.length && length < 1000 && a[length] === b[length]) length++;
  return length;
}
