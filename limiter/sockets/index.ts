/** HTTP/2 connections on real sockets: listening, TLS, ages, and what a process can bear. */
export { type ConnectionAges, noAges } from './connection-age.ts';
export { connectionRefusals, isTlsRefusal, type RefusedConnection } from './refusals.ts';
export {
  Http2SocketServer,
  type Http2SocketServerOptions,
  type SocketServerListener,
} from './socket-server.ts';
export type { TlsOptions } from './tls-listener.ts';
