/** The quota service of each thread: each thread that answers callers has its own clients, and all of them share the store. */
import { randomBytes } from 'node:crypto';
import { setFlagsFromString } from 'node:v8';
import { inTime } from '../../process/time/clock.ts';
import { Allocator, tickMs } from '../allocate/allocator.ts';
import type { Decisions, MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import type { GrpcMethod } from '../grpc/request-handler.ts';
import { type AssignmentMessages, assignmentRoute } from './assignment-routes.ts';
import { BucketPlans } from './bucket-plans.ts';
import { weightOf } from './client-weights.ts';
import { quotaPath } from './quota-messages.ts';
import { QuotaService } from './quota-service.ts';
import type { QuotaSettings } from './quota-settings.ts';
import { createQuotaStats } from './quota-stats.ts';
import { UnassignedRules } from './unassigned-rules.ts';

/** Chosen: a store that does not answer delays the end of a limiter by at most this time. */
const drainMs = 2_000;

/**
 * V8 collects garbage when the heap has grown by 40%, not when it has about doubled, and the young generation keeps its size instead of
 * growing to 59 MB: most of the heap are buckets, which stay. Chosen: 1,000 streams with 100 buckets each then take 130 MB less.
 */
const heapFlags = ['--heap-growing-percent=40', '--semi-space-growth-factor=1'];

export const main = ({ threads }: MainContext<QuotaSettings>): MainPart => ({
  routes: () => [assignmentRoute(threads.of<AssignmentMessages>())],
});

export function thread(context: ThreadContext<QuotaSettings>): ThreadPart {
  const { settings, clock, timers, random, registry, log, worker } = context;
  for (const flag of heapFlags) setFlagsFromString(flag);
  let service: QuotaService | undefined;
  let unassigned: UnassignedRules | undefined;
  let stop = (): void => {};
  const open = ({ asked, counting, store, turns, allPass, whyNoShares }: Decisions): QuotaService => {
    const stats = createQuotaStats(registry, log, clock);
    // All threads have the same rules.
    if (worker <= 1)
      unassigned = new UnassignedRules(log, allPass ? 'allow' : settings.rlqsUnassignable, whyNoShares);
    const allocator = new Allocator({
      store,
      clock,
      limiter: randomBytes(12).toString('base64url'),
      random,
      ttlSeconds: settings.rlqsTtlSeconds,
    });
    const opened = new QuotaService({
      ...{ allocator, clock, turns, stats, ttlSeconds: settings.rlqsTtlSeconds },
      plans: new BucketPlans({
        ...{ stats: registry, clock, counting },
        noRule: settings.rlqsNoRule,
        unassignable: settings.rlqsUnassignable,
        allPass,
        whyNoShares,
      }),
      bounds: {
        ofStream: settings.rlqsMaxBucketsOfStream,
        ofCaller: settings.rlqsMaxBucketsOfCaller,
        inAll: settings.rlqsMaxBuckets,
        idBytes: settings.rlqsMaxBucketBytes,
        streams: settings.rlqsMaxStreams,
      },
      idleReports: settings.rlqsIdleReports,
      silenceMs: settings.rlqsSilenceMs,
      weightOf: (client, entries) => weightOf(settings.rlqsWeights, client, entries),
      count: (domain, entries, hits) => {
        const descriptor = { entries, limit: undefined, hitsAddend: hits, isNegativeHits: false };
        asked.service.decide({ domain, descriptors: [descriptor], hitsAddend: 0 }, proxy, ignored);
      },
    });
    stats.watch(opened);
    return opened;
  };
  const messages: AssignmentMessages = {
    assignments: (question) => service?.assignments(question) ?? { rows: [], count: 0 },
  };
  return {
    messages,
    grpc: (decisions) => {
      service = open(decisions);
      const { handler } = service;
      const method: GrpcMethod = { kind: 'duplex', name: 'StreamRateLimitQuotas', handler, isFree: false };
      return new Map([[quotaPath, method]]);
    },
    start: () => {
      stop = timers.every(tickMs, () => service?.tick());
    },
    useRules: (rules) => {
      service?.useRules(rules);
      void unassigned?.warn(rules);
    },
    useOverrides: (overrides) => service?.useOverrides(overrides),
    forget: (keys) => service?.forget(keys ?? []),
    drain: async () => {
      await inTime(timers, drainMs, service?.drain() ?? Promise.resolve(), undefined);
      service?.endAll();
    },
    beforeStoreCloses: () => stop(),
  };
}

/** The caller of hits that a proxy has already decided. */
const proxy = { abandoned: false };
const ignored = { answer: () => {}, reject: () => {} };
