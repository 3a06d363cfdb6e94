/** Objects of the API, and what the server reports of them in pages of a list and events of a watch. */
import type { Timers } from '../../process/time/clock.ts';
import { type ApiError, unreadable, type WatchStream, watchError } from './api.ts';

/** A kind of object, and where to look for it. */
export interface WatchedResource {
  /** The API group. Empty for the core group. */
  group: string;
  version: string;
  /** The plural as in the URL: `configmaps`. */
  plural: string;
  /** Undefined for all namespaces. */
  namespace: string | undefined;
}

export function resourcePath({ group, version, plural, namespace }: WatchedResource): string {
  const root = group === '' ? `/api/${version}` : `/apis/${group}/${version}`;
  return namespace === undefined
    ? `${root}/${plural}`
    : `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}`;
}

/** Returns the name as in roles and messages of the API server: `ratelimitconfigs.ratelimit.weir.dev`. */
export function resourceName({ group, plural }: WatchedResource): string {
  return group === '' ? plural : `${plural}.${group}`;
}

/** Returns the text for messages: `ratelimitconfigs of ratelimit.weir.dev/v1alpha1`. */
export function resourceText({ group, version, plural }: WatchedResource): string {
  return `${plural} of ${group === '' ? version : `${group}/${version}`}`;
}

/** The fields of every object of the API that are needed here. */
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
    ownerReferences?: { apiVersion: string; kind: string; name: string; uid: string }[];
    /** The writers of fields, and the times of their last writes. `subresource` is set for the status. */
    managedFields?: { manager?: string; subresource?: string; time?: string }[];
  };
  [field: string]: unknown;
}

/** Returns `namespace/name`, or the name alone if there is no namespace. */
export function apiObjectKey({ metadata: { namespace, name } }: ApiObject): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

/** An answer to a list request. */
export interface ListPage {
  resourceVersion: string;
  /** The start of the next page. Empty for the last page. */
  continueToken: string;
  objects: ApiObject[];
}

/** Returns undefined for a value that is not a list. Such a value must never be read as an empty list. */
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

/** A line of a watch's answer. `object` is a Status for `ERROR`, and has no name for `BOOKMARK`. */
export type WatchEvent = ProgressEvent | { type: 'ERROR'; status: unknown };

/** An event after which the watch continues. */
export type ProgressEvent = ObjectEvent | { type: 'BOOKMARK'; resourceVersion: string };

export interface ObjectEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  object: ApiObject;
}

/** Returns undefined for other values. */
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

/** Returns the fields of an unchecked value. A value that is no object has none. */
export function fields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {};
}

export interface FollowedWatch {
  stream: WatchStream;
  timers: Timers;
  /** The time without events after which the watch ends regularly. Either nothing happened, or the other side is gone without notice. */
  idleTimeoutMs: number;
  /** The request, for messages. */
  request: string;
  /** Receives events in order, with one call for events that arrived together. Never called without events. */
  receive(events: readonly ProgressEvent[]): void;
}

/**
 * Settles when the watch has ended and its connection is free: with undefined for a regular end, and otherwise with the error. Never
 * rejects.
 */
export async function readWatch(options: FollowedWatch): Promise<ApiError | undefined> {
  const { stream, timers, idleTimeoutMs, request } = options;
  let end: { error: ApiError | undefined } | undefined;
  const finish = (error: ApiError | undefined) => {
    end ??= { error };
    stream.end();
  };
  const waitForMore = () => timers.after(idleTimeoutMs, () => finish(undefined));
  let callOff = waitForMore();
  const ended = await stream.follow((values) => {
    if (end !== undefined) return;
    callOff();
    callOff = waitForMore();
    const { events, error } = eventsOf(values, request);
    if (events.length > 0) options.receive(events);
    if (error !== undefined) finish(error);
  });
  callOff();
  return end === undefined ? ended : end.error;
}

/** Returns the events up to the first one that ends the watch. */
function eventsOf(
  values: readonly unknown[],
  request: string,
): { events: ProgressEvent[]; error: ApiError | undefined } {
  const events: ProgressEvent[] = [];
  for (const value of values) {
    const event = parseWatchEvent(value);
    if (event === undefined)
      return { events, error: unreadable(`${request}: an event in an unknown format`) };
    if (event.type === 'ERROR') return { events, error: watchError(event.status, request) };
    events.push(event);
  }
  return { events, error: undefined };
}

/** The part of an object to store, or the reason why it cannot be read. */
export type Reading<T> = { item: T } | { unreadable: string };
