/**
 * A hand-written codec of the two messages of `ShouldRateLimit`, because this is the fast path. Tests check that it equals the generated
 * codec in gen/, for valid and for damaged bytes. The proto files define the field numbers.
 */
import { type Entry, type JsonObject, type JsonValue, maxUint32 } from '../../rules/model.ts';
import { identityEntry } from './extra-headers.ts';
import { idKeyLength, isMarkerKey, markerEntry, markerKey, settleKeyLength } from './marker.ts';
import type {
  Descriptor,
  Header,
  HeaderForm,
  OmittedParts,
  OversizedDescriptor,
  RateLimitRequest,
  RequestedLimit,
} from './messages.ts';
import { checkWhole, longTextsOf, type RequestLimits, tooManyBytes } from './request-bounds.ts';
import type { DescriptorStatus, RateLimitResponse } from './response-message.ts';
import { KnownEntriesCache, WireReader } from './wire-reader.ts';
import { WireWriter } from './wire-writer.ts';

export { DecodeError } from './wire-reader.ts';

const noEntries: readonly Entry[] = [];
const noDescriptors: Descriptor[] = [];
Object.freeze(noDescriptors);
const reader = new WireReader();
const writer = new WireWriter();
const knownEntries = new KnownEntriesCache();

const allOfIt: RequestLimits = {
  maxDescriptors: Number.POSITIVE_INFINITY,
  maxEntries: Number.POSITIVE_INFINITY,
  maxTextBytes: Number.POSITIVE_INFINITY,
  maxBytes: Number.POSITIVE_INFINITY,
};
/** The limits for the request that is being read. */
let readLimits = allOfIt;
let leftOut: OmittedParts | undefined;

/**
 * Decodes the part of a request that is within its limits; `leftOut` describes the rest. Throws a `DecodeError` if the bytes are not such
 * a message. Throws a `RequestTooLarge`, without reading anything, if there are too many bytes. It does not retain `bytes`. Its time is
 * linear in their number, and `limits` bound what it creates.
 */
export function decodeRateLimitRequest(bytes: Uint8Array, limits = allOfIt): RateLimitRequest {
  const end = bytes.length;
  if (end > limits.maxBytes) throw tooManyBytes(end, limits);
  const request: RateLimitRequest = {
    domain: '',
    descriptors: noDescriptors,
    hitsAddend: 0,
    invalidUtf8Values: undefined,
  };
  readLimits = limits;
  leftOut = undefined;
  reader.reset(bytes);
  try {
    while (reader.position < end) {
      const field = reader.fieldNumber();
      switch (field) {
        case 1:
          request.domain = reader.string();
          break;
        case 2: {
          // An array that is created with an element reserves no space for further elements, which few requests need.
          const count = request.descriptors.length;
          if (count === 0) request.descriptors = [readDescriptor(bytes, 0)];
          else if (count < limits.maxDescriptors) request.descriptors.push(readDescriptor(bytes, count));
          else passDescriptor();
          break;
        }
        case 3:
          request.hitsAddend = reader.uint32();
          break;
        default:
          reader.skip(field, 1);
      }
    }
    if (reader.invalidUtf8Values !== 0) request.invalidUtf8Values = reader.invalidUtf8Values;
    if (leftOut !== undefined) request.leftOut = leftOut;
    // U+FFFD takes three bytes and may stand for one.
    const maxTextBytes = request.invalidUtf8Values === undefined ? end : 3 * end;
    if (maxTextBytes > limits.maxTextBytes) request.longTexts = longTextsOf(request, limits);
    return request;
  } finally {
    reader.reset();
  }
}

/** Decodes a whole request, for callers that report any excess as an error: throws a `RequestTooLarge` for it. */
export function decodeWholeRequest(bytes: Uint8Array, limits: RequestLimits): RateLimitRequest {
  const request = decodeRateLimitRequest(bytes, limits);
  checkWhole(request);
  return request;
}

function passDescriptor(): void {
  reader.passText();
  leftOutNow().descriptors += 1;
}

function leftOutNow(): OmittedParts {
  leftOut ??= { descriptors: 0, crowded: new Map(), maxEntries: readLimits.maxEntries };
  return leftOut;
}

