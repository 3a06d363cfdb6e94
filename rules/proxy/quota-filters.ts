/**
 * Filters of quota clients in an Envoy's configuration: what they report, what they do without an assignment, and whether they
 * fit the rules.
 */

import { whyUnassignable } from '../bucket-id.ts';
import type { KindsOf } from '../finding-kinds.ts';
import { ruleName } from '../review/explain-descriptor.ts';
import type { PlacedRule } from '../review/rule-level.ts';
import { entryName, keysOf, type PossibleEntry, walk } from './possible-rules.ts';
import type { EnvoyPlace, ProtoValue } from './proto-json.ts';

/** A `rate_limit_quota` filter, or the configuration of a route in its place. */
export interface QuotaFilter {
  /** Undefined if the domain is that of the filter, which is elsewhere. */
  readonly domain: string | undefined;
  readonly place: EnvoyPlace;
  readonly buckets: readonly QuotaBucket[];
}

/** The fields of RateLimitQuotaBucketSettings. */
export interface QuotaBucket {
  readonly place: EnvoyPlace;
  /** Undefined if the bucket is never reported. */
  readonly entries: readonly PossibleEntry[] | undefined;
  /** The behavior before the first assignment and after the last one ended. Undefined if nothing is written. */
  readonly first: QuotaFallback | undefined;
  readonly expired: QuotaFallback | undefined;
  /** The interval as it is written. */
  readonly interval: string | undefined;
}

export type QuotaFallback = 'allow' | 'deny' | 'bucket' | 'rate' | 'reuse';

/** The objects of these types, wherever they stand; none is looked for within another one. */
function objectsOf(types: readonly string[], given: ProtoValue): ProtoValue[] {
  const prefix = '.filters.http.rate_limit_quota.v3.RateLimitQuota';
  if (types.some((type) => given.typeUrl.endsWith(prefix + type))) return [given];
  return given.members().flatMap((one) => objectsOf(types, one));
}

/** Returns all filters of a document. */
export function quotaFilters(document: ProtoValue): QuotaFilter[] {
  return objectsOf(['FilterConfig', 'Override'], document).map(({ typed: config }) => ({
    domain: config.text('domain'),
    place: config.place,
    buckets: objectsOf(['BucketSettings'], config.field('bucket_matchers')).map(bucketOf),
  }));
}

function bucketOf(given: ProtoValue): QuotaBucket {
  const { typed: settings, place } = given;
  const builder = settings.field('bucket_id_builder').field('bucket_id_builder');
  const interval = settings.field('reporting_interval');
  return {
    place,
    entries: builder.isObject ? builder.members().map(entryOf) : undefined,
    first: fallbackOf(settings.field('no_assignment_behavior')),
    expired: fallbackOf(settings.field('expired_assignment_behavior')),
    interval: interval.value === undefined ? undefined : durationText(interval),
  };
}

function entryOf(given: ProtoValue): PossibleEntry {
  const text = given.get('string_value');
  const values = typeof text === 'string' ? { exact: text } : { patterns: ['*'] };
  return { key: String(given.path.at(-1)), values, isOptional: false };
}

function fallbackOf(behavior: ProtoValue): QuotaFallback | undefined {
  if (behavior.has('reuse_last_assignment')) return 'reuse';
  const strategy = behavior.field('fallback_rate_limit');
  if (!strategy.isObject) return undefined;
  if (strategy.has('requests_per_time_unit')) return 'rate';
  const rule = strategy.get('blanket_rule');
  if (rule === 'DENY_ALL' || rule === 1) return 'deny';
  // The third of RateLimitStrategy's kinds.
  return rule === undefined && strategy.members().length > 0 ? 'bucket' : 'allow';
}

/** Returns a duration such as `5s`, also from the fields that YAML may have in its place. */
function durationText(given: ProtoValue): string {
  if (!given.isObject) return String(given.value);
  const seconds = Number(given.get('seconds') ?? 0) + Number(given.get('nanos') ?? 0) / 1e9;
  return `${seconds}s`;
}

export type ReportQuotaFinding = (
  severity: 'error' | 'warning',
  code: KindsOf<'quota filter'>,
  place: EnvoyPlace,
  text: string,
  hint?: string,
) => void;

export interface ReachedByBuckets {
  /** Domains that filters report. */
  readonly domains: ReadonlyMap<string, EnvoyPlace>;
  readonly rules: readonly PlacedRule[];
  /** True if buckets may also reach other rules. */
  readonly isOpen: boolean;
}

/** The interval at which Envoy 1.40 reports, regardless of `reporting_interval`. */
const reportingInterval = '5s';

/** Chosen: the largest number of entries in a bucket whose orders are all looked at. */
const maxEntries = 6;

