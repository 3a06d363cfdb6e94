/** Where the command line asks clusters and limiters. */
import type { Mutant } from './mutant-source.ts';

export const commandLineMutants: readonly Mutant[] = [
  {
    defect: 'the command line lists objects twice when pages are dropped',
    file: 'cli/shared/cluster.ts',
    within: 'Cluster.list',
    search: 'all = [];\n        query',
    replace: 'query',
    killedBy: 'cli/shared/cluster.test.ts',
  },
  {
    defect: 'the command line lists for ever when a list is too old at once',
    file: 'cli/shared/cluster.ts',
    within: 'Cluster.list',
    search: ' && query.continue !== undefined',
    replace: '',
    killedBy: 'cli/shared/cluster.test.ts',
    byTimeout: true,
  },
  {
    defect: 'the command line lists objects without the labels from page two on',
    file: 'cli/shared/cluster.ts',
    within: 'Cluster.list',
    search: 'query: { ...query, labelSelector }',
    replace: 'query: { labelSelector: query.continue ? undefined : labelSelector, ...query }',
    killedBy: 'cli/shared/cluster.test.ts',
  },
  {
    defect: 'a limiter that answers 429 counts as silent',
    file: 'cli/operate/limiters.ts',
    within: 'rejectingStatuses',
    search: '401, 403, 429',
    replace: '401, 403',
    killedBy: 'cli/operate/limiters.test.ts',
  },
  {
    defect: 'a limiter that answers 401 counts as silent',
    file: 'cli/operate/limiters.ts',
    within: 'rejectingStatuses',
    search: '401, 403, 429',
    replace: '403, 429',
    killedBy: 'cli/operate/limiters.test.ts',
  },
];
