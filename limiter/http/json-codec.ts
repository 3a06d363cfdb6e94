/** Implements the proto3 JSON of `/json` with the generated messages. This is not the fast path. */
import { fromBinary, fromJsonString, type JsonValue, toBinary, toJson } from '@bufbuild/protobuf';
import {
  RateLimitResponse_Code as Code,
  RateLimitRequestSchema,
  RateLimitResponseSchema,
} from '../../gen/envoy/service/ratelimit/v3/rls_pb.ts';
import type { OmittedParts } from '../decide/messages.ts';
import { defaultRequestLimits, type RequestLimits } from '../decide/request-bounds.ts';
import { encodeRateLimitResponse, oversizedOf } from '../decide/wire-codec.ts';
import { boundedJson } from './json-bounds.ts';

/** A BOM stays in the text, so the JSON parser rejects it, as the Go service does. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * `JSON.parse` rounds long numbers, while proto3 JSON has exact numbers of 64 bits, so they are turned into strings. Only this field has
 * such numbers. Quotes inside a JSON string are escaped, so the pattern never matches inside a string.
 */
const longHitsAddend = /("hits(?:A|_a)ddend"\s*:\s*)(\d{16,20})(?=[\s,}])/g;

/** Chosen: after this number of rounds, the largest request takes no longer than later ones. */
const warmingRounds = 50;
let warmed: Promise<void> | undefined;

/**
 * Runs the codec once in a process until it is compiled. Otherwise the first large request would block others for 2 to 3 times as long.
 * Other work can run between two steps. Each step takes less than a millisecond, except for the first few.
 */
export function warmJsonCodec(): Promise<void> {
  warmed ??= warm();
  return warmed;
}

async function warm(): Promise<void> {
  const { request, response } = commonMessages();
  for (let round = 0; round < warmingRounds; round += 1) {
    await nextTurn();
    const read = requestFromJson(request, defaultRequestLimits);
    if ('rejection' in read) throw new Error(read.rejection);
    await nextTurn();
    responseToJson(response);
  }
}

const nextTurn = (): Promise<void> => new Promise((resolve) => void setImmediate(resolve));

/** Messages with all fields set. */
function commonMessages(): { request: Uint8Array; response: Uint8Array } {
  const entries = new Array(4).fill({ key: 'key', value: 'value' });
  const limit = { requestsPerUnit: 5, unit: 'MINUTE' };
  const descriptors = new Array(8).fill({ entries, limit, hitsAddend: 1 });
  const header = { key: 'x-ratelimit-remaining', value: '4' };
  const status = {
    code: Code.OK,
    currentLimit: { name: 'name', requestsPerUnit: 5, unit: 2 },
    limitRemaining: 4,
    durationUntilResetSeconds: 37,
  };
  return {
    request: Buffer.from(JSON.stringify({ domain: 'domain', descriptors, hitsAddend: 1 })),
    response: encodeRateLimitResponse({
      overallCode: Code.OK,
      statuses: descriptors.map(() => status),
      responseHeadersToAdd: [header],
      requestHeadersToAdd: [header],
      dynamicMetadata: { descriptors: descriptors.map(() => ({ entries })) },
    }),
  };
}

/** Returns the request's encoded bytes, without descriptors and entries beyond their bounds, or the reason why it is rejected. */
export function requestFromJson(
  body: Uint8Array,
  limits: RequestLimits,
): { wire: Uint8Array; leftOut: OmittedParts | undefined } | { rejection: string } {
  try {
    const { json, descriptors, entries } = boundedJson(body, limits);
    const text = utf8.decode(json).replace(longHitsAddend, '$1"$2"');
    const request = fromJsonString(RateLimitRequestSchema, text);
    const wire = toBinary(RateLimitRequestSchema, request);
    if (descriptors === 0 && entries.size === 0) return { wire, leftOut: undefined };
    const crowded = [...entries].map(
      ([index, passed]) => [index, oversizedOf(request.descriptors[index]?.entries ?? [], passed)] as const,
    );
    return { wire, leftOut: { descriptors, crowded: new Map(crowded), maxEntries: limits.maxEntries } };
  } catch (error) {
    return { rejection: (error as Error).message };
  }
}

/** @throws if the bytes are not a response, or are a response without a decision */
export function responseToJson(wire: Uint8Array): { overLimit: boolean; text: string } {
  const message = fromBinary(RateLimitResponseSchema, wire);
  if (message.overallCode !== Code.OK && message.overallCode !== Code.OVER_LIMIT) {
    throw new Error(`the response has no decision: overall code ${message.overallCode}`);
  }
  const { dynamicMetadata, ...rest } = toJson(RateLimitResponseSchema, message) as Record<string, JsonValue>;
  const text = JSON.stringify(rest, nameFirst);
  return {
    overLimit: message.overallCode === Code.OVER_LIMIT,
    text:
      dynamicMetadata === undefined
        ? text
        : `${text.slice(0, -1)},"dynamicMetadata":${sortedJson(dynamicMetadata)}}`,
  };
}

/**
 * The Go service writes fields in the order of their declaration. This codec writes them in the order of their numbers, which differs in
 * one place.
 */
function nameFirst(key: string, value: JsonValue): JsonValue {
  if (key !== 'currentLimit') return value;
  const { name, ...rest } = value as Record<string, JsonValue>;
  return name === undefined ? rest : { name, ...rest };
}

/** JSON with the keys of every object sorted; JavaScript's own objects would put keys like "10" first. */
function sortedJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value);
  const members = Object.keys(value)
    .sort()
    .map((key) => `${JSON.stringify(key)}:${sortedJson(value[key] as JsonValue)}`);
  return `{${members.join(',')}}`;
}
