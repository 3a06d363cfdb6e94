/** Which counter each request of the load hits, and the rules that limit them. */

export const domain = 'faults';

/** A window that does not turn while a case runs. */
const unit = 'year';

/** Limits whose counters many requests share, and how many counters each has. */
const shared = [
  { limit: 5, counters: 8 },
  { limit: 50, counters: 4 },
  { limit: 300, counters: 4 },
] as const;

/** Of the counters that one request alone hits. */
const unreached = 1_000_000;

export interface PlannedCounter {
  /** Key of the descriptor's entry. */
  key: string;
  value: string;
  limit: number;
}

export const rulesFile = [
  `domain: ${domain}`,
  'descriptors:',
  ...[...shared.map(({ limit }) => limit), unreached].map(
    (limit) => `  - key: limit_${limit}\n    rate_limit: { unit: ${unit}, requests_per_unit: ${limit} }`,
  ),
  '',
].join('\n');

/** Half of the requests hit counters that others hit, too, half a counter of their own, which shows every single hit. */
export function plannedCounter(request: number, padding = ''): PlannedCounter {
  const turn = request % 8;
  const group = turn >= 4 ? undefined : shared[Math.min(turn, shared.length - 1)];
  if (group === undefined) return counter(unreached, `own-${request}${padding}`);
  return counter(group.limit, `${Math.floor(request / 8) % group.counters}${padding}`);
}

/** As the key in the store begins: what follows is the start of the window. */
export function counterName({ key, value }: PlannedCounter): string {
  return `${domain}_${key}_${value}`;
}

/** The counter's name in a key as it is stored. */
export function nameInKey(storedKey: string): string {
  return storedKey.replace(/_\d+$/, '');
}

function counter(limit: number, value: string): PlannedCounter {
  return { key: `limit_${limit}`, value, limit };
}
