/**
 * The files of OVERRIDES_DIR, polled twice a second. The folder may be missing, may be a Kubernetes mount or a link that is
 * swapped. Changed files are read when they did not change between two polls. While they have mistakes, the last good ones stay
 * in force.
 */
import { existsSync, statSync } from 'node:fs';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Override } from '../../rules/override.ts';
import { readOverrideFile } from '../../rules/reader/read-override.ts';
import { formatRuleError } from '../../rules/rule-error.ts';
import { listRuleFiles } from '../config-source/file/list-files.ts';
import { readFiles } from '../config-source/file/load-rules.ts';

export interface OverrideFilesOptions {
  directory: string;
  ignoreDotFiles: boolean;
  /** The value of OVERRIDES_MAX_SECONDS. */
  maxSeconds: number;
  use(overrides: readonly Override[]): void;
  loaded(overrides: number, isRecovered: boolean): void;
  rejected(problems: readonly string[], total: number): void;
  clock: Clock;
  timers: Timers;
}

const lookMs = 500;
/** Chosen: the maximum size of all files together. */
const maxBytes = 32 * 1024 * 1024;
const shownProblems = 20;

export class OverrideFiles {
  readonly #options: OverrideFilesOptions;
  #seen = '';
  #read = '';
  #wasLastRejected = false;
  #end = (): void => {};

  constructor(options: OverrideFilesOptions) {
    this.#options = options;
  }

  get wasLastRejected(): boolean {
    return this.#wasLastRejected;
  }

  /** The first files are in force before any decision is made. */
  start(): void {
    this.#seen = this.#look();
    if (this.#seen !== '') this.#load();
    this.#end = this.#options.timers.every(lookMs, () => this.#lookAgain());
  }

  close(): void {
    this.#end();
  }

  #lookAgain(): void {
    const before = this.#seen;
    this.#seen = this.#look();
    if (this.#seen === before && this.#seen !== this.#read) this.#load();
  }

  /** Returns a text that distinguishes states of the files. Empty if there are no files. */
  #look(): string {
    const { directory } = this.#options;
    if (!existsSync(directory)) return '';
    return this.#list()
      .files.map(({ path }) => {
        const {
          ino = 0,
          size = 0,
          mtimeMs = 0,
          ctimeMs = 0,
        } = statSync(path, { throwIfNoEntry: false }) ?? {};
        return `${path} ${ino} ${size} ${mtimeMs} ${ctimeMs}`;
      })
      .join('\n');
  }

  #list() {
    const { directory, ignoreDotFiles } = this.#options;
    const watch = { kind: 'directory', path: directory } as const;
    return listRuleFiles({
      readDirectory: directory,
      namePrefix: '',
      ignoreDotFiles,
      mustExist: false,
      watch,
    });
  }

  #load(): void {
    const { clock, maxSeconds, use, loaded, rejected } = this.#options;
    this.#read = this.#seen;
    const listing = this.#list();
    const { files, errors } = readFiles(listing.files, maxBytes);
    const problems = [...listing.errors, ...errors];
    const overrides: Override[] = [];
    for (const { name, text } of files) {
      const reading = readOverrideFile(name, text, { nowMs: clock.nowMs(), maxSeconds });
      problems.push(...reading.errors);
      overrides.push(...reading.overrides);
    }
    if (problems.length > 0) {
      this.#wasLastRejected = true;
      rejected(problems.slice(0, shownProblems).map(formatRuleError), problems.length);
      return;
    }
    use(overrides);
    loaded(overrides.length, this.#wasLastRejected);
    this.#wasLastRejected = false;
  }
}
