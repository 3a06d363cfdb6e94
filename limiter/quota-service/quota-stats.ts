/** The statistics and logs of the quota service; docs/statistics.md has the names. */

import { LogThrottle, throttledLine } from '../../process/log/log-throttle.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock } from '../../process/time/clock.ts';
import { type HitKind, hitKinds } from '../allocate/terms.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { BucketIds } from './bucket-ids.ts';
import type { QuotaClient } from './client-weights.ts';
import { lines } from './lines.ts';

/** The bound that leaves no room for a bucket: `message` is one with more reports than a stream may have buckets. */
const bounds = ['stream', 'caller', 'all', 'bytes', 'message', 'id_bytes'] as const;
type BucketBoundName = (typeof bounds)[number];
const settingOf: Readonly<Record<BucketBoundName, string>> = {
  stream: 'RLQS_MAX_BUCKETS_OF_STREAM',
  message: 'RLQS_MAX_BUCKETS_OF_STREAM',
  caller: 'RLQS_MAX_BUCKETS_OF_CALLER',
  all: 'RLQS_MAX_BUCKETS',
  bytes: 'RLQS_MAX_BUCKET_BYTES',
  id_bytes: 'the length of a bucket id',
};

/** Why the limiter ended a stream. */
const rejections = ['streams', 'unavailable', 'message', 'domain', 'reports', 'silence'] as const;

/** Chosen: rules that are counted separately over the life of a process; others share a name. */
const maxRules = 2_000;

export type QuotaStats = ReturnType<typeof createQuotaStats>;

export function createQuotaStats(registry: StatsRegistry, log: Logger, clock: Clock) {
  const denied = new LogThrottle<{ bound: BucketBoundName; client: QuotaClient }>(
    clock,
    ({ bound, client: { caller, address: peer } }, times) =>
      lines.bucketsDenied(log, { bound: settingOf[bound], caller, peer, times }),
  );
  const beyond = new LogThrottle<{ rule: string; client: QuotaClient; hits: number }>(
    clock,
    ({ rule, client: { caller, address: peer }, hits }, times) =>
      lines.overReported(log, { rule, hits, caller, peer, times }),
  );
  const ruleNotAssigned = throttledLine({ log, clock }, lines.ruleNotAssigned);
  const countDenied = registry.countingBy('ratelimit.quota.denied_buckets', 'bound', bounds);
  const countUnassignable = registry.counting('ratelimit.quota.unassignable');
  /** Counts hits of each kind, by the path of their rule. */
  const rules = new Map<string, Record<HitKind, (hits: number) => void>>();
  const ofRule = (rule: string): Record<HitKind, (hits: number) => void> => {
    const known = rules.get(rule);
    if (known !== undefined) return known;
    const name = rules.size < maxRules ? rule : 'other';
    const countingOf = (kind: HitKind) => {
      const tag = kind === 'overReported' ? 'over_reported' : kind;
      const tags = [['kind', tag] as const, ['rule', name] as const];
      return [kind, registry.counting('ratelimit.quota.hits', tags)];
    };
    const counting = Object.fromEntries(hitKinds.map(countingOf));
    if (name === rule) rules.set(rule, counting);
    return counting;
  };
  return {
    watch: (service: { readonly streams: number; readonly ids: Pick<BucketIds, 'buckets' | 'bytes'> }) => {
      registry.gaugePart('ratelimit.quota.streams', () => service.streams);
      registry.gaugePart('ratelimit.quota.buckets', () => service.ids.buckets);
      registry.gaugePart('ratelimit.quota.bucket_bytes', () => service.ids.bytes);
    },
    reports: registry.counting('ratelimit.quota.reports'),
    abandoned: registry.counting('ratelimit.quota.abandoned'),
    rejectedStream: registry.countingBy('ratelimit.quota.refused_streams', 'reason', rejections),
    deniedBuckets: (bound: BucketBoundName, client: QuotaClient, buckets: number) => {
      countDenied(bound, buckets);
      denied.note({ bound, client }, bound, buckets);
    },
    unassignable: (rule: string, obstacle: string, answer: string) => {
      countUnassignable();
      ruleNotAssigned({ rule, obstacle, answer }, rule);
    },
    overReported: (client: QuotaClient, rule: string, hits: number) =>
      beyond.note({ rule, client, hits }, client.caller ?? ''),
    /** Counts what a client decided, as if it had asked the limiter. */
    used: (limits: readonly Pick<LimitPlan, 'metric'>[], allowed: number, denied: number) => {
      if (allowed === 0 && denied === 0) return;
      for (const { metric } of limits) {
        const slot = registry.slotOf(metric);
        registry.add(slot + RuleStat.totalHits, allowed + denied);
        registry.add(slot + RuleStat.withinLimit, allowed);
        registry.add(slot + RuleStat.passed, allowed);
        registry.add(slot + RuleStat.overLimit, denied);
        registry.add(slot + RuleStat.limited, denied);
      }
    },
    /** Counts hits of a rule's shares. */
    hits: (rule: string, kind: HitKind, hits: number) => ofRule(rule)[kind](hits),
  };
}