/** `tops`: the rules of the first level by domain. */
export function reviewQuotaFilters(
  filters: readonly QuotaFilter[],
  tops: ReadonlyMap<string, readonly PlacedRule[]>,
  report: ReportQuotaFinding,
): ReachedByBuckets {
  const domains = new Map<string, EnvoyPlace>();
  for (const { domain, place } of filters) if (domain !== undefined) domains.set(domain, place);
  const rules: PlacedRule[] = [];
  let isOpen = false;
  for (const { domain, buckets } of filters) {
    const asked = domain === undefined ? [...domains.keys()] : [domain];
    for (const bucket of buckets) {
      reviewFallbacks(bucket, report);
      if (bucket.entries === undefined) continue;
      if (bucket.entries.length > maxEntries) {
        isOpen = true;
        continue;
      }
      const known = asked.flatMap((one) => tops.get(one) ?? []);
      if (known.length > 0) rules.push(...rulesOf(bucket, bucket.entries, known, report));
    }
  }
  return { domains, rules, isOpen };
}

function reviewFallbacks(
  { place, entries, first, expired, interval }: QuotaBucket,
  report: ReportQuotaFinding,
): void {
  if (first === 'bucket') {
    const text = 'a token bucket in no_assignment_behavior crashes Envoy 1.40 on the second request';
    report('error', 'quota-crash', place, text, denyHint);
  }
  if (entries === undefined) {
    const text = 'without a bucket_id_builder no request is reported, and the limiter assigns nothing';
    report('warning', 'quota-fallback', place, text);
  }
  if (first === undefined || first === 'allow') {
    const what =
      first === undefined ? 'without no_assignment_behavior' : 'with ALLOW_ALL in no_assignment_behavior';
    const text = `${what}, all requests pass until the first assignment, and whenever there is none`;
    report('warning', 'quota-fallback', place, text, denyHint);
  }
  if (expired === 'allow') {
    const text = 'with ALLOW_ALL in expired_assignment_behavior, all requests pass while no limiter answers';
    report('warning', 'quota-fallback', place, text, denyHint);
  }
  if (expired === 'reuse') {
    const text = 'Envoy 1.40 does not implement reuse_last_assignment';
    report('warning', 'quota-fallback', place, text, 'fallback_rate_limit is used instead');
  }
  if (interval !== undefined && interval !== reportingInterval) {
    const text = `Envoy 1.40 reports every ${reportingInterval}, and ignores reporting_interval, here ${interval}`;
    report('warning', 'quota-interval', place, text);
  }
}

const denyHint = 'fallback_rate_limit: { blanket_rule: DENY_ALL } keeps the limit';

/** The rules that the bucket may be for. */
function rulesOf(
  { place }: QuotaBucket,
  entries: readonly PossibleEntry[],
  top: readonly PlacedRule[],
  report: ReportQuotaFinding,
): PlacedRule[] {
  const ways = ordersOf(entries).map((order) => ({
    keys: order.map(({ key }) => key).join(', '),
    found: walk(top, order).found.filter(({ rule }) => rule.limits.length > 0),
  }));
  const matching = ways.filter(({ found }) => found.length > 0);
  const limited = matching.flatMap(({ found }) => found);
  const names = entries.map(entryName).join(', ');
  if (limited.length === 0) {
    const text = `no rule with a limit matches the bucket (${names}), so RLQS_NO_RULE decides`;
    const hint = `all of its entries have to match, in the order of a rule's levels: the first level has the keys ${keysOf(top)}`;
    report('warning', 'unmatched-bucket', place, text, hint);
  }
  if (matching.length > 1) {
    const orders = matching.map(({ keys }) => `(${keys})`).join(' and ');
    const text = `the bucket (${names}) matches rules in several orders, ${orders}: the first rule in the file counts`;
    report('warning', 'ambiguous-bucket', place, text);
  }
  for (const one of limited) {
    const obstacle = whyUnassignable(one.rule);
    if (obstacle === undefined) continue;
    const text = `${ruleName(one)} cannot be assigned: ${obstacle.why}. RLQS_UNASSIGNABLE decides for its bucket`;
    report(
      'warning',
      'unassignable-rule',
      place,
      text,
      `leave out ${obstacle.field}, or use the filter ratelimit`,
    );
  }
  return limited;
}

/** Returns all orders of the entries. */
function ordersOf(entries: readonly PossibleEntry[]): PossibleEntry[][] {
  if (entries.length <= 1) return [[...entries]];
  return entries.flatMap((first, index) =>
    ordersOf(entries.toSpliced(index, 1)).map((rest) => [first, ...rest]),
  );
}
