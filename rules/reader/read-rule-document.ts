import { algorithmNames, algorithmNumber } from '../algorithms/registry.ts';
import { readCalendar } from '../calendar.ts';
import { domainFields, type FieldKind, type FieldRows, limitFields, ruleFields } from '../language/fields.ts';
import {
  calendarTable,
  type FieldTable,
  fileTable,
  limitTable,
  listedLimitTable,
  replacesTable,
  reserveTable,
  ruleFileName,
  ruleTable,
} from '../language/tables.ts';
import { leaseFromText, unknownLease } from '../lease.ts';
import {
  type FieldValues,
  hitsUnits,
  type Limit,
  makeLimit,
  makeRule,
  noLimits,
  type Rule,
  type RuleSource,
  rulesOnPath,
  unitText,
  type Written,
  type WrittenLimit,
  type WrittenRule,
} from '../model.ts';
import { readReserve } from '../reserve.ts';
import { type RuleErrorCode, unknownWord } from '../rule-error.ts';
import { listProblem, settleLimit, unknownAlgorithm } from '../validate-limits.ts';
import type { SourceProblem } from '../validate-sources.ts';
import { NodeKind, type YamlTape } from '../yaml/tape.ts';
import { type DocumentProblem, DocumentWalk, Stage, Unreadable } from './document-walk.ts';
import { goTypes, ValueReader } from './value-reader.ts';

/** What one YAML document says, as far as it can be understood. */
type RuleDocument = Omit<RuleSource, 'name'>;

/**
 * Reads rules out of a YAML document: keys, types and values, but not what they mean together (see `checkSources`).
 * An element of a list that is not a map leaves a hole, so that the others keep their position. There is no document when
 * it cannot be read as a whole.
 */
export function readRuleDocument(tape: YamlTape): {
  document: RuleDocument | undefined;
  problems: DocumentProblem[];
  warnings: DocumentProblem[];
} {
  const walk = new DocumentWalk(tape);
  let document: RuleDocument | undefined;
  try {
    document = new RuleReader(walk).file(0);
  } catch (error) {
    if (!(error instanceof Unreadable)) throw error;
  }
  return { document, problems: walk.log.problems, warnings: walk.log.warnings };
}

/** Reads a value of each kind. Null stands for the kind's zero value unless a reader says otherwise. */
type Readers = {
  readonly [Kind in FieldKind]: (
    node: number,
    earlier: FieldValues[Kind] | undefined,
    name: string,
  ) => FieldValues[Kind];
};

/** Chosen: limits that rules of one file may share. */
const mostShared = 10_000;

/** A rule while its map is read. */
interface OpenRule {
  readonly written: WrittenRule;
  /** The value of `rate_limits`, once there is one. */
  list: number | undefined;
  /** Of `rate_limits` and a `rate_limit` beside it, the key that comes second. */
  second: number | undefined;
}

class RuleReader {
  readonly #walk: DocumentWalk;
  readonly #values: ValueReader;
  readonly #readers: Readers;
  /** Where fields that the Go service does not know stand in the limits that have any. */
  readonly #ownNodes = new Map<WrittenLimit, Map<keyof typeof limitFields, number>>();

  /** By what they say, limits without fields of our own: of 100,000 rules few have one that no other has. */
  readonly #shared = new Map<string, readonly Limit[]>();

  constructor(walk: DocumentWalk) {
    this.#walk = walk;
    const values = new ValueReader(walk);
    this.#values = values;
    this.#readers = {
      text: (node) => values.string(node),
      unit: (node) => values.string(node),
      boolean: (node) => values.boolean(node),
      uint32: (node) => values.uint32(node),
      requests: (node) => values.requests(node),
      metadata: (node, earlier) => values.metadata(node, earlier),
      percents: (node) => values.numbers(node),
      algorithm: (node) =>
        algorithmNumber(this.#word(node, 'invalid-algorithm', algorithmNames, unknownAlgorithm)),
      unitOfHits: (node, _earlier, name) => {
        const problem = (found: string) => unknownWord(ruleFileName(name), hitsUnits, found);
        return hitsUnits[this.#word(node, 'invalid-hits-unit', hitsUnits, problem)]!;
      },
      day: (node) => values.string(node),
      calendar: (node) => this.#composite(node, 'calendar', 'a map with a unit', calendarTable, readCalendar),
      share: (node) => this.#share(node),
      reserve: (node) => this.#composite(node, 'reserve', 'a map', reserveTable, readReserve),
      names: (node) => this.#names(node),
      limit: (node, earlier) => this.#limit(node, earlier),
      limits: (node) => this.#limits(node),
      rules: (node) => this.#rules(node),
    };
  }

  file(node: number): RuleDocument | undefined {
    const document: RuleDocument = { domain: '', descriptors: [] };
    if (this.#walk.scalarType(node) === 'null') return document;
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#values.mismatch(node, goTypes.file, Stage.DOCUMENT);
      return undefined;
    }
    const written: Written<typeof domainFields> = {};
    this.#walk.eachField(node, fileTable, (name, value) => this.#read(domainFields, written, name, value));
    const { domain = '', descriptors = [] } = written;
    return { domain, descriptors };
  }

  /** Reads a field's value into what is written. */
  #read<Rows extends FieldRows, Name extends keyof Rows & string>(
    rows: Rows,
    written: Written<Rows>,
    name: Name,
    node: number,
  ): void {
    const kind: Rows[Name]['kind'] = rows[name]!.kind;
    written[name] = this.#valueOf(kind, node, written[name], name);
  }

