/**
 * The bytes of a compiled rule table. `compileRules` creates them once, possibly in another thread, and matching needs no further
 * conversion.
 *
 * A header of 32-bit words (`Header`), then the sections, each given by offset and length in the header. All sections consist of 32-bit
 * words, except for the last two, which consist of UTF-16 code units. Byte order is the machine's own: a table is handed between threads,
 * never stored.
 *
 *  nodes           one record (`Node`) a rule, domain and root. Node 0 is the root, its children are the domains, theirs
 *                  the rules. Children of one node have consecutive numbers in the order of their declaration, so that
 *                  "declared first" means "smaller number".
 *  nodeIndex       (parent, hash of the composite key) -> node. A composite is `key`, or `key_value`. A domain's is its name.
 *  sortedChildren  at a node's first child: the numbers of its children sorted by composite
 *  limits          one record (`LimitWord`) a limit; those of one rule have consecutive numbers, and rules with one list share them
 *  extras          offset and length of `rareTraitsText` of the rules that have any of it
 *  domains         (`Domain`) of each domain, in their order, the hash of its content and the number of its rules
 *  strings         all text; records point into it with offset and length
 *
 * Rules with a `*` stand in `nodeIndex` too (for values that equal the pattern) and in a level, one for each parent:
 *
 *  levels          (`Level`) which lengths its prefixes and suffixes have, and where its automaton starts
 *  lengths         the distinct lengths, ascending
 *  prefixes        (`Prefix`) text before the first `*`; prefixIndex: (level, hash) -> prefix
 *  suffixes        (`Suffix`) text after the last `*`; suffixIndex: (level, hash from the end) -> suffix
 *  groups          (`Group`) the patterns that share prefix and suffix; groupIndex: (prefix, suffix) -> group
 *  buckets         (`Bucket`) those of a group that share the literal which is rarest there; bucketIndex: (group, literal) -> bucket
 *  patterns        (`Pattern`) one rule's literals between the stars; their numbers in `parts`
 *  literals        the length of each literal, by its number
 *  states, labels  an Aho-Corasick automaton a level, which finds all its literals in one pass (`State`)
 */
import { algorithmOf } from '../algorithms/registry.ts';
import { limitFields, ruleFields } from '../language/fields.ts';
import { namesOf, type RuleFlag, ruleFlags } from '../language/tables.ts';
import type { MatchedRule } from '../match-result.ts';
import { isDefault, type Limit, makeLimit, noTraits, type Rule, type RuleTraits } from '../model.ts';
import { readText } from './pair-index.ts';

const wordSections = [
  'nodes',
  'nodeIndex',
  'sortedChildren',
  'limits',
  'extras',
  'domains',
  'levels',
  'lengths',
  'prefixes',
  'prefixIndex',
  'suffixes',
  'suffixIndex',
  'groups',
  'groupIndex',
  'buckets',
  'bucketIndex',
  'patterns',
  'parts',
  'literals',
  'states',
] as const;
const unitSections = ['labels', 'strings'] as const;

/** The sections as views of one buffer. */
export type RuleTableSections = Record<(typeof wordSections)[number], Int32Array> &
  Record<(typeof unitSections)[number], Uint16Array>;

/** The numbers in the header that describe the content. */
export interface RuleTableCounts {
  rules: number;
  /** The number of levels of the deepest rule. Longer descriptors do not match. */
  maxDepth: number;
}

/** The parts of a buffer. */
export interface OpenRuleTable {
  sections: RuleTableSections;
  counts: RuleTableCounts;
  /** The sum of the hashes of the domains: 64 bits. It is equal for equal content, regardless of how the files are split. */
  contentHash: bigint;
}

/** Words of a record in `nodes`. */
export const Node = {
  compositeOffset: 0,
  compositeLength: 1,
  /** `NodeFlag`s, and from bit 6 on one bit for each boolean of a rule, in the order of their rows. */
  flags: 2,
  /** The number of its first record in `limits`. */
  firstLimit: 3,
  /** The number of the level that holds the children with a `*`; 0: none. */
  level: 4,
  /** The position in `extras`; -1: none. */
  extra: 5,
  firstChild: 6,
  childCount: 7,
  words: 8,
} as const;

