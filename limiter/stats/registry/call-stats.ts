/** The statistics of gRPC calls, and how long decisions take. */
import type { StatsRegistry, Timer } from './stats-registry.ts';

/** Returns a function that creates the statistics of a gRPC method, which record the duration of each call. */
export function grpcCallStats(
  registry: StatsRegistry,
  latenciesOf: { readonly [method in string]?: Latencies } = {},
): (method: string) => Timer {
  return (method) => {
    const latencies = latenciesOf[method];
    return registry.timer(`ratelimit_server.${method}.response_time`, {
      counter: registry.counter(`ratelimit_server.${method}.total_requests`),
      shown: (durationMs) => {
        latencies?.record(durationMs);
        return Math.trunc(durationMs);
      },
    });
  };
}

/** Each bucket is a quarter of an octave wide, so a quantile is at most 19% off. The buckets reach up to 2^31 microseconds. */
const buckets = 128;

/** The latencies of one thread since they were last taken. */
export interface TakenLatencies {
  readonly grpc: readonly number[];
  readonly http: readonly number[];
}

/** The durations of the decisions of one thread. */
export class Latencies {
  #counts = new Uint32Array(buckets);

  record(durationMs: number): void {
    const micros = Math.min(durationMs * 1000, 0x7fffffff) | 0;
    const exponent = 31 - Math.clz32(micros);
    const bucket = micros < 4 ? micros : (exponent - 1) * 4 + ((micros >>> (exponent - 2)) & 3);
    this.#counts[bucket]! += 1;
  }

  /** Returns the counts since the last call. */
  take(): number[] {
    const counts = [...this.#counts];
    this.#counts.fill(0);
    return counts;
  }
}

/** A quantile over several threads, in milliseconds. Null if nothing was counted. */
export function quantileMs(threads: readonly (readonly number[])[], quantile: number): number | null {
  const counts = Array.from({ length: buckets }, (_, bucket) =>
    threads.reduce((sum, thread) => sum + (thread[bucket] ?? 0), 0),
  );
  const wanted = counts.reduce((sum, count) => sum + count, 0) * quantile;
  if (wanted === 0) return null;
  let sum = 0;
  const bucket = counts.findIndex((count) => {
    sum += count;
    return sum >= wanted;
  });
  return Math.round((lowestOf(bucket) + lowestOf(bucket + 1)) / 2) / 1000;
}

/** The lowest number of microseconds in a bucket. */
function lowestOf(bucket: number): number {
  return bucket < 4 ? bucket : (4 + (bucket % 4)) * 2 ** (Math.floor(bucket / 4) - 1);
}
