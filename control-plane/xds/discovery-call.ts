/** One stream of discovery, whatever carries it: gRPC, or memory in simulations. */
import type { GrpcStatus } from '../../process/grpc/handlers.ts';

export interface DiscoveryCall {
  /** `address:port`, IPv6 in brackets. */
  readonly peer: string;
  /** Called once, at the beginning. */
  follow(listener: CallListener): void;
  /** Calls `taken` when the network has the bytes. */
  send(bytes: Buffer, taken: () => void): void;
  end(): void;
  /** Ends the stream with an error: what is not sent yet is dropped. */
  fail(status: GrpcStatus): void;
  /** Destroys the connection. */
  cut(): void;
  /** The connection holds so many bytes more, or less, for a peer that has not done its part. */
  hold(bytes: number): void;
}

export interface CallListener {
  received(bytes: Buffer): void;
  /** The peer sends nothing more. */
  finished(): void;
  /** The peer ended the stream, or lost it. */
  givenUp(): void;
  /** The stream is over, however it ended. */
  closed(): void;
}
