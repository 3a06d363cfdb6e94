/** Bearer tokens, RFC 6750: how they come with a request, and how two are compared. */
import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';

/** Chosen: far beyond what can be guessed over a network, where it is random. */
export const shortestToken = 16;
/** Chosen: what fits into a header with every proxy. */
const longestToken = 4_096;

/** The token of an `Authorization: Bearer <token>` header; undefined when it is of another form. RFC 6750, section 2.1. */
export function bearerToken(header: string | undefined): string | undefined {
  return /^bearer +([!-~]+) *$/i.exec(header ?? '')?.[1];
}

/** What is wrong with a token that somebody chose; undefined when it will do. Says nothing of what it is. */
export function tokenProblem(token: string, leastCharacters: number): string | undefined {
  if (token === '') return 'the token is empty';
  if (!/^[!-~]+$/.test(token)) return 'the token must be of visible ASCII characters without spaces';
  if (token.length < leastCharacters) {
    return `the token must have at least ${leastCharacters} characters, it has ${token.length}`;
  }
  if (token.length > longestToken) {
    return `the token must have at most ${longestToken} characters, it has ${token.length}`;
  }
  return undefined;
}

/** RFC 6750, section 3: how a refusal names what is missing. No error code for a request that brings no credentials. */
export function bearerChallenge(header: string | undefined): string {
  return header === undefined ? 'Bearer' : 'Bearer error="invalid_token"';
}

const comparisonKey = randomBytes(32);

/** Takes the same time wherever the two differ, and whatever their lengths. */
export function isSameToken(a: string, b: string): boolean {
  return timingSafeEqual(digest(a), digest(b));
}

function digest(text: string): Buffer {
  return createHmac('sha256', comparisonKey).update(text).digest();
}
