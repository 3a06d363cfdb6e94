/** GET /v1/status: the state of this limiter and its rates in the last hour. */
import { type ApiCall, type ApiRoute, flagOf } from '../../process/http/api-route.ts';
import type { RateSampler } from './rates.ts';

/** The content of `/v1/status` besides rates, read for each request. */
export interface StatusContent {
  limiter: Readonly<Record<'name' | 'instance' | 'version' | 'node' | 'startedAt', string>> & {
    readonly pid: number;
  };
  ready(): boolean;
  /** The components that are failing. */
  failing(): readonly string[];
  capabilities: readonly string[];
  /** `readsAll`: the caller may read every domain, including those that have an error. */
  rules(readsAll: boolean): Readonly<Record<string, unknown>>;
  store(): Readonly<Record<string, unknown>>;
  sinks(): readonly Readonly<Record<string, unknown>>[];
  /** Changes made through the admin API, by kind. */
  changes(): Readonly<Record<string, number>>;
  /** Brings the statistics up to date. */
  refresh(): Promise<void>;
  sampler: RateSampler;
}

/** Chosen: domains with a history in one answer. */
const maxDomains = 20;

export function statusRoutes(parts: StatusContent): ApiRoute[] {
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

async function status({ query, actor }: ApiCall, parts: StatusContent): Promise<object> {
  const withHistory = flagOf(query, 'history');
  await parts.refresh();
  const { limiter, ready, failing, capabilities, rules, store, sinks, changes, sampler } = parts;
  return {
    limiter,
    ready: ready(),
    failing: failing(),
    capabilities,
    // No domain has an empty name: a caller that may read it may read all domains.
    rules: rules(actor.mayRead('')),
    store: store(),
    rates: sampler.rates,
    sinks: sinks(),
    changes: changes(),
    ...(withHistory ? { history: sampler.history(maxDomains, (domain) => actor.mayRead(domain)) } : {}),
  };
}
