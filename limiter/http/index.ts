/** The HTTP listeners. They know no rules, stores or statistics: those come in as handlers and callbacks. */

export type { HttpListener } from '../../process/http/http-server.ts';
export { createDebugListener } from './debug/listener.ts';
export { createHttpListener } from './listener.ts';
