import { setLogger } from '@grpc/grpc-js';

/** gRPC prints past the log and its format: hands what it says to `warn` instead, for the whole process. */
export function routeGrpcErrors(warn: (text: string) => void): void {
  setLogger({ error: (...parts: unknown[]) => warn(parts.map(String).join(' ')) });
}
