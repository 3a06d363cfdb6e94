/** Changed entries by key. Undefined removes the entry. */
export type Changes<Value> = ReadonlyMap<string, Value | undefined>;

/** The keys that each of the latest versions of a map has changed, the newest last. */
interface Lineage {
  newest: number;
  readonly changed: (readonly string[])[];
}

interface Parts<Value> {
  base: ReadonlyMap<string, Value>;
  /** The entries that differ from the base. */
  layer: Changes<Value>;
  size: number;
  lineage: Lineage;
}

/**
 * The number of versions with known changes, which is enough for all readers. For an older version, `changedKeys` compares all entries.
 */
const maxVersions = 64;

/**
 * An immutable map. `with` creates the next version, which shares the entries of this one and knows which keys differ. A reader stores a
 * version, and `changedKeys` later finds the differences without checking all entries.
 */
export class VersionedMap<Value> implements ReadonlyMap<string, Value> {
  readonly #parts: Parts<Value>;
  readonly #number: number;

  private constructor(parts: Parts<Value>) {
    this.#parts = parts;
    this.#number = parts.lineage.newest;
  }

  static of<Value>(entries: Iterable<readonly [string, Value]> = []): VersionedMap<Value> {
    const base = new Map(entries);
    const lineage = { newest: 0, changed: [] };
    return new VersionedMap({ base, layer: new Map(), size: base.size, lineage });
  }

  get size(): number {
    return this.#parts.size;
  }

  get(key: string): Value | undefined {
    const { base, layer } = this.#parts;
    return layer.get(key) ?? (layer.has(key) ? undefined : base.get(key));
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  *entries(): MapIterator<[string, Value]> {
    const { base, layer } = this.#parts;
    for (const [key, before] of base) {
      const value = layer.has(key) ? layer.get(key) : before;
      if (value !== undefined) yield [key, value];
    }
    for (const [key, value] of layer) if (value !== undefined && !base.has(key)) yield [key, value];
  }

  *keys(): MapIterator<string> {
    for (const [key] of this.entries()) yield key;
  }

  *values(): MapIterator<Value> {
    for (const [, value] of this.entries()) yield value;
  }

  [Symbol.iterator](): MapIterator<[string, Value]> {
    return this.entries();
  }

  forEach(callback: (value: Value, key: string, map: ReadonlyMap<string, Value>) => void): void {
    for (const [key, value] of this.entries()) callback(value, key, this);
  }

  /** Returns the same map if nothing changed. */
  with(changes: Changes<Value>): VersionedMap<Value> {
    const changed = [...changes].filter(([key, value]) => this.get(key) !== value);
    if (changed.length === 0) return this;
    const { base, layer } = this.#parts;
    let { size } = this.#parts;
    for (const [key, value] of changed) size += Number(value !== undefined) - Number(this.has(key));
    const lineage = this.#lineageWith(changed.map(([key]) => key));
    const next = new Map([...layer, ...changed]);
    const merged = new VersionedMap({ base, layer: next, size, lineage });
    // With a larger base, a copy pays off only after more changes.
    if (next.size ** 2 < base.size) return merged;
    return new VersionedMap({ base: new Map(merged), layer: new Map(), size, lineage });
  }

  /**
   * Returns changed keys. Some of them may have equal values again. Returns undefined if `before` is too old, or not a version of this
   * map.
   */
  keysSince(before: VersionedMap<Value>): Set<string> | undefined {
    const { lineage } = this.#parts;
    const oldest = lineage.newest - lineage.changed.length;
    if (before.#parts.lineage !== lineage || before.#number < oldest || before.#number > this.#number)
      return undefined;
    const between = lineage.changed.slice(before.#number - oldest, this.#number - oldest);
    return new Set(between.flat());
  }

  /** Another version that was created from this one has its own lineage. */
  #lineageWith(keys: readonly string[]): Lineage {
    const { lineage } = this.#parts;
    if (lineage.newest !== this.#number) return { newest: 0, changed: [] };
    lineage.newest += 1;
    lineage.changed.push(keys);
    if (lineage.changed.length > maxVersions) lineage.changed.shift();
    return lineage;
  }
}

/** The keys whose values differ. */
export function changedKeys<Value>(
  now: ReadonlyMap<string, Value>,
  before: ReadonlyMap<string, Value>,
): Set<string> {
  if (now === before) return new Set();
  const areVersions = now instanceof VersionedMap && before instanceof VersionedMap;
  const keys = (areVersions && now.keysSince(before)) || [...now.keys(), ...before.keys()];
  const changed = new Set<string>();
  for (const key of keys) if (now.get(key) !== before.get(key)) changed.add(key);
  return changed;
}
