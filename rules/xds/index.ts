/** Rules as resources of xDS: the third spelling of the same model, beside YAML files and manifests. */
export { decodeResource, encodeResource, rateLimitConfigTypeUrl } from './resource.ts';
export { type JsonResource, resourcesFromJson, resourcesToJson } from './resource-json.ts';
