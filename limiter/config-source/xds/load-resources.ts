/** From one response of the server to the bytes of a RuleTable. */
import { createHash } from 'node:crypto';
import { fromBinary } from '@bufbuild/protobuf';
import type { Any } from '@bufbuild/protobuf/wkt';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { errorText } from '../../../process/log/error-text.ts';
import type { RuleSource } from '../../../rules/model.ts';
import type { ReviewedLoad, ReviewOptions } from '../../../rules/review/reviewed-load.ts';
import { type RuleError, RuleErrorList } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import { checkSources } from '../../../rules/validate-sources.ts';
import { decodeResource, rateLimitConfigTypeUrl } from '../../../rules/xds/resource.ts';
import { type CompiledRules, type FailedLoad, type MadeLoad, unplacedError } from '../config-source.ts';

interface DiscoveryAnswer {
  version: string;
  nonce: string;
  typeUrl: string;
  /** Views of the bytes that were read. */
  resources: Any[];
}

/** Throws on bytes that are no such message. */
export function decodeAnswer(bytes: Uint8Array): DiscoveryAnswer {
  const response = fromBinary(DiscoveryResponseSchema, bytes, { readUnknownFields: false });
  const { versionInfo: version, nonce, typeUrl, resources } = response;
  return { version, nonce, typeUrl, resources };
}

/** Plain data: it may go to a loading thread. */
export interface ResourcesRequest extends ReviewOptions {
  /** A DiscoveryResponse. */
  bytes: Uint8Array;
  /** MERGE_DOMAIN_CONFIG. */
  mergeDomains: boolean;
  /** `hash` of the load whose rules are in force. */
  hashInForce: string | undefined;
}

/** `rules` undefined: the very resources whose rules are in force. After a new connection that is the usual case. */
export interface LoadedResources {
  ok: true;
  hash: string;
  rules: CompiledRules | undefined;
}

/** Blocks for as long as the response is large. */
export function loadResources(
  request: Omit<ResourcesRequest, keyof ReviewOptions>,
): MadeLoad<LoadedResources | FailedLoad> {
  const { typeUrl, resources } = decodeAnswer(request.bytes);
  if (typeUrl !== rateLimitConfigTypeUrl) return failed([wrongType('response', typeUrl)]);
  const hash = hashOf(resources);
  if (hash === request.hashInForce)
    return { outcome: { ok: true, hash, rules: undefined }, reviewed: undefined };
  const { sources, errors } = decodeAll(resources);
  if (errors.length > 0) return failed(errors);
  const list = new RuleErrorList();
  checkSources(sources, request, ({ source, code, text, path }) => {
    list.add({ ...unplacedError(code, source.name, text), path });
  });
  if (list.count > 0) return failed(list.errors, list.count);
  const rules: CompiledRules = {
    ok: true,
    bytes: compileRules(sources),
    sources: sources.length,
  };
  return { outcome: { ok: true, hash, rules }, reviewed: () => unplaced(sources) };
}

/** Resources have no lines. */
function unplaced(sources: readonly RuleSource[]): ReviewedLoad {
  return {
    sources: sources.map((source) => ({ source, file: source.name, placeOf: () => undefined })),
    warnings: [],
  };
}

function decodeAll(resources: DiscoveryAnswer['resources']): { sources: RuleSource[]; errors: RuleError[] } {
  const sources: RuleSource[] = [];
  const errors: RuleError[] = [];
  for (const [index, { typeUrl, value }] of resources.entries()) {
    const place = `resource ${index + 1}`;
    if (typeUrl !== rateLimitConfigTypeUrl) {
      errors.push(wrongType(place, typeUrl));
      continue;
    }
    try {
      const source = decodeResource(value);
      sources.push(source.name === '' ? { ...source, name: place } : source);
    } catch (error) {
      errors.push(unplacedError('syntax', place, `cannot be decoded: ${errorText(error)}`));
    }
  }
  return { sources, errors };
}

function wrongType(source: string, typeUrl: string): RuleError {
  return unplacedError(
    'wrong-type',
    source,
    `type URL is '${typeUrl}', expected '${rateLimitConfigTypeUrl}'`,
  );
}

function failed(errors: RuleError[], total = errors.length): MadeLoad<FailedLoad> {
  return { outcome: { ok: false, errors, total }, reviewed: undefined };
}

function hashOf(resources: readonly Any[]): string {
  const hash = createHash('sha256');
  for (const { typeUrl, value } of resources) hash.update(`${typeUrl}\0${value.length}\0`).update(value);
  return hash.digest('hex');
}
