import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import { SecretError } from './signing-secret.ts';

/** Ours: what fits into a header with every proxy. */
const longestToken = 4_096;

/** Reads API_TOKEN or its file, white space around it dropped. Throws a SecretError. */
export function parseApiToken(text: string): string {
  const token = text.trim();
  if (token === '') throw new SecretError('the token is empty');
  if (!/^[!-~]+$/.test(token)) {
    throw new SecretError('the token must be of visible ASCII characters without spaces');
  }
  if (token.length > longestToken) {
    throw new SecretError(`the token must have at most ${longestToken} characters, it has ${token.length}`);
  }
  return token;
}

/** The token of an `Authorization: Bearer <token>` header; undefined when it is of another form. RFC 6750, section 2.1. */
export function bearerToken(header: string | undefined): string | undefined {
  return /^bearer +([!-~]+) *$/i.exec(header ?? '')?.[1];
}

const comparisonKey = randomBytes(32);

/** Takes the same time wherever the two differ, and whatever their lengths. */
export function isSameToken(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHmac('sha256', comparisonKey).update(text).digest();
}
