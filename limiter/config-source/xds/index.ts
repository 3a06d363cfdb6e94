/** Rules from an xDS server. Apart from the index above, since it loads grpc-js. */
export { routeGrpcErrors } from './grpc-log.ts';
export { XdsConfigSource } from './xds-source.ts';
