/** A request that cannot be decided, whatever the counters say; the message is for the caller. */
export class ServiceError extends Error {
  override readonly name = 'ServiceError';
}
