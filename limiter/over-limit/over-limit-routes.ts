/** `/v1/refusals`: recently rate-limited requests and their limits, over all threads. */
import {
  type ApiCall,
  ApiProblem,
  type ApiRoute,
  checkDomain,
  entryOf,
  rowsOf,
  shown,
} from '../../process/http/api-route.ts';
import {
  type FoundOverLimitRows,
  type OverLimitQuery,
  type OverLimitRow,
  overLimitJson,
} from './over-limit-memory.ts';

export interface OverLimitRouteParts {
  /** The name of this limiter. */
  name: string;
  /** Searches in each thread that answers callers. */
  find(question: OverLimitQuery): Promise<readonly FoundOverLimitRows[]>;
}

export function overLimitRoutes({ name, find }: OverLimitRouteParts): ApiRoute[] {
  return [
    {
      method: 'GET',
      path: '/v1/refusals',
      right: 'read',
      parameters: ['domain', 'entry', 'requestId', 'since', 'until', 'limit'],
      answer: async (call) => {
        const limit = rowsOf(call.query);
        const domain = call.query.get('domain') || undefined;
        if (domain !== undefined) checkDomain(call.actor, domain, 'read');
        const question = {
          domain,
          entries: call.query.getAll('entry').map(entryOf),
          requestId: call.query.get('requestId') || undefined,
          since: secondOf(call, 'since'),
          until: secondOf(call, 'until'),
          limit,
        };
        let found = await find(question);
        const domains = [...new Set(found.flatMap((one) => one.domains))];
        const readable = domains.filter((one) => call.actor.mayRead(one));
        // Rows of other domains must not displace rows in the answer, and are not counted in it.
        if (readable.length < domains.length) found = await find({ ...question, domains: readable });
        const rows = joined(found.flatMap((one) => one.rows));
        const since = found.flatMap((one) => one.since ?? []);
        return {
          body: {
            refusals: rows.slice(0, limit).map((row) => overLimitJson(row, name)),
            kept: found.reduce((sum, { stored }) => sum + stored, 0),
            since: since.length === 0 ? null : new Date(Math.min(...since) * 1000).toISOString(),
          },
        };
      },
    },
  ];
}

/** Joins rows to one for each counter and second, across all threads. The newest rows come first. */
export function joined(rows: readonly OverLimitRow[]): OverLimitRow[] {
  const found = new Map<string, OverLimitRow>();
  for (const row of rows) {
    const { second, key, domain, rule, limitName, entries } = row;
    const name = JSON.stringify([second, limitName, key ?? [domain, rule, entries]]);
    const other = found.get(name);
    const ids = other?.requestId || other?.traceId ? other : row;
    found.set(name, {
      ...row,
      count: row.count + (other?.count ?? 0),
      used: Math.max(row.used, other?.used ?? 0),
      requestId: ids.requestId,
      traceId: ids.traceId,
    });
  }
  return [...found.values()].sort((a, b) => b.second - a.second);
}

/** A row covers a whole second. */
function secondOf({ query }: ApiCall, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  const seconds = /^\d{1,11}$/.test(text) ? Number(text) : Date.parse(text) / 1000;
  if (Number.isFinite(seconds)) return Math.floor(seconds);
  throw new ApiProblem(400, `${name} is a time of RFC 3339, or seconds since 1970, not ${shown(text)}`);
}
