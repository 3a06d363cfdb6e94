/** Lines that could not be replayed: counted, the first ones kept. */
export interface BadLine {
  /** From 1. */
  line: number;
  reason: string;
}

/** There are more of them than were allowed. */
export class TooManyBadLines extends Error {
  override readonly name = 'TooManyBadLines';
}

/** Chosen: enough to see what is wrong. */
const mostListed = 10;

export class BadLines {
  readonly first: BadLine[] = [];
  count = 0;
  readonly #most: number;

  constructor(most: number) {
    this.#most = most;
  }

  /** Throws TooManyBadLines with the one that is too many. */
  add(line: number, reason: string): void {
    this.count++;
    if (this.first.length < mostListed) this.first.push({ line, reason });
    if (this.count > this.#most)
      throw new TooManyBadLines(`more than ${this.#most} lines could not be replayed`);
  }
}
