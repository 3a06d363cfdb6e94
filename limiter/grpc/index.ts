/** gRPC on top of HTTP/2. Knows nothing of rate limits, but for what reflection tells of them: its methods take and give bytes. */
export { createGrpcServer, type GrpcServer } from './server.ts';
