/**
 * The common reader of rules as people write them. It follows the rows of `rules/language/fields.ts`. A dialect extends it: it defines
 * the values of a format, which of them fit a field, and the places of mistakes.
 */
import { Algorithm, algorithmNames } from '../algorithms/registry.ts';
import { readCalendar } from '../calendar.ts';
import {
  type FieldKind,
  type FieldRow,
  type FieldRows,
  limitFields,
  ruleFields,
} from '../language/fields.ts';
import {
  calendarTable,
  entryTable,
  type FieldTable,
  limitTable,
  listedLimitTable,
  replacesTable,
  reserveTable,
  ruleFileName,
  ruleTable,
} from '../language/tables.ts';
import { leaseForm, leaseFromText, unknownLease } from '../lease.ts';
import {
  type FieldValues,
  hitsUnits,
  type JsonObject,
  type Limit,
  makeLimit,
  makeRule,
  noLimits,
  type Rule,
  type Written,
  type WrittenLimit,
  type WrittenRule,
} from '../model.ts';
import { readReserve } from '../reserve.ts';
import { type RuleErrorCode, unknownWord } from '../rule-error.ts';
import { completeLimit, listProblem, unknownAlgorithm } from '../validate-limits.ts';

/**
 * Functions that read a value of each kind. Undefined means that the field counts as not set. `earlier` is the earlier value of the field
 * in the same map.
 */
type Readers<Node> = {
  readonly [Kind in FieldKind]: (
    node: Node,
    row: FieldRow,
    earlier: FieldValues[Kind] | undefined,
  ) => FieldValues[Kind] | undefined;
};

/** In the order of their names. */
const algorithms = Object.values(Algorithm);

/** Chosen: the maximum number of limits that rules of one file share. */
const maxShared = 10_000;

/** A rule while its map is read. */
interface OpenRule<Node> {
  readonly written: WrittenRule;
  /** The value of `rate_limits`, once it was read. */
  list: Node | undefined;
  /** The second key, if both `rate_limits` and `rate_limit` are written. */
  second: Node | undefined;
}

