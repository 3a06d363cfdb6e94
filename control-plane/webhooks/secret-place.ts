import { watchFiles } from '../../process/files/watched-files.ts';
import type { Timers } from '../../process/time/clock.ts';
import { SecretError } from './signing-secret.ts';

/** Where a secret comes from: an environment variable, for good, or a file that is read again when it changes. */
export type SecretPlace = { variable: string; value: string } | { file: string };

export interface SecretOptions<Value> {
  place: SecretPlace;
  /** Throws a SecretError. */
  parse(text: string): Value;
  timers: Timers;
  /** How often the file is looked at. Defaults to 5 s. */
  intervalMs?: number;
  changed(value: Value): void;
  /** The file holds no good value now; the one before stays. */
  refused(reason: string): void;
}

/** Rejects with a SecretError that names the variable, or a WatchedFilesError that names the file. */
export async function openSecret<Value>(
  options: SecretOptions<Value>,
): Promise<{ first: Value; close(): void }> {
  const { place, parse, ...watch } = options;
  if ('file' in place)
    return watchFiles({ ...watch, paths: [place.file], read: ([text = '']) => parse(text) });
  try {
    return { first: parse(place.value), close: () => {} };
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new SecretError(`${place.variable}: ${error.message}`, { cause: error });
  }
}
