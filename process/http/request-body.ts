/** Reads the body of a request up to a bound. */
import type { IncomingMessage } from 'node:http';
import type { RequestMemory } from './http-connection.ts';

/**
 * `tooLong`, `tooManyPieces` and `givenUp` (its memory is needed) resolve at once, while the sender may still be sending. `dropped`: the
 * body ended, and was longer than what is kept. `aborted`: there is no client left to answer.
 */
export type RequestBody =
  | { kind: 'whole'; bytes: Uint8Array }
  | { kind: 'dropped'; length: number }
  | { kind: 'tooLong' }
  | { kind: 'tooManyPieces' }
  | { kind: 'givenUp' }
  | { kind: 'aborted' };

export interface BodyBounds {
  /** The most bytes that are received. */
  maxBytes: number;
  /** The most bytes that are stored while they arrive. */
  storedBytes: number;
  memory: RequestMemory;
}

/** Chosen: the first buffer for a body, which doubles. Storing the pieces instead could mean many pieces of one byte each. */
const firstRoomBytes = 1024;

const noRoom: Buffer = Buffer.alloc(0);

export function readBody(
  request: IncomingMessage,
  { maxBytes, storedBytes, memory }: BodyBounds,
): Promise<RequestBody> {
  if (Number(request.headers['content-length'] ?? 0) > maxBytes) return Promise.resolve({ kind: 'tooLong' });
  return new Promise((resolve) => {
    let room = noRoom;
    let length = 0;
    const keep = (larger: Buffer): void => {
      room = larger;
      memory.hold(room.length);
    };
    const finish = (body: RequestBody): void => {
      request.off('data', onData);
      memory.giveUp = undefined;
      keep(noRoom);
      resolve(body);
    };
    const giveUp = (kind: 'tooLong' | 'tooManyPieces' | 'givenUp'): void => {
      request.pause();
      finish({ kind });
    };
    const onData = (chunk: Buffer): void => {
      const before = length;
      length += chunk.length;
      if (!memory.piece(chunk.length)) giveUp('tooManyPieces');
      else if (length > maxBytes) giveUp('tooLong');
      else if (length > storedBytes) keep(noRoom);
      else {
        if (length > room.length) keep(grown(room.subarray(0, before), length, storedBytes));
        // Growing the buffer may have caused this body to be given up.
        if (room.length >= length) room.set(chunk, before);
      }
    };
    memory.giveUp = () => giveUp('givenUp');
    request.on('data', onData);
    request.on('end', () => {
      if (length > storedBytes) finish({ kind: 'dropped', length });
      else finish({ kind: 'whole', bytes: room.subarray(0, length) });
    });
    request.on('error', () => finish({ kind: 'aborted' }));
    request.on('close', () => finish({ kind: 'aborted' }));
  });
}

function grown(bytes: Buffer, needed: number, maxBytes: number): Buffer {
  const room = Buffer.allocUnsafeSlow(Math.min(maxBytes, Math.max(firstRoomBytes, 2 * needed)));
  room.set(bytes);
  return room;
}

/**
 * Receives and drops the rest that the sender still sends, so that the sender reads our answer instead of a reset. Resolves when the
 * sender is done, after `longestMs`, or when it sends too many pieces.
 */
export function discardBody(
  request: IncomingMessage,
  { longestMs, memory }: { longestMs: number; memory: RequestMemory },
): Promise<void> {
  if (request.readableEnded || request.destroyed) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = (): void => {
      clearTimeout(timer);
      request.off('data', onData);
      resolve();
    };
    const onData = (chunk: Buffer): void => {
      if (memory.piece(chunk.length)) return;
      request.pause();
      finish();
    };
    const timer = setTimeout(finish, longestMs);
    request.on('close', finish);
    request.on('end', finish);
    request.on('data', onData);
    request.resume();
  });
}