/** `Node`: a value, with its place if the format has places. */
export abstract class RuleReader<Node> {
  /** The number of rules on all levels. */
  count = 0;
  /** Fields in use that other limiters ignore. */
  readonly ownFields = new Set<string>();
  /** The places of fields that the Go service does not know, by the limits that have such fields. */
  readonly #ownNodes = new Map<WrittenLimit, Map<string, Node>>();
  /** Limits without fields of our own, by their content. Even of 100,000 rules, few have a limit that no other rule has. */
  readonly #shared = new Map<string, readonly Limit[]>();
  readonly #readers: Readers<Node> = {
    text: (node, row) => this.text(node, row),
    unit: (node, row) => this.unitText(node, row),
    boolean: (node) => this.boolean(node),
    uint32: (node, row) => this.uint32(node, row),
    requests: (node, row) => this.requests(node, row),
    algorithm: (node) => algorithms[this.#word(node, 'invalid-algorithm', algorithmNames, unknownAlgorithm)],
    unitOfHits: (node) => hitsUnits[this.#word(node, 'invalid-hits-unit', hitsUnits, this.#unknownWord)],
    percents: (node, row) => this.numbers(node, row),
    day: (node) => this.numberOrText(node, 'a day'),
    calendar: (node, row) => this.#composite(node, row, 'invalid-calendar', calendarTable, readCalendar),
    share: (node) => this.#share(node),
    reserve: (node, row) => this.#composite(node, row, 'invalid-reserve', reserveTable, readReserve),
    metadata: (node, row, earlier) => this.metadata(node, row, earlier),
    entries: (node, row) => this.maps(node, row, (map) => this.fields(map, entryTable)),
    names: (node, row) => this.maps(node, row, (map) => this.fields(map, replacesTable).name ?? ''),
    // A repeated or merged block adds to the earlier block.
    limit: (node, row, earlier) =>
      this.isMap(node, row) ? this.#limitFields(node, limitTable, earlier) : undefined,
    limits: (node, row) => this.maps(node, row, (map) => this.#limitFields(map, listedLimitTable)),
    rules: (node, row) => this.maps(node, row, (map) => this.#rule(map)),
  };

  /** Reports a mistake in a value. `below` leads to the value from the current position, in the terms of rule files. */
  protected abstract reject(
    node: Node,
    code: RuleErrorCode,
    text: string,
    ...below: (string | number)[]
  ): void;
  /** The number of problems so far. */
  protected abstract get problemCount(): number;

  /** The name of the field whose value is being read. */
  protected abstract get fieldName(): string;

  /** Whether the value is a map. If it is not, reports it. */
  protected abstract isMap(node: Node, row: FieldRow): boolean;
  /** Calls back with each written field of a map, its value and its key. */
  protected abstract eachField<Rows extends FieldRows>(
    map: Node,
    table: FieldTable<Rows>,
    take: (name: keyof Rows & string, value: Node, key: Node) => void,
  ): void;
  /** Whether a value counts as not set in calendars, terms of reservations and lists of percents. */
  protected abstract isIgnored(node: Node): boolean;
  /**
   * Returns the result of `read` for each map of a list. Elements that are not maps are reported, and leave gaps. Returns undefined if
   * there is no list.
   */
  protected abstract maps<Value>(node: Node, row: FieldRow, read: (map: Node) => Value): Value[] | undefined;

  protected abstract text(node: Node, row?: FieldRow): string | undefined;
  /** Returns the text of a unit. The validator may be what checks whether it names a unit. */
  protected unitText(node: Node, row: FieldRow): string | undefined {
    return this.text(node, row);
  }
  /** `wanted`: the required form, in words. */
  protected abstract numberOrText(node: Node, wanted: string): string | undefined;
  protected abstract boolean(node: Node): boolean | undefined;
  protected abstract uint32(node: Node, row: FieldRow): number | undefined;
  /** Reads a number up to `maxRequests`. */
  protected abstract requests(node: Node, row: FieldRow): number | undefined;
  /** Reads a list of small whole numbers. */
  protected abstract numbers(node: Node, row: FieldRow): number[] | undefined;
  /** Reads a map of any content. Undefined if it is empty. */
  protected abstract metadata(
    node: Node,
    row: FieldRow,
    earlier: JsonObject | undefined,
  ): JsonObject | undefined;
  /** Reads a word of an enum in the spelling of the format. */
  protected abstract spelled(word: string): string;
  /** Returns a text that may be such a word, as far as the format allows several spellings. */
  protected abstract asWord(text: string): string;

  protected fields<Rows extends FieldRows>(map: Node, table: FieldTable<Rows>): Written<Rows> {
    const written: Written<Rows> = {};
    this.eachField(map, table, (name, value) => this.#read(table.rows, written, name, value));
    return written;
  }

  #limitFields(map: Node, table: FieldTable<typeof limitFields>, written: WrittenLimit = {}): WrittenLimit {
    this.eachField(map, table, (name, value) => {
      if (limitFields[name].kind === 'percents' && this.isIgnored(value)) return;
      if ('isOwn' in limitFields[name]) this.#nodesOf(written).set(name, value);
      this.#read(limitFields, written, name, value);
    });
    return written;
  }

  /** Reads a field's value into the written fields. */
  #read<Rows extends FieldRows, Name extends keyof Rows & string>(
    rows: Rows,
    written: Written<Rows>,
    name: Name,
    node: Node,
  ): void {
    const row = rows[name]!;
    const kind: Rows[Name]['kind'] = row.kind;
    const value = this.#valueOf(kind, node, row, written[name]);
    written[name] = value;
    if (row.ifUnknown === 'ignore' && value !== undefined && value !== false) this.ownFields.add(name);
  }

  #valueOf<Kind extends FieldKind>(
    kind: Kind,
    node: Node,
    row: FieldRow,
    earlier: FieldValues[Kind] | undefined,
  ): FieldValues[Kind] | undefined {
    return this.#readers[kind](node, row, earlier);
  }

  #rule(map: Node): Rule {
    this.count++;
    const rule: OpenRule<Node> = { written: {}, list: undefined, second: undefined };
    const { written } = rule;
    this.eachField(map, ruleTable, (name, value, key) => {
      if (name === 'rateLimit' && rule.list !== undefined) rule.second = key;
      this.#read(ruleFields, written, name, value);
      if (name !== 'rateLimits') return;
      rule.list = value;
      rule.second = written.rateLimit === undefined ? undefined : key;
    });
    return makeRule(written, this.#limitsOf(rule));
  }

  #share(node: Node): number | undefined {
    const text = this.numberOrText(node, leaseForm);
    const lease = text === undefined ? undefined : leaseFromText(text);
    if (text !== undefined && lease === undefined) this.reject(node, 'invalid-lease', unknownLease(text));
    return lease;
  }

