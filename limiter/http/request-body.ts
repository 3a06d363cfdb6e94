/** Reads the body of a request up to a bound. */
import type { IncomingMessage } from 'node:http';

/**
 * `tooLong` settles at once, while the sender may still be sending. `dropped`: it ended, and was longer than what is kept.
 * `aborted`: nobody is left to answer.
 */
export type RequestBody =
  | { kind: 'whole'; bytes: Uint8Array }
  | { kind: 'dropped'; length: number }
  | { kind: 'tooLong' }
  | { kind: 'aborted' };

/** Up to `maxBytes` are taken in, and up to `keptBytes` kept meanwhile. */
export function readBody(
  request: IncomingMessage,
  { maxBytes, keptBytes }: { maxBytes: number; keptBytes: number },
): Promise<RequestBody> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve({ kind: 'tooLong' });
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let length = 0;
    const onData = (chunk: Buffer): void => {
      length += chunk.length;
      if (length <= keptBytes) chunks.push(chunk);
      else chunks.length = 0;
      if (length <= maxBytes) return;
      request.off('data', onData).pause();
      resolve({ kind: 'tooLong' });
    };
    request.on('data', onData);
    request.on('end', () => {
      if (length > keptBytes) resolve({ kind: 'dropped', length });
      else resolve({ kind: 'whole', bytes: Buffer.concat(chunks) });
    });
    request.on('error', () => resolve({ kind: 'aborted' }));
    request.on('close', () => resolve({ kind: 'aborted' }));
  });
}

/**
 * Takes in what the sender still sends and drops it, so that it gets to read our answer instead of a reset. Settles
 * when the sender is done or after `longestMs`.
 */
export function discardBody(request: IncomingMessage, longestMs: number): Promise<void> {
  if (request.readableEnded || request.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, longestMs);
    request.on('close', () => {
      clearTimeout(timer);
      resolve();
    });
    request.on('end', () => {
      clearTimeout(timer);
      resolve();
    });
    request.resume();
  });
}
