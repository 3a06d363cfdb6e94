import type { RateLimit } from './model.ts';

/** `20 per minute`, `unlimited`. */
export function limitWords(limit: RateLimit): string {
  if (limit.unlimited) return 'unlimited';
  return `${limit.requestsPerUnit} per ${limit.unit.toLowerCase()}`;
}
