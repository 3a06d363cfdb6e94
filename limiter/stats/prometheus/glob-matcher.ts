/**
 * Finds the rule whose pattern fits a name segment by segment: `*` is any one segment. Patterns stand in a tree by
 * segments, so that a name is compared with the segments it has and not with every pattern. At most two branches
 * (the same text, and `*`) go on from a node, and a node is visited once for a name: no pattern takes longer than
 * the tree is large.
 */
interface Node {
  readonly children: Map<string, Node>;
  any: Node | undefined;
  /** Of the first pattern that ends here. */
  rule: number | undefined;
  /** The first of all patterns that go through here. */
  first: number;
}

export class GlobMatcher {
  readonly #root = newNode();
  readonly #mostSpecific: boolean;

  /** Rules are numbered by their order. With `mostSpecific` the same text wins over `*`, from left to right, rather than the first rule. */
  constructor(options: { mostSpecific: boolean }) {
    this.#mostSpecific = options.mostSpecific;
  }

  /** In ascending order of `rule`. */
  add(pattern: string, rule: number): void {
    let node = this.#root;
    for (const segment of pattern.split('.')) {
      node.first = Math.min(node.first, rule);
      node = childOf(node, segment);
    }
    node.first = Math.min(node.first, rule);
    node.rule ??= rule;
  }

  find(name: string): number | undefined {
    const segments = name.split('.');
    return this.#mostSpecific
      ? mostSpecificOf(this.#root, segments, 0)
      : firstOf(this.#root, segments, 0, Number.POSITIVE_INFINITY);
  }
}

/** What stood where the pattern has `*`. */
export function globCaptures(pattern: string, name: string): string[] {
  const segments = name.split('.');
  return pattern.split('.').flatMap((part, index) => (part === '*' ? [segments[index] as string] : []));
}

function newNode(): Node {
  return { children: new Map(), any: undefined, rule: undefined, first: Number.POSITIVE_INFINITY };
}

function childOf(node: Node, segment: string): Node {
  if (segment === '*') {
    node.any ??= newNode();
    return node.any;
  }
  let child = node.children.get(segment);
  if (child === undefined) {
    child = newNode();
    node.children.set(segment, child);
  }
  return child;
}

function mostSpecificOf(node: Node, segments: readonly string[], depth: number): number | undefined {
  if (depth === segments.length) return node.rule;
  const child = node.children.get(segments[depth] as string);
  const found = child && mostSpecificOf(child, segments, depth + 1);
  return found ?? (node.any && mostSpecificOf(node.any, segments, depth + 1));
}

/** The lowest number below `limit`. */
function firstOf(node: Node, segments: readonly string[], depth: number, limit: number): number | undefined {
  if (node.first >= limit) return undefined;
  if (depth === segments.length) return node.rule !== undefined && node.rule < limit ? node.rule : undefined;
  const child = node.children.get(segments[depth] as string);
  const found = child && firstOf(child, segments, depth + 1, limit);
  const other = node.any && firstOf(node.any, segments, depth + 1, found ?? limit);
  return other ?? found;
}
