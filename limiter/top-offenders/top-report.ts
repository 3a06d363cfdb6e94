/** Reports the top offenders over all threads and both sketches of a domain. */
import { unambiguousStem } from '../../rules/counter-keys.ts';
import type { ThreadsOf } from '../capabilities/messages.ts';
import type { TopMessages } from './messages.ts';
import { joinedSummaries, type TopSummary } from './space-saving.ts';

export interface TopReport {
  sinceMs: number;
  untilMs: number;
  /** The number of domains with hits over limit. */
  domainCount: number;
  /** The requested domains, the one with the most hits first. */
  domains: TopDomain[];
}

export interface TopDomain {
  domain: string;
  /** The exact number of hits over limit of all keys. */
  overLimit: number;
  /** The maximum number for a key that is not held. */
  missed: number;
  /** The heaviest first. */
  keys: TopKey[];
}

export interface TopKey {
  key: string;
  rule: string;
  shadowMode: boolean;
  /** The lower bound of its hits over limit. */
  atLeast: number;
  atMost: number;
}

/** The part of the report to show. Without a domain, it shows the first domains by hits. */
export interface TopQuery {
  domain: string | undefined;
  keys: number;
  /** Domains for which this returns false are left out, and not counted. Undefined if none are left out. */
  mayShow?: (domain: string) => boolean;
}

/** Chosen: a page that fits a screen or two. To see more, ask for a domain. */
const maxDomains = 10;

export interface TopReporterOptions {
  /** The threads whose sketches are read. */
  source: Pick<ThreadsOf<TopMessages>, 'ask'>;
  clock: { nowMs(): number };
  /** CACHE_KEY_PREFIX, the prefix of all keys. */
  cacheKeyPrefix: string;
}

export class TopReporter {
  readonly #options: TopReporterOptions;

  constructor(options: TopReporterOptions) {
    this.#options = options;
  }

  async report(question: TopQuery): Promise<TopReport> {
    const { source, clock } = this.#options;
    const threads = await source.ask('topDomains', undefined);
    const untilMs = clock.nowMs();
    const totals = new Map<string, number>();
    for (const [domain, total] of threads.flatMap((thread) => thread.totals)) {
      if (question.mayShow?.(domain) !== false) totals.set(domain, (totals.get(domain) ?? 0) + total);
    }
    const domains: TopDomain[] = [];
    for (const domain of shownDomains(question, totals)) {
      const summaries = (await source.ask('summariesOf', domain)).flat();
      if (summaries.length > 0)
        domains.push(this.#domainOf(domain, joinedSummaries(summaries), question.keys));
    }
    const sinceMs = Math.min(untilMs, ...threads.map((thread) => thread.sinceMs));
    return { sinceMs, untilMs, domainCount: totals.size, domains };
  }

  #domainOf(domain: string, { total, missed, keys }: TopSummary, max: number): TopDomain {
    const shown = keys.slice(0, max).map(({ key, rule, shadowMode, count, error }) => {
      return { key: this.#entriesOf(domain, key), rule, shadowMode, atLeast: count - error, atMost: count };
    });
    return { domain, overLimit: total, missed, keys: shown };
  }

  /**
   * Returns the counter's name without the part that all keys of the domain share. `key` is a stem in either form. For one of
   * several limits of a rule, the limit's label follows.
   */
  #entriesOf(domain: string, key: string): string {
    const { cacheKeyPrefix: prefix } = this.#options;
    const unambiguous = `${prefix}${unambiguousStem(domain, ';').slice(0, -1)}`;
    if (!key.startsWith(unambiguous)) {
      const compatible = `${prefix}${domain}_`;
      return key.slice(key.startsWith(compatible) ? compatible.length : 0).replace(/_$/, '');
    }
    const [entries] = key.slice(unambiguous.length).split('}', 1);
    const label = key.slice(unambiguous.length + entries!.length + 1);
    return label === '' ? entries! : `${entries} (${label})`;
  }
}

function shownDomains({ domain }: TopQuery, totals: ReadonlyMap<string, number>): string[] {
  if (domain !== undefined) return [domain];
  const byTotal = [...totals].sort(([a, totalA], [b, totalB]) => totalB - totalA || (a < b ? -1 : 1));
  return byTotal.slice(0, maxDomains).map(([name]) => name);
}
