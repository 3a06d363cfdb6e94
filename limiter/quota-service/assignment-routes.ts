/** `/v1/assignments`: which quota clients hold how much of which rules, over all threads. */
import { type ApiRoute, domainOf, entryOf, rowsOf } from '../../process/http/api-route.ts';
import type { Entry } from '../../rules/model.ts';
import type { ShareView } from '../allocate/terms.ts';
import type { ThreadsOf } from '../capabilities/messages.ts';

/** One client's share of one rule, for one bucket. */
export interface AssignmentRow extends ShareView {
  readonly rule: string;
  readonly bucket: readonly Entry[];
  /** The name from CALLERS_FILE; null if callers need no names. */
  readonly caller: string | null;
  readonly address: string;
}

export interface AssignmentQuery {
  readonly domain: string;
  /** Entries that a bucket must have. */
  readonly entries: readonly Entry[];
  readonly max: number;
}

export interface FoundAssignments {
  /** The rows, sorted by what the clients may use, the most first. */
  readonly rows: readonly AssignmentRow[];
  /** The number of all matching rows, including those that were left out. */
  readonly count: number;
}

export interface AssignmentMessages {
  assignments(question: AssignmentQuery): FoundAssignments;
}

/** Returns the rows that match, of all rows of a thread. */
export function findAssignments(
  rows: Iterable<AssignmentRow>,
  entries: readonly Entry[],
  max: number,
): FoundAssignments {
  const found: AssignmentRow[] = [];
  for (const row of rows) if (entries.every((entry) => row.bucket.some(isSame(entry)))) found.push(row);
  return { rows: found.sort(byUse).slice(0, max), count: found.length };
}

const isSame =
  (entry: Entry) =>
  ({ key, value }: Entry): boolean =>
    key === entry.key && value === entry.value;

const byUse = (a: AssignmentRow, b: AssignmentRow): number => b.mayUse - a.mayUse || b.used - a.used;

export function assignmentRoute(threads: ThreadsOf<AssignmentMessages>): ApiRoute {
  return {
    method: 'GET',
    path: '/v1/assignments',
    right: 'read',
    parameters: ['domain', 'entry', 'limit'],
    answer: async (call) => {
      const domain = domainOf(call, 'read');
      const max = rowsOf(call.query);
      const entries = call.query.getAll('entry').map(entryOf);
      const found = await threads.ask('assignments', { domain, entries, max });
      const rows = found.flatMap((one) => one.rows).sort(byUse);
      return {
        body: {
          assignments: rows.slice(0, max).map(rowJson),
          count: found.reduce((sum, { count }) => sum + count, 0),
        },
      };
    },
  };
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