function readDescriptor(bytes: Uint8Array, index: number): Descriptor {
  const descriptor: Descriptor = {
    entries: noEntries,
    known: undefined,
    unmarked: undefined,
    limit: undefined,
    hitsAddend: undefined,
    isNegativeHits: false,
  };
  const end = reader.messageEnd();
  const firstEntries = readFirstEntries(descriptor, bytes, end);
  let furtherEntries: Entry[] | undefined;
  let passed: { entries: number; unmarked: number } | undefined;
  while (reader.position < end) {
    const field = reader.fieldNumber();
    switch (field) {
      case 1:
        // These entries follow another field, or they are long. No common client sends such entries. Shared entries must not change.
        if (furtherEntries === undefined) {
          furtherEntries = firstEntries ?? [...descriptor.entries];
          descriptor.entries = furtherEntries;
          descriptor.known = undefined;
          descriptor.unmarked = undefined;
        }
        if (furtherEntries.length < readLimits.maxEntries) furtherEntries.push(readEntry());
        else passed = passEntry(passed);
        break;
      case 2:
        descriptor.limit ??= { requestsPerUnit: 0, unit: 0 };
        mergeOverride(descriptor.limit);
        break;
      case 3:
        descriptor.hitsAddend = readUInt64Value(descriptor.hitsAddend ?? 0);
        break;
      case 4:
        descriptor.isNegativeHits = reader.bool();
        break;
      default:
        reader.skip(field, 2);
    }
  }
  // A few entries of few bytes are read together, without a check.
  if (passed !== undefined || descriptor.entries.length > readLimits.maxEntries)
    leftOutNow().crowded.set(index, oversizedOf(descriptor.entries, passed));
  return descriptor;
}

/** Skips and counts one entry beyond the limit. It may belong to a marker. */
function passEntry(passed = { entries: 0, unmarked: 0 }): { entries: number; unmarked: number } {
  let key = '';
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) key = reader.string();
    else if (field === 2) reader.passText();
    else reader.skip(field, 3);
  }
  passed.entries += 1;
  if (!isMarkerKey(key)) passed.unmarked += 1;
  return passed;
}

/** Returns the counts for a descriptor of which the first entries were `read` and the others skipped. */
export function oversizedOf(
  read: readonly Pick<Entry, 'key'>[],
  { entries, unmarked }: OversizedDescriptor = { entries: 0, unmarked: 0 },
): OversizedDescriptor {
  const unmarkedRead = read.filter(({ key }) => !isMarkerKey(key)).length;
  return { entries: read.length + entries, unmarked: unmarkedRead + unmarked };
}

/**
 * Reads the entries at the beginning of a descriptor. Common clients send entries first and without other fields in between, so that
 * their bytes determine whether they are known. Returns entries that no other descriptor shares.
 */
function readFirstEntries(descriptor: Descriptor, bytes: Uint8Array, end: number): Entry[] | undefined {
  const start = reader.position;
  const entriesEnd = reader.endOfFirstFields(end);
  if (entriesEnd === start || entriesEnd - start > KnownEntriesCache.maxBytes) return undefined;
  const lastStart = reader.lastFieldStart + 2;
  const keyLength = bytes[lastStart + 1];
  const mayBeMarker = keyLength === idKeyLength || keyLength === settleKeyLength;
  if (mayBeMarker && markerEntry(bytes, lastStart) !== undefined) {
    const markersStart = startOfMarkers(bytes, start, entriesEnd);
    if (markersStart < entriesEnd) {
      readMarkedEntries(descriptor, bytes, markersStart, entriesEnd);
      return undefined;
    }
  }
  const known = knownEntries.get(bytes, start, entriesEnd);
  if (known !== undefined) {
    reader.position = entriesEnd;
    descriptor.known = known;
    descriptor.entries = known.entries;
    return undefined;
  }
  const entries: Entry[] = [];
  descriptor.entries = entries;
  if (!readUnknownEntries(entries, bytes, entriesEnd)) return entries;
  descriptor.known = knownEntries.add(bytes, start, entriesEnd, entries);
  return undefined;
}

/**
 * Reads the entries before a marker and the marker itself. Ids are new with each stream, so only the entries before the marker can be
 * known.
 */
function readMarkedEntries(
  descriptor: Descriptor,
  bytes: Uint8Array,
  markersStart: number,
  entriesEnd: number,
): void {
  const start = reader.position;
  let known = knownEntries.get(bytes, start, markersStart);
  if (known === undefined) {
    const entries: Entry[] = [];
    descriptor.entries = entries;
    if (readUnknownEntries(entries, bytes, markersStart))
      known = knownEntries.add(bytes, start, markersStart, entries);
    else if (reader.position !== markersStart) return;
  } else {
    reader.position = markersStart;
    descriptor.entries = known.entries;
  }
  let isCommon = true;
  while (reader.position < entriesEnd) {
    const entryStart = reader.position;
    const entryEnd = entryStart + 2 + bytes[entryStart + 1]!;
    const valueStart = entryStart + 4 + bytes[entryStart + 3]!;
    let entry: Entry;
    if (bytes[valueStart] === 0x12 && bytes[valueStart + 1] === entryEnd - valueStart - 2) {
      reader.position = valueStart + 1;
      const kind = markerEntry(bytes, entryStart + 2)!;
      entry = { key: markerKey(kind), value: kind === 'id' ? reader.newString() : reader.repairedString() };
    } else {
      // It may be the beginning of a marker entry in another form.
      isCommon = false;
      reader.fieldNumber();
      entry = readEntry();
    }
    descriptor.entries = withEntry(descriptor.entries, entry);
    if (reader.position !== entryEnd) return;
  }
  if (isCommon) descriptor.unmarked = known;
}

