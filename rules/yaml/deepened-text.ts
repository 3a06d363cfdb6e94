/** Spaces that a line needs more, by the offset where it begins. */
type Depths = ReadonlyMap<number, number>;

/**
 * A text in which some lines are indented deeper than they were. js-yaml wants every line inside brackets or quotes
 * indented deeper than the block around them; YAML 1.1 and the Go service give these spaces no meaning.
 */
export class DeepenedText {
  readonly #source: string;
  readonly #depths: Depths;
  /** Where inserted spaces end in `text`, and how many were inserted up to there. */
  readonly #ends: number[] = [];
  readonly #shifts: number[] = [];
  readonly text: string;

  constructor(source: string, depths: Depths = new Map()) {
    this.#source = source;
    this.#depths = depths;
    let text = '';
    let from = 0;
    let shift = 0;
    for (const [offset, spaces] of [...depths].sort(([a], [b]) => a - b)) {
      text += source.slice(from, offset) + ' '.repeat(spaces);
      from = offset;
      shift += spaces;
      this.#ends.push(offset + shift);
      this.#shifts.push(shift);
    }
    this.text = text + source.slice(from);
  }

  /** Where in the source a character of `text` stands. */
  sourceOffset(offset: number): number {
    let low = 0;
    let high = this.#ends.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#ends[middle]! <= offset) low = middle + 1;
      else high = middle;
    }
    const shifted = offset - (this.#shifts[low - 1] ?? 0);
    const nextEnd = this.#ends[low];
    if (nextEnd === undefined) return shifted;
    // Inside the spaces inserted next is where these were inserted.
    return Math.min(shifted, nextEnd - this.#shifts[low]!);
  }

  /** With the lines deeper that begin with a closing bracket; most that are not deep enough do. */
  withClosingLines(): DeepenedText {
    const depths = new Map(this.#depths);
    for (const { index } of this.#source.matchAll(/^[ \t]*(?=[\]}])/gm)) depths.set(index, firstDepth);
    return new DeepenedText(this.#source, depths);
  }

  /**
   * With the line that begins at an offset of `text` deeper, or without tabs where they stand before the offset.
   * Undefined where there is nothing to change.
   */
  deeperAt(offset: number): DeepenedText | undefined {
    const at = this.sourceOffset(offset);
    const line = /[^\r\n]*$/.exec(this.#source.slice(0, at))?.[0] ?? '';
    if (line.trim() !== '') return this.#withoutTabs(at, line);
    const lineStart = at - line.length;
    const depth = (this.#depths.get(lineStart) ?? firstDepth / 4) * 4;
    return depth > deepest
      ? undefined
      : new DeepenedText(this.#source, new Map(this.#depths).set(lineStart, depth));
  }

  /** Without the tabs at the end of a line's beginning, and those before a bracket and its properties there. */
  #withoutTabs(at: number, line: string): DeepenedText | undefined {
    const gap = /[ \t]*(?:(?:[&!][^ \t]*[ \t]+){0,2}[[{][ \t]*)?$/.exec(line.slice(-deepest))?.[0] ?? '';
    if (!gap.includes('\t')) return undefined;
    const before = this.#source.slice(0, at - gap.length) + gap.replaceAll('\t', ' ');
    return new DeepenedText(before + this.#source.slice(at), this.#depths);
  }
}

const deepest = 4096;

/** Deeper than blocks usually are. */
const firstDepth = 64;
