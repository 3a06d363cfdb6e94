/**
 * What one request may consist of, so that none costs more than it should. One pass over its bytes counts before
 * anything of it is read, walks as the decoder walks, makes nothing, and ends at the first that is too many. Short
 * requests, which are nearly all, are read first: that costs next to nothing, and so does counting what came of it.
 */
import type { RateLimitRequest } from './messages.ts';
import { decodeRateLimitRequest } from './wire-codec.ts';
import { WireReader } from './wire-reader.ts';

export interface RequestLimits {
  /** REQUEST_MAX_DESCRIPTORS. */
  maxDescriptors: number;
  /** REQUEST_MAX_ENTRIES, of one descriptor. */
  maxEntries: number;
  /** REQUEST_MAX_TEXT_BYTES, of the domain, a key or a value. */
  maxTextBytes: number;
  /** REQUEST_MAX_BYTES. */
  maxBytes: number;
}

/** Chosen: far above what proxies send, and cheap enough to decide that nobody else waits for it. */
export const usualRequestLimits: RequestLimits = {
  maxDescriptors: 256,
  maxEntries: 64,
  maxTextBytes: 16 * 1024,
  maxBytes: 256 * 1024,
};

/** The settings that bound a request. */
export type RequestBound =
  | 'REQUEST_MAX_DESCRIPTORS'
  | 'REQUEST_MAX_ENTRIES'
  | 'REQUEST_MAX_TEXT_BYTES'
  | 'REQUEST_MAX_BYTES'
  | 'HTTP_MAX_BODY_BYTES';

/** A request beyond a bound. The message names the setting, the bound and what came, and nothing that the caller wrote. */
export class RequestTooLarge extends Error {
  override readonly name = 'RequestTooLarge';
  readonly setting: RequestBound;

  constructor(setting: RequestBound, message: string) {
    super(message);
    this.setting = setting;
  }
}

/** Chosen: some 50 microseconds of decoding at most, whatever they are. */
const mostReadFirst = 2048;

const reader = new WireReader();

export class RequestBounds {
  readonly limits: RequestLimits;
  /** An element takes two bytes at least, so that so many bytes cannot hold too much of anything. */
  readonly #harmlessBytes: number;
  /** Short, and without a text that is too long. */
  readonly #readFirstBytes: number;

  constructor(limits: RequestLimits) {
    const { maxDescriptors, maxEntries, maxTextBytes, maxBytes } = limits;
    this.limits = limits;
    this.#harmlessBytes = Math.min(2 * maxDescriptors, 2 * maxEntries, maxTextBytes, maxBytes);
    this.#readFirstBytes = Math.min(mostReadFirst, maxTextBytes, maxBytes);
  }

  /** Throws a `RequestTooLarge`, or a `DecodeError`. */
  decode(bytes: Uint8Array): RateLimitRequest {
    if (bytes.length > this.#readFirstBytes) this.check(bytes);
    let request: RateLimitRequest;
    try {
      request = decodeRateLimitRequest(bytes);
    } catch (error) {
      // What is too many may come before what is damaged, and is what the caller is told.
      this.check(bytes);
      throw error;
    }
    if (bytes.length > this.#harmlessBytes && this.#hasTooMany(request)) this.check(bytes);
    return request;
  }

  /** Throws a `RequestTooLarge`, or a `DecodeError` where the decoder would. */
  check(bytes: Uint8Array): void {
    if (bytes.length <= this.#harmlessBytes) return;
    this.checkBytes(bytes.length);
    reader.reset(bytes);
    try {
      this.#walkRequest(bytes.length);
    } finally {
      reader.reset();
    }
  }

  /** Of the whole request. */
  checkBytes(bytes: number): void {
    if (bytes > this.limits.maxBytes) throw this.tooManyBytes(bytes);
  }

  /** `count`: of the descriptors up to here. */
  checkDescriptors(count: number): void {
    const { maxDescriptors } = this.limits;
    if (count <= maxDescriptors) return;
    throw new RequestTooLarge(
      'REQUEST_MAX_DESCRIPTORS',
      `a request may have ${maxDescriptors} descriptors (REQUEST_MAX_DESCRIPTORS), this one has ${count} or more`,
    );
  }

  /** `count`: of the entries up to here of one descriptor, which is counted from 0. */
  checkEntries(count: number, descriptor: number): void {
    const { maxEntries } = this.limits;
    if (count <= maxEntries) return;
    throw new RequestTooLarge(
      'REQUEST_MAX_ENTRIES',
      `a descriptor may have ${maxEntries} entries (REQUEST_MAX_ENTRIES), descriptor ${descriptor} has ${count} or more`,
    );
  }

  checkText(bytes: number): void {
    const { maxTextBytes } = this.limits;
    if (bytes <= maxTextBytes) return;
    throw new RequestTooLarge(
      'REQUEST_MAX_TEXT_BYTES',
      `a domain, key or value may have ${maxTextBytes} bytes (REQUEST_MAX_TEXT_BYTES), one of this request has ${bytes}`,
    );
  }

  tooManyBytes(bytes: number): RequestTooLarge {
    const { maxBytes } = this.limits;
    return new RequestTooLarge(
      'REQUEST_MAX_BYTES',
      `a request may have ${maxBytes} bytes (REQUEST_MAX_BYTES), this one has ${bytes}`,
    );
  }

  #hasTooMany({ descriptors }: RateLimitRequest): boolean {
    const { maxDescriptors, maxEntries } = this.limits;
    if (descriptors.length > maxDescriptors) return true;
    for (let i = 0; i < descriptors.length; i++) {
      if (descriptors[i]!.entries.length > maxEntries) return true;
    }
    return false;
  }

  #walkRequest(end: number): void {
    let descriptors = 0;
    while (reader.position < end) {
      const field = reader.fieldNumber();
      if (field === 2) {
        this.checkDescriptors(descriptors + 1);
        this.#walkDescriptor(descriptors++);
      } else if (field === 1) this.#passText();
      else if (field === 3) reader.uint32();
      else reader.skip(field, 1);
    }
  }

  #walkDescriptor(descriptor: number): void {
    let entries = 0;
    const end = reader.messageEnd();
    while (reader.position < end) {
      const field = reader.fieldNumber();
      if (field === 1) {
        this.checkEntries(++entries, descriptor);
        this.#walkEntry();
      } else if (field === 2 || field === 3) walkNumbers(field);
      else if (field === 4) reader.bool();
      else reader.skip(field, 2);
    }
  }

  #walkEntry(): void {
    const end = reader.messageEnd();
    while (reader.position < end) {
      const field = reader.fieldNumber();
      if (field === 1 || field === 2) this.#passText();
      else reader.skip(field, 3);
    }
  }

  #passText(): void {
    this.checkText(reader.passText());
  }
}

/** The limit (2), which has two numbers and a multiplier (4) with one, or the addend (3), which has one. */
function walkNumbers(message: number): void {
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1 && message === 3) reader.uint64();
    else if (field === 1 || (field === 2 && message === 2)) reader.uint32();
    else if (field === 3 && message === 2) walkNumbers(4);
    else reader.skip(field, message === 4 ? 4 : 3);
  }
}
