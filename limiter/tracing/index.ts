/**
 * Traces of calls and of what the store does for them. Whether a call is traced is decided from its headers by code of our own;
 * OpenTelemetry is loaded only when tracing is on, and sees only what is traced.
 */
export { grpcTracer, httpTracer } from './call-tracers.ts';
export { rpcConvention } from './rpc-attributes.ts';
export { Sampling } from './sampling.ts';
export type { SpanMaker } from './span-maker.ts';
export { headerForms } from './trace-headers.ts';
export { TracedStore } from './traced-store.ts';
