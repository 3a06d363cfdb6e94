/** A place in a text as people count: both from 1, columns in UTF-16 code units. */
export interface TextPlace {
  line: number;
  column: number;
}

/** Finds line and column of offsets in one text. Line breaks are LF, CR LF and CR. */
export class LineIndex {
  readonly #starts: number[] = [0];

  constructor(text: string) {
    const lineBreak = /\r\n?|\n/g;
    while (lineBreak.test(text)) this.#starts.push(lineBreak.lastIndex);
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
