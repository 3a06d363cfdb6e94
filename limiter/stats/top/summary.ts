/** What sketches of different times and threads say together. Their bounds add up: the sum stays true. */
import type { HeavyKey, SpaceSaving } from './space-saving.ts';

/** A sketch as plain data, which threads can hand to each other. */
export interface TopSummary {
  /** When its observation began, in milliseconds since 1970. */
  sinceMs: number;
  /** Of all keys, exactly. */
  total: number;
  /** What a key that is not among `keys` can weigh at most. */
  missed: number;
  keys: HeavyKey[];
}

export function summaryOf(sketch: SpaceSaving, sinceMs: number): TopSummary {
  const keys = Array.from(sketch.keys(), ({ key, count, error, rule, shadowMode }) => {
    return { key, count, error, rule, shadowMode };
  });
  return { sinceMs, total: sketch.total, missed: sketch.missed, keys };
}

/**
 * At least one, the newest last. The heaviest key comes first, equal ones by name. A summary without a key stands for
 * up to its `missed` of it.
 */
export function joinedSummaries(summaries: readonly TopSummary[]): TopSummary {
  const missed = sumOf(summaries, 'missed');
  const sums = new Map<string, HeavyKey>();
  for (const summary of summaries) {
    for (const entry of summary.keys) {
      const sum = sums.get(entry.key) ?? { count: missed, error: missed };
      const count = sum.count + entry.count - summary.missed;
      const error = sum.error + entry.error - summary.missed;
      sums.set(entry.key, { ...entry, count, error });
    }
  }
  const keys = [...sums.values()].sort((a, b) => b.count - a.count || (a.key < b.key ? -1 : 1));
  const sinceMs = Math.min(...summaries.map((summary) => summary.sinceMs));
  return { sinceMs, total: sumOf(summaries, 'total'), missed, keys };
}

function sumOf(summaries: readonly TopSummary[], what: 'total' | 'missed'): number {
  return summaries.reduce((sum, summary) => sum + summary[what], 0);
}
