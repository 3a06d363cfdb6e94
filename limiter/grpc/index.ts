/** gRPC on top of a transport. Knows nothing of rate limits: its methods take and give bytes. */
export { createGrpcServer, type GrpcServer } from './server.ts';
