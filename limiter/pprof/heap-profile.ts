/** Takes sampled heap profiles of V8 and converts them to pprof profiles. */
import { Session } from 'node:inspector/promises';
import type { Clock } from '../../process/time/clock.ts';
import { type CallFrame, PprofBuilder } from './pprof-builder.ts';

/** A profile as V8 returns it, with more fields than Node's types have. */
interface SampledHeap {
  head: HeapNode;
  samples: { nodeId: number }[];
}

export interface HeapNode {
  id: number;
  callFrame: CallFrame;
  selfSize: number;
  children: HeapNode[];
}

export interface HeapProfileOptions {
  sinceMs: number;
  nowMs: number;
  intervalBytes: number;
}

/**
 * Converts to a pprof profile. Pure. `inuse_space` is V8's estimate of the live bytes. V8 does not report a number of objects,
 * only how many of them it sampled, so `samples` counts these.
 */
export function heapProfileToPprof(
  profile: SampledHeap,
  { sinceMs, nowMs, intervalBytes }: HeapProfileOptions,
): Promise<Uint8Array> {
  const builder = new PprofBuilder([
    { type: 'samples', unit: 'count' },
    { type: 'inuse_space', unit: 'bytes' },
  ]);
  const counts = new Map<number, number>();
  for (const { nodeId } of profile.samples) counts.set(nodeId, (counts.get(nodeId) ?? 0) + 1);
  const open: { node: HeapNode; callers: number[] }[] = [];
  for (const node of profile.head.children) open.push({ node, callers: [] });
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const stack = [builder.location(at.node.callFrame), ...at.callers];
    if (at.node.selfSize > 0) builder.addSample(stack, [counts.get(at.node.id) ?? 0, at.node.selfSize]);
    for (const child of at.node.children) open.push({ node: child, callers: stack });
  }
  return builder.gzipped({
    timeMs: nowMs,
    durationMs: nowMs - sinceMs,
    periodKind: { type: 'space', unit: 'bytes' },
    period: intervalBytes,
    comment:
      `JavaScript objects alive and allocated since ${new Date(sinceMs).toISOString()} on the main thread, ` +
      `one sample per ${intervalBytes} bytes on average. Lines are where a function begins.`,
  });
}

/** The sampling interval, which is also Go's. Measured with 1 KB of garbage for each request, the cost is within the noise of 5%. */
const intervalBytes = 512 * 1024;

/** Samples allocations of this thread from its start, so that the first request already has a result. */
export class HeapSampler {
  readonly #clock: Clock;
  readonly #session = new Session();
  #sinceMs: number | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async start(): Promise<void> {
    if (this.#sinceMs !== undefined) return;
    this.#sinceMs = this.#clock.nowMs();
    this.#session.connect();
    await this.#session.post('HeapProfiler.startSampling', { samplingInterval: intervalBytes });
  }

  /** Returns live objects as gzipped pprof. V8 drops objects that a collection finds dead; `collect` runs one first. */
  async profile({ collect }: { collect: boolean }): Promise<Uint8Array> {
    await this.start();
    if (collect) await this.#session.post('HeapProfiler.collectGarbage');
    const { profile } = await this.#session.post('HeapProfiler.getSamplingProfile');
    const sinceMs = this.#sinceMs as number;
    return heapProfileToPprof(profile as unknown as SampledHeap, {
      sinceMs,
      nowMs: this.#clock.nowMs(),
      intervalBytes,
    });
  }

  stop(): void {
    if (this.#sinceMs === undefined) return;
    this.#sinceMs = undefined;
    this.#session.disconnect();
  }
}
