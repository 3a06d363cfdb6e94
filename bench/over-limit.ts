/** What a rejected hit costs Redis beside an allowed one: the same calls to one limiter, in turns, by the CPU of Redis alone. */
import { create, toBinary } from '@bufbuild/protobuf';
import { RateLimitRequestSchema } from '../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import { shouldRateLimitPath } from '../limiter/service/should-rate-limit.ts';
import { median } from './bench-figures.ts';
import type { Target } from './bench-targets.ts';
import { type ClientCalls, envoyCalls } from './http2-frames.ts';
import { runLoad } from './http2-load.ts';
import { processCpuUs } from './process-cpu.ts';

/** The largest allowed factor of the CPU of Redis for a hit over limit to that for an allowed one. */
export const maxToAllowed = 1.2;

/** A rule whose limit one hit of these calls exceeds, for `rulesText` of the bench. */
export const overLimitRule = '  - key: refused\n    rate_limit: { unit: hour, requests_per_unit: 1 }\n';

const hits = { allowed: 'remote_address', refused: 'refused' } as const;
const loads = [
  { name: '8 connections x 50 streams', options: { connections: 8, streams: 50 } },
  { name: '4 connections x 1 stream', options: { connections: 4, streams: 1, oneWriteACall: true } },
] as const;
const warmUpMs = 1_000;

export interface OverLimitFigures {
  load: string;
  /** CPU of Redis a call, in µs. */
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

/** All loads in each run, allowed and rejected next to each other. */
export async function measureOverLimit(options: OverLimitOptions): Promise<OverLimitFigures[]> {
  const calls = { allowed: callsOf(hits.allowed, options), refused: callsOf(hits.refused, options) };
  const measured = loads.map(({ name }) => ({ name, allowed: [] as number[], refused: [] as number[] }));
  for (let run = 0; run < options.runs; run++) {
    for (const [i, { options: load }] of loads.entries()) {
      for (const which of ['allowed', 'refused'] as const) {
        measured[i]![which].push(await redisCpuUs(options, { ...calls[which], ...load }));
      }
    }
  }
  return measured.map(({ name, allowed, refused }) => ({
    load: name,
    allowedUs: median(allowed),
    overLimitUs: median(refused),
    ratio: median(refused.map((us, i) => us / allowed[i]!)),
  }));
}

/** Each call has two hits, so that one is over a limit of 1 by itself. */
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
  return `${target}, CPU of Redis for a refused hit to an allowed one, target ${maxToAllowed}: ${all.join(', ')}`;
}

/** Loads under which rejected hits cost more than they may, in words. */
export function costlyOverLimit(figures: readonly OverLimitFigures[]): string[] {
  return figures.flatMap(({ load, ratio }) =>
    ratio > maxToAllowed
      ? [
          `a refused hit takes ${ratio.toFixed(2)} times the CPU of Redis for an allowed one under ${load}, at most ${maxToAllowed} is allowed`,
        ]
      : [],
  );
}
