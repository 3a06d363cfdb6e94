/**
 * The keys of a mapper file and their values. Every scalar is read as its text. Keys that statsd_exporter does not know are
 * rejected, as it rejects them. Its older spellings (timer_type, buckets and quantiles beside match, the metric type timer) are
 * accepted.
 */
import { z } from 'zod';
import { parseGoDuration, parseGoFloat, parseGoInteger } from '../../process/settings/go-values.ts';

const boolean = z.string().transform((text, context) => {
  if (/^(?:true|yes|on|y)$/i.test(text)) return true;
  if (/^(?:false|no|off|n)$/i.test(text)) return false;
  return reject(context, 'true or false');
});

const number = z.string().transform((text, context) => finite(text) ?? reject(context, 'a number'));

const count = z.string().transform((text, context) => {
  const value = parseGoInteger(text);
  return value !== undefined && value >= 0 && value <= 1_000_000
    ? value
    : reject(context, 'a whole number from 0 to 1000000');
});

const duration = z.string().transform((text, context) => {
  const value = parseGoDuration(text);
  return value !== undefined && value >= 0 ? value : reject(context, 'a duration such as 30s or 1h30m');
});

const quantile = z.strictObject({
  quantile: number.refine((value) => value >= 0 && value <= 1, 'expected a number from 0 to 1'),
  error: number.optional(),
});

const quantiles = z.array(quantile);
/** Infinity in the words of YAML or of Prometheus. */
const infinite = /^\+?(?:\.inf|\.Inf|\.INF|Inf)$/;
/** A bucket. The last one may be +Inf, which exists in any case. */
const bucket = z.string().transform((text, context) => {
  if (infinite.test(text)) return Number.POSITIVE_INFINITY;
  return finite(text) ?? reject(context, 'a number');
});
const buckets = z.array(bucket).superRefine((bounds, context) => {
  const bad = bounds.findIndex((bound, index) => index > 0 && bound <= (bounds[index - 1] as number));
  if (bad !== -1) context.addIssue({ code: 'custom', path: [bad], message: 'buckets must ascend' });
});

const observerType = z.enum(['histogram', 'summary']);
const matchType = z.enum(['glob', 'regex']);

const summaryOptions = z.strictObject({
  quantiles: quantiles.optional(),
  max_age: duration.optional(),
  age_buckets: count.refine((value) => value <= 100, 'expected at most 100').optional(),
  buf_cap: count.optional(),
});

const histogramOptions = z.strictObject({
  buckets: buckets.optional(),
  native_histogram_bucket_factor: number.optional(),
  native_histogram_max_buckets: count.optional(),
});

/** Fields that both a mapping and the defaults may have. */
const common = {
  observer_type: observerType.optional(),
  timer_type: observerType.optional(),
  buckets: buckets.optional(),
  quantiles: quantiles.optional(),
  match_type: matchType.optional(),
  ttl: duration.optional(),
  summary_options: summaryOptions.optional(),
  histogram_options: histogramOptions.optional(),
};

const labelName = /^[a-zA-Z_][a-zA-Z0-9_]*$/;
const metricNamePattern = /^(?:[a-zA-Z_]|\$\{?\w+\}?)(?:[a-zA-Z0-9_]|\$\{?\w+\}?)*$/;

const labels = z.record(z.string(), z.string()).superRefine((all, context) => {
  for (const name of Object.keys(all)) {
    if (!labelName.test(name) || name.startsWith('__')) {
      context.addIssue({ code: 'custom', path: [name], message: `${quoted(name)} is not a name of a label` });
    }
  }
});

const mapping = z.strictObject({
  ...common,
  match: z.string(),
  name: z.string().regex(metricNamePattern, {
    error: ({ input }) => `${quoted(String(input))} is not a name of a metric`,
  }),
  labels: labels.optional(),
  honor_labels: boolean.optional(),
  help: z.string().optional(),
  action: z.enum(['map', 'drop']).optional(),
  match_metric_type: z.enum(['counter', 'gauge', 'observer', 'timer']).optional(),
  scale: number.optional(),
});

export const mapperSchema = z.strictObject({
  defaults: z.strictObject({ ...common, glob_disable_ordering: boolean.optional() }).optional(),
  mappings: z.array(mapping).optional(),
});

export type WrittenMapping = z.infer<typeof mapping>;
export type WrittenDefaults = NonNullable<z.infer<typeof mapperSchema>['defaults']>;

function finite(text: string): number | undefined {
  const value = parseGoFloat(text);
  return value !== undefined && Number.isFinite(value) ? value : undefined;
}

export function quoted(text: string): string {
  return JSON.stringify(text);
}

function reject(context: z.RefinementCtx<string>, expected: string): never {
  context.addIssue({ code: 'custom', message: `expected ${expected}, not ${quoted(context.value)}` });
  return z.NEVER;
}
