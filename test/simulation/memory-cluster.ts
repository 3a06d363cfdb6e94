/**
 * The objects of a Kubernetes API server, in memory and on the injected time: what `MemoryApi` answers from. Versions, field
 * owners, generations, pages and watches behave as a real server's do, which memory-api.test.ts shows by asking both.
 */
import { isDeepStrictEqual } from 'node:util';
import { ApiError } from '../../control-plane/kubernetes/api.ts';
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import { type LabelSelector, parseLabelSelector } from '../../control-plane/source/label-selector.ts';
import { isObject } from '../../rules/model.ts';
import { applyFields, type FieldOwners, fromLeaves, leavesOf, replaceFields } from './field-owners.ts';

/** A kind of object. */
export interface Kind {
  /** As in paths, before the namespace: `/apis/ratelimit.weir.dev/v1alpha1`. */
  root: string;
  plural: string;
  kind: string;
  /** Whether its objects lie in namespaces. */
  isNamespaced: boolean;
  /** Kinds of ours: `status` is written apart, and `generation` counts changes of everything else. */
  hasStatus: boolean;
}

interface Stored {
  kind: Kind;
  object: ApiObject;
  owners: FieldOwners;
}

export interface Change {
  revision: number;
  type: 'ADDED' | 'MODIFIED' | 'DELETED';
  kind: Kind;
  object: ApiObject;
  before: ApiObject | undefined;
}

/** Where a write goes. */
export interface Target {
  kind: Kind;
  namespace: string | undefined;
  name: string;
  isStatus: boolean;
}

export interface Selection {
  kind: Kind;
  /** Undefined: all namespaces. */
  namespace: string | undefined;
  labelSelector: string;
}

/** One event of a watch, as a server sends it. */
export interface WatchLine {
  type: string;
  object: unknown;
}

type Fields = Record<string, unknown>;

/** Written by the server alone. */
const serversOwn = ['uid', 'resourceVersion', 'generation', 'creationTimestamp', 'managedFields'] as const;

export class MemoryCluster {
  readonly #objects = new Map<string, Stored>();
  /** By kind, as `#objects`; in the order of their keys once they were listed. */
  readonly #ofKind = new Map<Kind, { byKey: Map<string, ApiObject>; isSorted: boolean }>();
  readonly #changes: Change[] = [];
  readonly #listeners = new Set<(change: Change) => void>();
  readonly #nowMs: () => number;
  #revision = 1;
  /** Changes up to this one are forgotten. */
  #compacted = 0;
  #uids = 0;

  constructor(nowMs: () => number) {
    this.#nowMs = nowMs;
  }

  get revision(): number {
    return this.#revision;
  }

  /** Forgets all changes so far, as etcd does every five minutes: who asks for one of them gets a 410. */
  compact(): void {
    this.#compacted = this.#revision;
    this.#changes.length = 0;
  }

  isForgotten(revision: number): boolean {
    return revision < this.#compacted;
  }

