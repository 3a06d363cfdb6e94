/**
 * A value read from one or more files, which are read again while the process runs. It polls instead of waiting for file events, so it
 * also sees changes through the symbolic links of a mounted Secret or over a network file system.
 */
import { type BigIntStats, lstatSync, readlinkSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorText, systemErrorCode, systemErrorReason } from '../log/error-text.ts';
import type { Timers } from '../time/clock.ts';

export interface WatchedFilesOptions<Value> {
  paths: readonly string[];
  /** The names of the files in messages, in the same order; then messages of `read` name the file themselves. Defaults to the paths. */
  names?: readonly string[];
  /** Makes the value from the texts of all files, in the order of `paths`. @throws if they are invalid; the message contains no secret */
  read(texts: readonly string[]): Value;
  timers: Timers;
  /** Defaults to 5 s. */
  intervalMs?: number | undefined;
  /** Called with every value except the first. The next look waits for the promise. */
  changed(value: Value): void | Promise<void>;
  /**
   * Called when the current contents are rejected and the previous value stays. It is called once, and only after two checks found the
   * same contents: before that, a write may be in progress.
   */
  rejected(reason: string): void | Promise<void>;
}

/** Chosen: far more than a certificate chain or a secret has. */
const maxBytes = 262_144;
const defaultIntervalMs = 5_000;

/** The files have no valid value. The message names them. */
export class WatchedFilesError extends Error {
  override readonly name = 'WatchedFilesError';
}

/** Resolves with the first value, and a function that ends the watch. Rejects with a WatchedFilesError if there is no value. */
export async function watchFiles<Value>(
  options: WatchedFilesOptions<Value>,
): Promise<{ first: Value; close(): void }> {
  const watch = new FilesWatch(options);
  const first = await watch.start();
  return { first, close: () => watch.close() };
}

/**
 * The same for files that may be invalid, or missing with `mayBeMissing`, until there is a first value. `changed` gets that value, too, and
 * `refused` is called at once if the first look finds none. `start` resolves after that.
 */
export function followFiles<Value>(options: WatchedFilesOptions<Value> & { mayBeMissing: boolean }): {
  start(): Promise<void>;
  close(): void;
} {
  const watch = new FilesWatch(options, options.mayBeMissing);
  return { start: () => watch.follow(), close: () => watch.close() };
}

class FilesWatch<Value> {
  readonly #options: WatchedFilesOptions<Value>;
  /** Whether missing files are no problem. */
  #mayBeMissing: boolean;
  /** The contents that were accepted or rejected last. */
  #settled = '';
  /** Invalid contents that were seen only once. */
  #suspect = '';
  #isReading = false;
  #isClosed = false;
  #end: (() => void) | undefined;

  constructor(options: WatchedFilesOptions<Value>, mayBeMissing = false) {
    this.#options = options;
    this.#mayBeMissing = mayBeMissing;
  }

  async start(): Promise<Value> {
    try {
      const texts = await this.#readTexts();
      const value = this.#options.read(texts);
      this.#settled = JSON.stringify(texts);
      this.#lookAgain();
      return value;
    } catch (error) {
      throw new WatchedFilesError(this.#reason(error), { cause: error });
    }
  }

  async follow(): Promise<void> {
    if (this.#isClosed) return;
    await this.#look(true);
    if (!this.#isClosed) this.#lookAgain();
  }

  close(): void {
    this.#isClosed = true;
    this.#end?.();
  }

  #lookAgain(): void {
    const { timers, intervalMs = defaultIntervalMs } = this.#options;
    this.#end = timers.every(intervalMs, () => void this.#look());
  }

  /** `isSure`: whether the files are certainly complete. */
  async #look(isSure = false): Promise<void> {
    if (this.#isReading) return;
    this.#isReading = true;
    let seen: string | undefined;
    try {
      const texts = await this.#readTexts();
      seen = JSON.stringify(texts);
      if (!this.#isNew(seen)) {
        this.#suspect = '';
        return;
      }
      const value = this.#options.read(texts);
      this.#settled = seen;
      this.#suspect = '';
      this.#mayBeMissing = false;
      await this.#options.changed(value);
    } catch (error) {
      if (this.#mayBeMissing && isMissing(error)) this.#suspect = '';
      else await this.#doubt(seen, this.#reason(error), isSure);
    } finally {
      this.#isReading = false;
    }
  }

  async #doubt(seen: string | undefined, reason: string, isSure: boolean): Promise<void> {
    const sight = seen ?? reason;
    if (!this.#isNew(sight)) return;
    if (!isSure && sight !== this.#suspect) {
      this.#suspect = sight;
      return;
    }
    this.#settled = sight;
    await this.#options.rejected(reason);
  }

  #isNew(sight: string): boolean {
    return !this.#isClosed && sight !== this.#settled;
  }

  /** If several files cannot be read, the first is reported. */
  async #readTexts(): Promise<string[]> {
    const { paths, names = paths } = this.#options;
    const texts: string[] = [];
    for (const [at, path] of paths.entries()) texts.push(await readText(path, names[at] as string));
    return texts;
  }

  /** Names the files of a problem, unless messages of `read` do so themselves. */
  #reason(error: unknown): string {
    if (error instanceof UnreadableFile || this.#options.names !== undefined) return errorText(error);
    return `${this.#options.paths.join(' and ')}: ${errorText(error)}`;
  }
}

class UnreadableFile extends Error {}

function isMissing(error: unknown): boolean {
  return error instanceof UnreadableFile && systemErrorCode(error.cause) === 'ENOENT';
}

async function readText(path: string, name: string): Promise<string> {
  try {
    await using file = await open(path);
    const buffer = Buffer.alloc(maxBytes + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    if (bytesRead > maxBytes) throw new UnreadableFile(`${name}: is larger than ${maxBytes} bytes`);
    return buffer.toString('utf8', 0, bytesRead);
  } catch (error) {
    if (error instanceof UnreadableFile) throw error;
    throw new UnreadableFile(`${name}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/**
 * Distinguishes two files at one path. It includes the time of birth, because file systems give the inode number of a removed file to
 * the next file at once.
 */
export type FileIdentity = string;

/** The identity of the file behind symbolic links. @throws if there is none */
export function targetIdentity(path: string): FileIdentity {
  return identity(statSync(path, { bigint: true }));
}

/** The identity of the path itself, and for a symbolic link also its target; undefined if there is nothing. */
export function entryIdentity(path: string): FileIdentity | undefined {
  try {
    const stats = lstatSync(path, { bigint: true });
    return stats.isSymbolicLink() ? `${identity(stats)} ${readlinkSync(path)}` : identity(stats);
  } catch {
    return undefined;
  }
}

export function identity(stats: BigIntStats): FileIdentity {
  return `${stats.dev}:${stats.ino}:${stats.birthtimeNs}`;
}

/** Chosen: the mistakes that are shown at once; `weir check` shows all. */
const maxShown = 20;

/** Returns the first mistakes of a watched file, with their places, and the number of all. */
export function problemsText(
  name: string,
  problems: readonly { line: number; column: number; message: string }[],
): string {
  const shown = problems
    .slice(0, maxShown)
    .map(({ line, column, message }) => `${name}:${line}:${column}: ${message}`);
  const more = problems.length - shown.length;
  return [...shown, ...(more === 0 ? [] : [`and ${more} more`])].join('; ');
}
