/** A file with the token of a listener, which is read again when it changes. */
import { watchFiles } from '../files/watched-files.ts';
import type { Timers } from '../time/clock.ts';
import { shortestToken, tokenProblem } from './bearer-token.ts';

export interface FollowedToken {
  /** Undefined if no file is set. */
  readonly current: string | undefined;
  /** Rejects with a WatchedFilesError if the file has no valid token. */
  start(): Promise<void>;
  close(): void;
}

export interface TokenFileOptions {
  /** Empty: there is no file. */
  path: string;
  /** The name of the setting, for messages. */
  setting: string;
  timers: Timers;
  rotated(): void;
  /** Called when the new contents are rejected; the previous token stays. */
  rejected(reason: string): void;
}

export function followTokenFile({
  path,
  setting,
  timers,
  rotated,
  rejected,
}: TokenFileOptions): FollowedToken {
  const name = `${setting}: ${path}`;
  let current: string | undefined;
  let close = (): void => {};
  const read = (text: string): string => {
    const token = text.trim();
    const problem = tokenProblem(token, shortestToken);
    if (problem === undefined) return token;
    throw new Error(`${name}: ${problem}`);
  };
  return {
    get current() {
      return current;
    },
    start: async () => {
      if (path === '') return;
      const watch = await watchFiles({
        paths: [path],
        names: [name],
        read: ([text = '']) => read(text),
        timers,
        changed: (token) => {
          if (token !== current) rotated();
          current = token;
        },
        rejected,
      });
      current = watch.first;
      close = watch.close;
    },
    close: () => close(),
  };
}
