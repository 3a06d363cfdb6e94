/**
 * Whole answers for those who scrape. One is put together at a time, in slices between which other work goes on; who
 * asks meanwhile gets the same one, so that many scrapes at once cost what one does.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { promisify } from 'node:util';
import { constants, createGzip } from 'node:zlib';

export type Encoding = 'identity' | 'gzip';

export class ScrapeBody {
  readonly #slices: readonly Buffer[];
  #gzipped: Promise<readonly Buffer[]> | undefined;

  constructor(slices: readonly Buffer[]) {
    this.#slices = slices;
  }

  /** Compressed once, whoever asks. */
  chunks(encoding: Encoding): Promise<readonly Buffer[]> {
    if (encoding === 'identity') return Promise.resolve(this.#slices);
    this.#gzipped ??= gzipped(this.#slices);
    return this.#gzipped;
  }
}

export class ScrapeBodies {
  readonly #compose: () => AsyncIterable<string>;
  #underWay: Promise<ScrapeBody> | undefined;

  constructor(compose: () => AsyncIterable<string>) {
    this.#compose = compose;
  }

  next(): Promise<ScrapeBody> {
    this.#underWay ??= this.#composed().finally(() => {
      this.#underWay = undefined;
    });
    return this.#underWay;
  }

  async #composed(): Promise<ScrapeBody> {
    const slices: Buffer[] = [];
    for await (const slice of this.#compose()) {
      if (slice !== '') slices.push(Buffer.from(slice));
      await nextTurn();
    }
    return new ScrapeBody(slices);
  }
}

/** At the fastest level: zlib works in a thread of its own, a slice at a time. */
async function gzipped(slices: readonly Buffer[]): Promise<Buffer[]> {
  const gzip = createGzip({ level: constants.Z_BEST_SPEED, chunkSize: 64 * 1024 });
  const chunks: Buffer[] = [];
  const ended = new Promise<void>((resolve, reject) => {
    gzip.on('data', (chunk: Buffer) => chunks.push(chunk));
    gzip.on('end', resolve);
    gzip.on('error', reject);
  });
  const write = promisify<Buffer, void>((slice, done) => gzip.write(slice, () => done(null)));
  for (const slice of slices) await write(slice);
  gzip.end();
  await ended;
  return chunks;
}
