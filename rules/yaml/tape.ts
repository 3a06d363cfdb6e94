/**
 * A YAML document as a row of integers: three for each node, children after their parent, no object per node.
 * 100,000 rules take 17 MB here, where a tree of objects takes ten times as much.
 *
 * word 0: offset in the text where the node starts
 * word 1: scalar: offset after its last character; map and list: number of the first node after it;
 *         alias: number of the node it stands for
 * word 2: kind (2 bits), plain (1 bit), then the number of its decoded text plus 1, or 0 when the text is a slice
 */
const WORDS = 3;
const PLAIN = 4;
const TEXT_SHIFT = 3;

/** The maximum depth of nested maps and lists, with aliases followed. The Go service stops at 10,000. */
export const maxYamlDepth = 400;

export const NodeKind = { MAP: 0, LIST: 1, SCALAR: 2, ALIAS: 3 } as const;
export type NodeKind = (typeof NodeKind)[keyof typeof NodeKind];

/** A scalar as its reader found it. `text` is given when it is not the characters from `start` to `end`. */
export interface ScalarPlace {
  start: number;
  end: number;
  plain: boolean;
  text: string | undefined;
}

/** A list of nodes, which are named by their number. The root is number 0, and the keys and values of a map alternate. */
export class YamlTape {
  readonly source: string;
  /** The text after the document, from its end mark on. */
  rest = '';
  #words: Int32Array;
  #length = 0;
  readonly #texts: string[] = [];
  readonly #tags = new Map<number, string>();

  constructor(source: string) {
    this.source = source;
    this.#words = new Int32Array(Math.max(64, (source.length >> 3) * WORDS));
  }

  /** The number of nodes. */
  get size(): number {
    return this.#length / WORDS;
  }

  /** Opens a map or list. Nodes that are added until `close` are inside it. */
  open(kind: NodeKind, start: number): number {
    return this.#add(start, 0, kind);
  }

  close(node: number): void {
    this.#words[node * WORDS + 1] = this.#length / WORDS;
  }

  /** Opens a map around the nodes from `node` on, whose numbers grow by one. */
  wrap(node: number, start: number): void {
    const { size } = this;
    this.#add(0, 0, NodeKind.SCALAR);
    const words = this.#words;
    const from = node * WORDS;
    words.copyWithin(from + WORDS, from, size * WORDS);
    words[from] = start;
    words[from + 1] = 0;
    words[from + 2] = NodeKind.MAP;
    for (let inner = size; inner > node; inner--) {
      const isLeaf = this.kind(inner) === NodeKind.SCALAR;
      const at = inner * WORDS + 1;
      // A closed map or list ends behind it, and an alias may stand for a node before it.
      if (!isLeaf && words[at]! >= node) words[at] = words[at]! + 1;
      const tag = this.#tags.get(inner - 1);
      if (tag === undefined) continue;
      this.#tags.delete(inner - 1);
      this.#tags.set(inner, tag);
    }
  }

  addSlice(start: number, end: number, plain: boolean): number {
    return this.#add(start, end, NodeKind.SCALAR | (plain ? PLAIN : 0));
  }

  addScalar({ start, end, plain, text }: ScalarPlace): number {
    if (text === undefined) return this.addSlice(start, end, plain);
    const number = this.#texts.push(text);
    return this.#add(start, end, NodeKind.SCALAR | (plain ? PLAIN : 0) | (number << TEXT_SHIFT));
  }

  /** Gives a scalar more text than the line that it was added with. */
  lengthen(node: number, { end, text }: { end: number; text: string }): void {
    const at = node * WORDS;
    const number = this.#texts.push(text);
    this.#words[at + 1] = end;
    this.#words[at + 2] = ((this.#words[at + 2] ?? 0) & (PLAIN | 3)) | (number << TEXT_SHIFT);
  }

  addAlias(start: number, target: number): number {
    return this.#add(start, target, NodeKind.ALIAS);
  }

  setTag(node: number, tag: string): void {
    this.#tags.set(node, tag);
  }

  moveTag(from: number, to: number): void {
    this.setTag(to, this.#tags.get(from)!);
    this.#tags.delete(from);
  }

  kind(node: number): NodeKind {
    return ((this.#words[node * WORDS + 2] ?? 0) & 3) as NodeKind;
  }

  start(node: number): number {
    return this.#words[node * WORDS] ?? 0;
  }

  /** Returns the offset to show a reader: a quoted scalar's quote rather than its first character. */
  place(node: number): number {
    const start = this.start(node);
    if (this.kind(node) !== NodeKind.SCALAR || this.isPlain(node)) return start;
    const before = this.source.charAt(start - 1);
    return before === '"' || before === "'" ? start - 1 : start;
  }

  /** Returns the offset behind the last character of a scalar. */
  end(node: number): number {
    return this.#words[node * WORDS + 1] ?? 0;
  }

  /** The node behind this one and everything inside it. */
  next(node: number): number {
    const kind = this.kind(node);
    if (kind === NodeKind.SCALAR || kind === NodeKind.ALIAS) return node + 1;
    return this.#words[node * WORDS + 1] ?? 0;
  }

  /** The elements of a list; of a map its keys and values, in turns. */
  children(node: number): number[] {
    const children: number[] = [];
    const end = this.next(node);
    for (let child = node + 1; child < end; child = this.next(child)) children.push(child);
    return children;
  }

  /** Returns the node that an alias stands for. Any other node stands for itself. */
  resolve(node: number): number {
    return this.kind(node) === NodeKind.ALIAS ? (this.#words[node * WORDS + 1] ?? 0) : node;
  }

  /** Returns whether a map or list is still being written. */
  isOpen(node: number): boolean {
    const kind = this.kind(node);
    if (kind === NodeKind.SCALAR || kind === NodeKind.ALIAS) return false;
    return this.#words[node * WORDS + 1] === 0;
  }

  /** Returns whether a scalar has no quotes, so that it may be a number, a boolean or null. */
  isPlain(node: number): boolean {
    return ((this.#words[node * WORDS + 2] ?? 0) & PLAIN) !== 0;
  }

  text(node: number): string {
    const at = node * WORDS;
    const number = (this.#words[at + 2] ?? 0) >> TEXT_SHIFT;
    if (number !== 0) return this.#texts[number - 1] ?? '';
    return this.source.slice(this.#words[at], this.#words[at + 1]);
  }

  /** An explicit tag as written: `!!str`, `!<tag:yaml.org,2002:str>`. */
  tag(node: number): string | undefined {
    return this.#tags.size === 0 ? undefined : this.#tags.get(node);
  }

  #add(first: number, second: number, third: number): number {
    const at = this.#length;
    if (at + WORDS > this.#words.length) this.#grow();
    const words = this.#words;
    words[at] = first;
    words[at + 1] = second;
    words[at + 2] = third;
    this.#length = at + WORDS;
    return at / WORDS;
  }

  #grow(): void {
    const larger = new Int32Array(Math.ceil(this.#words.length / WORDS) * WORDS * 2);
    larger.set(this.#words);
    this.#words = larger;
  }
}
