/** Filters of quota clients in an Envoy's configuration: what they ask for, and what they do without an answer. */
import { isObject } from '../model.ts';
import type { PossibleEntry } from './possible-rules.ts';
import { type EnvoyPlace, type Fields, field, namedField, type Path, typed, typeUrl } from './proto-json.ts';

/** `rate_limit_quota`, or what a route says in its place. */
export interface QuotaFilter {
  /** Undefined: that of the filter, which stands elsewhere. */
  readonly domain: string | undefined;
  readonly place: EnvoyPlace;
  readonly buckets: readonly QuotaBucket[];
}

/** RateLimitQuotaBucketSettings. */
export interface QuotaBucket {
  readonly place: EnvoyPlace;
  /** Undefined: it is never reported. */
  readonly entries: readonly PossibleEntry[] | undefined;
  /** What requests get before there is an assignment, and after it ended; undefined: nothing is said. */
  readonly first: QuotaFallback | undefined;
  readonly expired: QuotaFallback | undefined;
  /** As it is written. */
  readonly interval: string | undefined;
}

export type QuotaFallback = 'allow' | 'deny' | 'bucket' | 'rate' | 'reuse';

/** The objects of these types, wherever they stand; none is looked for within another one. */
function objectsOf(types: readonly string[], value: unknown, path: Path): { object: Fields; path: Path }[] {
  const prefix = '.filters.http.rate_limit_quota.v3.RateLimitQuota';
  if (isObject(value) && types.some((type) => typeUrl(value).endsWith(prefix + type)))
    return [{ object: value, path }];
  const members = Array.isArray(value) ? value.entries() : isObject(value) ? Object.entries(value) : [];
  return [...members].flatMap(([step, one]) => objectsOf(types, one, [...path, step]));
}

/** All of a document. */
export function quotaFilters(document: unknown, placeOf: (path: Path) => EnvoyPlace): QuotaFilter[] {
  return objectsOf(['FilterConfig', 'Override'], document, []).map(({ object, path }) => {
    const [config, rest] = typed(object);
    const at = [...path, ...rest];
    const domain = field(config, 'domain');
    const [name, matchers] = namedField(config, 'bucket_matchers');
    const buckets = objectsOf(['BucketSettings'], matchers, [...at, name]);
    return {
      domain: typeof domain === 'string' && domain !== '' ? domain : undefined,
      place: placeOf(at),
      buckets: buckets.map((bucket) => bucketOf(bucket.object, placeOf(bucket.path))),
    };
  });
}

function bucketOf(given: Fields, place: EnvoyPlace): QuotaBucket {
  const [settings] = typed(given);
  const builder = field(field(settings, 'bucket_id_builder'), 'bucket_id_builder');
  const interval = field(settings, 'reporting_interval');
  return {
    place,
    entries: isObject(builder) ? Object.entries(builder).map(entryOf) : undefined,
    first: fallbackOf(field(settings, 'no_assignment_behavior')),
    expired: fallbackOf(field(settings, 'expired_assignment_behavior')),
    interval: interval === undefined ? undefined : durationText(interval),
  };
}

function entryOf([key, value]: [string, unknown]): PossibleEntry {
  const text = field(value, 'string_value');
  const values = typeof text === 'string' ? { exact: text } : { patterns: ['*'] };
  return { key, values, isOptional: false };
}

function fallbackOf(behavior: unknown): QuotaFallback | undefined {
  if (field(behavior, 'reuse_last_assignment') !== undefined) return 'reuse';
  const strategy = field(behavior, 'fallback_rate_limit');
  if (!isObject(strategy)) return undefined;
  if (field(strategy, 'requests_per_time_unit') !== undefined) return 'rate';
  const rule = field(strategy, 'blanket_rule');
  if (rule === 'DENY_ALL' || rule === 1) return 'deny';
  // The third of RateLimitStrategy's kinds.
  return rule === undefined && Object.keys(strategy).length > 0 ? 'bucket' : 'allow';
}

/** `5s`, also of the fields that YAML may have in its place. */
function durationText(value: unknown): string {
  if (!isObject(value)) return String(value);
  const seconds = Number(field(value, 'seconds') ?? 0) + Number(field(value, 'nanos') ?? 0) / 1e9;
  return `${seconds}s`;
}
