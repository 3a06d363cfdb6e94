import {
  readCalendar,
  readReserve,
  unknownHitsUnit,
  type WrittenCalendar,
  type WrittenReserve,
} from '../budget-fields.ts';
import { leaseFromText, unknownLease } from '../lease.ts';
import {
  Algorithm,
  algorithmNames,
  type Calendar,
  emptyLimit,
  type HitsUnit,
  hitsUnits,
  noLimits,
  noRules,
  type RateLimit,
  type ReserveTerms,
  type Rule,
  type RuleSource,
  ruleFlags,
} from '../model.ts';
import { listProblem, type OwnLimitField, settleLimit, unknownAlgorithm } from '../validate-limits.ts';
import type { SourceProblem } from '../validate-sources.ts';
import { NodeKind, type YamlTape } from '../yaml/tape.ts';
import { DocumentWalk, Unreadable } from './document-walk.ts';
import { type DocumentProblem, goTypes, Place, Stage, ValueReader } from './value-reader.ts';

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

/** A list of limits as it is written; `count` is undefined where it is none. */
interface LimitList {
  node: number;
  limits: RateLimit[];
  count: number | undefined;
  /** Of it and a `rate_limit` beside it, the key that comes second. */
  second?: number | undefined;
}

/** What one limit says that the Go service does not know. */
interface OwnFields {
  window: string | undefined;
  calendar: Calendar | undefined;
  nodes: Map<OwnLimitField, number>;
}

type Writable<Fields> = { -readonly [Name in keyof Fields]: Fields[Name] };

class RuleReader {
  readonly #walk: DocumentWalk;
  /** Of the limits that have any and are still being read. */
  readonly #ownFields = new Map<RateLimit, OwnFields>();
  readonly #values: ValueReader;

  constructor(walk: DocumentWalk) {
    this.#walk = walk;
    this.#values = new ValueReader(walk);
  }

