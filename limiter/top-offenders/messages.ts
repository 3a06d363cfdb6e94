import type { TopSummary } from './space-saving.ts';
import type { TopDomains } from './top-offenders.ts';

/** What the main thread asks the threads that answer callers. */
export interface TopMessages {
  topDomains(): TopDomains;
  /** None where nothing of the domain was over. */
  summariesOf(domain: string): TopSummary[];
}
