/**
 * Resources as JSON, for people and for pipelines: a discovery response in proto3 JSON, which control planes and their debugging
 * tools print, or one resource with its `@type`.
 */
import { type JsonValue as AnyJson, create, fromJson, toJson } from '@bufbuild/protobuf';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { isObject, type RuleSource } from '../../rules/model.ts';
import { fromMessage, rateLimitConfigTypeUrl, toMessage } from '../../rules/reader/resource.ts';
import type { FieldProblem } from '../../rules/rule-error.ts';

/** One resource of a text, or why it is not a resource. `path` leads to it from the root of the text. */
export type JsonResource = { path: (string | number)[] } & (
  | { source: RuleSource; problems: FieldProblem[] }
  | { problem: string }
  | { otherType: string }
);

/** A discovery response with these resources, without version and nonce: a server gives those. */
export function resourcesToJson(sources: readonly RuleSource[]): AnyJson {
  const resources = sources.map((source) => ({
    '@type': rateLimitConfigTypeUrl,
    ...(toJson(RateLimitConfigSchema, toMessage(source)) as Record<string, AnyJson>),
  }));
  return { resources, typeUrl: rateLimitConfigTypeUrl };
}

/** The resources of a parsed text. It does not check the meaning of the rules. */
export function resourcesFromJson(value: unknown): JsonResource[] {
  if (!isObject(value)) return [{ path: [], problem: 'must be a resource or a discovery response' }];
  if ('@type' in value) return [resourceFromJson(value, [])];
  const { resources } = value;
  if (!Array.isArray(resources)) return [{ path: ['resources'], problem: 'must be a list' }];
  return resources.map((resource, index) => resourceFromJson(resource, ['resources', index]));
}

function resourceFromJson(value: unknown, path: (string | number)[]): JsonResource {
  if (!isObject(value)) return { path, problem: 'must be an object' };
  const { '@type': type, ...fields } = value;
  if (typeof type !== 'string') return { path: [...path, '@type'], problem: 'is required' };
  if (type !== rateLimitConfigTypeUrl) return { path, otherType: type };
  try {
    const message = create(RateLimitConfigSchema, fromJson(RateLimitConfigSchema, fields as AnyJson));
    const problems: FieldProblem[] = [];
    return { path, source: fromMessage(message, (problem) => problems.push(problem)), problems };
  } catch (error) {
    return { path, problem: error instanceof Error ? error.message : String(error) };
  }
}
