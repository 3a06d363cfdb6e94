/** Signatures of webhooks: the secrets, the header of a delivery, and its verification by a receiver. */

import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { Webhook } from 'standardwebhooks';
import { watchFiles } from '../../process/files/watched-files.ts';
import type { Clock, Timers } from '../../process/time/clock.ts';
import type { Telemetry } from '../telemetry/control-plane-metrics.ts';
import { lines } from '../telemetry/log-lines.ts';

/** The path of the secret lookup, which answers with the current secret. */
export const secretPath = '/v1/webhooks/default/secret';

export interface SigningKeysOptions {
  /** The secrets, at least one. The first is the current secret, see `parseSigningSecrets`. */
  secrets: readonly string[];
  /** How long a replaced secret also signs. */
  overlapMs: number;
  clock: Clock;
}

/** Returns the `webhook-signature` header: one signature for each secret, in their order. */
export function signatures(
  secrets: readonly string[],
  { id, body }: { id: string; body: string },
  now: Date,
): string {
  return secrets.map((secret) => new Webhook(secret).sign(id, now, body)).join(' ');
}

/** Chosen: bounds the header if secrets are replaced faster than the overlap ends. */
const maxReplaced = 4;

/**
 * The secrets that currently sign, including those that were just replaced, so that receivers may change their secrets a little later.
 */
export class SigningKeys {
  readonly #overlapMs: number;
  readonly #clock: Clock;
  #secrets: readonly string[];
  #replaced: { secret: string; untilMs: number }[] = [];

  constructor({ secrets, overlapMs, clock }: SigningKeysOptions) {
    this.#secrets = secrets;
    this.#overlapMs = overlapMs;
    this.#clock = clock;
  }

  /** The secret that receivers get. */
  get current(): string {
    return this.#secrets[0] as string;
  }

