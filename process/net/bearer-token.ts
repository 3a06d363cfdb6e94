/** Bearer tokens, RFC 6750: reading them from a request, and comparing two. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Chosen: a random token of this length cannot be guessed over a network. */
export const shortestToken = 16;
/** Chosen: it fits into a header with every proxy. */
const longestToken = 4_096;

/** The token of an `Authorization: Bearer <token>` header; undefined for other forms. RFC 6750, section 2.1. */
export function bearerToken(header: string | undefined): string | undefined {
  return /^bearer +([!-~]+) *$/i.exec(header ?? '')?.[1];
}

/** Returns the problem of a chosen token, without its text; undefined if it is acceptable. */
export function tokenProblem(token: string, minCharacters: number): string | undefined {
  if (token === '') return 'the token is empty';
  if (!/^[!-~]+$/.test(token)) return 'the token must be of visible ASCII characters without spaces';
  if (token.length < minCharacters) {
    return `the token must have at least ${minCharacters} characters, it has ${token.length}`;
  }
  if (token.length > longestToken) {
    return `the token must have at most ${longestToken} characters, it has ${token.length}`;
  }
  return undefined;
}

/** RFC 6750, section 3: how a rejection names what is missing. A request without credentials gets no error code. */
export function bearerChallenge(header: string | undefined): string {
  return header === undefined ? 'Bearer' : 'Bearer error="invalid_token"';
}

const comparisonKey = randomBytes(32);

/** Compares in the same time wherever the two differ, and whatever their lengths. */
export function isSameToken(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHmac('sha256', comparisonKey).update(text).digest();
}
