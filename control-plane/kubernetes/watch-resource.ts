/** A kind of object, and where it is looked for. */
export interface WatchedResource {
  /** Empty for the core group. */
  group: string;
  version: string;
  /** As in the URL: `configmaps`. */
  plural: string;
  /** Undefined: all namespaces. */
  namespace: string | undefined;
}

export function resourcePath({ group, version, plural, namespace }: WatchedResource): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

/** `ratelimitconfigs of ratelimit.weir.dev/v1alpha1`, for messages. */
export function resourceText({ group, version, plural }: WatchedResource): string {
  return `${plural} of ${group === '' ? version : `${group}/${version}`}`;
}

/** What every object of the API has, as far as it is needed here. */
export interface ApiObject {
  metadata: {
    name: string;
    /** Missing for objects without a namespace. */
    namespace?: string;
    uid?: string;
    resourceVersion?: string;
    generation?: number;
    creationTimestamp?: string;
    labels?: Record<string, string>;
    annotations?: Record<string, string>;
    /** Who wrote which fields, and when last; `subresource` is there for the status. */
    managedFields?: { subresource?: string; time?: string }[];
  };
  [field: string]: unknown;
}

/** `namespace/name`, or the name alone where there is no namespace. */
export function apiObjectKey({ metadata: { namespace, name } }: ApiObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** One answer to a list request. */
export interface ListPage {
  resourceVersion: string;
  /** Where the next page begins; empty: this is the last one. */
  continueToken: string;
  objects: ApiObject[];
}

/** Undefined for what is no list: it must never be taken for an empty one. */
export function parseListPage(value: unknown): ListPage | undefined {
  const { kind, metadata, items } = fields(value);
  const { resourceVersion, continue: continueToken = '' } = fields(metadata);
  if (typeof kind !== 'string' || !kind.endsWith('List')) return undefined;
  if (typeof resourceVersion !== 'string' || resourceVersion === '') return undefined;
  if (typeof continueToken !== 'string') return undefined;
  const objects: unknown = items ?? [];
  if (!Array.isArray(objects) || !objects.every(isApiObject)) return undefined;
  return { resourceVersion, continueToken, objects };
}

/** One line of a watch's answer; `object` is a Status for `ERROR`, and has no name for `BOOKMARK`. */
export type WatchEvent = ProgressEvent | { type: 'ERROR'; status: unknown };

/** After it the watch goes on. */
export type ProgressEvent = ObjectEvent | { type: 'BOOKMARK'; resourceVersion: string };

export interface ObjectEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: ApiObject;
}

/** Undefined for what is none of these. */
export function parseWatchEvent(value: unknown): WatchEvent | undefined {
  const { type, object } = fields(value);
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return isApiObject(object) ? { type, object } : undefined;
    case 'BOOKMARK': {
      const { resourceVersion } = fields(fields(object)['metadata']);
      return typeof resourceVersion === 'string' && resourceVersion !== ''
        ? { type, resourceVersion }
        : undefined;
    }
    case 'ERROR':
      return { type, status: object };
    default:
      return undefined;
  }
}

function isApiObject(value: unknown): value is ApiObject {
  return typeof fields(fields(value)['metadata'])['name'] === 'string';
}

function fields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}
