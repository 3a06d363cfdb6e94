/** Where `/top` looks: the sketches of this thread, or of several. */
import type { TopSummary } from './summary.ts';
import type { TopDomains } from './top-offenders.ts';

export interface TopSource {
  /** Of each thread that answers. */
  topDomains(): TopDomains[] | Promise<TopDomains[]>;
  /** Any number for each thread; none where nothing of the domain was over. */
  summariesOf(domain: string): TopSummary[] | Promise<TopSummary[]>;
}
