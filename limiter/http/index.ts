/** The HTTP listeners. They know no rules, stores or statistics: those come in as handlers and callbacks. */

export type { HttpListener } from '../../process/http/http-server.ts';
export { CpuProfiler } from './debug/cpu-profiler.ts';
export { HeapSampler } from './debug/heap-sampler.ts';
export { createDebugListener } from './debug/listener.ts';
export type { ProfileQuestion, WorkerProfiles } from './debug/worker-profiles.ts';
export { createHttpListener, type HttpTls, type HttpTlsListener } from './listener.ts';
