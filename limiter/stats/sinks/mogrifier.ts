/**
 * Mogrifiers: rewriting the name of a metric into a shorter name and tags. The first one whose pattern is found in the name
 * decides. Patterns are of RE2's syntax, as in the Go service, and run in linear time: no pattern can hold up the process.
 */
import { RE2JS, RE2JSSyntaxException } from 're2js';
import type { Tags } from '../registry/metric-name.ts';

/** As it is set: DOG_STATSD_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS. */
export interface MogrifierText {
  pattern: string;
  /** May contain `$0`, `$1` and so on: the match and its groups. */
  name: string;
  /** Keys and values likewise. */
  tags: readonly (readonly [key: string, value: string])[];
}

export interface MogrifiedName {
  name: string;
  /** Without keys or values that came out empty. */
  tags: Tags;
}

/** A pattern that is no regular expression of RE2. */
export class PatternError extends Error {
  override readonly name = 'PatternError';
}

/** Throws a PatternError. */
export function compilePattern(pattern: string): RE2JS {
  try {
    return RE2JS.compile(pattern);
  } catch (error) {
    if (error instanceof RE2JSSyntaxException) throw new PatternError(error.message);
    throw error;
  }
}

interface Mogrifier {
  pattern: RE2JS;
  text: MogrifierText;
}

export class Mogrifiers {
  readonly #list: readonly Mogrifier[];

  /** Throws a PatternError. */
  constructor(texts: readonly MogrifierText[]) {
    this.#list = texts.map((text) => ({ pattern: compilePattern(text.pattern), text }));
  }

  /** The caller keeps the result: names repeat with every flush. */
  apply(plainName: string): MogrifiedName {
    for (const { pattern, text } of this.#list) {
      const matcher = pattern.matcher(plainName);
      if (!matcher.find()) continue;
      const groups: string[] = [];
      for (let index = 0; index <= matcher.groupCount(); index += 1) groups.push(matcher.group(index) ?? '');
      const tags = text.tags.map(([key, value]) => [expand(key, groups), expand(value, groups)] as const);
      return {
        name: expand(text.name, groups),
        tags: tags.filter(([key, value]) => key !== '' && value !== ''),
      };
    }
    return { name: plainName, tags: [] };
  }
}

/** The index of a group that the pattern does not have stays as text. */
function expand(template: string, groups: readonly string[]): string {
  return template.replace(/\$(\d+)/g, (text, digits: string) => groups[Number(digits)] ?? text);
}
