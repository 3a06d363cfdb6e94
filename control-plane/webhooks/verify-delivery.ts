/** The receiver's side: checks whether a delivery was signed with one of these secrets, and when. */
import { isUtf8 } from 'node:buffer';
import { timingSafeEqual } from 'node:crypto';
import { signatures } from './signing-keys.ts';

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

/** The signature is checked before the time, so that a wrong secret does not look like a slow network. */
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
