/** The HTTP listeners. They know no rules, stores or statistics: those come in as handlers and callbacks. */
export { createDebugListener } from './debug/listener.ts';
export type { HttpListener } from './http-server.ts';
export { createHttpListener } from './listener.ts';
