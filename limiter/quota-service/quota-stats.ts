/** The statistics and logs of the quota service; docs/statistics.md has the names. */

import { LogThrottle } from '../../process/log/log-throttle.ts';
import type { Logger } from '../../process/log/logger.ts';
import type { Clock } from '../../process/time/clock.ts';
import { type HitKind, hitKinds } from '../allocate/terms.ts';
import type { LimitPlan } from '../decide/limit-plan.ts';
import { RuleStat } from '../stats/registry/rule-stats.ts';
import type { StatsRegistry } from '../stats/registry/stats-registry.ts';
import type { BucketIds } from './bucket-ids.ts';
import type { QuotaClient } from './client-weights.ts';

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

export class QuotaStats {
  readonly #registry: StatsRegistry;
  readonly #bounds: Map<BucketBoundName, number>;
  readonly #rejections: Map<string, number>;
  readonly #reports: number;
  readonly #abandoned: number;
  readonly #unassignable: number;
  /** The slots of a rule's hits, by its path. */
  readonly #rules = new Map<string, Record<HitKind, number>>();
  readonly #denied: LogThrottle<{ bound: BucketBoundName; client: QuotaClient }>;
  readonly #beyond: LogThrottle<{ rule: string; client: QuotaClient; hits: number }>;
  readonly #obstacle: LogThrottle<{ rule: string; obstacle: string; answer: string }>;

  constructor(registry: StatsRegistry, log: Logger, clock: Clock) {
    this.#registry = registry;
    const tagged = <Value extends string>(name: string, tag: string, values: readonly Value[]) =>
      new Map(values.map((value) => [value, registry.counter(name, [[tag, value]])]));
    this.#bounds = tagged('ratelimit.quota.denied_buckets', 'bound', bounds);
    this.#rejections = tagged<string>('ratelimit.quota.refused_streams', 'reason', rejections);
    this.#reports = registry.counter('ratelimit.quota.reports');
    this.#abandoned = registry.counter('ratelimit.quota.abandoned');
    this.#unassignable = registry.counter('ratelimit.quota.unassignable');
    this.#denied = new LogThrottle(clock, ({ bound, client }, times) =>
      log.warn('A quota client has too many buckets: requests for further ones are denied', {
        bound: settingOf[bound],
        ...{ caller: client.caller, peer: client.address, times },
      }),
    );
    this.#beyond = new LogThrottle(clock, ({ rule, client, hits }, times) =>
      log.warn('A quota client reports more requests than it could have allowed', {
        ...{ rule, hits, caller: client.caller, peer: client.address, times },
      }),
    );
    this.#obstacle = new LogThrottle(clock, ({ rule, obstacle, answer }, times) =>
      log.warn(`A rule cannot be assigned to quota clients: ${obstacle}`, { rule, answer, times }),
    );
  }

  watch(service: { readonly streams: number; readonly ids: Pick<BucketIds, 'buckets' | 'bytes'> }): void {
    this.#registry.gaugePart('ratelimit.quota.streams', () => service.streams);
    this.#registry.gaugePart('ratelimit.quota.buckets', () => service.ids.buckets);
    this.#registry.gaugePart('ratelimit.quota.bucket_bytes', () => service.ids.bytes);
  }

  reports(count: number): void {
    this.#registry.add(this.#reports, count);
  }

  abandoned(): void {
    this.#registry.add(this.#abandoned, 1);
  }

  rejectedStream(reason: (typeof rejections)[number]): void {
    this.#registry.add(this.#rejections.get(reason)!, 1);
  }

  deniedBuckets(bound: BucketBoundName, client: QuotaClient, buckets: number): void {
    this.#registry.add(this.#bounds.get(bound)!, buckets);
    this.#denied.note({ bound, client }, bound, buckets);
  }

  unassignable(rule: string, obstacle: string, answer: string): void {
    this.#registry.add(this.#unassignable, 1);
    this.#obstacle.note({ rule, obstacle, answer }, rule);
  }

  overReported(client: QuotaClient, rule: string, hits: number): void {
    this.#beyond.note({ rule, client, hits }, client.caller ?? '');
  }

  /** Counts what a client decided, as if it had asked the limiter. */
  used(limits: readonly Pick<LimitPlan, 'metric'>[], allowed: number, denied: number): void {
    const registry = this.#registry;
    if (allowed === 0 && denied === 0) return;
    for (const { metric } of limits) {
      const slot = registry.slotOf(metric);
      registry.add(slot + RuleStat.totalHits, allowed + denied);
      registry.add(slot + RuleStat.withinLimit, allowed);
      registry.add(slot + RuleStat.passed, allowed);
      registry.add(slot + RuleStat.overLimit, denied);
      registry.add(slot + RuleStat.limited, denied);
    }
  }

  /** Counts hits of a rule's shares. */
  hits(rule: string, kind: HitKind, hits: number): void {
    this.#registry.add(this.#slotsOf(rule)[kind], hits);
  }

  #slotsOf(rule: string): Record<HitKind, number> {
    const known = this.#rules.get(rule);
    if (known !== undefined) return known;
    const name = this.#rules.size < maxRules ? rule : 'other';
    const slotOf = (kind: HitKind): [HitKind, number] => {
      const tag = kind === 'overReported' ? 'over_reported' : kind;
      const tags = [['kind', tag] as const, ['rule', name] as const];
      return [kind, this.#registry.counter('ratelimit.quota.hits', tags)];
    };
    const slots = Object.fromEntries(hitKinds.map(slotOf)) as Record<HitKind, number>;
    if (name === rule) this.#rules.set(rule, slots);
    return slots;
  }
}
