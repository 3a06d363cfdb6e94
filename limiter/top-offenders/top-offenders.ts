/** The top offenders of one thread: the keys that are most often over limit. */

import { limitLabel } from '../../rules/describe.ts';
import { shownKey } from '../../rules/long-text.ts';
import { boundedText } from '../capabilities/bounded-text.ts';
import type { CountedHit } from '../service/decision.ts';
import { SpaceSaving, summaryOf, type TopSummary } from './space-saving.ts';

export interface TopOffendersOptions {
  /** The number of keys in a sketch, at least 1. There are two sketches for each domain. */
  keysPerDomain: number;
  /** The maximum size of all domains together. The domains that were over limit longest ago are dropped. One domain may always stay. */
  maxBytes: number;
  clock: { nowMs(): number };
}

/** Hits beyond a limit, as the statistic `over_limit` counts them. */
export interface OverLimitHits {
  domain: string;
  /** The name of the counter, from the request. */
  key: string;
  hits: number;
  /** The metric key of the rule. */
  rule: string;
  /** The rule let them pass nevertheless. */
  shadowMode: boolean;
}

export function overLimitHits(domain: string, { key, counter }: CountedHit, hits: number): OverLimitHits {
  const { counterStem, limit, metric, rule } = counter;
  // The stem is still in pieces, and joining them takes longer than all the rest. The key is already joined, because the store
  // or the local cache looked it up.
  let name = key.slice(0, counterStem.length);
  // Several counters share the stem.
  if (rule.limits.length > 1) name += limitLabel(rule.limits, limit);
  return { domain, key: shownKey(name), hits, rule: metric.key, shadowMode: rule.shadowMode };
}

interface DomainTop {
  name: string;
  current: SpaceSaving;
  previous: SpaceSaving | undefined;
}

/** All domains of one thread, in no order. */
export interface TopDomains {
  sinceMs: number;
  /** Names, and numbers of hits over limit. */
  totals: [domain: string, total: number][];
}

/** A domain without keys: below 700 measured, both sketches included. */
const domainBytes = 700;

/**
 * The keys that are most often over their limit, with sketches for each domain. Memory is bounded regardless of requests: by a
 * number of keys for each domain, and by bytes in total. The two sketches of a domain take turns, so that a report covers the
 * last one to two periods. A request costs time only if it is over a limit.
 */
export class TopOffenders {
  readonly #options: TopOffendersOptions;
  /** Domains, in the order in which they were last over limit, the oldest first. */
  readonly #domains = new Map<string, DomainTop>();
  /** The last of them. */
  #latest: DomainTop | undefined;
  #bytes = 0;
  #dropped = 0;
  #sinceMs: number;
  #currentSinceMs: number;

  constructor(options: TopOffendersOptions) {
    this.#options = options;
    this.#sinceMs = options.clock.nowMs();
    this.#currentSinceMs = this.#sinceMs;
  }

  get domainCount(): number {
    return this.#domains.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** How often the keys of a domain were dropped because of `maxBytes`. */
  get dropped(): number {
    return this.#dropped;
  }

  add({ domain, key, hits, rule, shadowMode }: OverLimitHits): void {
    const { current } = this.#latest?.name === domain ? this.#latest : this.#use(domain);
    const before = current.bytes;
    current.add(boundedText(key), hits, boundedText(rule), shadowMode);
    this.#bytes += current.bytes - before;
    if (this.#bytes > this.#options.maxBytes) this.#makeRoom();
  }

  /** Starts a new period. Call it once a period. Data older than the period that ends now is dropped. */
  rotate(): void {
    this.#sinceMs = this.#currentSinceMs;
    this.#currentSinceMs = this.#options.clock.nowMs();
    this.#latest = undefined;
    this.#bytes = 0;
    for (const [name, domain] of this.#domains) {
      const { current } = domain;
      if (current.total === 0) {
        this.#domains.delete(name);
        continue;
      }
      domain.previous = current;
      domain.current = new SpaceSaving(this.#options.keysPerDomain);
      this.#bytes += bytesOf(domain);
    }
  }

  topDomains(): TopDomains {
    const totals = Array.from(this.#domains, ([name, { current, previous }]): [string, number] => {
      return [name, current.total + (previous?.total ?? 0)];
    });
    return { sinceMs: this.#sinceMs, totals };
  }

  /** Returns one summary for each of the two sketches. Empty for a domain where nothing was over limit. */
  summariesOf(name: string): TopSummary[] {
    const domain = this.#domains.get(name);
    if (domain === undefined) return [];
    const current = summaryOf(domain.current, this.#currentSinceMs);
    return domain.previous === undefined ? [current] : [summaryOf(domain.previous, this.#sinceMs), current];
  }

  #use(name: string): DomainTop {
    let domain = this.#domains.get(name);
    if (domain === undefined) {
      domain = { name, current: new SpaceSaving(this.#options.keysPerDomain), previous: undefined };
      this.#bytes += bytesOf(domain);
    } else {
      this.#domains.delete(name);
    }
    this.#domains.set(name, domain);
    this.#latest = domain;
    return domain;
  }

  #makeRoom(): void {
    for (const [name, domain] of this.#domains) {
      if (this.#bytes <= this.#options.maxBytes || domain === this.#latest) return;
      this.#domains.delete(name);
      this.#bytes -= bytesOf(domain);
      this.#dropped += 1;
    }
  }
}

function bytesOf({ name, current, previous }: DomainTop): number {
  return domainBytes + 2 * name.length + current.bytes + (previous?.bytes ?? 0);
}
