/** Text that refers to what a pattern matched: `$1`, `${1}`, `${name}`; `$$` is a dollar sign. */

/** What stands for a number or a name; undefined for what was not matched or does not exist. */
export type Captured = (reference: string) => string | undefined;

// As in Go the longest name is meant: `$1_total` refers to `1_total`, which is never there.
const reference = /\$(?:\{(\w+)\}|(\w+)|(\$))/g;

export class Template {
  /** Texts and references in turn. */
  readonly #parts: string[] = [];

  constructor(text: string) {
    let end = 0;
    let before = '';
    for (const match of text.matchAll(reference)) {
      before += text.slice(end, match.index);
      end = match.index + match[0].length;
      if (match[3] !== undefined) {
        before += '$';
        continue;
      }
      this.#parts.push(before, (match[1] ?? match[2]) as string);
      before = '';
    }
    this.#parts.push(before + text.slice(end));
  }

  get references(): string[] {
    return this.#parts.filter((_, index) => index % 2 === 1);
  }

  /** A reference to nothing gives no text. */
  expand(captured: Captured): string {
    return this.#parts.map((part, index) => (index % 2 === 0 ? part : (captured(part) ?? ''))).join('');
  }
}