/** Bits of `Node.flags`. */
export const NodeFlag = {
  /** The number of limits of the rule: up to 8. */
  limits: 15,
  /** Whether it has limits that the Go service does not know. Their counters have unambiguous keys. */
  ownKeys: 16,
} as const;

/** The bit of a boolean of a rule. */
export function ruleFlag(flag: RuleFlag): number {
  return (NodeFlag.ownKeys * 2) << ruleFlags.indexOf(flag);
}
const ruleFlagBits = ruleFlags.map((name) => ({ name, bit: ruleFlag(name) }));

/** The bits of a rule's booleans. A loop over the object's own properties reads them several times as fast as access by their names. */
export function ruleFlagsOf(rule: Rule): number {
  let flags = 0;
  for (const name in rule) if (rule[name as RuleFlag] === true) flags |= ruleFlag(name as RuleFlag);
  return flags;
}

/** Words of a record in `limits`. Only the number of requests has words, because each of 100,000 rules may have another number. */
export const LimitWord = {
  /** The low 32 bits, followed by the high 32 bits. */
  requestsPerUnit: 0,
  /** Offset and length of `otherFieldsText`. */
  others: 2,
  words: 4,
} as const;

const defaultLimit = makeLimit({});
const rareTraits = namesOf(ruleFields).filter(isRareTrait);
const otherFields = namesOf(limitFields).filter(isOtherField);

function isRareTrait(name: keyof typeof ruleFields): name is Exclude<keyof RuleTraits, RuleFlag> {
  return name in noTraits && ruleFields[name].kind !== 'boolean';
}

function isOtherField(name: keyof typeof limitFields): name is Exclude<keyof Limit, 'requestsPerUnit'> {
  return name in defaultLimit && name !== 'requestsPerUnit';
}

/** Returns the traits of a rule that have no bit, as JSON. Returns an empty text if they equal `noTraits`, as in nearly all rules. */
export function rareTraitsText(rule: Rule): string {
  return differenceText(rareTraits, rule, noTraits);
}

/** Returns the fields of a limit other than its requests, as JSON. */
export function otherFieldsText(limit: Limit): string {
  return differenceText(otherFields, limit, defaultLimit);
}

function differenceText<Name extends string>(
  names: readonly Name[],
  values: Readonly<Record<Name, unknown>>,
  defaults: Readonly<Record<Name, unknown>>,
): string {
  let different: Partial<Record<Name, unknown>> | undefined;
  for (const name of names) {
    const value = values[name];
    if (isDefault(value, defaults[name])) continue;
    different ??= {};
    different[name] = value;
  }
  return different === undefined ? '' : JSON.stringify(different);
}

/** Words of a record in `domains`. The record of node 1 is the first. */
export const Domain = { hash: 0, rules: 2, words: 3 } as const;

/** Words of a record in `levels`. Record 0 is unused, so that 0 can stand for "no level". */
export const Level = {
  prefixLengths: 0,
  prefixLengthCount: 1,
  suffixLengths: 2,
  suffixLengthCount: 3,
  /** The first state of the automaton; -1 if no pattern has a literal between two stars. */
  root: 4,
  words: 5,
} as const;

/** `firstNode` of a prefix, group or bucket is the smallest node in it. */
export const Prefix = {
  offset: 0,
  length: 1,
  firstNode: 2,
  firstGroup: 3,
  groupCount: 4,
  words: 5,
} as const;

/** Words of a record in `suffixes`. */
export const Suffix = { offset: 0, length: 1, words: 2 } as const;