  /** Returns all secrets, the newest first. */
  all(): string[] {
    const nowMs = this.#clock.monotonicMs();
    this.#replaced = this.#replaced.filter(({ untilMs }) => nowMs < untilMs);
    return [...this.#secrets, ...this.#replaced.map(({ secret }) => secret)];
  }

  /** Returns whether the secrets have changed. */
  replace(secrets: readonly string[]): boolean {
    if (isDeepStrictEqual(secrets, this.#secrets)) return false;
    const untilMs = this.#clock.monotonicMs() + this.#overlapMs;
    const leaving = this.#secrets.map((secret) => ({ secret, untilMs }));
    this.#replaced = [...leaving, ...this.#replaced]
      .filter(({ secret }) => !secrets.includes(secret))
      .slice(0, maxReplaced);
    this.#secrets = secrets;
    return true;
  }
}

/** A value that should be a secret is not one. The message never shows the value. */
export class SecretError extends Error {
  override readonly name = 'SecretError';
}

/** The secret with which deliveries are signed, in the form of Standard Webhooks: `whsec_` and base64. */
const prefix = 'whsec_';
const minBytes = 24;
const maxBytes = 64;
/** Chosen: the current secret and some that receivers may still use. */
const maxSecrets = 4;

/**
 * Parses a variable or a file: the current secret and, separated by white space, other secrets that also sign while they are
 * listed. Throws a SecretError.
 */
export function parseSigningSecrets(text: string): string[] {
  const secrets = text.split(/\s+/).filter((part) => part !== '');
  if (secrets.length === 0) throw new SecretError('the signing secret is empty');
  if (secrets.length > maxSecrets) {
    throw new SecretError(`there are ${secrets.length} signing secrets, the maximum is ${maxSecrets}`);
  }
  secrets.forEach((secret, index) => {
    const problem = secretProblem(secret);
    if (problem === undefined) return;
    const which = secrets.length === 1 ? 'the signing secret' : `signing secret ${index + 1}`;
    throw new SecretError(`${which} ${problem}`);
  });
  return [...new Set(secrets)];
}

/** Returns the error of `parseSigningSecrets`, for checks of settings. */
export function signingSecretProblem(text: string): string | undefined {
  try {
    parseSigningSecrets(text);
    return undefined;
  } catch (error) {
    if (error instanceof SecretError) return error.message;
    throw error;
  }
}

function secretProblem(secret: string): string | undefined {
  if (!secret.startsWith(prefix)) return `must begin with ${prefix}`;
  const encoded = secret.slice(prefix.length);
  const bytes = Buffer.from(encoded, 'base64');
  // Node skips characters that are not base64, so only a text that Node would write in the same way is valid.
  if (bytes.toString('base64') !== encoded) {
    return `must be ${prefix} and then base64 (A-Z, a-z, 0-9, + and /, padded with =)`;
  }
  if (bytes.length >= minBytes && bytes.length <= maxBytes) return undefined;
  return `must hold ${minBytes} to ${maxBytes} bytes, it holds ${bytes.length}`;
}

/** The source of a secret: an environment variable, which never changes, or a file, which is read again when it changes. */
export type SecretPlace = { variable: string; value: string } | { file: string };

export interface SecretOptions<Value> extends Pick<Telemetry, 'log'> {
  place: SecretPlace;
  /** The setting with the file, for the log. */
  setting: string;
  /** Throws a SecretError. */
  parse(text: string): Value;
  timers: Timers;
  /** The interval at which the file is checked. Defaults to 5 s. */
  intervalMs?: number | undefined;
  /** Uses a value that is not the first, and returns whether it differs from the last one. */
  replace(value: Value): boolean;
}

/**
 * Opens a secret, and logs when its file has another one, or none that is valid: then the previous one stays. Rejects with a SecretError
 * that names the variable, or a WatchedFilesError that names the file.
 */
export async function openSecret<Value>(
  options: SecretOptions<Value>,
): Promise<{ first: Value; close(): void }> {
  const { place, setting: secret, parse, replace, log, ...watch } = options;
  if ('file' in place) {
    return watchFiles({
      ...watch,
      paths: [place.file],
      read: ([text = '']) => parse(text),
      changed: (value) => {
        if (replace(value)) lines.secretRotated(log, { secret });
      },
      rejected: (reason) => lines.secretRejected(log, { secret, reason }),
    });
  }
  try {
    return { first: parse(place.value), close: () => {} };
  } catch (error) {
    if (!(error instanceof SecretError)) throw error;
    throw new SecretError(`${place.variable}: ${error.message}`, { cause: error });
  }
}

export interface Delivery {
  /** Headers by lowercase name. */
  headers: ReadonlyMap<string, string>;
  /** The body as it arrived. A single different byte makes the signature wrong. */
  body: Buffer;
}

export interface VerifyOptions {
  secrets: readonly string[];
  /** The maximum difference between the time of the attempt and now, in either direction. */
  toleranceMs: number;
  nowMs: number;
}

export type VerifyProblem =
  | 'missing_header'
  | 'bad_timestamp'
  | 'too_old'
  | 'too_new'
  | 'bad_signature'
  | 'bad_body';

export type VerifyResult =
  | { valid: true; id: string; timestampSeconds: number }
  | { valid: false; problem: VerifyProblem; message: string };

/** Checks whether a delivery was signed with one of these secrets, and when. The signature is checked before the time, so that a wrong secret does not look like a slow network. */
export function verifyDelivery({ headers, body }: Delivery, options: VerifyOptions): VerifyResult {
  for (const name of ['webhook-id', 'webhook-timestamp', 'webhook-signature']) {
    if ((headers.get(name) ?? '') === '') return invalid('missing_header', `the header ${name} is missing`);
  }
  const [id = '', timestamp = '', given = ''] = ['id', 'timestamp', 'signature'].map((name) =>
    headers.get(`webhook-${name}`),
  );
  if (!/^\d{1,12}$/.test(timestamp)) {
    return invalid('bad_timestamp', 'the header webhook-timestamp is not a number of seconds since 1970');
  }
  // Signatures are defined for text. Other bytes would be replaced, so that two bodies could have the same signature.
  if (!isUtf8(body)) return invalid('bad_body', 'the body is not UTF-8');
  const timestampSeconds = Number(timestamp);
  const message = { id, body: body.toString('utf8') };
  const expected = signatures(options.secrets, message, new Date(timestampSeconds * 1000)).split(' ');
  const candidates = given.split(' ').filter((signature) => signature.startsWith('v1,'));
  if (candidates.length === 0) {
    return invalid('bad_signature', 'the header webhook-signature has no signature of version v1');
  }
  if (!candidates.some((candidate) => expected.some((signature) => isSame(candidate, signature)))) {
    return invalid('bad_signature', 'no signature matches: the secret, ID, time or body is another one');
  }
  return judgeTime(id, timestampSeconds, options);
}

function judgeTime(
  id: string,
  timestampSeconds: number,
  { nowMs, toleranceMs }: VerifyOptions,
): VerifyResult {
  const ageMs = nowMs - timestampSeconds * 1000;
  const bound = `at most ${toleranceMs / 1000} s are allowed`;
  if (ageMs > toleranceMs)
    return invalid('too_old', `it was sent ${Math.round(ageMs / 1000)} s ago, ${bound}`);
  // Times are compared in whole seconds, because the sender may have rounded down, but never up.
  if (-ageMs > toleranceMs) {
    return invalid('too_new', `its time is ${Math.round(-ageMs / 1000)} s ahead of now, ${bound}`);
  }
  return { valid: true, id, timestampSeconds };
}

function isSame(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function invalid(problem: VerifyProblem, message: string): VerifyResult {
  return { valid: false, problem, message };
}
