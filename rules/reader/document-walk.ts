import type { FieldRows } from '../language/fields.ts';
import {
  type Field,
  type FieldTable,
  fields,
  placesInWords,
  type TableField,
  weirOnlyPlaces,
} from '../language/tables.ts';
import type { RuleErrorCode } from '../rule-error.ts';
import {
  printedScalar,
  printedValue,
  type ScalarType,
  scalarText,
  scalarType,
  TagMismatch,
} from '../yaml/scalars.ts';
import { maxYamlDepth, NodeKind, type YamlTape } from '../yaml/tape.ts';

/**
 * The stage in which the Go service finds a mistake in a file: while it reads the document, checks the keys, or checks the types. It
 * reports the mistake of the earliest stage.
 */
export const Stage = { DOCUMENT: 0, KEYS: 1, TYPES: 2 } as const;
export type Stage = (typeof Stage)[keyof typeof Stage];

/** A mistake at a place of one document. */
export interface DocumentProblem {
  stage: Stage;
  code: RuleErrorCode;
  text: string;
  /** The form that the Go service gives the text: unchanged, as an error of its YAML library, or as a type error. */
  dress: 'plain' | 'yaml' | 'type';
  offset: number;
  path: readonly (string | number)[];
}

/** Collects the mistakes of a document, each with its offset and path. */
export class ProblemLog {
  readonly problems: DocumentProblem[] = [];
  readonly warnings: DocumentProblem[] = [];
  /** The keys and positions that lead to the current value. */
  readonly path: (string | number)[] = [];
  readonly #tape: YamlTape;

  constructor(tape: YamlTape) {
    this.#tape = tape;
  }

  /** Reports a mistake in a key of the current map. */
  key(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.problems, node, { stage: Stage.KEYS, code, text, dress: 'plain' }, this.#tape.text(node));
  }

  /** Warns about a key that is accepted and has no effect. */
  warnKey(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.warnings, node, { stage: Stage.KEYS, code, text, dress: 'plain' }, this.#tape.text(node));
  }

  /** Reports a value that the Go service rejects while it checks the keys. `below` leads to it from the current position. */
  value(node: number, code: RuleErrorCode, text: string, ...below: (string | number)[]): void {
    this.#add(this.problems, node, { stage: Stage.KEYS, code, text, dress: 'plain' }, ...below);
  }

  /** Reports a value of the wrong type. */
  type(node: number, stage: Stage, text: string): void {
    this.#add(this.problems, node, { stage, code: 'wrong-type', text, dress: 'type' });
  }

  /** Reports a mistake that the Go service's YAML library itself rejects. */
  yaml(node: number, code: RuleErrorCode, text: string): void {
    this.#add(this.problems, node, { stage: Stage.DOCUMENT, code, text, dress: 'yaml' });
  }