  #valueOf<Kind extends FieldKind>(
    kind: Kind,
    node: number,
    earlier: FieldValues[Kind] | undefined,
    name: string,
  ): FieldValues[Kind] {
    return this.#readers[kind](node, earlier, name);
  }

  #rules(list: number): Rule[] {
    if (this.#walk.tape.kind(list) !== NodeKind.LIST) {
      this.#values.refuse(list, goTypes.descriptors);
      return [];
    }
    return this.#walk.maps(list, (map) => {
      const rule: OpenRule = { written: {}, list: undefined, second: undefined };
      const { written } = rule;
      this.#walk.eachField(map, ruleTable, (name, value, key) => {
        if (name === 'rateLimit' && rule.list !== undefined) rule.second = key;
        this.#read(ruleFields, written, name, value);
        if (name !== 'rateLimits') return;
        rule.list = value;
        rule.second = written.rateLimit === undefined ? undefined : key;
      });
      return makeRule(written, this.#limitsOf(rule));
    });
  }

  #share(node: number): number | undefined {
    const type = this.#walk.scalarType(node);
    if (type === undefined) this.#values.refuse(node, goTypes.string);
    if (type === undefined || type === 'null') return undefined;
    const text = this.#walk.text(node);
    const lease = leaseFromText(text);
    if (lease === undefined) this.#walk.log.value(node, 'invalid-lease', unknownLease(text));
    return lease;
  }

  /** A repeated or merged block adds to the earlier one. */
  #limit(node: number, earlier: WrittenLimit | undefined): WrittenLimit | undefined {
    if (this.#walk.tape.kind(node) === NodeKind.MAP) return this.#limitFields(node, limitTable, earlier);
    this.#values.refuse(node, goTypes.rateLimit);
    return undefined;
  }

  #limitFields(map: number, table: FieldTable<typeof limitFields>, written: WrittenLimit = {}): WrittenLimit {
    this.#walk.eachField(map, table, (name, value) => {
      if (table.rows[name].kind === 'percents' && this.#walk.scalarType(value) === 'null') return;
      if ('isOwn' in limitFields[name]) this.#nodesOf(written).set(name, value);
      this.#read(limitFields, written, name, value);
    });
    return written;
  }

  #nodesOf(limit: WrittenLimit): Map<keyof typeof limitFields, number> {
    const nodes = this.#ownNodes.get(limit) ?? new Map();
    this.#ownNodes.set(limit, nodes);
    return nodes;
  }

  /** Makes a value of a map of fields, of which null ones count as not written; undefined where it is no map. */
  #composite<Rows extends FieldRows, Value>(
    node: number,
    kind: 'calendar' | 'reserve',
    form: string,
    table: FieldTable<Rows>,
    read: (written: Written<Rows>, report: (field: string, text: string) => void) => Value | undefined,
  ): Value | undefined {
    const refuse = (at: number, text: string, ...below: string[]) =>
      this.#walk.log.value(at, `invalid-${kind}`, text, ...below);
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      if (this.#walk.scalarType(node) === 'null') refuse(node, `${kind} must be ${form}, found null`);
      this.#values.refuse(node, goTypes[kind]);
      return undefined;
    }
    const written: Written<Rows> = {};
    const nodes = new Map<string, number>();
    this.#walk.eachField(node, table, (name, value) => {
      if (this.#walk.scalarType(value) === 'null') return;
      nodes.set(ruleFileName(name), value);
      this.#read(table.rows, written, name, value);
    });
    return read(written, (field, text) => refuse(nodes.get(field) ?? node, text, field));
  }

  /** The position of a word of an enum; the first one's where it is none, which is reported. */
  #word(
    node: number,
    code: RuleErrorCode,
    words: readonly string[],
    problem: (found: string, words: readonly string[]) => string,
  ): number {
    const text = this.#values.string(node);
    const found = words.indexOf(text.toLowerCase());
    if (found < 0 && this.#walk.scalarType(node) !== undefined)
      this.#walk.log.value(node, code, problem(text, words));
    return Math.max(0, found);
  }

  /** Elements that are no maps leave holes. Null is an empty list. */
  #limits(node: number): (WrittenLimit | undefined)[] | undefined {
    if (this.#walk.tape.kind(node) === NodeKind.LIST)
      return this.#walk.maps(node, (map) => this.#limitFields(map, listedLimitTable));
    this.#values.refuse(node, goTypes.rateLimits);
    return this.#walk.scalarType(node) === 'null' ? [] : undefined;
  }

  /** Of a list that is not as it has to be nothing is kept. */
  #limitsOf({ written, list, second = list }: OpenRule): readonly Limit[] {
    const { rateLimit, rateLimits } = written;
    if (second === undefined) return rateLimit === undefined ? noLimits : this.#only(rateLimit);
    if (rateLimits === undefined) return noLimits;
    const problem = listProblem(rateLimits.length, rateLimit !== undefined);
    if (problem !== undefined) this.#walk.log.value(second, 'invalid-limits', problem, 'rate_limits');
    const limits = rateLimits.filter((limit) => limit !== undefined);
    if (problem !== undefined || limits.length < rateLimits.length) return noLimits;
    return limits.map((limit, index) => this.#settled(limit, ['rate_limits', index]));
  }

  /** Of a `rate_limit`. */
  #only(written: WrittenLimit): readonly Limit[] {
    if (this.#ownNodes.has(written)) return [this.#settled(written, ['rate_limit'])];
    const said = JSON.stringify(written);
    const known = this.#shared.get(said) ?? [makeLimit(written)];
    if (this.#shared.size < mostShared) this.#shared.set(said, known);
    return known;
  }

  #settled(written: WrittenLimit, above: readonly (string | number)[]): Limit {
    const limit = makeLimit(written);
    const nodes = this.#ownNodes.get(written);
    if (nodes === undefined) return limit;
    this.#ownNodes.delete(written);
    settleLimit(limit, { ...written, has: (field) => nodes.has(field) }, (field, code, text) => {
      this.#walk.log.value(nodes.get(field)!, code, text, ...above, ruleFileName(field));
    });
    return limit;
  }

  /** Of the elements of `replaces`. */
  #names(list: number): string[] {
    if (this.#walk.tape.kind(list) !== NodeKind.LIST) {
      this.#values.refuse(list, goTypes.replaces);
      return [];
    }
    return this.#walk.maps(list, (map) => {
      let name = '';
      this.#walk.eachField(map, replacesTable, (_, value) => {
        name = this.#values.string(value);
      });
      return name;
    });
  }
}

