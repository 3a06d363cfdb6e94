import {
  compilePairIndex,
  hashSeed,
  hashText,
  hashTextBackwards,
  type StringPool,
  UnitList,
  WordList,
} from './pair-index.ts';
import {
  Bucket,
  Group,
  Level,
  noNode,
  Pattern,
  Prefix,
  type RuleTableSections,
  State,
  Suffix,
} from './rule-table-format.ts';
import { childState } from './wildcard-index.ts';

/** Builds Aho-Corasick automata, one after another, in shared lists of states and labels. */
export class AutomatonCompiler {
  readonly states = new WordList();
  readonly labels = new UnitList();

  /** Adds an automaton for distinct, non-empty literals, which it reports by their `id`. Returns its root. */
  add(literals: readonly { text: string; id: number }[]): number {
    const sorted = literals.toSorted((a, b) => (a.text < b.text ? -1 : 1));
    const root = this.#count();
    // The first sorted literal that passes through a state, by the state's distance from the root's number.
    const first = new WordList();
    const end = new WordList();
    this.#push({ label: 0, fail: root, shorterEnd: -1, literal: -1 });
    first.push(0);
    end.push(sorted.length);
    let depth = 0;
    let lastOfDepth = root;
    for (let state = root; state < this.#count(); state++) {
      if (state > lastOfDepth) {
        depth++;
        lastOfDepth = this.#count() - 1;
      }
      const stop = end.words[state - root]!;
      this.states.words[state * State.words + State.firstChild] = this.#count();
      let i = first.words[state - root]!;
      if (sorted[i]!.text.length === depth) i++;
      while (i < stop) {
        const label = sorted[i]!.text.charCodeAt(depth);
        let next = i + 1;
        while (next < stop && sorted[next]!.text.charCodeAt(depth) === label) next++;
        const ends = sorted[i]!.text.length === depth + 1;
        this.#addChild({ root, parent: state, label, literal: ends ? sorted[i]!.id : -1 });
        first.push(i);
        end.push(next);
        i = next;
      }
    }
    // Ends the children of the last state. It belongs to no automaton.
    this.#push({ label: 0, fail: root, shorterEnd: -1, literal: -1 });
    return root;
  }

  #count(): number {
    return this.labels.length;
  }

  #addChild(child: { root: number; parent: number; label: number; literal: number }): void {
    const { root, parent, label, literal } = child;
    let fail = root;
    for (let state = parent; state !== root && fail === root; ) {
      state = this.states.words[state * State.words + State.fail]!;
      const known = childState(this.states.words, this.labels.units, state, label);
      if (known >= 0) fail = known;
    }
    const words = this.states.words;
    const failEnds = words[fail * State.words + State.literal]! >= 0;
    const shorterEnd = failEnds ? fail : words[fail * State.words + State.shorterEnd]!;
    this.#push({ label, fail, shorterEnd, literal });
  }

  #push(state: { label: number; fail: number; shorterEnd: number; literal: number }): void {
    // The state has no children yet.
    this.states.push(this.labels.length);
    this.states.push(state.fail);
    this.states.push(state.shorterEnd);
    this.states.push(state.literal);
    this.labels.push(state.label);
  }
}

export interface Wildcard {
  node: number;
  /** The whole composite key, including its stars. */
  composite: string;
}

interface Parsed {
  node: number;
  /** The literals between the stars, without empty ones. */
  parts: string[];
}

type WildcardSections = Omit<
  RuleTableSections,
  'nodes' | 'nodeIndex' | 'sortedChildren' | 'limits' | 'extras' | 'domains' | 'strings'
>;

/** Numbers of the literals within one level. */
interface LevelInProgress {
  id: number;
  suffixes: Map<string, number>;
  literals: Map<string, number>;
}

/**
 * Builds the index of the rules with a `*`, level by level. `finish` returns the sections. A pattern is found by its rarest part:
 * first its prefix, then its suffix, then, among the patterns that share both, the literal between the stars that the fewest
 * patterns have.
 */
