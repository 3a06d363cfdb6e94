/** `/v1/assignments`: which quota clients hold how much of which rules, over all threads. */
import { ApiProblem, type ApiRoute, domainOf, entryOf, shown } from '../../process/http/api-route.ts';
import type { Entry } from '../../rules/model.ts';
import type { Allocating, ShareView } from '../allocate/terms.ts';
import type { ThreadsOf } from '../capabilities/messages.ts';

/** One client's share of one rule, for one bucket. */
export interface AssignmentRow {
  readonly rule: string;
  readonly bucket: readonly Entry[];
  /** The name from CALLERS_FILE; null if callers need no names. */
  readonly caller: string | null;
  readonly address: string;
  readonly form: ShareView['form'];
  readonly weight: number;
  /** Requests that the client may still allow now: in the refilling form within a window. */
  readonly mayUse: number;
  /** The requests that it wants per second. */
  readonly demand: number;
  /** Requests assigned since the client first reported the bucket. */
  readonly assigned: number;
  readonly used: number;
  readonly denied: number;
  readonly returned: number;
  readonly overReported: number;
  readonly sinceMs: number;
  /** The time at which its assignment ends without a renewal; 0: it has none. */
  readonly endsMs: number;
}

export interface AssignmentQuestion {
  readonly domain: string;
  /** Entries that a bucket must have. */
  readonly entries: readonly Entry[];
  readonly most: number;
}

export interface FoundAssignments {
  /** The rows, sorted by what the clients may use, the most first. */
  readonly rows: readonly AssignmentRow[];
  /** The number of all matching rows, including those that were left out. */
  readonly count: number;
}

export interface AssignmentMessages {
  assignments(question: AssignmentQuestion): FoundAssignments;
}

/** The owner of a share. The allocator's holders provide it. */
export interface ShareOwner {
  readonly domain: string;
  readonly bucket: readonly Entry[];
  readonly caller: string | undefined;
  readonly address: string;
  readonly rule: string;
}

export function findAssignments(
  allocator: Pick<Allocating, 'list'>,
  ownerOf: (view: ShareView) => ShareOwner | undefined,
  { domain, entries, most }: AssignmentQuestion,
): FoundAssignments {
  const rows: AssignmentRow[] = [];
  for (const view of allocator.list()) {
    const owner = ownerOf(view);
    if (owner === undefined || owner.domain !== domain || !hasAll(owner.bucket, entries)) continue;
    const { rule, bucket, caller = null, address } = owner;
    const { form, mayUse, demand, assigned, used, denied, returned, overReported, sinceMs, endsMs } = view;
    rows.push({
      ...{ rule, bucket, caller, address, form, weight: view.holder.weight, mayUse, demand },
      ...{ assigned, used, denied, returned, overReported, sinceMs, endsMs },
    });
  }
  return { rows: rows.sort(byUse).slice(0, most), count: rows.length };
}

function hasAll(bucket: readonly Entry[], entries: readonly Entry[]): boolean {
  return entries.every(({ key, value }) => bucket.some((one) => one.key === key && one.value === value));
}

const byUse = (a: AssignmentRow, b: AssignmentRow): number => b.mayUse - a.mayUse || b.used - a.used;

const defaultRows = 100;
const mostRows = 1_000;

export function assignmentRoute(threads: ThreadsOf<AssignmentMessages>): ApiRoute {
  return {
    method: 'GET',
    path: '/v1/assignments',
    right: 'read',
    parameters: ['domain', 'entry', 'limit'],
    answer: async (call) => {
      const domain = domainOf(call, 'read');
      const most = rowsWanted(call.query.get('limit'));
      const entries = call.query.getAll('entry').map(entryOf);
      const found = await threads.ask('assignments', { domain, entries, most });
      const rows = found.flatMap((one) => one.rows).sort(byUse);
      return {
        body: {
          assignments: rows.slice(0, most).map(rowJson),
          count: found.reduce((sum, { count }) => sum + count, 0),
        },
      };
    },
  };
}

function rowsWanted(text: string | null): number {
  if (text === null) return defaultRows;
  const rows = Number(text);
  if (!Number.isInteger(rows) || rows < 1 || rows > mostRows)
    throw new ApiProblem(400, `limit must be a whole number from 1 to ${mostRows}, not ${shown(text)}`);
  return rows;
}

function rowJson({ sinceMs, endsMs, demand, bucket, ...row }: AssignmentRow): object {
  return {
    ...row,
    bucket: Object.fromEntries(bucket.map(({ key, value }) => [key, value])),
    demand: Math.round(demand * 1000) / 1000,
    since: new Date(sinceMs).toISOString(),
    ends: endsMs === 0 ? null : new Date(endsMs).toISOString(),
  };
}