  file(node: number): RuleDocument | undefined {
    const document: RuleDocument = { domain: '', descriptors: [] };
    if (this.#walk.scalarType(node) === 'null') return document;
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#values.mismatch(node, goTypes.file, Stage.DOCUMENT);
      return undefined;
    }
    this.#walk.eachField(node, Place.FILE, (name, value) => {
      if (name === 'domain') document.domain = this.#values.string(value);
      else document.descriptors = this.#descriptors(value);
    });
    return document;
  }

  #descriptors(list: number): Rule[] {
    const rules: Rule[] = [];
    if (this.#walk.tape.kind(list) !== NodeKind.LIST) {
      this.#values.refuse(list, goTypes.descriptors);
      return rules;
    }
    this.#walk.eachMap(list, (map, index) => {
      const rule = emptyRule();
      let several: LimitList | undefined;
      this.#walk.eachField(map, Place.DESCRIPTOR, (name, value, key) => {
        if (name === 'rate_limit' && several !== undefined) several.second = key;
        if (name !== 'rate_limits') this.#ruleField(rule, name, value);
        else several = { ...this.#rateLimits(value), second: rule.limits.length > 0 ? key : undefined };
      });
      if (several !== undefined) this.#takeList(rule, several);
      if (this.#ownFields.size > 0) this.#settleLimits(rule.limits);
      rules[index] = rule;
    });
    return rules;
  }

  #ruleField(rule: Rule, name: string, value: number): void {
    const values = this.#values;
    switch (name) {
      case 'key':
        rule.key = values.string(value);
        break;
      case 'value':
        rule.value = values.string(value);
        break;
      case 'rate_limit':
        rule.limits = this.#rateLimit(value, rule.limits[0]);
        break;
      case 'descriptors':
        rule.descriptors = this.#descriptors(value);
        break;
      case 'lease':
        rule.lease = this.#lease(value);
        break;
      case 'reserve':
        rule.reserve = this.#reserve(value);
        break;
      case 'metadata':
        rule.metadata = values.metadata(value, rule.metadata);
        break;
      default:
        rule[ruleFlags[name as keyof typeof ruleFlags]] = values.boolean(value);
    }
  }

  #lease(node: number): number | undefined {
    const type = this.#walk.scalarType(node);
    if (type === undefined) this.#values.refuse(node, goTypes.string);
    if (type === undefined || type === 'null') return undefined;
    const text = this.#walk.text(node);
    const lease = leaseFromText(text);
    if (lease === undefined) this.#walk.log.value(node, 'invalid-lease', unknownLease(text));
    return lease;
  }

  /** A repeated or merged block adds to the earlier one. */
  #rateLimit(node: number, earlier: RateLimit | undefined): RateLimit[] {
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#values.refuse(node, goTypes.rateLimit);
      return [];
    }
    const limit = earlier ?? emptyLimit();
    this.#walk.eachField(node, Place.RATE_LIMIT, (name, value) => this.#limitField(limit, name, value));
    return [limit];
  }

  #limitField(limit: RateLimit, name: string, value: number): void {
    const values = this.#values;
    switch (name) {
      case 'unit':
        limit.unit = values.string(value);
        break;
      case 'requests_per_unit':
        limit.requestsPerUnit = values.requests(value);
        break;
      case 'unlimited':
        limit.unlimited = values.boolean(value);
        break;
      case 'name':
        limit.name = values.string(value);
        break;
      case 'replaces':
        limit.replaces = this.#replaces(value);
        break;
      default:
        this.#ownField(limit, name as OwnLimitField, value);
    }
  }

  /** What the Go service does not know. */
  #ownField(limit: RateLimit, name: OwnLimitField, value: number): void {
    if (name === 'warn_at' && this.#walk.scalarType(value) === 'null') return;
    const none: OwnFields = { window: undefined, calendar: undefined, nodes: new Map() };
    const fields = this.#ownFields.get(limit) ?? none;
    this.#ownFields.set(limit, fields);
    fields.nodes.set(name, value);
    const values = this.#values;
    switch (name) {
      case 'unit_multiplier':
        limit.unitMultiplier = values.uint32(value);
        break;
      case 'algorithm':
        limit.algorithm = this.#algorithm(value);
        break;
      case 'window':
        fields.window = values.string(value);
        break;
      case 'burst':
        limit.burst = values.requests(value);
        break;
      case 'calendar':
        fields.calendar = this.#calendar(value);
        break;
      case 'hits_unit':
        limit.hitsUnit = this.#hitsUnit(value);
        break;
      case 'warn_at':
        limit.warnAt = values.numbers(value);
        break;
    }
  }

  #hitsUnit(node: number): HitsUnit {
    const text = this.#values.string(node);
    const found = hitsUnits.find((unit) => unit === text.toLowerCase());
    if (found === undefined && this.#walk.scalarType(node) !== undefined)
      this.#walk.log.value(node, 'invalid-hits-unit', unknownHitsUnit(text));
    return found ?? 'requests';
  }

  #calendar(node: number): Calendar | undefined {
    const written: Writable<WrittenCalendar> = { unit: undefined, timezone: undefined, startsOn: undefined };
    if (this.#walk.scalarType(node) === 'null')
      this.#walk.log.value(node, 'invalid-calendar', 'calendar must be a map with a unit, found null');
    const nodes = this.#textsOf(node, Place.CALENDAR, goTypes.calendar, (name, value) => {
      if (name === 'unit') written.unit = this.#values.string(value);
      else if (name === 'timezone') written.timezone = this.#values.string(value);
      else written.startsOn = this.#values.string(value);
    });
    return (
      nodes &&
      readCalendar(written, (field, text) => {
        this.#walk.log.value(nodes.get(field) ?? node, 'invalid-calendar', text, field);
      })
    );
  }

  #reserve(node: number): ReserveTerms | undefined {
    const written: Writable<WrittenReserve> = { ttl: undefined, estimate: undefined, onExpiry: undefined };
    if (this.#walk.scalarType(node) === 'null')
      this.#walk.log.value(node, 'invalid-reserve', 'reserve must be a map, found null');
    const nodes = this.#textsOf(node, Place.RESERVE, goTypes.reserve, (name, value) => {
      if (name === 'ttl') written.ttl = this.#values.string(value);
      else if (name === 'estimate') written.estimate = this.#values.requests(value);
      else written.onExpiry = this.#values.string(value);
    });
    return (
      nodes &&
      readReserve(written, (field, text) => {
        this.#walk.log.value(nodes.get(field) ?? node, 'invalid-reserve', text, field);
      })
    );
  }

  /** Reads a map of fields, of which null ones count as not written. Their nodes; undefined where it is no map. */
  #textsOf(
    node: number,
    place: Place,
    goType: string,
    take: (name: string, value: number) => void,
  ): Map<string, number> | undefined {
    if (this.#walk.tape.kind(node) !== NodeKind.MAP) {
      this.#values.refuse(node, goType);
      return undefined;
    }
    const nodes = new Map<string, number>();
    this.#walk.eachField(node, place, (name, value) => {
      if (this.#walk.scalarType(value) === 'null') return;
      nodes.set(name, value);
      take(name, value);
    });
    return nodes;
  }

  #algorithm(node: number): Algorithm {
    const text = this.#values.string(node);
    const found = algorithmNames.indexOf(text.toLowerCase());
    if (found >= 0) return found as Algorithm;
    if (this.#walk.scalarType(node) !== undefined) {
      this.#walk.log.value(node, 'invalid-algorithm', unknownAlgorithm(text, algorithmNames));
    }
    return Algorithm.FIXED_WINDOW;
  }

  #rateLimits(node: number): LimitList {
    const limits: RateLimit[] = [];
    const { tape } = this.#walk;
    if (tape.kind(node) !== NodeKind.LIST) {
      this.#values.refuse(node, goTypes.rateLimits);
      return { node, limits, count: this.#walk.scalarType(node) === 'null' ? 0 : undefined };
    }
    let count = 0;
    for (let at = node + 1; at < tape.next(node); at = tape.next(at)) count++;
    this.#walk.eachMap(node, (map) => {
      const limit = emptyLimit();
      this.#walk.eachField(map, Place.RATE_LIMITS, (name, value) => this.#limitField(limit, name, value));
      limits.push(limit);
    });
    return { node, limits, count };
  }

  /** Of a list that is not as it has to be nothing is kept. */
  #takeList(rule: Rule, { node, limits, count, second = node }: LimitList): void {
    const problem = count === undefined ? undefined : listProblem(count, rule.limits.length > 0);
    if (problem !== undefined) this.#walk.log.value(second, 'invalid-limits', problem, 'rate_limits');
    rule.limits = problem === undefined && limits.length === count ? limits : [];
  }

  #settleLimits(limits: readonly RateLimit[]): void {
    for (const [index, limit] of limits.entries()) {
      const fields = this.#ownFields.get(limit);
      if (fields === undefined) continue;
      const { window, calendar, nodes } = fields;
      const above = limits.length === 1 ? ['rate_limit'] : ['rate_limits', index];
      settleLimit(limit, { window, calendar, has: (field) => nodes.has(field) }, (field, code, text) => {
        this.#walk.log.value(nodes.get(field)!, code, text, ...above, field);
      });
      this.#ownFields.delete(limit);
    }
  }

  #replaces(list: number): string[] {
    const names: string[] = [];
    if (this.#walk.tape.kind(list) !== NodeKind.LIST) {
      this.#values.refuse(list, goTypes.replaces);
      return names;
    }
    this.#walk.eachMap(list, (map, index) => {
      names[index] = '';
      this.#walk.eachField(map, Place.REPLACES, (_, value) => {
        names[index] = this.#values.string(value);
      });
    });
    return names;
  }
}