export class WildcardCompiler {
  readonly #strings: StringPool;
  readonly #automata = new AutomatonCompiler();
  readonly #levels = new WordList();
  readonly #lengths = new WordList();
  readonly #prefixes = new WordList();
  readonly #prefixTriples = new WordList();
  readonly #suffixes = new WordList();
  readonly #suffixTriples = new WordList();
  readonly #groups = new WordList();
  readonly #groupTriples = new WordList();
  readonly #buckets = new WordList();
  readonly #bucketTriples = new WordList();
  readonly #patterns = new WordList();
  readonly #parts = new WordList();
  readonly #literals = new WordList();

  constructor(strings: StringPool) {
    this.#strings = strings;
    this.#levels.pushAll([0, 0, 0, 0, -1]);
  }

  /** Adds a level and returns its number, or 0 if there are no patterns. The patterns are in the order of their declaration. */
  addLevel(wildcards: readonly Wildcard[]): number {
    if (wildcards.length === 0) return 0;
    const level: LevelInProgress = {
      id: this.#levels.length / Level.words,
      suffixes: new Map(),
      literals: new Map(),
    };
    const byPrefix = groupByEnds(wildcards);
    for (const [prefix, bySuffix] of byPrefix) this.#addPrefix(level, prefix, bySuffix);
    const prefixLengths = this.#addLengths(byPrefix.keys());
    const suffixLengths = this.#addLengths(level.suffixes.keys());
    const literals = [...level.literals].map(([text, id]) => ({ text, id }));
    const root = literals.length === 0 ? -1 : this.#automata.add(literals);
    this.#levels.pushAll([...prefixLengths, ...suffixLengths, root]);
    return level.id;
  }

  finish(): WildcardSections {
    return {
      levels: this.#levels.toWords(),
      lengths: this.#lengths.toWords(),
      prefixes: this.#prefixes.toWords(),
      prefixIndex: compilePairIndex(this.#prefixTriples.toWords()),
      suffixes: this.#suffixes.toWords(),
      suffixIndex: compilePairIndex(this.#suffixTriples.toWords()),
      groups: this.#groups.toWords(),
      groupIndex: compilePairIndex(this.#groupTriples.toWords()),
      buckets: this.#buckets.toWords(),
      bucketIndex: compilePairIndex(this.#bucketTriples.toWords()),
      patterns: this.#patterns.toWords(),
      parts: this.#parts.toWords(),
      literals: this.#literals.toWords(),
      states: this.#automata.states.toWords(),
      labels: this.#automata.labels.toUnits(),
    };
  }

  #addLengths(texts: Iterable<string>): [start: number, count: number] {
    const lengths = new Set<number>();
    for (const text of texts) lengths.add(text.length);
    const start = this.#lengths.length;
    this.#lengths.pushAll([...lengths].sort((a, b) => a - b));
    return [start, lengths.size];
  }

  #addPrefix(level: LevelInProgress, prefix: string, bySuffix: Map<string, Parsed[]>): void {
    const id = this.#prefixes.length / Prefix.words;
    const firstGroup = this.#groups.length / Group.words;
    let firstNode = noNode;
    for (const [suffix, patterns] of bySuffix) {
      firstNode = Math.min(firstNode, patterns[0]!.node);
      const suffixId = this.#suffixId(level, suffix);
      const group = this.#addGroup({ level, prefix, suffix, suffixId, patterns });
      this.#groupTriples.pushAll([id, suffixId, group]);
    }
    this.#prefixes.pushAll([this.#strings.add(prefix), prefix.length, firstNode, firstGroup, bySuffix.size]);
    this.#prefixTriples.pushAll([level.id, hashText(hashSeed, prefix), id]);
  }

  #suffixId(level: LevelInProgress, suffix: string): number {
    const known = level.suffixes.get(suffix);
    if (known !== undefined) return known;
    const id = this.#suffixes.length / Suffix.words;
    level.suffixes.set(suffix, id);
    this.#suffixes.pushAll([this.#strings.add(suffix), suffix.length]);
    this.#suffixTriples.pushAll([level.id, hashTextBackwards(hashSeed, suffix), id]);
    return id;
  }

  /** Adds a group and returns its number. */
  #addGroup(group: GroupInProgress): number {
    const { level, prefix, suffix, suffixId, patterns } = group;
    const id = this.#groups.length / Group.words;
    const bare = patterns.findIndex(({ parts }) => parts.length === 0);
    // The pattern without literals matches everything that later patterns of the group match, and was declared before them.
    const reachable = bare === -1 ? patterns : patterns.slice(0, bare);
    const firstBucket = this.#buckets.length / Bucket.words;
    const byLiteral = groupByRarestLiteral(reachable);
    for (const [literal, sharing] of byLiteral)
      this.#addBucket({ level, group: id, literal, patterns: sharing });
    this.#groups.pushAll([
      suffixId,
      patterns[0]!.node,
      bare === -1 ? noNode : patterns[bare]!.node,
      firstBucket,
      byLiteral.size,
      prefix.length + suffix.length,
      prefix.length,
    ]);
    return id;
  }

  #addBucket(bucket: { level: LevelInProgress; group: number; literal: string; patterns: Parsed[] }): void {
    const { level, group, literal, patterns } = bucket;
    const literalId = this.#literalId(level, literal);
    this.#bucketTriples.pushAll([group, literalId, this.#buckets.length / Bucket.words]);
    const firstPattern = this.#patterns.length / Pattern.words;
    this.#buckets.pushAll([literalId, patterns[0]!.node, firstPattern, patterns.length]);
    for (const { node, parts } of patterns) {
      this.#patterns.pushAll([node, this.#parts.length, parts.length]);
      for (const part of parts) this.#parts.push(this.#literalId(level, part));
    }
  }

  #literalId(level: LevelInProgress, text: string): number {
    const known = level.literals.get(text);
    if (known !== undefined) return known;
    const id = this.#literals.length;
    level.literals.set(text, id);
    this.#literals.push(text.length);
    return id;
  }
}

