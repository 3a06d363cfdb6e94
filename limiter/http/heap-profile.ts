/** A sampled heap profile of V8 as a pprof profile. Pure. */
import { type CallFrame, PprofBuilder } from './pprof-builder.ts';

/** As V8 gives it, in fuller form than Node's types say. */
export interface SampledHeap {
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
 * `inuse_space` is V8's estimate of the bytes alive. V8 tells no number of objects, only how many of them it sampled,
 * so that is what `samples` counts.
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
