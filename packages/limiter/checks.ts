/** Checks arguments that several methods take. */
import { LimiterError } from './limiter-error.ts';

export function checkDomain(domain: string): void {
  if (typeof domain !== 'string') throw new LimiterError('invalid', `domain is text, not ${typeof domain}`);
}

/**
 * Rejects unknown options. A misspelled one would be ignored, and `hit: 5` for `hits: 5` would allow five times as many requests.
 * Undefined means no options.
 */
export function checkOptions(of: string, options: object | undefined, known: readonly string[]): void {
  if (options === undefined) return;
  if (typeof options !== 'object' || options === null)
    throw new LimiterError('invalid', `${of} takes an object of options, not ${String(options)}`);
  for (const name of Object.keys(options))
    if (!known.includes(name))
      throw new LimiterError('invalid', `${of} has no option '${name}'; it has ${known.join(', ')}`);
}

/** Throws the signal's reason if it is aborted. */
export function checkSignal(signal: AbortSignal | undefined): void {
  if (signal === undefined) return;
  // A signal from another realm is an instance of another class.
  if (typeof signal?.throwIfAborted !== 'function')
    throw new LimiterError(
      'invalid',
      `signal is an AbortSignal, not ${signal === null ? 'null' : typeof signal}`,
    );
  signal.throwIfAborted();
}

/** `name` is the option's name, for the error. */
export function checkHits(name: string, hits: number | undefined): void {
  if (hits === undefined || !Number.isSafeInteger(hits) || hits < 0)
    throw new LimiterError('invalid', `${name} is a whole number from 0 to 2^53 - 1, not ${String(hits)}`);
}
