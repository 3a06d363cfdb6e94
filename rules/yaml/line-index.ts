/** A place in a text as people count: both from 1, columns in UTF-16 code units. */
export interface TextPlace {
  line: number;
  column: number;
}

/** Finds line and column of offsets in one text. Line breaks are LF, CR LF and CR. */
export class LineIndex {
  readonly #starts: number[] = [0];
  readonly #text: string;

  constructor(text: string) {
    this.#text = text;
    const lineBreak = /\r\n?|\n/g;
    while (lineBreak.test(text)) this.#starts.push(lineBreak.lastIndex);
  }

  /** A line without its break; undefined for one that the text does not have. */
  lineText(line: number): string | undefined {
    const start = this.#starts[line - 1];
    if (start === undefined) return undefined;
    return this.#text.slice(start, this.#starts[line]).replace(/(?:\r\n?|\n)$/, '');
  }

  placeOf(offset: number): TextPlace {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] ?? 0) <= offset) low = middle;
      else high = middle - 1;
    }
    return { line: low + 1, column: offset - (this.#starts[low] ?? 0) + 1 };
  }
}