/** Words of a record in `groups`. */
export const Group = {
  suffix: 0,
  firstNode: 1,
  /** The first pattern without a literal between the stars, so that prefix and suffix alone decide. `noNode`: none. */
  bareNode: 2,
  firstBucket: 3,
  bucketCount: 4,
  /** The length of prefix and suffix together. Shorter texts do not match. */
  minLength: 5,
  prefixLength: 6,
  words: 7,
} as const;

/** Words of a record in `buckets`. The patterns of a bucket are in the order of their declaration. */
export const Bucket = { literal: 0, firstNode: 1, firstPattern: 2, patternCount: 3, words: 4 } as const;

/** Words of a record in `patterns`. */
export const Pattern = { node: 0, firstPart: 1, partCount: 2, words: 3 } as const;

/** The children of a state have consecutive numbers, ascending by label, up to the first child of the next state. */
export const State = {
  firstChild: 0,
  /** The state of the longest proper suffix in the automaton. */
  fail: 1,
  /** The nearest state on the `fail` path that ends a literal; -1: none. */
  shorterEnd: 2,
  /** The literal that ends here; -1: none. */
  literal: 3,
  words: 4,
} as const;

/** A number that is larger than that of any node. */
export const noNode = 0x7fffffff;

const sectionNames = [...wordSections, ...unitSections];
const Header = {
  contentHash: 0,
  rules: 2,
  maxDepth: 3,
  /** The offset and length of each section. */
  sections: 4,
  words: 4 + 2 * sectionNames.length,
} as const;

/** Writes the sections into one buffer of exactly their size. */
export function packRuleTable(sections: RuleTableSections, counts: RuleTableCounts): ArrayBuffer {
  let byteLength = Header.words * 4;
  for (const name of sectionNames) byteLength += sections[name].byteLength;
  const buffer = new ArrayBuffer(byteLength);
  const bytes = new Uint8Array(buffer);
  const header = new Int32Array(buffer, 0, Header.words);
  header[Header.rules] = counts.rules;
  header[Header.maxDepth] = counts.maxDepth;
  let offset = Header.words * 4;
  for (const [i, name] of sectionNames.entries()) {
    const section = sections[name];
    header.set([offset, section.length], Header.sections + 2 * i);
    bytes.set(new Uint8Array(section.buffer, section.byteOffset, section.byteLength), offset);
    offset += section.byteLength;
  }
  let hash = 0n;
  for (let at = 0; at < sections.domains.length; at += Domain.words) hash += hashAt(sections.domains, at);
  header[Header.contentHash] = Number(BigInt.asIntN(32, hash));
  header[Header.contentHash + 1] = Number(BigInt.asIntN(32, hash >> 32n));
  return buffer;
}

/** Returns views on the sections, without reading them. */
export function openRuleTable(buffer: ArrayBufferLike): OpenRuleTable {
  const header = new Int32Array(buffer, 0, Header.words);
  const sections: Partial<Record<string, Int32Array | Uint16Array>> = {};
  let at: number = Header.sections;
  for (const name of wordSections) {
    sections[name] = new Int32Array(buffer, header[at++], header[at++]);
  }
  for (const name of unitSections) {
    sections[name] = new Uint16Array(buffer, header[at++], header[at++]);
  }
  return {
    sections: sections as RuleTableSections,
    counts: { rules: header[Header.rules]!, maxDepth: header[Header.maxDepth]! },
    contentHash: hashAt(header, Header.contentHash),
  };
}

function hashAt(words: Int32Array, at: number): bigint {
  return BigInt.asUintN(32, BigInt(words[at]!)) | (BigInt.asUintN(32, BigInt(words[at + 1]!)) << 32n);
}

