/**
 * The messages of grpc.health.v1, by hand: those that the generator makes need a library that takes longer to load than
 * all of a limiter's own code.
 */

/** Numbers of `HealthCheckResponse.ServingStatus`. */
export const ServingStatus = { SERVING: 1, NOT_SERVING: 2, SERVICE_UNKNOWN: 3 } as const;
export type ServingStatus = (typeof ServingStatus)[keyof typeof ServingStatus];

/** Field 1 of either message of a check. */
const statusTag = 0x08;
const firstMessageTag = 0x0a;
const secondMessageTag = 0x12;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** The service that a `HealthCheckRequest` names. Throws for bytes that are none. */
export function decodeHealthCheckRequest(bytes: Uint8Array): string {
  let service = '';
  let at = 0;
  while (at < bytes.length) {
    const tag = varint(bytes, at);
    const content = fieldContent(bytes, tag.end, tag.value & 7);
    if (tag.value === firstMessageTag) service = utf8.decode(bytes.subarray(content.start, content.end));
    at = content.end;
  }
  return service;
}

/** A `HealthCheckResponse`. */
export function encodeHealthCheckResponse(status: ServingStatus): Uint8Array {
  return Uint8Array.of(statusTag, status);
}

/** A `HealthListResponse` in which all services have the same status. */
export function encodeHealthListResponse(services: readonly string[], status: ServingStatus): Uint8Array {
  const response = lengthDelimited(secondMessageTag, encodeHealthCheckResponse(status));
  const entries = services.map((service) => {
    const name = lengthDelimited(firstMessageTag, Buffer.from(service));
    return lengthDelimited(firstMessageTag, Buffer.concat([name, response]));
  });
  return Buffer.concat(entries);
}

/** Where a field's content lies, by its wire type. Groups are not in use. */
function fieldContent(bytes: Uint8Array, at: number, wireType: number): { start: number; end: number } {
  let end: number;
  let start = at;
  if (wireType === 0) end = varint(bytes, at).end;
  else if (wireType === 1) end = at + 8;
  else if (wireType === 5) end = at + 4;
  else if (wireType === 2) {
    const length = varint(bytes, at);
    start = length.end;
    end = start + length.value;
  } else throw new Error(`wire type ${wireType} is not in use`);
  if (end > bytes.length) throw new Error('the message ends within a field');
  return { start, end };
}

/** At most ten bytes, of which a length or a tag needs no more than 32 bits. */
function varint(bytes: Uint8Array, start: number): { value: number; end: number } {
  let value = 0;
  for (let index = 0; index < 10; index++) {
    const byte = bytes[start + index];
    if (byte === undefined) throw new Error('the message ends within a number');
    if (index < 5) value += (byte & 0x7f) * 2 ** (7 * index);
    if (byte < 0x80) return { value, end: start + index + 1 };
  }
  throw new Error('a number has more than ten bytes');
}

function lengthDelimited(tag: number, content: Uint8Array): Uint8Array {
  const length: number[] = [];
  let rest = content.length;
  while (rest >= 0x80) {
    length.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  return Buffer.concat([Uint8Array.of(tag, ...length, rest), content]);
}
