/** Profiles of the main thread and of each worker, which each takes itself. */
import type { MainContext, MainPart, ThreadContext, ThreadPart } from '../capabilities/parts.ts';
import { CpuProfiler } from './cpu-profile.ts';
import { HeapSampler } from './heap-profile.ts';
import type { ProfileMessages } from './messages.ts';
import { PprofPages } from './pprof-pages.ts';

export const main = ({ clock, threads }: MainContext<unknown>): MainPart => ({
  pages: new PprofPages(clock, threads.of<ProfileMessages>()),
});

export function thread({ clock, worker }: ThreadContext<unknown>): ThreadPart {
  if (worker === 0) return {};
  const cpu = new CpuProfiler(clock);
  const heap = new HeapSampler(clock);
  const messages: ProfileMessages = {
    cpu: ({ seconds }) => cpu.profile(seconds, new Promise(() => {})),
    heap: (question) => heap.profile(question),
  };
  return { messages, start: () => heap.start(), close: () => heap.stop() };
}
