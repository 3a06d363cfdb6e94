/**
 * Measures the cost of a hit over limit for Redis, compared with an allowed hit: the same calls to one limiter, alternating, by the CPU
 * time of Redis.
 */
import { create, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { median } from './bench-figures.ts';
import type { Target } from './bench-targets.ts';
import { type ClientCalls, envoyCalls } from './http2-frames.ts';
import { runLoad } from './http2-load.ts';
import { processCpuUs } from './process-cpu.ts';

/** The largest allowed ratio of Redis' CPU time for a hit over limit to that for an allowed hit. */
export const maxToAllowed = 1.2;

/** A rule whose limit each of these calls exceeds, for `rulesText` of the bench. */
export const overLimitRule = '  - key: over_limit\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n';

const hits = { allowed: 'remote_address', overLimit: 'over_limit' } as const;
const loads = [
  { name: '8 connections x 50 streams', options: { connections: 8, streams: 50 } },
  { name: '4 connections x 1 stream', options: { connections: 4, streams: 1, oneWriteACall: true } },
] as const;
const warmUpMs = 1_000;

export interface OverLimitFigures {
  load: string;
  /** CPU time of Redis per call, in µs. */
  allowedUs: number;
  overLimitUs: number;
  /** The median of the runs. */
  ratio: number;
}

export interface OverLimitOptions {
  target: Target;
  redisPid: number;
  values: readonly string[];
  sequence: Uint32Array | readonly number[];
  durationMs: number;
  runs: number;
}

/** Measures all loads in each run, allowed and rate-limited calls next to each other. */
export async function measureOverLimit(options: OverLimitOptions): Promise<OverLimitFigures[]> {
  const calls = { allowed: callsOf(hits.allowed, options), overLimit: callsOf(hits.overLimit, options) };
  const measured = loads.map(({ name }) => ({ name, allowed: [] as number[], overLimit: [] as number[] }));
  for (let run = 0; run < options.runs; run++) {
    for (const [i, { options: load }] of loads.entries()) {
      for (const which of ['allowed', 'overLimit'] as const) {
        measured[i]![which].push(await redisCpuUs(options, { ...calls[which], ...load }));
      }
    }
  }
  return measured.map(({ name, allowed, overLimit }) => ({
    load: name,
    allowedUs: median(allowed),
    overLimitUs: median(overLimit),
    ratio: median(overLimit.map((us, i) => us / allowed[i]!)),
  }));
}

/** Each call has two hits, so each exceeds a limit of 1. */
function callsOf(key: string, { values }: OverLimitOptions): ClientCalls {
  const messages = values.map((value) => {
    const descriptors = [{ entries: [{ key, value }], hitsAddend: 2n }];
    return toBinary(RateLimitRequestSchema, create(RateLimitRequestSchema, { domain: 'bench', descriptors }));
  });
  return envoyCalls(shouldRateLimitPath, messages);
}

async function redisCpuUs(
  { target, redisPid, sequence, durationMs }: OverLimitOptions,
  load: Omit<Parameters<typeof runLoad>[0], 'port' | 'sequence' | 'durationMs'>,
): Promise<number> {
  const all = { ...load, port: target.port, sequence } as Parameters<typeof runLoad>[0];
  await runLoad({ ...all, durationMs: warmUpMs });
  const beforeUs = processCpuUs(redisPid);
  const { answered } = await runLoad({ ...all, durationMs });
  return (processCpuUs(redisPid) - beforeUs) / answered;
}

export function overLimitLine({ target }: { target: string }, figures: readonly OverLimitFigures[]): string {
  const all = figures.map(
    ({ load, ratio, allowedUs, overLimitUs }) =>
      `${ratio.toFixed(2)} (${load}: ${overLimitUs.toFixed(1)} to ${allowedUs.toFixed(1)} µs)`,
  );
  return `${target}, CPU of Redis for a hit over limit to an allowed hit, target ${maxToAllowed}: ${all.join(', ')}`;
}

/** Describes the loads under which hits over limit cost more than allowed. */
export function costlyOverLimit(figures: readonly OverLimitFigures[]): string[] {
  return figures.flatMap(({ load, ratio }) =>
    ratio > maxToAllowed
      ? [
          `a hit over limit takes ${ratio.toFixed(2)} times the CPU of Redis for an allowed hit under ${load}, at most ${maxToAllowed} is allowed`,
        ]
      : [],
  );
}
