/** GET /v1/status: how this limiter is, and what it did in the last hour. */
import { type ApiCall, type ApiRoute, flagOf } from '../../process/http/api-route.ts';
import type { RateSampler } from './rates.ts';

/** What `/v1/status` says besides rates; asked for anew each time. */
export interface StatusParts {
  limiter: Readonly<Record<'name' | 'instance' | 'version' | 'node' | 'startedAt', string>> & {
    readonly pid: number;
  };
  ready(): boolean;
  /** Components that are not well. */
  failing(): readonly string[];
  capabilities: readonly string[];
  /** `readsAll`: anyone who asks may read every domain, so also of those that an error is in. */
  rules(readsAll: boolean): Readonly<Record<string, unknown>>;
  store(): Readonly<Record<string, unknown>>;
  sinks(): readonly Readonly<Record<string, unknown>>[];
  /** Of the admin API, by what. */
  changes(): Readonly<Record<string, number>>;
  /** Brings the statistics up to date. */
  refresh(): Promise<void>;
  sampler: RateSampler;
}

/** Chosen: domains with a history in one answer. */
const mostDomains = 20;

export function statusRoutes(parts: StatusParts): ApiRoute[] {
  return [
    {
      method: 'GET',
      path: '/v1/status',
      right: 'read',
      parameters: ['history'],
      answer: async (call) => ({ body: await status(call, parts) }),
    },
  ];
}

async function status({ query, actor }: ApiCall, parts: StatusParts): Promise<object> {
  const withHistory = flagOf(query, 'history');
  await parts.refresh();
  const { limiter, ready, failing, capabilities, rules, store, sinks, changes, sampler } = parts;
  return {
    limiter,
    ready: ready(),
    failing: failing(),
    capabilities,
    // No domain has an empty name: who may read that one may read all.
    rules: rules(actor.mayRead('')),
    store: store(),
    rates: sampler.rates,
    sinks: sinks(),
    changes: changes(),
    ...(withHistory ? { history: sampler.history(mostDomains, (domain) => actor.mayRead(domain)) } : {}),
  };
}
