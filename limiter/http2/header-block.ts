/** Where the header block of a HEADERS frame lies (RFC 9113, section 6.2), and how one that goes on is gathered. */
import { Flag } from './constants.ts';
import { readUint31 } from './frame-reader.ts';
import type { Http2Limits } from './limits.ts';
import type { HeaderFields } from './request-handler.ts';
import { calmError, frameSizeError, protocolError } from './violation.ts';

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
    if (place.start === end) throw frameSizeError();
    padding = bytes[place.start] as number;
    place.start += 1;
  }
  if ((flags & Flag.PRIORITY) !== 0) {
    if (place.start + priorityBytes > end) throw frameSizeError();
    place.dependsOnItself = readUint31(bytes, place.start) === streamId;
    place.start += priorityBytes;
  }
  place.end = end - padding;
  if (place.end < place.start) throw protocolError();
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
    if (this.#continuations > this.#limits.maxContinuationFrames) throw calmError('continuation_flood');
    if (this.#length > this.#limits.maxHeaderBlockBytes) throw calmError('header_block_size');
    this.#pieces.push(Buffer.from(bytes.subarray(start, end)));
  }

  whole(): Uint8Array {
    return Buffer.concat(this.#pieces, this.#length);
  }
}

/** What is known of a well-formed section: its content-length, or `noLength`. */
export const noLength = -1;
/** In place of a content-length: the section is malformed. */
export const malformed = -2;

/** Chosen: what a connection keeps of its last request, by which the next one is checked faster. Usual ones are shorter. */
const mostKeptBytes = 4096;

const fieldName = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/;
/** RFC 9113, section 8.2.1: no NUL, LF, CR anywhere, no white space at the ends. */
const badValue = /[\0\n\r]|^[ \t]|[ \t]$/;
const digits = /^[0-9]{1,15}$/;

/** RFC 9113, section 8.2.2. */
const connectionFields: ReadonlySet<string> = new Set([
  'connection',
  'proxy-connection',
  'keep-alive',
  'transfer-encoding',
  'upgrade',
]);

const pseudoFields: readonly string[] = [':method', ':scheme', ':path', ':authority'];

/**
 * Which header sections are well-formed. RFC 9113, sections 8.2 and 8.3; what is not is an error of its stream.
 * Checks the sections of one connection. Its requests mostly repeat each other, and a field that equals the last
 * request's at the same place (with HPACK's tables often the same string) is not looked at again.
 */
export class RequestFields {
  #last: HeaderFields = [];
  #lastLength = malformed;

  /** Returns the content-length, `noLength` or `malformed`. */
  checkRequest(fields: HeaderFields): number {
    const last = this.#last;
    let same = 0;
    const most = Math.min(fields.length, last.length);
    while (same < most && fields[same] === last[same]) same += 1;
    if (same === fields.length && same === last.length) return this.#lastLength;
    const length = checkFields(fields, last);
    if (length === malformed || !hasPseudoFields(fields)) return malformed;
    this.#last = bytesOf(fields) <= mostKeptBytes ? fields : [];
    this.#lastLength = this.#last === fields ? length : malformed;
    return length;
  }
}

function bytesOf(fields: HeaderFields): number {
  let bytes = 0;
  for (const text of fields) bytes += text.length;
  return bytes;
}

/** Trailers are fields without pseudo-header fields. */
export function trailersAreWellFormed(fields: HeaderFields): boolean {
  for (let at = 0; at < fields.length; at += 2) {
    const [name, value] = [fields[at] as string, fields[at + 1] as string];
    if (!isRegularField(name, value)) return false;
  }
  return true;
}

/** Every field by itself; pseudo-header fields first. Returns the content-length, `noLength` or `malformed`. */
function checkFields(fields: HeaderFields, known: HeaderFields): number {
  let length = noLength;
  let regular = false;
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] as string;
    const value = fields[at + 1] as string;
    if (name.charCodeAt(0) === 0x3a) {
      if (regular || badValue.test(value)) return malformed;
      continue;
    }
    regular = true;
    if ((name !== known[at] || value !== known[at + 1]) && !isRegularField(name, value)) return malformed;
    if (name === 'content-length') {
      if (!digits.test(value) || (length !== noLength && length !== Number(value))) return malformed;
      length = Number(value);
    }
  }
  return length;
}

function isRegularField(name: string, value: string): boolean {
  if (!fieldName.test(name) || badValue.test(value)) return false;
  if (connectionFields.has(name)) return false;
  return name !== 'te' || value === 'trailers';
}

/** RFC 9113, section 8.3.1: each once, none unknown, none missing; section 8.5 for CONNECT. */
function hasPseudoFields(fields: HeaderFields): boolean {
  const found: (string | undefined)[] = [undefined, undefined, undefined, undefined];
  for (let at = 0; at < fields.length; at += 2) {
    const name = fields[at] as string;
    if (name.charCodeAt(0) !== 0x3a) break;
    const which = pseudoFields.indexOf(name);
    if (which < 0 || found[which] !== undefined) return false;
    found[which] = fields[at + 1] as string;
  }
  const [method, scheme, path, authority] = found;
  if (method === undefined || method === '') return false;
  if (method === 'CONNECT') return scheme === undefined && path === undefined && !!authority;
  if (scheme === undefined || scheme === '' || path === undefined) return false;
  return path.startsWith('/') || (path === '*' && method === 'OPTIONS');
}