  /** Calls back after each change. Returns what ends it. */
  onChange(listener: (change: Change) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  read({ kind, namespace, name }: Omit<Target, 'isStatus'>): ApiObject {
    return this.#stored(kind, namespace, name).object;
  }

  /** In the order of their keys. */
  list({ kind, namespace, labelSelector }: Selection): ApiObject[] {
    const matches = selectorOf(labelSelector);
    const found = this.#ofKind.get(kind);
    if (found === undefined) return [];
    if (!found.isSorted) {
      found.byKey = new Map([...found.byKey].sort(([a], [b]) => (a < b ? -1 : 1)));
      found.isSorted = true;
    }
    return [...found.byKey.values()].filter(
      ({ metadata }) =>
        (namespace === undefined || metadata.namespace === namespace) && matches(metadata.labels ?? {}),
    );
  }

  /** What a watch of these objects says of the changes after `revision`. */
  linesAfter(revision: number, { kind, namespace, labelSelector }: Selection): WatchLine[] {
    const matches = selectorOf(labelSelector);
    const isIn = (object: ApiObject | undefined) =>
      object !== undefined && matches(object.metadata.labels ?? {});
    return this.#changes.slice(this.#indexAfter(revision)).flatMap((change): WatchLine[] => {
      const { object, before } = change;
      if (change.kind !== kind) return [];
      if (namespace !== undefined && object.metadata.namespace !== namespace) return [];
      const was = change.type !== 'ADDED' && isIn(before);
      const is = change.type !== 'DELETED' && isIn(object);
      if (was && is) return [{ type: 'MODIFIED', object }];
      if (is) return [{ type: 'ADDED', object }];
      if (!was) return [];
      // The state that the watch knew, at the version at which it left.
      const { resourceVersion } = object.metadata;
      return [
        { type: 'DELETED', object: { ...before!, metadata: { ...before!.metadata, resourceVersion } } },
      ];
    });
  }

  create({ kind, namespace }: Pick<Target, 'kind' | 'namespace'>, body: Fields, manager: string): ApiObject {
    const { name } = body['metadata'] as { name: string };
    const key = keyOf(kind, namespace, name);
    if (this.#objects.has(key))
      throw apiError(409, 'AlreadyExists', `${kind.plural} "${name}" already exists`);
    if (nameOf(body, 'resourceVersion') !== undefined)
      throw apiError(400, 'BadRequest', 'resourceVersion should not be set on objects to be created');
    const fields = leavesOf(writable(body, kind, false));
    return this.#store(key, kind, {
      identity: { name, namespace },
      fields,
      owners: replaceFields(new Map(), new Map(), manager, fields),
    });
  }

  /** Makes the object what `body` says; its version has to be that of the server. */
  replace(target: Target, body: Fields, manager: string): ApiObject {
    const { kind, namespace, name } = target;
    const stored = this.#stored(kind, namespace, name);
    this.#expectVersion(stored, nameOf(body, 'resourceVersion') ?? '');
    return this.#change(target, stored, (before, own) => ({
      fields: leavesOf(writable(body, kind, target.isStatus)),
      owners: (after) => replaceFields(before, own, manager, after),
    }));
  }

  /** RFC 7396. */
  merge(target: Target, patch: Fields, manager: string): ApiObject {
    const stored = this.#stored(target.kind, target.namespace, target.name);
    const version = nameOf(patch, 'resourceVersion');
    if (version !== undefined) this.#expectVersion(stored, version);
    return this.#change(target, stored, (before, own) => ({
      fields: leavesOf(writable(merged(stored.object, patch) as Fields, target.kind, target.isStatus)),
      owners: (after) => replaceFields(before, own, manager, after),
    }));
  }

  apply(target: Target, body: Fields, { manager, force }: { manager: string; force: boolean }): ApiObject {
    const { kind, namespace, name, isStatus } = target;
    const key = keyOf(kind, namespace, name);
    const label = isStatus ? `${manager}/status` : manager;
    const own = leavesOf(writable(body, kind, isStatus));
    const stored = this.#objects.get(key);
    if (stored === undefined) {
      if (isStatus) throw notFound(kind, name);
      if (nameOf(body, 'uid') !== undefined || nameOf(body, 'resourceVersion') !== undefined)
        throw conflict(kind, name, 'it does not exist');
      const { fields, owners } = applyFields(new Map(), new Map(), label, own);
      return this.#store(key, kind, { identity: { name, namespace }, fields, owners });
    }
    const uid = nameOf(body, 'uid');
    if (uid !== undefined && uid !== stored.object.metadata.uid)
      throw conflict(kind, name, `its uid is ${stored.object.metadata.uid}`);
    const version = nameOf(body, 'resourceVersion');
    if (version !== undefined) this.#expectVersion(stored, version);
    return this.#change(target, stored, (before, held) => {
      const { fields, owners, conflicts } = applyFields(before, held, label, own);
      if (conflicts.length > 0 && !force)
        throw conflict(kind, name, `conflict with other managers: ${conflicts.join(', ')}`);
      return { fields, owners: () => owners };
    });
  }

  /** Throws a 409 where the object is another one by now. */
  delete(target: Target, preconditions: { uid?: string; resourceVersion?: string }): ApiObject {
    const { kind, namespace, name } = target;
    const stored = this.#stored(kind, namespace, name);
    const { metadata } = stored.object;
    if (preconditions.uid !== undefined && preconditions.uid !== metadata.uid)
      throw conflict(kind, name, `its uid is ${metadata.uid}`);
    if (preconditions.resourceVersion !== undefined)
      this.#expectVersion(stored, preconditions.resourceVersion);
    this.#objects.delete(keyOf(kind, namespace, name));
    this.#ofKind.get(kind)?.byKey.delete(keyOf(kind, namespace, name));
    this.#revision += 1;
    const resourceVersion = String(this.#revision);
    const object = { ...stored.object, metadata: { ...metadata, resourceVersion } };
    this.#changed({ type: 'DELETED', kind, object, before: stored.object });
    return object;
  }

  #stored(kind: Kind, namespace: string | undefined, name: string): Stored {
    const stored = this.#objects.get(keyOf(kind, namespace, name));
    if (stored === undefined) throw notFound(kind, name);
    return stored;
  }

  #expectVersion({ kind, object }: Stored, version: string): void {
    const { name, resourceVersion } = object.metadata;
    if (version === '') {
      // Of ConfigMaps the server takes the last word of anybody.
      if (kind.plural === 'configmaps') return;
      throw apiError(422, 'Invalid', 'metadata.resourceVersion: must be specified for an update');
    }
    if (version !== resourceVersion)
      throw conflict(
        kind,
        name,
        'the object has been modified; please apply your changes to the latest version',
      );
  }

  /** `next` gets the fields that this write may change, and their owners. What changes nothing is no change. */
  #change(
    { kind, namespace, name, isStatus }: Target,
    { object, owners: held }: Stored,
    next: (
      before: Map<string, unknown>,
      owners: FieldOwners,
    ) => { fields: Map<string, unknown>; owners: (after: Map<string, unknown>) => FieldOwners },
  ): ApiObject {
    const isMine = (label: string) => !kind.hasStatus || label.endsWith('/status') === isStatus;
    const before = leavesOf(writable(object, kind, isStatus));
    const { fields, owners } = next(before, new Map([...held].filter(([label]) => isMine(label))));
    const after = new Map([...[...held].filter(([label]) => !isMine(label)), ...owners(fields)]);
    const unchanged = leavesOf(writable(object, kind, !isStatus));
    const all = kind.hasStatus ? new Map([...unchanged, ...fields]) : fields;
    return this.#store(keyOf(kind, namespace, name), kind, {
      identity: { name, namespace },
      fields: all,
      owners: after,
      before: object,
    });
  }

  #store(
    key: string,
    kind: Kind,
    written: {
      identity: { name: string; namespace: string | undefined };
      fields: ReadonlyMap<string, unknown>;
      owners: FieldOwners;
      before?: ApiObject;
    },
  ): ApiObject {
    const { identity, fields, owners, before } = written;
    const { metadata, ...content } = fromLeaves(fields) as Fields & { metadata?: Fields };
    if (before !== undefined && isDeepStrictEqual(leavesOf(withoutServersOwn(before)), new Map(fields))) {
      // Who owns what may have changed all the same; a server writes that, too, where it did.
      if (isDeepStrictEqual(this.#objects.get(key)!.owners, owners)) return before;
    }
    this.#revision += 1;
    const { namespace, name } = identity;
    const specOf = (object: Fields | undefined) => JSON.stringify(object?.['spec']);
    const generation = before?.metadata.generation ?? 0;
    const isChanged = before === undefined || specOf(before) !== specOf(content);
    const object: ApiObject = {
      apiVersion: kind.root.replace(/^\/apis?\//, ''),
      kind: kind.kind,
      ...content,
      metadata: {
        name,
        ...(namespace !== undefined && { namespace }),
        ...metadata,
        uid: before?.metadata.uid ?? this.#newUid(),
        resourceVersion: String(this.#revision),
        ...(kind.hasStatus && { generation: isChanged ? generation + 1 : generation }),
        creationTimestamp: before?.metadata.creationTimestamp ?? secondText(this.#nowMs()),
        managedFields: managedFields(owners, secondText(this.#nowMs())),
      },
    };
    this.#objects.set(key, { kind, object, owners });
    const ofKind = this.#ofKind.get(kind) ?? { byKey: new Map(), isSorted: true };
    this.#ofKind.set(kind, ofKind);
    if (before === undefined) ofKind.isSorted = false;
    ofKind.byKey.set(key, object);
    this.#changed({ type: before === undefined ? 'ADDED' : 'MODIFIED', kind, object, before });
    return object;
  }

  #changed(change: Omit<Change, 'revision'>): void {
    const made = { ...change, revision: this.#revision };
    this.#changes.push(made);
    for (const listener of [...this.#listeners]) listener(made);
  }

  /** The first change after a revision; they are in the order of their revisions. */
  #indexAfter(revision: number): number {
    let [low, high] = [0, this.#changes.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#changes[middle]!.revision <= revision) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #newUid(): string {
    this.#uids += 1;
    return `00000000-0000-4000-8000-${String(this.#uids).padStart(12, '0')}`;
  }
}

function selectorOf(text: string): LabelSelector {
  const parsed = parseLabelSelector(text);
  if ('problem' in parsed)
    throw apiError(400, 'BadRequest', `unable to parse requirement: ${parsed.problem}`);
  return parsed.selects;
}

function keyOf({ plural }: Kind, namespace: string | undefined, name: string): string {
  return `${plural}/${namespace ?? ''}/${name}`;
}

/** The fields that a write to the object, or to its status, may change. */
function writable(object: Fields, { hasStatus }: Kind, isStatus: boolean): Fields {
  const { status, ...others } = withoutServersOwn(object);
  if (!hasStatus) return { ...others, ...(status !== undefined && { status }) };
  if (isStatus) return status === undefined ? {} : { status };
  return others;
}

function withoutServersOwn(object: Fields): Fields {
  const { apiVersion, kind, metadata = {}, ...content } = object as Fields & { metadata?: Fields };
  const { name, namespace, ...kept } = metadata;
  for (const field of serversOwn) delete kept[field];
  return Object.keys(kept).length === 0 ? content : { ...content, metadata: kept };
}

function nameOf(body: Fields, field: 'uid' | 'resourceVersion'): string | undefined {
  return (body['metadata'] as { [field: string]: string | undefined } | undefined)?.[field];
}

function merged(value: unknown, patch: unknown): unknown {
  if (!isObject(patch)) return patch;
  const result: Fields = isObject(value) ? { ...value } : {};
  for (const [name, child] of Object.entries(patch)) {
    if (child === null) delete result[name];
    else result[name] = merged(result[name], child);
  }
  return result;
}

function managedFields(
  owners: FieldOwners,
  time: string,
): NonNullable<ApiObject['metadata']['managedFields']> {
  return [...owners]
    .filter(([, fields]) => fields.size > 0)
    .map(([label]) => {
      const [manager, subresource] = label.split('/');
      return { manager: manager!, time, ...(subresource !== undefined && { subresource }) };
    });
}

function secondText(ms: number): string {
  return `${new Date(ms).toISOString().slice(0, 19)}Z`;
}

export function apiError(status: number, reason: string, message: string): ApiError {
  return new ApiError({ status, reason, message });
}

function notFound({ plural }: Kind, name: string): ApiError {
  return apiError(404, 'NotFound', `${plural} "${name}" not found`);
}

function conflict({ plural }: Kind, name: string, why: string): ApiError {
  return apiError(409, 'Conflict', `Operation cannot be fulfilled on ${plural} "${name}": ${why}`);
}
