/** Compiles one response of the server into the bytes of a RuleTable. */

import { createHash } from 'node:crypto';
import { fromBinary } from '@bufbuild/protobuf';
import type { Any } from '@bufbuild/protobuf/wkt';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { errorText, shortened } from '../../../process/log/error-text.ts';
import type { RuleSource } from '../../../rules/model.ts';
import { decodeResource, rateLimitConfigTypeUrl } from '../../../rules/reader/resource.ts';
import { type FieldProblem, type RuleError, RuleErrorList } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import { checkSources, type SourceCheckOptions } from '../../../rules/validate-sources.ts';
import { type CompiledRules, type FailedLoad, type MadeLoad, unplacedError } from '../config-source.ts';
import type { ReviewedLoad, ReviewOptions } from '../load-review.ts';
import type { PartsToLoad } from './resource-set.ts';
import type { RejectedRules } from './xds-session.ts';

interface DiscoveryAnswer {
  version: string;
  nonce: string;
  typeUrl: string;
  /** Views of the decoded bytes. */
  resources: Any[];
}

/** @throws if the bytes are not a DiscoveryResponse */
export function decodeAnswer(bytes: Uint8Array): DiscoveryAnswer {
  const response = fromBinary(DiscoveryResponseSchema, bytes, { readUnknownFields: false });
  const { versionInfo: version, nonce, typeUrl, resources } = response;
  return { version, nonce, typeUrl, resources };
}

/** One load, as plain data, so that it can be sent to a thread. */
export interface ResourcesRequest extends ReviewOptions, SourceCheckOptions {
  /** A DiscoveryResponse. */
  bytes: Uint8Array;
  /** The `hash` of the load that produced the rules in force. */
  hashInForce: string | undefined;
  /**
   * With parts, the resource in force replaces a resource that cannot be loaded. Without parts, one bad resource rejects the response.
   */
  parts?: Omit<PartsToLoad, 'bytes'> | undefined;
}

/** `rules` is undefined if the resources are already in force, as they are after most reconnects. */
export interface LoadedResources {
  ok: true;
  /** The hash of all resources in force; undefined if only some of them were loaded. */
  hash: string | undefined;
  rules: CompiledRules | undefined;
  /** The resources that were rejected, and all errors; undefined if there were none. */
  rejected: (Pick<FailedLoad, 'errors' | 'total'> & { resources: RejectedRules[] }) | undefined;
}

/** Blocks for a time proportional to the size of the response. */
export function loadResources(
  request: Omit<ResourcesRequest, keyof ReviewOptions>,
): MadeLoad<LoadedResources | FailedLoad> {
  const { typeUrl, resources } = decodeAnswer(request.bytes);
  if (typeUrl !== rateLimitConfigTypeUrl) return failed([wrongType('response', typeUrl)]);
  const { parts, hashInForce } = request;
  const change = parts?.change;
  const mayBeInForce = change === undefined && hashInForce !== undefined;
  if (mayBeInForce && hashOf(resources) === hashInForce) return unchanged(hashInForce, undefined);
  const places = resources.map((resource, index) => new ResourceLoad(resource, index, parts));
  const list = new RuleErrorList();
  const problems = new Map<string, string[]>();
  for (;;) {
    const bad = badPlaces(places, request, (place, error) => {
      list.add(error);
      if (place.name === undefined) return;
      const texts = problems.get(place.name) ?? [];
      if (texts.length < maxTexts) problems.set(place.name, [...texts, error.text]);
    });
    if (bad.size === 0) break;
    for (const place of bad) if (!place.giveWay()) return failed(list.errors, list.count);
  }
  const sources = places.flatMap(({ source }) => source ?? []);
  const count = sources.length + (change?.others ?? 0);
  const isNothingLeft = count === 0 && resources.length > 0;
  if (isNothingLeft || problems.size > maxRejected) return failed(list.errors, list.count);
  const { errors, count: total } = list;
  const rejected = total === 0 ? undefined : { errors, total, resources: rejectedRules(problems) };
  if (change) {
    if (!change.removes && places.every(({ isFormer }) => isFormer)) return unchanged(hashInForce, rejected);
    const rules: CompiledRules = { ...compiled(sources, count), domains: change.domains };
    return { outcome: { ok: true, hash: undefined, rules, rejected }, reviewed: undefined };
  }
  const hash = hashOf(places.flatMap(({ resource }) => resource ?? []));
  if (hash === hashInForce) return unchanged(hash, rejected);
  const rules = compiled(sources, count);
  return { outcome: { ok: true, hash, rules, rejected }, reviewed: () => unplaced(sources) };
}