interface GroupInProgress {
  level: LevelInProgress;
  prefix: string;
  suffix: string;
  suffixId: number;
  patterns: Parsed[];
}

function groupByEnds(wildcards: readonly Wildcard[]): Map<string, Map<string, Parsed[]>> {
  const byPrefix = new Map<string, Map<string, Parsed[]>>();
  for (const { node, composite } of wildcards) {
    const parts = composite.split('*');
    const prefix = parts.shift()!;
    const suffix = parts.pop()!;
    const bySuffix = byPrefix.get(prefix) ?? new Map<string, Parsed[]>();
    byPrefix.set(prefix, bySuffix);
    const parsed = { node, parts: parts.filter((part) => part !== '') };
    const patterns = bySuffix.get(suffix);
    if (patterns === undefined) bySuffix.set(suffix, [parsed]);
    else patterns.push(parsed);
  }
  return byPrefix;
}

function groupByRarestLiteral(patterns: readonly Parsed[]): Map<string, Parsed[]> {
  const frequencies = new Map<string, number>();
  for (const { parts } of patterns) {
    for (const part of new Set(parts)) frequencies.set(part, (frequencies.get(part) ?? 0) + 1);
  }
  const byLiteral = new Map<string, Parsed[]>();
  for (const pattern of patterns) {
    const literal = rarest(pattern.parts, frequencies);
    const sharing = byLiteral.get(literal);
    if (sharing === undefined) byLiteral.set(literal, [pattern]);
    else sharing.push(pattern);
  }
  return byLiteral;
}

/** Of equally rare literals, the longer one is chosen: it occurs by chance less often. */
function rarest(parts: readonly string[], frequencies: ReadonlyMap<string, number>): string {
  let best = parts[0]!;
  for (const part of parts) {
    const difference = frequencies.get(part)! - frequencies.get(best)!;
    if (difference < 0 || (difference === 0 && part.length > best.length)) best = part;
  }
  return best;
}
