/** Cuts the answer of a watch into lines of JSON. A line may come in many pieces, and a piece may hold many lines. */
export class WatchLines {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** `maxBytes` of one line defaults to 64 MiB: far above what etcd takes, far below what would end the process. */
  constructor(maxBytes = 64 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** The values of the lines that `chunk` completes. Throws a SyntaxError or a RangeError. */
  *push(chunk: Buffer): Generator<unknown> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      const line = Buffer.concat(this.#pieces).toString('utf8');
      this.#pieces = [];
      this.#bytes = 0;
      if (line.trim() !== '') yield JSON.parse(line);
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`a line holds more than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }
}