function compiled(sources: readonly RuleSource[], count: number): CompiledRules {
  return { ok: true, bytes: compileRules(sources), domains: undefined, sources: count };
}

/** Chosen: if more resources are bad, the whole response is rejected. */
const maxRejected = 1_000;
/** Chosen: at most this many errors are reported for one resource. */
const maxTexts = 10;
const longestWordsOfOne = 1_024;
const longestWordsOfAll = 200_000;

function rejectedRules(problems: ReadonlyMap<string, readonly string[]>): RejectedRules[] {
  const longestWords = Math.min(longestWordsOfOne, Math.floor(longestWordsOfAll / problems.size));
  return [...problems].map(([name, texts]) => ({ name, message: shortened(texts.join('; '), longestWords) }));
}

function unchanged(
  hash: string | undefined,
  rejected: LoadedResources['rejected'],
): MadeLoad<LoadedResources> {
  return { outcome: { ok: true, hash, rules: undefined, rejected }, reviewed: undefined };
}

/** A resource of a load, which the resource in force can replace. */
class ResourceLoad {
  /** Undefined if the resources came without names. */
  readonly name: string | undefined;
  resource: Any | undefined;
  source: RuleSource | undefined;
  problems: RuleError[] = [];
  /** Whether this is the resource in force. */
  isFormer: boolean;
  readonly #index: number;
  readonly #former: Uint8Array | undefined;

  constructor(resource: Any, index: number, parts: ResourcesRequest['parts']) {
    this.#index = index;
    this.name = parts?.names[index];
    this.isFormer = this.name === undefined || !parts!.former.has(this.name);
    this.#former = this.name === undefined ? undefined : parts!.former.get(this.name);
    this.#take(resource);
  }

  /** Replaces the resource by the one in force, or removes it if there is none. Returns false if it is already in force. */
  giveWay(): boolean {
    if (this.isFormer) return false;
    this.isFormer = true;
    this.#take(this.#former === undefined ? undefined : decodeAnswer(this.#former).resources[0]);
    return true;
  }

  #take(resource: Any | undefined): void {
    this.resource = resource;
    this.source = undefined;
    this.problems = [];
    if (resource === undefined) return;
    const place = this.name ?? `resource ${this.#index + 1}`;
    if (resource.typeUrl !== rateLimitConfigTypeUrl) {
      this.problems = [wrongType(place, resource.typeUrl)];
      return;
    }
    try {
      const problems: FieldProblem[] = [];
      const source = decodeResource(resource.value, (problem) => problems.push(problem));
      const name = source.name === '' ? place : source.name;
      this.source = { ...source, name };
      this.problems = problems.map(({ code, text, path }) => ({ ...unplacedError(code, name, text), path }));
    } catch (error) {
      this.problems = [unplacedError('syntax', place, `cannot be decoded: ${errorText(error)}`)];
    }
  }
}

/** Returns the resources that conflict with others. If a new resource conflicts with one in force, the new one is returned. */
function badPlaces(
  places: readonly ResourceLoad[],
  options: SourceCheckOptions,
  report: (place: ResourceLoad, error: RuleError) => void,
): Set<ResourceLoad> {
  const bad = new Set<ResourceLoad>();
  const reject = (place: ResourceLoad, error: RuleError): void => {
    bad.add(place);
    report(place, error);
  };
  for (const place of places) for (const problem of place.problems) reject(place, problem);
  if (bad.size > 0) return bad;
  const ordered = [...places.filter(({ isFormer }) => isFormer), ...places.filter((it) => !it.isFormer)];
  const placeOf = new Map(ordered.flatMap((place) => (place.source ? [[place.source, place]] : [])));
  checkSources([...placeOf.keys()], options, ({ source, code, text, path }) => {
    reject(placeOf.get(source)!, { ...unplacedError(code, source.name, text), path });
  });
  return bad;
}

/** Sources for a review. Resources have no line numbers, so errors have no place. */
function unplaced(sources: readonly RuleSource[]): ReviewedLoad {
  return {
    sources: sources.map((source) => ({ source, file: source.name, placeOf: () => undefined })),
    warnings: [],
  };
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
