/** Takes CPU profiles of V8 and converts them to pprof profiles. */
import type { Profiler } from 'node:inspector';
import { Session } from 'node:inspector/promises';
import type { Clock } from '../../process/time/clock.ts';
import { PprofBuilder } from './pprof-builder.ts';

/** The names of idle time, which is not CPU time. */
const notCpu = new Set(['(idle)', '(root)']);

/** A CPU profile of V8 as a pprof profile. Pure. */
export function cpuProfileToPprof(
  profile: Profiler.Profile,
  options: { startedAtMs: number; intervalMicros: number },
): Promise<Uint8Array> {
  const builder = new PprofBuilder([
    { type: 'samples', unit: 'count' },
    { type: 'cpu', unit: 'nanoseconds' },
  ]);
  const parents = parentsOf(profile.nodes);
  const micros = microsByNode(profile);
  for (const node of profile.nodes) {
    const hits = node.hitCount ?? 0;
    if (hits === 0 || notCpu.has(node.callFrame.functionName)) continue;
    const callers = callerLocations(builder, node, parents);
    const nanosPerHit = ((micros.get(node.id) ?? 0) * 1000) / hits;
    let left = hits;
    for (const { line, ticks } of node.positionTicks ?? []) {
      builder.addSample([builder.location(node.callFrame, line), ...callers], [ticks, ticks * nanosPerHit]);
      left -= ticks;
    }
    if (left > 0)
      builder.addSample([builder.location(node.callFrame), ...callers], [left, left * nanosPerHit]);
  }
  return builder.gzipped({
    timeMs: options.startedAtMs,
    durationMs: (profile.endTime - profile.startTime) / 1000,
    periodKind: { type: 'cpu', unit: 'nanoseconds' },
    period: options.intervalMicros * 1000,
    comment: 'The main thread. Lines of callers are the first lines of their functions.',
  });
}

type Node = Profiler.ProfileNode;

function parentsOf(nodes: Node[]): Map<number, Node> {
  const parents = new Map<number, Node>();
  for (const node of nodes) {
    for (const child of node.children ?? []) parents.set(child, node);
  }
  return parents;
}

function callerLocations(builder: PprofBuilder, node: Node, parents: Map<number, Node>): number[] {
  const locations: number[] = [];
  for (let at = parents.get(node.id); at !== undefined; at = parents.get(at.id)) {
    if (at.callFrame.functionName !== '(root)') locations.push(builder.location(at.callFrame));
  }
  return locations;
}

/** A sample holds until the next one is taken. */
function microsByNode({
  samples = [],
  timeDeltas = [],
  startTime,
  endTime,
}: Profiler.Profile): Map<number, number> {
  const micros = new Map<number, number>();
  let atMicros = startTime;
  for (let i = 0; i < samples.length; i++) {
    const node = samples[i] as number;
    atMicros += timeDeltas[i] ?? 0;
    const length = i + 1 < samples.length ? (timeDeltas[i + 1] ?? 0) : endTime - atMicros;
    micros.set(node, (micros.get(node) ?? 0) + Math.max(0, length));
  }
  return micros;
}

/** Chosen: this many samples bound the end of a profile, which blocks the event loop. */
const maxSamples = 60_000;
const shortestIntervalMicros = 1000;

/** Takes CPU profiles of this thread. It costs nothing while no profile is requested. */
export class CpuProfiler {
  readonly #clock: Clock;
  #busy = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Whether a profile is running. V8 samples for all profiles at once, at the interval of the first, so there is one at a time. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Profiles for that time, or until `ended` settles. Returns gzipped pprof. */
  async profile(seconds: number, ended: Promise<void>): Promise<Uint8Array> {
    this.#busy = true;
    const session = new Session();
    session.connect();
    try {
      const intervalMicros = Math.max(shortestIntervalMicros, Math.ceil((seconds * 1e6) / maxSamples));
      const startedAtMs = this.#clock.nowMs();
      await session.post('Profiler.enable');
      await session.post('Profiler.setSamplingInterval', { interval: intervalMicros });
      await session.post('Profiler.start');
      await waitFor(seconds * 1000, ended);
      const { profile } = await session.post('Profiler.stop');
      return await cpuProfileToPprof(profile, { startedAtMs, intervalMicros });
    } finally {
      session.disconnect();
      this.#busy = false;
    }
  }
}

async function waitFor(ms: number, ended: Promise<void>): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([over, ended]);
  clearTimeout(timer);
}