/** Returns an array that reserves no space for further entries, which few markers have. */
function withEntry(entries: readonly Entry[], entry: Entry): Entry[] {
  const all = new Array<Entry>(entries.length + 1);
  for (let i = 0; i < entries.length; i++) all[i] = entries[i]!;
  all[entries.length] = entry;
  return all;
}

/**
 * Reads entries. Returns false if they must not be stored as known entries. A damaged entry may end elsewhere than its length says, and
 * anything may follow.
 */
function readUnknownEntries(entries: Entry[], bytes: Uint8Array, entriesEnd: number): boolean {
  const invalidBefore = reader.invalidUtf8Values;
  let comesAgain = true;
  while (reader.position < entriesEnd) {
    const entryEnd = reader.position + 2 + bytes[reader.position + 1]!;
    reader.fieldNumber();
    const entry = readEntry();
    entries.push(entry);
    if (reader.position !== entryEnd) return false;
    if (isMarkerKey(entry.key)) comesAgain = false;
  }
  // Invalid values that were replaced must be counted the next time as well.
  return comesAgain && reader.invalidUtf8Values === invalidBefore;
}

/** Returns the start of the last entries that all belong to a marker and include an id, or the end if there are none. */
function startOfMarkers(bytes: Uint8Array, start: number, end: number): number {
  let markersStart = end;
  let hasId = false;
  for (let at = start; at < end; at += 2 + bytes[at + 1]!) {
    const kind = markerEntry(bytes, at + 2);
    if (kind === undefined) {
      markersStart = end;
      hasId = false;
      continue;
    }
    if (markersStart === end) markersStart = at;
    hasId ||= kind === 'id';
  }
  return hasId ? markersStart : end;
}

function readEntry(): Entry {
  const entry: Entry = { key: '', value: '' };
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) entry.key = reader.string();
    else if (field === 2) entry.value = reader.repairedString();
    else reader.skip(field, 3);
  }
  return entry;
}

function mergeOverride(limit: RequestedLimit): void {
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) limit.requestsPerUnit = reader.uint32();
    else if (field === 2) limit.unit = reader.int32();
    else if (field === 3) limit.unitMultiplier = readUInt32Value(limit.unitMultiplier ?? 0);
    else reader.skip(field, 3);
  }
}

function readUInt32Value(before: number): number {
  let value = before;
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) value = reader.uint32();
    else reader.skip(field, 4);
  }
  return value;
}

function readUInt64Value(before: number): number {
  let value = before;
  const end = reader.messageEnd();
  while (reader.position < end) {
    const field = reader.fieldNumber();
    if (field === 1) value = reader.uint64();
    else reader.skip(field, 3);
  }
  return value;
}

/**
 * Encodes a request as common clients do, for `decodeRateLimitRequest`. `hits`: the hits of each descriptor, 0 to 2^53 - 1; 0 only reads.
 */
export function encodeRateLimitRequest(
  domain: string,
  descriptors: readonly (readonly Entry[])[],
  hits: number,
): Uint8Array {
  writer.begin();
  const isOfRequest = hits > 0 && hits <= maxUint32;
  if (isOfRequest) writer.varintField(0x18, hits);
  for (let index = descriptors.length - 1; index >= 0; index--) {
    const mark = writer.mark();
    // A request's hits addend of 0 counts as 1. A descriptor's does not, and it can have more than 32 bits.
    if (!isOfRequest) {
      const hitsMark = writer.mark();
      if (hits !== 0) writer.varintField(0x08, hits);
      writer.messageField(0x1a, hitsMark);
    }
    const entries = descriptors[index]!;
    for (let at = entries.length - 1; at >= 0; at--) {
      const { key, value } = entries[at]!;
      const entryMark = writer.mark();
      if (value !== '') writer.stringField(0x12, value);
      if (key !== '') writer.stringField(0x0a, key);
      writer.messageField(0x0a, entryMark);
    }
    writer.messageField(0x12, mark);
  }
  if (domain !== '') writer.stringField(0x0a, domain);
  return writer.finish();
}

/**
 * Returns the answer's bytes, which belong to the caller. Limits and remaining hits are at most 2^53 - 1. All other numbers are in the
 * range of their fields.
 */
