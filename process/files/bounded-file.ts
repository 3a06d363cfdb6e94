/** Reads whole files that others name or write: with a bound on their size, no devices, and no endless wait for a pipe. */
import { closeSync, constants, fstatSync, openSync, readSync, statSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { isatty } from 'node:tty';
import { systemErrorCode } from '../log/error-text.ts';

/** Chosen: the rules of the largest limiters have a tenth of this. */
export const maxFileBytes = 256 * 1024 * 1024;

/** Chosen: a shell starts the program that writes to a pipe before the one that reads, or right after it. */
const writerWaitMs = 2_000;
const pauseMs = 2;
/** Files are read into this and copied from it at once. Most files are far smaller. */
const scratch = Buffer.allocUnsafeSlow(256 * 1024);

/** The file exists but must not be read, or not to its end. */
export class FileBoundError extends Error {
  override readonly name = 'FileBoundError';
}

export interface FileBounds {
  maxBytes?: number;
  /** The time that a named pipe may have no writer. */
  waitMs?: number;
}

/** `path` may be the number of an open file. Blocks. @throws FileBoundError, or an error of the system */
export function readBoundedFile(path: string | number, bounds: FileBounds = {}): Buffer {
  const { maxBytes = maxFileBytes } = bounds;
  if (typeof path === 'number') return Buffer.concat(chunksOf(new Source(path, bounds), maxBytes));
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  const fd = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    rejectDevice(fd);
    return Buffer.concat(chunksOf(new Source(fd, isNamedPipe(path, fd) ? bounds : { waitMs: 0 }), maxBytes));
  } finally {
    closeSync(fd);
  }
}

function chunksOf(source: Source, maxBytes: number): Buffer[] {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for (;;) {
    const chunk = source.read();
    if (chunk === 'end') return chunks;
    if (chunk === 'later') {
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pauseMs);
      continue;
    }
    bytes += chunk.length;
    if (bytes > maxBytes) throw new FileBoundError(`holds more than ${maxBytes} bytes, the maximum`);
    chunks.push(chunk);
  }
}

/** Reads a named pipe as data arrives. Undefined for any other file. @throws an error of the system */
export function openNamedPipe(path: string, bounds: FileBounds = {}): AsyncGenerator<Buffer> | undefined {
  if (isOfProcess(path) || !statSync(path).isFIFO()) return undefined;
  return pipeChunks(openSync(path, constants.O_RDONLY | constants.O_NONBLOCK), bounds);
}

async function* pipeChunks(fd: number, bounds: FileBounds): AsyncGenerator<Buffer> {
  const source = new Source(fd, bounds);
  try {
    for (;;) {
      const chunk = source.read();
      if (chunk === 'end') return;
      if (chunk === 'later') await delay(pauseMs);
      else yield chunk;
    }
  } finally {
    closeSync(fd);
  }
}

/** An open file, which may not have data yet. */
class Source {
  readonly #fd: number;
  readonly #waitMs: number;
  readonly #untilMs: number;
  /** Whether there was a writer: only then the end of the data is the end. */
  #hasWriter: boolean;

  constructor(fd: number, { waitMs = writerWaitMs }: FileBounds) {
    this.#fd = fd;
    this.#waitMs = waitMs;
    this.#untilMs = performance.now() + waitMs;
    this.#hasWriter = waitMs === 0 || !fstatSync(fd).isFIFO() || fd === 0;
  }

  read(): Buffer | 'later' | 'end' {
    try {
      const count = readSync(this.#fd, scratch);
      if (count > 0) this.#hasWriter = true;
      if (count > 0) return Buffer.from(scratch.subarray(0, count));
    } catch (error) {
      if (systemErrorCode(error) !== 'EAGAIN') throw error;
      this.#hasWriter = true;
      return 'later';
    }
    if (this.#hasWriter) return 'end';
    if (performance.now() < this.#untilMs) return 'later';
    throw new FileBoundError(`is a pipe that no program has written to for ${this.#waitMs} ms`);
  }
}

function isNamedPipe(path: string, fd: number): boolean {
  return !isOfProcess(path) && fstatSync(fd).isFIFO();
}

/** Whether it is a pipe of the shell, which has no name and had a writer when it was created. */
function isOfProcess(path: string): boolean {
  return /^\/(?:dev|proc)\//.test(path);
}

function rejectDevice(fd: number): void {
  const stats = fstatSync(fd);
  if (stats.isBlockDevice() || (stats.isCharacterDevice() && !isatty(fd) && !isEmptyDevice(stats.rdev)))
    throw new FileBoundError('is a device, which is not read');
}

function isEmptyDevice(device: number): boolean {
  return device === statSync('/dev/null').rdev;
}