  #add(
    list: DocumentProblem[],
    node: number,
    problem: Omit<DocumentProblem, 'offset' | 'path'>,
    ...below: (string | number)[]
  ): void {
    list.push({ ...problem, offset: this.#tape.place(node), path: [...this.path, ...below] });
  }
}

/** Stops reading a document that is too deep or too large once its aliases are followed. */
export class Unreadable extends Error {}

/**
 * Walks through the maps and lists of a rule file. It follows aliases and merge keys, and checks every key. Repeated and merged keys work
 * as in the Go service: in the order of the document, later ones win.
 */
export class DocumentWalk {
  readonly tape: YamlTape;
  readonly log: ProblemLog;
  readonly #aliases = new AliasBudget();
  #depth = 0;

  constructor(tape: YamlTape) {
    this.tape = tape;
    this.log = new ProblemLog(tape);
  }

  /** Calls back with each field that belongs to this kind of map, and its value. `key` is the node of its key. */
  eachField<Rows extends FieldRows>(
    map: number,
    table: FieldTable<Rows>,
    take: (name: keyof Rows & string, value: number, key: number) => void,
  ): void {
    const { tape } = this;
    const end = tape.next(map);
    const seen = new SeenFields();
    for (let key = map + 1; key < end; ) {
      const given = tape.next(key);
      if (this.#isMerge(key)) {
        this.#merge(given, (source) => this.eachField(source, table, take));
      } else {
        const field = this.#fieldOf(key, given, table);
        if (field !== undefined) {
          if (!seen.add(field)) this.#warnOfRepetition(key, field.fileName);
          take(field.name, this.enter(given, field.fileName), key);
          this.leave(given);
        }
      }
      key = tape.next(given);
    }
  }

  /** Returns the result of `read` for each element of a list. */
  elements<T>(list: number, read: (element: number, index: number) => T): T[] {
    return this.tape.children(list).map((given, index) => {
      const value = read(this.enter(given, index), index);
      this.leave(given);
      return value;
    });
  }

  /** Does the same as `elements` for a list of maps. An element that is not a map is reported and leaves a gap. */
  maps<T>(list: number, read: (map: number) => T): T[] {
    const found: T[] = [];
    const { length } = this.elements(list, (element, index) => {
      if (this.tape.kind(element) === NodeKind.MAP) found[index] = read(element);
      else this.#rejectElement(element);
    });
    found.length = length;
    return found;
  }

  /** Calls back with every key of a map with arbitrary keys, and its value. */
  eachEntry(map: number, keyText: (key: number) => string, take: (key: string, value: number) => void): void {
    this.#eachKey(map, (key, given) => {
      const node = this.tape.resolve(key);
      this.#count(key);
      if (this.tape.kind(node) !== NodeKind.SCALAR) {
        this.#rejectKey(node);
        return;
      }
      const name = keyText(node);
      take(name, this.enter(given, name));
      this.leave(given);
    });
  }

  /** Checks the keys inside a misplaced value. In a list, it reports only the first element that is not a map. */
  keysIn(node: number): void {
    const kind = this.tape.kind(node);
    if (kind === NodeKind.LIST) {
      let isSound = true;
      this.elements(node, (element) => {
        const isMap = this.tape.kind(element) === NodeKind.MAP;
        if (isMap) this.keysIn(element);
        else if (isSound) this.#rejectElement(element);
        isSound &&= isMap;
      });
    } else if (kind === NodeKind.MAP) {
      this.#keysOf(node);
    } else if (this.isUnsupported(node)) {
      this.rejectUnsupported(node);
    }
  }

  /** Goes down to a value, and follows its alias if it is one. */
  enter(given: number, name: string | number): number {
    this.log.path.push(name);
    if (++this.#depth > maxYamlDepth) this.#stop(given, `exceeded max depth of ${maxYamlDepth}`);
    this.#count(given);
    const node = this.tape.resolve(given);
    if (node !== given) {
      this.#aliases.enter();
      this.#count(given);
    }
    return node;
  }

  leave(given: number): void {
    this.log.path.pop();
    this.#depth--;
    if (this.tape.kind(given) === NodeKind.ALIAS) this.#aliases.leave();
  }

  /** Returns undefined for maps and lists. A scalar that does not fit its tag is reported and treated as a string. */
  scalarType(node: number): ScalarType | undefined {
    if (this.tape.kind(node) !== NodeKind.SCALAR) return undefined;
    if (this.tape.tag(node) === undefined) return scalarType(this.tape, node);
    return this.checked(node, () => scalarType(this.tape, node)) ?? 'string';
  }

  text(node: number): string {
    if (this.tape.tag(node) === undefined) return this.tape.text(node);
    return this.checked(node, () => scalarText(this.tape, node)) ?? '';
  }

  /** Returns the result of `read` for a scalar. If it does not fit its tag, reports it and returns undefined. */
  checked<T>(node: number, read: () => T): T | undefined {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof TagMismatch)) throw error;
      this.log.yaml(node, 'wrong-type', error.message);
      return undefined;
    }
  }

  /** Returns whether the scalar is a number that the Go service supports only in metadata. */
  isUnsupported(node: number): boolean {
    const type = this.scalarType(node);
    return type === 'float' || type === 'huge';
  }

  rejectUnsupported(node: number): void {
    this.log.value(node, 'wrong-type', 'error checking config');
  }

  /** Calls back with each key and its value, unchanged. Keys of merged maps are treated as keys of this map. */
  #eachKey(map: number, take: (key: number, given: number) => void): void {
    const { tape } = this;
    const end = tape.next(map);
    for (let key = map + 1; key < end; ) {
      const given = tape.next(key);
      if (this.#isMerge(key)) this.#merge(given, (source) => this.#eachKey(source, take));
      else take(key, given);
      key = tape.next(given);
    }
  }

  #keysOf(map: number): void {
    this.#eachKey(map, (key, given) => {
      const name = this.#fieldName(key);
      const field = name === undefined ? undefined : this.#knownField(key, name);
      if (field !== undefined) this.#keysBelow(field, given);
    });
  }

  #keysBelow({ name, kind }: Field, given: number): void {
    // Metadata and percentages contain no keys of the rule language.
    if (kind === 'metadata' || kind === 'percents') return;
    this.keysIn(this.enter(given, name));
    this.leave(given);
  }

  /** Returns the field that a key names, if it belongs to this kind of map. */
  #fieldOf<Rows extends FieldRows>(
    key: number,
    given: number,
    { place, byFileName }: FieldTable<Rows>,
  ): TableField<keyof Rows & string> | undefined {
    const name = this.#fieldName(key);
    if (name === undefined) return undefined;
    const found = byFileName.get(name);
    if (found !== undefined) return found;
    const field = this.#knownField(key, name);
    if (field === undefined) return undefined;
    const where = placesInWords(field.places);
    const node = this.tape.resolve(key);
    // Fields that the Go service ignores where they have no meaning are ignored here, too.
    if (field.isOwn || (place & weirOnlyPlaces) !== 0)
      this.log.key(node, 'misplaced-key', `config error, key '${name}' belongs to ${where}`);
    else
      this.log.warnKey(
        node,
        'misplaced-key',
        `config warning, key '${name}' has no effect here, it belongs to ${where}`,
      );
    this.#keysBelow(field, given);
    return undefined;
  }

  /** Returns the text of a key. If it cannot be a field, reports it and returns undefined. */
  #fieldName(given: number): string | undefined {
    const { tape } = this;
    this.#count(given);
    const key = tape.resolve(given);
    if (tape.kind(key) !== NodeKind.SCALAR) {
      this.#rejectKey(key);
      return undefined;
    }
    const text = this.text(key);
    if (this.scalarType(key) === 'string') return text;
    const printed = this.checked(key, () => printedScalar(tape, key)) ?? text;
    this.log.key(key, 'key-not-a-string', `config error, key is not of type string: ${printed}`);
    return undefined;
  }

  #knownField(key: number, name: string): Field | undefined {
    const field = fields.get(name);
    if (field === undefined)
      this.log.key(this.tape.resolve(key), 'unknown-key', `config error, unknown key '${name}'`);
    return field;
  }

  #isMerge(key: number): boolean {
    const { tape } = this;
    if (tape.kind(key) !== NodeKind.SCALAR || !tape.isPlain(key)) return false;
    return tape.source.charCodeAt(tape.start(key)) === 60 && tape.text(key) === '<<';
  }

  /** Reads the maps of `<<` as if their keys were in this map. Of several maps, the first one wins. */
  #merge(given: number, readMap: (map: number) => void): void {
    const { tape } = this;
    const node = this.enter(given, '<<');
    if (tape.kind(node) === NodeKind.LIST && node === given) {
      for (const source of tape.children(node).reverse()) {
        this.#mergeMap(this.enter(source, '<<'), readMap);
        this.leave(source);
      }
    } else {
      this.#mergeMap(node, readMap);
    }
    this.leave(given);
  }

  #mergeMap(node: number, readMap: (map: number) => void): void {
    if (this.tape.kind(node) === NodeKind.MAP) readMap(node);
    else this.log.yaml(node, 'wrong-type', 'map merge requires map or sequence of maps as the value');
  }

  #warnOfRepetition(key: number, name: string): void {
    const text = `config warning, key '${name}' is repeated, the last one counts`;
    this.log.warnKey(this.tape.resolve(key), 'duplicate-key', text);
  }

  #rejectKey(key: number): void {
    const printed = this.checked(key, () => printedValue(this.tape, key));
    this.log.yaml(key, 'key-not-a-string', `invalid map key: ${printed}`);
  }

  #rejectElement(element: number): void {
    const printed = this.checked(element, () => printedValue(this.tape, element));
    const text = `config error, yaml file contains list of type other than map: ${printed}`;
    this.log.value(element, 'list-element-not-a-map', text);
  }

  #count(node: number): void {
    if (!this.#aliases.count()) this.#stop(node, 'document contains excessive aliasing');
  }

  #stop(node: number, text: string): never {
    this.log.yaml(node, 'too-large', text);
    throw new Unreadable(text);
  }
}

