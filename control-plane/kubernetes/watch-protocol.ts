/** What the API server says about a kind of object: pages of a list, and the events of a watch. */
import type { Readable } from 'node:stream';
import type { Timers } from '../../process/time/clock.ts';
import { type ApiError, unreachable, unreadable, watchError } from './api-error.ts';

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

/** Cuts the answer of a watch into lines of JSON. A line may come in many pieces, and a piece may hold many lines. */
export class WatchLines {
  readonly #maxBytes: number;
  #pieces: Buffer[] = [];
  #bytes = 0;

  /** `maxBytes` of one line defaults to 64 MiB: far above what etcd takes, far below what would end the process. */
  constructor(maxBytes = 64 * 1024 * 1024) {
    this.#maxBytes = maxBytes;
  }

  /** The values of the lines that `chunk` completes. Throws a SyntaxError or a RangeError. */
  *push(chunk: Buffer): Generator<unknown> {
    let start = 0;
    for (let end = chunk.indexOf(10); end !== -1; end = chunk.indexOf(10, start)) {
      this.#add(chunk.subarray(start, end));
      start = end + 1;
      const line = Buffer.concat(this.#pieces).toString('utf8');
      this.#pieces = [];
      this.#bytes = 0;
      if (line.trim() !== '') yield JSON.parse(line);
    }
    if (start < chunk.length) this.#add(chunk.subarray(start));
  }

  #add(piece: Buffer): void {
    this.#bytes += piece.length;
    if (this.#bytes > this.#maxBytes) throw new RangeError(`a line holds more than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }
}

export interface WatchStreamOptions {
  /** The answer to a watch. */
  stream: Readable;
  timers: Timers;
  /** Silence that ends the watch in order: nothing may have happened, or the other side may be gone without a word. */
  idleTimeoutMs: number;
  /** For messages: who answers, and what was asked. */
  server: string;
  request: string;
  /** In order: those that came together. Not called without any. */
  receive(events: readonly ProgressEvent[]): void;
}

/** Settles when the watch has ended and its connection is given back: undefined in order, else why. Never rejects. */
export function readWatch(options: WatchStreamOptions): Promise<ApiError | undefined> {
  const { stream, timers, idleTimeoutMs, server } = options;
  const lines = new WatchLines();
  return new Promise((resolve) => {
    let end: { error: ApiError | undefined } | undefined;
    const finish = (error: ApiError | undefined) => {
      end ??= { error };
      stream.destroy();
    };
    const waitForMore = () => timers.after(idleTimeoutMs, () => finish(undefined));
    let callOff = waitForMore();
    stream.on('data', (chunk: Buffer) => {
      callOff();
      if (end !== undefined) return;
      callOff = waitForMore();
      const { events, error } = parse(lines, chunk, options.request);
      if (events.length > 0) options.receive(events);
      if (error !== undefined) finish(error);
    });
    stream.once('end', () => finish(undefined));
    stream.on('error', (error) => finish(unreachable(server, error)));
    stream.once('close', () => {
      callOff();
      resolve(end?.error);
    });
  });
}

/** What a piece of the answer completes, up to the first thing that ends the watch. */
function parse(
  lines: WatchLines,
  chunk: Buffer,
  request: string,
): { events: ProgressEvent[]; error: ApiError | undefined } {
  const events: ProgressEvent[] = [];
  try {
    for (const value of lines.push(chunk)) {
      const event = parseWatchEvent(value);
      if (event === undefined) return { events, error: unreadable(`${request}: an event of unknown form`) };
      if (event.type === 'ERROR') return { events, error: watchError(event.status, request) };
      events.push(event);
    }
    return { events, error: undefined };
  } catch (error) {
    const text = error instanceof RangeError ? error.message : 'an event is not JSON';
    return { events, error: unreadable(`${request}: ${text}`, error) };
  }
}
