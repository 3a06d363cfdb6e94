/** From one response of the server to the bytes of a RuleTable. */
import { createHash } from 'node:crypto';
import { fromBinary } from '@bufbuild/protobuf';
import type { Any } from '@bufbuild/protobuf/wkt';
import { DiscoveryResponseSchema } from '../../../gen/envoy/service/discovery/v3/discovery_pb.ts';
import { errorText, shortened } from '../../../process/log/error-text.ts';
import type { RuleSource } from '../../../rules/model.ts';
import type { ReviewedLoad, ReviewOptions } from '../../../rules/review/reviewed-load.ts';
import { type RuleError, RuleErrorList } from '../../../rules/rule-error.ts';
import { compileRules } from '../../../rules/table/compile-rules.ts';
import { type CheckOptions, checkSources } from '../../../rules/validate-sources.ts';
import { decodeResource, rateLimitConfigTypeUrl } from '../../../rules/xds/resource.ts';
import { type CompiledRules, type FailedLoad, type MadeLoad, unplacedError } from '../config-source.ts';
import type { WorldParts } from './delta-world.ts';
import type { RefusedRules } from './xds-session.ts';

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
export interface ResourcesRequest extends ReviewOptions, CheckOptions {
  /** A DiscoveryResponse. */
  bytes: Uint8Array;
  /** `hash` of the load whose rules are in force. */
  hashInForce: string | undefined;
  /** With it, what cannot be loaded gives way to what is in force, see `WorldParts`. Undefined: a response is good or bad as a whole. */
  parts?: Omit<WorldParts, 'bytes'> | undefined;
}

/** `rules` undefined: the very resources whose rules are in force. After a new connection that is the usual case. */
export interface LoadedResources {
  ok: true;
  /** Of all resources in force; undefined: not known any more, as only some of them were loaded. */
  hash: string | undefined;
  rules: CompiledRules | undefined;
  /** What was left as it was, and all that was wrong. Undefined: nothing was. */
  refused: (Pick<FailedLoad, 'errors' | 'total'> & { resources: RefusedRules[] }) | undefined;
}

/** Blocks for as long as the response is large. */
export function loadResources(
  request: Omit<ResourcesRequest, keyof ReviewOptions>,
): MadeLoad<LoadedResources | FailedLoad> {
  const { typeUrl, resources } = decodeAnswer(request.bytes);
  if (typeUrl !== rateLimitConfigTypeUrl) return failed([wrongType('response', typeUrl)]);
  const { parts, hashInForce } = request;
  const change = parts?.change;
  const mayBeInForce = change === undefined && hashInForce !== undefined;
  if (mayBeInForce && hashOf(resources) === hashInForce) return unchanged(hashInForce, undefined);
  const places = resources.map((resource, index) => new Place(resource, index, parts));
  const list = new RuleErrorList();
  const problems = new Map<string, string[]>();
  for (;;) {
    const bad = badPlaces(places, request, (place, error) => {
      list.add(error);
      if (place.name === undefined) return;
      const texts = problems.get(place.name) ?? [];
      if (texts.length < mostTexts) problems.set(place.name, [...texts, error.text]);
    });
    if (bad.size === 0) break;
    for (const place of bad) if (!place.giveWay()) return failed(list.errors, list.count);
  }
  const sources = places.flatMap(({ source }) => source ?? []);
  const count = sources.length + (change?.others ?? 0);
  const isNothingLeft = count === 0 && resources.length > 0;
  if (isNothingLeft || problems.size > mostRefused) return failed(list.errors, list.count);
  const { errors, count: total } = list;
  const refused = total === 0 ? undefined : { errors, total, resources: refusedRules(problems) };
  if (change) {
    if (!change.removes && places.every(({ isFormer }) => isFormer)) return unchanged(hashInForce, refused);
    const rules: CompiledRules = { ...compiled(sources, count), domains: change.domains };
    return { outcome: { ok: true, hash: undefined, rules, refused }, reviewed: undefined };
  }
  const hash = hashOf(places.flatMap(({ resource }) => resource ?? []));
  if (hash === hashInForce) return unchanged(hash, refused);
  const rules = compiled(sources, count);
  return { outcome: { ok: true, hash, rules, refused }, reviewed: () => unplaced(sources) };
}

function compiled(sources: readonly RuleSource[], count: number): CompiledRules {
  return { ok: true, bytes: compileRules(sources), domains: undefined, sources: count };
}

/** Chosen: more is no longer some, and is refused as a whole. */
const mostRefused = 1_000;
/** Chosen: what is said of one resource. */
const mostTexts = 10;
const longestWordsOfOne = 1_024;
const longestWordsOfAll = 200_000;

function refusedRules(problems: ReadonlyMap<string, readonly string[]>): RefusedRules[] {
  const longestWords = Math.min(longestWordsOfOne, Math.floor(longestWordsOfAll / problems.size));
  return [...problems].map(([name, texts]) => ({ name, message: shortened(texts.join('; '), longestWords) }));
}

function unchanged(hash: string | undefined, refused: LoadedResources['refused']): MadeLoad<LoadedResources> {
  return { outcome: { ok: true, hash, rules: undefined, refused }, reviewed: undefined };
}

/** One resource of a load, and what stands in its place when it is bad. */
class Place {
  /** Undefined: a response without names. */
  readonly name: string | undefined;
  resource: Any | undefined;
  source: RuleSource | undefined;
  problems: RuleError[] = [];
  /** Whether it is what is in force. */
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

  /** False where there is nothing to give way to. */
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
      const source = decodeResource(resource.value, ({ code, text, path }) => {
        this.problems.push({ ...unplacedError(code, place, text), path });
      });
      this.source = source.name === '' ? { ...source, name: place } : source;
    } catch (error) {
      this.problems = [unplacedError('syntax', place, `cannot be decoded: ${errorText(error)}`)];
    }
  }
}

/** Those that cannot be in force with the others. What is in force goes before what is new: it is the new one that is bad. */
function badPlaces(
  places: readonly Place[],
  options: CheckOptions,
  report: (place: Place, error: RuleError) => void,
): Set<Place> {
  const bad = new Set<Place>();
  const reject = (place: Place, error: RuleError): void => {
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

/** Resources have no lines. */
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
