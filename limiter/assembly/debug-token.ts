/** DEBUG_TOKEN_FILE: what the debug listener asks of whoever comes. */

import { watchFiles } from '../../process/files/watched-files.ts';
import type { Logger } from '../../process/log/logger.ts';
import { tokenProblem } from '../../process/net/bearer-token.ts';
import type { Timers } from '../../process/time/clock.ts';
import * as lines from '../log/lines.ts';
import { accessSettings } from '../settings/access-settings.ts';
import type { LimiterSettings } from '../settings/settings.ts';

/** Ours: as much as nobody guesses over a network. */
const leastCharacters = 16;

export class DebugToken {
  readonly #path: string;
  readonly #timers: Timers;
  readonly #log: Logger;
  #current: string | undefined;
  #close = (): void => {};

  constructor({ settings, timers, log }: { settings: LimiterSettings; timers: Timers; log: Logger }) {
    this.#path = settings.debugTokenFile;
    this.#timers = timers;
    this.#log = log;
  }

  /** Undefined where there is none. */
  get current(): string | undefined {
    return this.#current;
  }

  /** Rejects with a WatchedFilesError when the file holds no good token. */
  async start(): Promise<void> {
    if (this.#path === '') return;
    const { first, close } = await watchFiles({
      paths: [this.#path],
      names: [`${accessSettings.debugTokenFile.name}: ${this.#path}`],
      read: ([text = '']) => this.#read(text),
      timers: this.#timers,
      changed: (token) => {
        if (token !== this.#current) lines.debugTokenRotated(this.#log);
        this.#current = token;
      },
      refused: (reason) => lines.debugTokenRefused(this.#log, reason),
    });
    this.#current = first;
    this.#close = close;
  }

  close(): void {
    this.#close();
  }

  #read(text: string): string {
    const token = text.trim();
    const problem = tokenProblem(token, leastCharacters);
    if (problem === undefined) return token;
    throw new Error(`${accessSettings.debugTokenFile.name}: ${this.#path}: ${problem}`);
  }
}