/**
 * Knows which parts of a file could not be read, to report mistakes of their own from mere consequences:
 * a misspelled `kye:` is an unknown key, and not a descriptor without key as well.
 */
export class FollowUps {
  /** Paths, as JSON, of the maps in which something is wrong. */
  readonly #maps = new Set<string>();
  /** Paths of what could not be read. */
  readonly #paths = new Set<string>();
  /** Paths of the lists with an element whose key or value could not be read. */
  readonly #lists = new Set<string>();

  constructor(problems: readonly DocumentProblem[]) {
    for (const { path } of problems) {
      this.#paths.add(JSON.stringify(path));
      this.#maps.add(JSON.stringify(path.slice(0, -1)));
      const last = path.at(-1);
      if (last === 'key' || last === 'value') this.#lists.add(JSON.stringify(path.slice(0, -2)));
    }
  }

  /**
   * Whether correcting the unreadable parts may correct this, too. `isWritten` says whether the document has a value
   * at the problem's path: one that is there, was read and is empty is a mistake of its own.
   */
  includes({ code, path, source }: SourceProblem, isWritten: () => boolean): boolean {
    if (this.#maps.size === 0) return false;
    switch (code) {
      case 'empty-domain':
      case 'empty-key':
      case 'empty-replaces':
        if (this.#paths.has(JSON.stringify(path))) return true;
        return this.#maps.has(JSON.stringify(path.slice(0, -1))) && !isWritten();
      case 'burst-without-bucket':
      case 'duplicate-limit':
      case 'invalid-assign':
      case 'invalid-calendar':
      case 'invalid-lease':
      case 'invalid-marks':
      case 'invalid-reserve':
      case 'invalid-window':
      case 'share-threshold-without-wildcard':
      case 'uncountable':
        return this.#maps.has(JSON.stringify(path.slice(0, -1)));
      case 'invalid-unit':
        return this.#maps.has(JSON.stringify(path.slice(0, -1))) && unitAt(source, path) === '';
      case 'duplicate-descriptor':
        return this.#lists.has(JSON.stringify(path.slice(0, -2)));
      default:
        return false;
    }
  }
}

function unitAt(source: RuleSource, path: readonly (string | number)[]): string | undefined {
  const rule = rulesOnPath(source.descriptors, path).at(-1);
  const position = path.at(-2);
  const limit = rule?.limits[typeof position === 'number' ? position : 0];
  return limit && unitText(limit);
}