function emptyRule(): Rule {
  return {
    key: '',
    value: '',
    limits: noLimits,
    shadowMode: false,
    quotaMode: false,
    detailedMetric: false,
    valueToMetric: false,
    shareThreshold: false,
    hideIdentity: false,
    lease: undefined,
    reserve: undefined,
    metadata: undefined,
    descriptors: noRules,
  };
}

/**
 * Knows which parts of a file could not be read, to tell mistakes of their own from mere consequences:
 * a misspelt `kye:` is an unknown key, and not a descriptor without key as well.
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
   * Whether mending what could not be read may well mend this too. `isWritten` tells whether the document has a value
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
      case 'invalid-lease':
      case 'share-threshold-without-wildcard':
        return this.#maps.has(JSON.stringify(path.slice(0, -1)));
      case 'burst-without-bucket':
      case 'duplicate-limit':
      case 'invalid-calendar':
      case 'invalid-marks':
      case 'invalid-reserve':
      case 'invalid-window':
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
  let rules = source.descriptors;
  let rule: Rule | undefined;
  for (let step = 0; path[step] === 'descriptors'; step += 2) {
    rule = rules[path[step + 1] as number];
    rules = rule?.descriptors ?? [];
  }
  const position = path.at(-2);
  return rule?.limits[typeof position === 'number' ? position : 0]?.unit;
}
