/**
 * Server-side apply by field owners, for what simulated clusters hold: maps are merged field by field, lists are values of
 * their own, but for `conditions`, whose elements go by their `type`.
 * https://kubernetes.io/docs/reference/using-api/server-side-apply/
 */
import { isDeepStrictEqual } from 'node:util';
import { isObject } from '../../rules/model.ts';

type Fields = Record<string, unknown>;

/** The paths of a manager's fields, each as JSON. */
export type OwnedFields = ReadonlySet<string>;

/** By the manager's name, with `/status` behind it where it wrote that. */
export type FieldOwners = ReadonlyMap<string, OwnedFields>;

const keyOfElement: Readonly<Record<string, string>> = { conditions: 'type' };

/** The fields that hold a value, each with its path. */
export function leavesOf(value: unknown, path: readonly string[] = []): Map<string, unknown> {
  const leaves = new Map<string, unknown>();
  for (const [name, child] of Object.entries(childrenOf(value, path.at(-1)) ?? {})) {
    const below = [...path, name];
    if (childrenOf(child, name) === undefined) leaves.set(JSON.stringify(below), child);
    else for (const [at, leaf] of leavesOf(child, below)) leaves.set(at, leaf);
  }
  return leaves;
}

/** Undefined for what is a value of its own: empty maps and lists are, too. */
function childrenOf(value: unknown, name: string | undefined): Fields | undefined {
  const key = keyOfElement[name ?? ''];
  if (Array.isArray(value) && key !== undefined && value.length > 0)
    return Object.fromEntries(value.map((element: Fields) => [String(element[key]), element]));
  return isObject(value) && Object.keys(value).length > 0 ? value : undefined;
}

/** The reverse of `leavesOf`. */
export function fromLeaves(leaves: ReadonlyMap<string, unknown>): Fields {
  const root: Fields = {};
  for (const [path, leaf] of leaves) {
    const names = JSON.parse(path) as string[];
    let at = root;
    for (const name of names.slice(0, -1)) {
      at[name] ??= {};
      at = at[name] as Fields;
    }
    const last = names.at(-1)!;
    // One manager may own a map as empty, and another one fields in it.
    if (isDeepStrictEqual(leaf, {})) at[last] ??= {};
    else at[last] = leaf;
  }
  return withLists(root) as Fields;
}

function withLists(value: unknown, name?: string): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  const fields = Object.entries(value).map(([key, child]) => [key, withLists(child, key)] as const);
  return keyOfElement[name ?? ''] === undefined
    ? Object.fromEntries(fields)
    : fields.map(([, child]) => child);
}

export interface Applied {
  fields: Map<string, unknown>;
  owners: Map<string, OwnedFields>;
  /** Fields of others with other values, which are changed only by force. */
  conflicts: string[];
}

/** What becomes of the fields of an object when a manager applies its own. */
export function applyFields(
  before: ReadonlyMap<string, unknown>,
  owners: FieldOwners,
  manager: string,
  own: ReadonlyMap<string, unknown>,
): Applied {
  const others = new Map([...owners].filter(([name]) => name !== manager));
  const isOfOthers = (path: string) => [...others.values()].some((fields) => fields.has(path));
  const conflicts = [...own].flatMap(([path, value]) =>
    isOfOthers(path) && !isDeepStrictEqual(before.get(path), value) ? [path] : [],
  );
  const fields = new Map(before);
  for (const path of owners.get(manager) ?? []) if (!own.has(path) && !isOfOthers(path)) fields.delete(path);
  for (const [path, value] of own) fields.set(path, value);
  const taken = new Set(conflicts);
  const left = [...others].map(
    ([name, held]) => [name, new Set([...held].filter((path) => !taken.has(path)))] as const,
  );
  return { fields, owners: new Map([...left, [manager, new Set(own.keys())]]), conflicts };
}

/** Of a manager that replaced the whole: it owns what it changed, and nobody owns what is gone. */
export function replaceFields(
  before: ReadonlyMap<string, unknown>,
  owners: FieldOwners,
  manager: string,
  after: ReadonlyMap<string, unknown>,
): Map<string, OwnedFields> {
  const changed = [...after].flatMap(([path, value]) =>
    isDeepStrictEqual(before.get(path), value) ? [] : [path],
  );
  const isChanged = new Set(changed);
  const kept = [...owners].map(
    ([name, held]) =>
      [name, new Set([...held].filter((path) => after.has(path) && !isChanged.has(path)))] as const,
  );
  const own = new Map(kept).get(manager) ?? new Set<string>();
  return new Map([...kept, [manager, new Set([...own, ...changed])]]);
}
