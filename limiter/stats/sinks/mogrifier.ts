/**
 * Mogrifiers rewrite the name of a metric into a shorter name and tags. The first one whose pattern is found in the name decides.
 * Patterns have RE2's syntax, as in the Go service, and bounded costs: no name can block the process.
 */

import { NameSearch } from '../registry/name-search.ts';
import type { Tags } from '../registry/tags.ts';

/** A mogrifier as configured: DOG_STATSD_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS. */
export interface MogrifierText {
  pattern: string;
  /** May contain `$0`, `$1` and so on: the match and its groups. */
  name: string;
  /** Keys and values, which may contain the same references. */
  tags: readonly (readonly [key: string, value: string])[];
}

export interface MogrifiedName {
  name: string;
  /** Tags, without those whose key or value is empty. */
  tags: Tags;
}

interface Mogrifier {
  pattern: NameSearch;
  text: MogrifierText;
}

export class Mogrifiers {
  readonly #list: readonly Mogrifier[];

  /** @throws ExpressionError */
  constructor(texts: readonly MogrifierText[]) {
    this.#list = texts.map((text) => ({ pattern: new NameSearch(text.pattern), text }));
  }

  /** The cost of all calls of `apply` so far, roughly in nanoseconds. */
  cost = 0;

  /** The caller stores the result, because names repeat with every flush. */
  apply(plainName: string): MogrifiedName {
    for (const { pattern, text } of this.#list) {
      const costBefore = pattern.cost;
      const groupOf = pattern.find(plainName);
      this.cost += pattern.cost - costBefore;
      if (groupOf === undefined) continue;
      const groups = Array.from({ length: pattern.groupCount + 1 }, (_, group) => groupOf(group) ?? '');
      const tags = text.tags.map(([key, value]) => [expand(key, groups), expand(value, groups)] as const);
      return {
        name: expand(text.name, groups) || plainName,
        tags: tags.filter(([key, value]) => key !== '' && value !== ''),
      };
    }
    return { name: plainName, tags: [] };
  }
}

/** A reference to a group that the pattern does not have stays as text. */
function expand(template: string, groups: readonly string[]): string {
  return template.replace(/\$(\d+)/g, (text, digits: string) => groups[Number(digits)] ?? text);
}