/** The records of a rule table by node number. Text and rules become objects at their first use, and only once. */
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

  /** Returns the flags in the form of `Node.flags`. */
  flags(node: number): number {
    return this.#s.nodes[node * Node.words + Node.flags]!;
  }

  /** Returns all limits of a rule. An unlimited one has the unit UNKNOWN. */
  limits(node: number): Limit[] {
    const first = this.#s.nodes[node * Node.words + Node.firstLimit]!;
    return Array.from({ length: this.flags(node) & NodeFlag.limits }, (_, n) => this.#limit(first + n));
  }

  #limit(number: number): Limit {
    const { limits } = this.#s;
    const at = number * LimitWord.words;
    const others = this.#json(limits, at + LimitWord.others) as Partial<Limit> | undefined;
    const requestsPerUnit = wholeAt(limits, at + LimitWord.requestsPerUnit);
    const limit: Limit = { ...defaultLimit, ...others, requestsPerUnit };
    // Throws if the algorithm is unknown.
    algorithmOf(limit);
    return limit;
  }

  /**
   * Returns a hash of 64 bits over a domain's content, and the number of its rules. Other domains of the table do not affect the
   * hash.
   */
  domainFigures(domain: number): { hash: bigint; rules: number } {
    const { domains } = this.#s;
    const at = (domain - 1) * Domain.words;
    return { hash: hashAt(domains, at), rules: domains[at + Domain.rules]! };
  }

  level(node: number): number {
    return this.#s.nodes[node * Node.words + Node.level]!;
  }

  childCount(node: number): number {
    return this.#s.nodes[node * Node.words + Node.childCount]!;
  }

  /** Returns the nth child in the order of the composites. */
  sortedChild(node: number, n: number): number {
    return this.#s.sortedChildren[this.#s.nodes[node * Node.words + Node.firstChild]! + n]!;
  }

  /** Returns the nth child in the order of their declaration. */
  child(node: number, n: number): number {
    return this.#s.nodes[node * Node.words + Node.firstChild]! + n;
  }

  /** Returns the number of levels of rules below the node. */
  depthBelow(node: number): number {
    let depth = 0;
    for (let level = [node]; ; depth++) {
      const below: number[] = [];
      for (const parent of level)
        for (let n = 0; n < this.childCount(parent); n++) below.push(this.child(parent, n));
      if (below.length === 0) return depth;
      level = below;
    }
  }

  /** Returns `key` or `key_value` of a rule, with stars, or the name of a domain. It caches the text, for nodes that are read often. */
  composite(node: number): string {
    const known = this.#composites[node];
    if (known !== undefined) return known;
    const composite = this.readComposite(node);
    this.#composites[node] = composite;
    return composite;
  }

  /** Returns the same as `composite`, without caching it. */
  readComposite(node: number): string {
    const at = node * Node.words;
    const { nodes, strings } = this.#s;
    return readText(strings, nodes[at + Node.compositeOffset]!, nodes[at + Node.compositeLength]!);
  }

  rule(node: number): MatchedRule {
    const known = this.#rules[node];
    if (known !== undefined) return known;
    const limits = this.limits(node);
    const unlimited = limits[0]?.unlimited === true;
    const rule: MatchedRule = {
      ...this.traits(node),
      limits: unlimited ? [] : limits,
      unlimited,
      ...{ domain: '', path: '', order: node },
      replaces: limits.flatMap(({ replaces }) => replaces),
    };
    this.#rules[node] = rule;
    return rule;
  }

  traits(node: number): RuleTraits {
    const traits = { ...noTraits };
    const flags = this.flags(node);
    for (const { name, bit } of ruleFlagBits) if ((flags & bit) !== 0) traits[name] = true;
    const extra = this.#s.nodes[node * Node.words + Node.extra]!;
    if (extra >= 0) Object.assign(traits, this.#json(this.#s.extras, extra));
    return traits;
  }

  /** Parses the text whose offset is at `at` and whose length follows it. */
  #json(words: Int32Array, at: number): unknown {
    const length = words[at + 1]!;
    return length === 0 ? undefined : JSON.parse(readText(this.#s.strings, words[at]!, length));
  }
}

/** Reads a number from 0 to 2^53 - 1. */
function wholeAt(words: Int32Array, at: number): number {
  return (words[at]! >>> 0) + words[at + 1]! * 0x1_0000_0000;
}