/** The fields that a map has had so far. */
class SeenFields {
  /** Keys with an index below 32, one bit each, so that nearly all maps need no set. */
  #low = 0;
  #others: Set<number> | undefined;

  /** Whether the field is new to the map. */
  add({ index }: TableField): boolean {
    if (index < 32) {
      const before = this.#low;
      this.#low |= 1 << index;
      return before !== this.#low;
    }
    this.#others ??= new Set();
    const before = this.#others.size;
    return this.#others.add(index).size > before;
  }
}

/** In documents up to this size, nearly all nodes may come from aliases. */
const smallDocument = 400_000;
/** From this size on, a tenth of the nodes may come from aliases. */
const largeDocument = 4_000_000;
const smallShare = 0.99;
const largeShare = 0.1;

/**
 * Rejects documents that aliases blow up ("billion laughs"). The bounds are those of the Go service's YAML library, so that files
 * that load there load here. The share of nodes read through aliases may be 99% of a small document, and falls to 10% of a large
 * one. This ends every expansion below 450,000 nodes.
 */
export class AliasBudget {
  #read = 0;
  #readThroughAliases = 0;
  #depth = 0;

  enter(): void {
    this.#depth++;
  }

  leave(): void {
    this.#depth--;
  }

  /** Counts a node. Returns false if there are too many nodes. */
  count(): boolean {
    this.#read++;
    if (this.#depth === 0) return true;
    this.#readThroughAliases++;
    if (this.#readThroughAliases <= 100 || this.#read <= 1000) return true;
    return this.#readThroughAliases <= this.#read * allowedShare(this.#read);
  }
}

function allowedShare(read: number): number {
  const largeness = Math.min(1, Math.max(0, (read - smallDocument) / (largeDocument - smallDocument)));
  return smallShare - (smallShare - largeShare) * largeness;
}
