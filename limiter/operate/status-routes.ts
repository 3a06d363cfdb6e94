/** GET /v1/status: how this limiter is, and what it did in the last hour. GET /v1/top: who is over limit. */
import { type ApiCall, ApiProblem, type ApiRoute, checkDomain } from '../../process/http/api-route.ts';
import { topJson, topQuestion } from '../stats/top/top-page.ts';
import type { TopReporter } from '../stats/top/top-report.ts';
import type { RateSampler } from './rates.ts';

/** What `/v1/status` says besides rates; asked for anew each time. */
export interface StatusParts {
  limiter: Readonly<Record<'name' | 'instance' | 'version' | 'node' | 'startedAt', string>> & {
    readonly pid: number;
  };
  ready(): boolean;
  /** Components that are not well. */
  failing(): readonly string[];
  /** `readsAll`: whoever asks may read every domain, so also of those that an error is in. */
  rules(readsAll: boolean): Readonly<Record<string, unknown>>;
  store(): Readonly<Record<string, unknown>>;
  sinks(): readonly Readonly<Record<string, unknown>>[];
  /** Of the admin API, by what. */
  changes(): Readonly<Record<string, number>>;
  /** Brings the statistics up to date. */
  refresh(): Promise<void>;
  sampler: RateSampler;
  /** Undefined with STATS_TOP_KEYS=0. */
  top: TopReporter | undefined;
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
    {
      method: 'GET',
      path: '/v1/top',
      right: 'read',
      parameters: ['domain', 'n'],
      answer: async (call) => ({ body: await top(call, parts.top) }),
    },
  ];
}

async function status({ query, actor }: ApiCall, parts: StatusParts): Promise<object> {
  const history = query.get('history') ?? 'false';
  if (history !== 'true' && history !== 'false') throw new ApiProblem(400, 'history must be true or false');
  await parts.refresh();
  const { limiter, ready, failing, rules, store, sinks, changes, sampler } = parts;
  return {
    limiter,
    ready: ready(),
    failing: failing(),
    // No domain has an empty name: who may read that one may read all.
    rules: rules(actor.mayRead('')),
    store: store(),
    rates: sampler.rates,
    sinks: sinks(),
    changes: changes(),
    ...(history === 'true'
      ? { history: sampler.history(mostDomains, (domain) => actor.mayRead(domain)) }
      : {}),
  };
}

async function top({ query, actor }: ApiCall, reporter: TopReporter | undefined): Promise<object> {
  const question = topQuestion(query);
  if (question instanceof Error) throw new ApiProblem(400, question.message);
  if (reporter === undefined) throw new ApiProblem(409, 'top offenders are not kept: STATS_TOP_KEYS is 0');
  if (question.domain !== undefined) checkDomain(actor, question.domain, 'read');
  return topJson(await reporter.report({ ...question, mayShow: (domain) => actor.mayRead(domain) }));
}
