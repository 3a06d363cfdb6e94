/** The HTTP listeners. They know no rules, stores or statistics: those come in as handlers and callbacks. */

export type { HttpListener } from '../../process/http/http-server.ts';
export { CpuProfiler } from './cpu-profiler.ts';
export { createDebugListener } from './debug-listener.ts';
export { HeapSampler } from './heap-sampler.ts';
export { createHttpListener, type HttpTls, type HttpTlsListener } from './listener.ts';
export type { ProfileQuestion, WorkerProfiles } from './worker-profiles.ts';
