/** Reads a recording in blocks of whole lines, and decompresses it if its name ends in .gz. */
import { isUtf8 } from 'node:buffer';
import { createReadStream, fstatSync, openSync } from 'node:fs';
import { pipeline, Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import { openNamedPipe } from '../../process/files/bounded-file.ts';

const newline = 0x0a;
/** Some programs begin a file with this mark. */
const byteOrderMark = '\ufeff';
/** Chosen: a longer line is not a request. */
const maxLineBytes = 4 * 1024 * 1024;

export interface OpenedRecording {
  /** The size of the file, compressed or not; undefined if unknown. */
  bytes: number | undefined;
  /** The number of bytes read so far. */
  bytesRead(): number;
  /** Rejects if the file cannot be read to its end or is not a recording. */
  lines(take: (text: string, line: number) => void): Promise<void>;
}

/** Opens a recording; `-` is standard input. @throws the system's error if the file cannot be opened */
export function openRecording(path: string, standardInput: () => Readable): OpenedRecording {
  let bytesRead = 0;
  const count = (chunk: Buffer): void => {
    bytesRead += chunk.length;
  };
  if (path === '-') {
    return {
      bytes: undefined,
      bytesRead: () => bytesRead,
      lines: (take) => readLines(standardInput().on('data', count), take),
    };
  }
  const pipe = openNamedPipe(path);
  if (pipe !== undefined) {
    const counted = Readable.from(pipe, { objectMode: false }).on('data', count);
    return { bytes: undefined, bytesRead: () => bytesRead, lines: (take) => linesOf(counted, path, take) };
  }
  const fd = openSync(path, 'r');
  const stats = fstatSync(fd);
  return {
    bytes: stats.isFile() ? stats.size : undefined,
    bytesRead: () => bytesRead,
    lines: (take) => {
      const file = createReadStream(path, { fd, highWaterMark: 256 * 1024 });
      file.on('data', (chunk) => count(chunk as Buffer));
      return linesOf(file, path, take);
    },
  };
}

function linesOf(file: Readable, path: string, take: (text: string, line: number) => void): Promise<void> {
  if (!path.endsWith('.gz')) return readLines(file, take);
  // The decompressed stream also reports errors of the file.
  const unpacked = pipeline(file, createGunzip({ chunkSize: 256 * 1024 }), () => {});
  return readLines(unpacked, take).catch(rethrowInWords);
}

/** An error of zlib has the number of an unrelated system error. */
function rethrowInWords(error: NodeJS.ErrnoException): never {
  throw error.code?.startsWith('Z_') ? new Error(`cannot be unpacked: ${error.message}`) : error;
}

async function readLines(
  stream: AsyncIterable<Buffer>,
  take: (text: string, line: number) => void,
): Promise<void> {
  const carried: Buffer[] = [];
  let carriedBytes = 0;
  let line = 0;
  const takeBlock = (block: Buffer): void => {
    // One check covers all lines of the block.
    if (!isUtf8(block)) throw new Error(`is not UTF-8 text, from line ${line + 1} on at the latest`);
    const whole = block.toString('utf8');
    const text = line === 0 && whole.startsWith(byteOrderMark) ? whole.slice(1) : whole;
    for (const one of text.split('\n')) take(one, ++line);
  };
  for await (const chunk of stream) {
    const end = chunk.lastIndexOf(newline);
    if (end < 0) {
      carried.push(chunk);
      carriedBytes += chunk.length;
      if (carriedBytes > maxLineBytes)
        throw new Error(`line ${line + 1} is longer than ${maxLineBytes} bytes`);
      continue;
    }
    const block = Buffer.concat([...carried, chunk.subarray(0, end)]);
    carried.length = 0;
    carried.push(chunk.subarray(end + 1));
    carriedBytes = chunk.length - end - 1;
    takeBlock(block);
  }
  if (carriedBytes > 0) takeBlock(Buffer.concat(carried));
}
