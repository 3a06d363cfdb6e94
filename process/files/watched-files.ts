/**
 * A value read from one or more files, read again while the process runs. It asks by the clock rather than wait for file
 * events: that also sees what comes with the symbolic links of a mounted Secret or over a network file system.
 */
import { type BigIntStats, lstatSync, readlinkSync, statSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { errorText, systemErrorReason } from '../log/error-text.ts';
import type { Timers } from '../time/clock.ts';

export interface WatchedFilesOptions<Value> {
  paths: readonly string[];
  /** What messages call them, in the same order; those of `read` then name the file themselves. Defaults to the paths. */
  names?: readonly string[];
  /** From the texts of all files, in the order of `paths`. Throws when they are not good; the message shows no secret. */
  read(texts: readonly string[]): Value;
  timers: Timers;
  /** Defaults to 5 s. */
  intervalMs?: number;
  /** Called with every value but the first. */
  changed(value: Value): void;
  /**
   * What the files hold now is not taken, the value before stays. Comes once, and only when two looks found the same:
   * before that somebody may still be writing.
   */
  refused(reason: string): void;
}

/** Chosen: far above what a certificate chain or a secret takes. */
const mostBytes = 262_144;
const defaultIntervalMs = 5_000;

/** The files hold no good value; the message names them. */
export class WatchedFilesError extends Error {
  override readonly name = 'WatchedFilesError';
}

/** Resolves with the first value, and with what ends the watch; rejects with a WatchedFilesError when there is none. */
export async function watchFiles<Value>(
  options: WatchedFilesOptions<Value>,
): Promise<{ first: Value; close(): void }> {
  const watch = new FilesWatch(options);
  const first = await watch.start();
  return { first, close: () => watch.close() };
}

class FilesWatch<Value> {
  readonly #options: WatchedFilesOptions<Value>;
  /** What was taken or refused last. */
  #settled = '';
  /** Not good, but seen once only. */
  #suspect = '';
  #isReading = false;
  #isClosed = false;
  #end: (() => void) | undefined;

  constructor(options: WatchedFilesOptions<Value>) {
    this.#options = options;
  }

  async start(): Promise<Value> {
    const { timers, read, intervalMs = defaultIntervalMs } = this.#options;
    try {
      const texts = await this.#readTexts();
      const value = read(texts);
      this.#settled = JSON.stringify(texts);
      this.#end = timers.every(intervalMs, () => void this.#look());
      return value;
    } catch (error) {
      throw new WatchedFilesError(this.#reason(error), { cause: error });
    }
  }

  close(): void {
    this.#isClosed = true;
    this.#end?.();
  }

  async #look(): Promise<void> {
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
      this.#options.changed(value);
    } catch (error) {
      this.#doubt(seen, this.#reason(error));
    } finally {
      this.#isReading = false;
    }
  }

  #doubt(seen: string | undefined, reason: string): void {
    const sight = seen ?? reason;
    if (!this.#isNew(sight)) return;
    if (sight !== this.#suspect) {
      this.#suspect = sight;
      return;
    }
    this.#settled = sight;
    this.#options.refused(reason);
  }

  #isNew(sight: string): boolean {
    return !this.#isClosed && sight !== this.#settled;
  }

  /** Of several that cannot be read the first is reported. */
  async #readTexts(): Promise<string[]> {
    const { paths, names = paths } = this.#options;
    const texts: string[] = [];
    for (const [at, path] of paths.entries()) texts.push(await readText(path, names[at] as string));
    return texts;
  }

  /** Whose `read` knows better which of several files it is says so itself. */
  #reason(error: unknown): string {
    if (error instanceof UnreadableFile || this.#options.names !== undefined) return errorText(error);
    return `${this.#options.paths.join(' and ')}: ${errorText(error)}`;
  }
}

class UnreadableFile extends Error {}

async function readText(path: string, name: string): Promise<string> {
  try {
    await using file = await open(path);
    const buffer = Buffer.alloc(mostBytes + 1);
    const { bytesRead } = await file.read(buffer, 0, buffer.length, 0);
    if (bytesRead > mostBytes) throw new UnreadableFile(`${name}: is larger than ${mostBytes} bytes`);
    return buffer.toString('utf8', 0, bytesRead);
  } catch (error) {
    if (error instanceof UnreadableFile) throw error;
    throw new UnreadableFile(`${name}: ${systemErrorReason(error)}`, { cause: error });
  }
}

/**
 * Distinguishes two files at one path. The time of birth is part of it because file systems give the number of a
 * removed inode to the next file at once.
 */
export type FileIdentity = string;

/** Of what the path leads to, symbolic links followed. Throws when there is nothing. */
export function targetIdentity(path: string): FileIdentity {
  return identity(statSync(path, { bigint: true }));
}

/** Of the path itself, and where it leads for a symbolic link; undefined when there is nothing to be seen. */
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

/** Chosen: so many mistakes are shown at once; `weir check` has all. */
const mostShown = 20;

/** The first mistakes of a watched file, with their places, and how many there are. */
export function problemsText(
  name: string,
  problems: readonly { line: number; column: number; message: string }[],
): string {
  const shown = problems
    .slice(0, mostShown)
    .map(({ line, column, message }) => `${name}:${line}:${column}: ${message}`);
  const more = problems.length - shown.length;
  return [...shown, ...(more === 0 ? [] : [`and ${more} more`])].join('; ');
}