  /**
   * Creates a value from a map of fields. If fields cannot be read, it reports neither further mistakes in them nor fields that may be
   * missing because of them.
   */
  #composite<Rows extends FieldRows, Value>(
    node: Node,
    row: FieldRow,
    code: RuleErrorCode,
    table: FieldTable<Rows>,
    read: (written: Written<Rows>, report: (field: string, text: string) => void) => Value | undefined,
  ): Value | undefined {
    if (!this.isMap(node, row)) return undefined;
    const before = this.problemCount;
    const written: Written<Rows> = {};
    const nodes = new Map<string, Node>();
    this.eachField(node, table, (name, value) => {
      if (this.isIgnored(value)) return;
      const count = this.problemCount;
      this.#read(table.rows, written, name, value);
      if (this.problemCount === count) nodes.set(ruleFileName(name), value);
    });
    const isSound = this.problemCount === before;
    return read(written, (field, text) => {
      const at = nodes.get(field);
      if (at !== undefined || isSound) this.reject(at ?? node, code, text, field);
    });
  }

  /** Returns the position of a word of an enum. If the word is unknown, reports it and returns the position of the first word. */
  #word(
    node: Node,
    code: RuleErrorCode,
    words: readonly string[],
    problem: (found: string, known: readonly string[]) => string,
  ): number {
    const text = this.text(node);
    if (text === undefined) return 0;
    const known = words.map((word) => this.spelled(word));
    const found = known.indexOf(this.asWord(text));
    if (found < 0) this.reject(node, code, problem(text, known));
    return Math.max(0, found);
  }

  readonly #unknownWord = (found: string, known: readonly string[]): string =>
    unknownWord(this.fieldName, known, found);

  #nodesOf(limit: WrittenLimit): Map<string, Node> {
    const nodes = this.#ownNodes.get(limit) ?? new Map<string, Node>();
    this.#ownNodes.set(limit, nodes);
    return nodes;
  }

  /** A limit that cannot be read becomes an empty limit, so that the others keep their positions. */
  #limitsOf({ written, list, second = list }: OpenRule<Node>): readonly Limit[] {
    const { rateLimit, rateLimits } = written;
    if (second === undefined) return rateLimit === undefined ? noLimits : this.#only(rateLimit);
    if (rateLimits === undefined) return noLimits;
    const problem = listProblem(rateLimits.length, rateLimit !== undefined);
    if (problem !== undefined) this.reject(second, 'invalid-limits', problem, 'rate_limits');
    const limits = Array.from(rateLimits, (limit = {}, index) =>
      this.#completed(limit, ['rate_limits', index]),
    );
    return problem === undefined ? limits : noLimits;
  }

  /** Returns the limits of a `rate_limit`. */
  #only(written: WrittenLimit): readonly Limit[] {
    if (this.#ownNodes.has(written)) return [this.#completed(written, ['rate_limit'])];
    const content = JSON.stringify(written);
    const known = this.#shared.get(content) ?? [makeLimit(written)];
    if (this.#shared.size < maxShared) this.#shared.set(content, known);
    return known;
  }

  #completed(written: WrittenLimit, above: readonly (string | number)[]): Limit {
    const limit = makeLimit(written);
    const nodes = this.#ownNodes.get(written);
    if (nodes === undefined) return limit;
    this.#ownNodes.delete(written);
    completeLimit(limit, { ...written, has: (field) => nodes.has(field) }, (field, code, text) => {
      this.reject(nodes.get(field)!, code, text, ...above, ruleFileName(field));
    });
    return limit;
  }
}
