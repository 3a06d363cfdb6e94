/** Takes CPU profiles of this thread. Costs nothing while none is asked for. */
import { Session } from 'node:inspector/promises';
import type { Clock } from '../../process/time/process-clock.ts';
import { cpuProfileToPprof } from './cpu-profile.ts';

/** Ours: this many samples keep the end of a profile, which holds the event loop, short. */
const mostSamples = 60_000;
const shortestIntervalMicros = 1000;

export class CpuProfiler {
  readonly #clock: Clock;
  #busy = false;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** One profile at a time: V8 samples for all at once, at the interval of the first. */
  get busy(): boolean {
    return this.#busy;
  }

  /** Profiles for that long, or until `ended` settles, and gives back gzipped pprof. */
  async profile(seconds: number, ended: Promise<void>): Promise<Uint8Array> {
    this.#busy = true;
    const session = new Session();
    session.connect();
    try {
      const intervalMicros = Math.max(shortestIntervalMicros, Math.ceil((seconds * 1e6) / mostSamples));
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
