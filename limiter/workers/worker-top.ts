/** The top offenders of all workers, which each keep their own. They answer in JSON, as bytes. */
import { inTime, type Timers } from '../../process/time/clock.ts';
import type { TopSummary } from '../stats/top/space-saving.ts';
import type { TopDomains, TopOffenders } from '../stats/top/top-offenders.ts';
import type { TopSource } from '../stats/top/top-report.ts';

/** Without a domain it is asked which there are. */
export interface WorkerTopTask {
  do: 'show-top';
  domain: string | undefined;
}

/** Chosen: so long a page waits for workers; it is put together without those that take longer. */
const waitMs = 1_000;

/**
 * `askAll` asks every worker that answers. A promise settles with undefined where there is nothing to tell, and never
 * rejects.
 */
export function topOfWorkers(
  askAll: (task: WorkerTopTask) => Promise<Uint8Array | undefined>[],
  timers: Timers,
): TopSource {
  const ask = async (domain: string | undefined): Promise<unknown[]> => {
    const answers: unknown[] = [];
    const all = askAll({ do: 'show-top', domain }).map(async (answer) => {
      const bytes = await answer;
      if (bytes !== undefined) answers.push(JSON.parse(Buffer.from(bytes).toString()));
    });
    await inTime(timers, waitMs, Promise.all(all), undefined);
    // What comes later is not to be seen by whoever reads this one.
    return [...answers];
  };
  return {
    topDomains: () => ask(undefined) as Promise<TopDomains[]>,
    summariesOf: async (domain) => ((await ask(domain)) as TopSummary[][]).flat(),
  };
}

/** A worker's answer. */
export function topAnswer(offenders: TopOffenders, { domain }: WorkerTopTask): Uint8Array {
  const told = domain === undefined ? offenders.topDomains() : offenders.summariesOf(domain);
  return Buffer.from(JSON.stringify(told));
}
