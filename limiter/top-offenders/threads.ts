/** Each thread that answers callers has its own top offenders. The main thread joins and shows them. */
import { type ApiCall, ApiProblem, checkDomain } from '../../process/http/api-route.ts';
import { sendLines } from '../../process/http/text-response.ts';
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { TopMessages } from './messages.ts';
import type { TopSettings } from './settings.ts';
import { overLimitHits, TopOffenders } from './top-offenders.ts';
import { parseTopQuery, topJson, topPage } from './top-page.ts';
import { TopReporter } from './top-report.ts';

export function main({ settings, clock, threads }: MainContext<TopSettings>): MainPart {
  const { statsTopKeys, cacheKeyPrefix } = settings;
  const source = threads.of<TopMessages>();
  const reporter = statsTopKeys > 0 ? new TopReporter({ source, clock, cacheKeyPrefix }) : undefined;
  return {
    routes: () => [
      {
        method: 'GET',
        path: '/v1/top',
        right: 'read',
        parameters: ['domain', 'n'],
        answer: async (call) => ({ body: await top(call, reporter) }),
      },
    ],
    pages: {
      root: '/top',
      described: {
        '/top': 'keys most often over their limit, by domain; parameters: domain, n, format=json',
      },
      kindOf: () => 'page',
      answer: async ({ target, response }) => {
        const { status, contentType, lines } = await topPage(target.query, reporter);
        response.statusCode = status;
        response.setHeader('X-Content-Type-Options', 'nosniff');
        await sendLines(response, lines, contentType);
      },
    },
  };
}

async function top({ query, actor }: ApiCall, reporter: TopReporter | undefined): Promise<object> {
  const question = parseTopQuery(query);
  if (question instanceof Error) throw new ApiProblem(400, question.message);
  if (reporter === undefined) throw new ApiProblem(409, '/top is off: STATS_TOP_KEYS is 0');
  if (question.domain !== undefined) checkDomain(actor, question.domain, 'read');
  return topJson(await reporter.report({ ...question, mayShow: (domain) => actor.mayRead(domain) }));
}

export function thread({ settings, clock, timers, registry }: ThreadContext<TopSettings>): ThreadPart {
  const { statsTopKeys: keysPerDomain, statsTopMaxBytes: maxBytes, statsTopPeriodMs } = settings;
  if (keysPerDomain === 0) return {};
  const offenders = new TopOffenders({ keysPerDomain, maxBytes, clock });
  registerTopStats(registry, offenders);
  const messages: TopMessages = {
    topDomains: () => offenders.topDomains(),
    summariesOf: (domain) => offenders.summariesOf(domain),
  };
  let stop = (): void => {};
  return {
    messages,
    observes: {
      onOverLimit: (domain, hit, overLimit) => offenders.add(overLimitHits(domain, hit, overLimit)),
    },
    start: () => {
      stop = timers.every(statsTopPeriodMs, () => offenders.rotate());
    },
    close: () => stop(),
  };
}

/** Registers counts rather than names, so that a metrics sink sees how full the sketches are, but no names. */
function registerTopStats(registry: StatsRegistry, top: TopOffenders): void {
  registry.gauge('ratelimit.top_offenders.domains', () => top.domainCount);
  registry.gauge('ratelimit.top_offenders.bytes', () => top.bytes);
  registry.counterFrom('ratelimit.top_offenders.dropped', () => top.dropped);
}