export function encodeRateLimitResponse(response: RateLimitResponse): Uint8Array {
  const { dynamicMetadata, decidedBy } = response;
  // The identity uses the same writer, so it is written before the message.
  const identity = decidedBy?.plan && identityEntry(decidedBy.plan, encodeStruct);
  writer.begin();
  if (dynamicMetadata !== undefined || decidedBy !== undefined) {
    const mark = writer.mark();
    if (identity !== undefined) writer.endingInDouble(identity, decidedBy!.used!);
    if (dynamicMetadata !== undefined) writeStruct(dynamicMetadata);
    writer.messageField(0x32, mark);
  }
  const { requestHeadersToAdd: requestHeaders, responseHeadersToAdd: responseHeaders } = response;
  if (requestHeaders.length > 0) writeHeaders(0x22, requestHeaders);
  if (responseHeaders.length > 0) writeHeaders(0x1a, responseHeaders);
  const statuses = response.statuses;
  for (let index = statuses.length - 1; index >= 0; index--) {
    const mark = writer.mark();
    writeStatus(statuses[index]!);
    writer.messageField(0x12, mark);
  }
  if (response.overallCode !== 0) writer.varintField(0x08, response.overallCode);
  return writer.finish();
}

function writeStatus(status: DescriptorStatus): void {
  const resetSeconds = status.durationUntilResetSeconds;
  if (resetSeconds !== undefined) {
    const mark = writer.mark();
    if (resetSeconds !== 0) writer.varintField(0x08, resetSeconds);
    writer.messageField(0x22, mark);
  }
  // The field holds its largest number if more remains. Headers and metadata report the exact number.
  const remaining = Math.min(status.limitRemaining, maxUint32);
  if (remaining !== 0) writer.varintField(0x18, remaining);
  const limit = status.currentLimit;
  if (limit !== undefined) {
    const mark = writer.mark();
    if (limit.name !== '') writer.stringField(0x1a, limit.name);
    if (limit.unit !== 0) writer.varintField(0x10, limit.unit);
    if (limit.requestsPerUnit !== 0) writer.varintField(0x08, Math.min(limit.requestsPerUnit, maxUint32));
    writer.messageField(0x12, mark);
  }
  if (status.code !== 0) writer.varintField(0x08, status.code);
}

function writeHeaders(tag: number, headers: readonly Header[]): void {
  for (let index = headers.length - 1; index >= 0; index--) {
    const header = headers[index]!;
    const mark = writer.mark();
    const { form } = header;
    if (form !== undefined) {
      writeFormed(form, header);
    } else {
      if (header.value !== '') writer.stringField(0x12, header.value);
      if (header.key !== '') writer.stringField(0x0a, header.key);
    }
    writer.messageField(tag, mark);
  }
}

function writeFormed(form: HeaderForm, { first, second }: Header): void {
  const mark = writer.mark();
  if (second !== undefined) {
    writer.decimal(second);
    writer.bytes(form.between);
  }
  if (first !== undefined) writer.decimal(first);
  writer.bytes(form.before);
  writer.messageField(0x12, mark);
  writer.bytes(form.keyField);
}

/** Returns a copy, so that bytes that are stored for a long time do not retain a whole chunk. */
function encodeStruct(object: JsonObject): Uint8Array {
  writer.begin();
  writeStruct(object);
  return writer.finish().slice();
}

/** Writes a google.protobuf.Struct: a map from string to Value. */
function writeStruct(object: JsonObject): void {
  const keys = Object.keys(object);
  for (let index = keys.length - 1; index >= 0; index--) {
    const key = keys[index]!;
    const entryMark = writer.mark();
    const valueMark = writer.mark();
    writeValue(object[key]!);
    writer.messageField(0x12, valueMark);
    writer.stringField(0x0a, key);
    writer.messageField(0x0a, entryMark);
  }
}

/** Writes a google.protobuf.Value: a oneof, so that zero values are written as well. */
function writeValue(value: JsonValue): void {
  if (value === null) writer.varintField(0x08, 0);
  else if (typeof value === 'number') writer.doubleField(0x11, value);
  else if (typeof value === 'string') writer.stringField(0x1a, value);
  else if (typeof value === 'boolean') writer.varintField(0x20, value ? 1 : 0);
  else {
    const mark = writer.mark();
    if (Array.isArray(value)) {
      for (let index = value.length - 1; index >= 0; index--) {
        const itemMark = writer.mark();
        writeValue(value[index]!);
        writer.messageField(0x0a, itemMark);
      }
      writer.messageField(0x32, mark);
    } else {
      writeStruct(value);
      writer.messageField(0x2a, mark);
    }
  }
}
