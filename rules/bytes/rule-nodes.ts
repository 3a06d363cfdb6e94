import type { MatchedRule } from '../match-result.ts';
import type { JsonObject, Unit } from '../model.ts';
import { readText } from './pair-index.ts';
import { Extra, Node, NodeFlag, nodeUnitShift, type RuleTableSections } from './rule-table-format.ts';

/** The records of a rule table by node number. Text and rules become objects at their first use, once each. */
export class RuleNodes {
  readonly #s: RuleTableSections;
  readonly #composites: (string | undefined)[];
  readonly #rules: (MatchedRule | undefined)[];

  constructor(sections: RuleTableSections) {
    this.#s = sections;
    const count = sections.nodes.length / Node.words;
    this.#composites = new Array(count);
    this.#rules = new Array(count);
  }

  /** `NodeFlag`s, and the unit from bit 8 on. */
  flags(node: number): number {
    return this.#s.nodes[node * Node.words + Node.flags]!;
  }

  unit(node: number): Unit {
    return (this.flags(node) >>> nodeUnitShift) as Unit;
  }

  requestsPerUnit(node: number): number {
    return this.#s.nodes[node * Node.words + Node.requestsPerUnit]! >>> 0;
  }

  level(node: number): number {
    return this.#s.nodes[node * Node.words + Node.level]!;
  }

  childCount(node: number): number {
    return this.#s.nodes[node * Node.words + Node.childCount]!;
  }

  /** The nth child in the order of the composites. */
  sortedChild(node: number, n: number): number {
    return this.#s.sortedChildren[this.#s.nodes[node * Node.words + Node.firstChild]! + n]!;
  }

  /** The nth child in the order of their declaration. */
  child(node: number, n: number): number {
    return this.#s.nodes[node * Node.words + Node.firstChild]! + n;
  }

  /** `key` or `key_value` of a rule, stars included; the name of a domain. Kept: for nodes asked often. */
  composite(node: number): string {
    const known = this.#composites[node];
    if (known !== undefined) return known;
    const composite = this.readComposite(node);
    this.#composites[node] = composite;
    return composite;
  }

  /** As `composite`, without keeping it. */
  readComposite(node: number): string {
    const at = node * Node.words;
    const { nodes, strings } = this.#s;
    return readText(strings, nodes[at + Node.compositeOffset]!, nodes[at + Node.compositeLength]!);
  }

  rule(node: number): MatchedRule {
    const known = this.#rules[node];
    if (known !== undefined) return known;
    const rule = this.readRule(node);
    this.#rules[node] = rule;
    return rule;
  }

  /** As `rule`, without keeping it. */
  readRule(node: number): MatchedRule {
    const flags = this.flags(node);
    const { extras, nodes, strings } = this.#s;
    const extra = nodes[node * Node.words + Node.extra]!;
    const replaces: string[] = [];
    let name = '';
    let metadata: JsonObject | undefined;
    if (extra >= 0) {
      name = readText(strings, extras[extra + Extra.nameOffset]!, extras[extra + Extra.nameLength]!);
      const end = extra + Extra.words + 2 * extras[extra + Extra.replacesCount]!;
      for (let at = extra + Extra.words; at < end; at += 2) {
        replaces.push(readText(strings, extras[at]!, extras[at + 1]!));
      }
      const length = extras[extra + Extra.metadataLength]!;
      if (length > 0) {
        metadata = JSON.parse(readText(strings, extras[extra + Extra.metadataOffset]!, length)) as JsonObject;
      }
    }
    return {
      unit: this.unit(node),
      requestsPerUnit: this.requestsPerUnit(node),
      unlimited: (flags & NodeFlag.unlimited) !== 0,
      shadowMode: (flags & NodeFlag.shadowMode) !== 0,
      quotaMode: (flags & NodeFlag.quotaMode) !== 0,
      name,
      replaces,
      metadata,
    };
  }
}
