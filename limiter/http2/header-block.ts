/** Where the header block of a HEADERS frame lies (RFC 9113, section 6.2), and how one that goes on is gathered. */
import { Flag } from './constants.ts';
import { ErrorCode } from './error-code.ts';
import { readUint31 } from './frame-reader.ts';
import type { Http2Limits } from './limits.ts';
import { ConnectionError } from './violation.ts';

const priorityBytes = 5;

/** The fields in front of the block and the padding behind it are cut off. */
export interface BlockPlace {
  start: number;
  end: number;
  /** RFC 7540, section 5.3.1: a fault, if the peer speaks of priorities at all. */
  dependsOnItself: boolean;
}

/** @throws ConnectionError when the padding or the priority do not fit into the frame. */
export function placeOfBlock(
  flags: number,
  streamId: number,
  bytes: Uint8Array,
  start: number,
  end: number,
): BlockPlace {
  const place = { start, end, dependsOnItself: false };
  let padding = 0;
  if ((flags & Flag.PADDED) !== 0) {
    if (place.start === end) throw new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, 'frame_size_error');
    padding = bytes[place.start] as number;
    place.start += 1;
  }
  if ((flags & Flag.PRIORITY) !== 0) {
    if (place.start + priorityBytes > end) {
      throw new ConnectionError(ErrorCode.FRAME_SIZE_ERROR, 'frame_size_error');
    }
    place.dependsOnItself = readUint31(bytes, place.start) === streamId;
    place.start += priorityBytes;
  }
  place.end = end - padding;
  if (place.end < place.start) throw new ConnectionError(ErrorCode.PROTOCOL_ERROR, 'protocol_error');
  return place;
}

/** A header block that needs CONTINUATION. RFC 9113, section 6.10. */
export class HeaderBlock {
  readonly streamId: number;
  readonly endStream: boolean;
  readonly dependsOnItself: boolean;
  readonly startedMs: number;
  readonly #limits: Http2Limits;
  readonly #pieces: Uint8Array[] = [];
  #length = 0;
  #continuations = -1;

  constructor(
    limits: Http2Limits,
    streamId: number,
    endStream: boolean,
    dependsOnItself: boolean,
    startedMs: number,
  ) {
    this.#limits = limits;
    this.startedMs = startedMs;
    this.streamId = streamId;
    this.endStream = endStream;
    this.dependsOnItself = dependsOnItself;
  }

  get bytes(): number {
    return this.#length;
  }

  /** @throws ConnectionError when it becomes too long, or comes in too many frames. */
  add(bytes: Uint8Array, start: number, end: number): void {
    this.#continuations += 1;
    this.#length += end - start;
    if (this.#continuations > this.#limits.maxContinuationFrames) {
      throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'continuation_flood');
    }
    if (this.#length > this.#limits.maxHeaderBlockBytes) {
      throw new ConnectionError(ErrorCode.ENHANCE_YOUR_CALM, 'header_block_size');
    }
    this.#pieces.push(Buffer.from(bytes.subarray(start, end)));
  }

  whole(): Uint8Array {
    return Buffer.concat(this.#pieces, this.#length);
  }
}
