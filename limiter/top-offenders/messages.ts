import type { TopSummary } from './space-saving.ts';
import type { TopDomains } from './top-offenders.ts';

/** Requests from the main thread to the threads that answer callers. */
export interface TopMessages {
  topDomains(): TopDomains;
  /** Returns an empty list if no hits of the domain were over limit. */
  summariesOf(domain: string): TopSummary[];
}
