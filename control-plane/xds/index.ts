/**
 * Rules to limiters, and their answers back. A limiter is a stream: it gets what its fleet is served, and its report
 * says what it accepted last and what it refused since.
 */

export type { TlsFiles } from '../../process/net/tls-credentials.ts';
export { type FleetsOfClients, isClientName, kindOfClient } from './fleet-permissions.ts';
export { usualClientLimitBytes } from './fleet-response.ts';
export type { ReviewToken } from './token-reviews.ts';
export type { XdsListener } from './xds-listener.ts';
export { createXdsServer, type ServedFleet, type XdsServer, type XdsServerOptions } from './xds-server.ts';
