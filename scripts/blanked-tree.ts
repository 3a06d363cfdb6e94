/** The syntax tree of a source file without its identifiers and texts. */
import { parseSync } from 'rolldown/utils';

interface BlankedNode {
  /** The depth, the type, and everything that is neither an identifier nor a text. */
  node: string;
  line: number;
}

/** The nodes in the order of the source. Imports are sorted by the names of files, so they have their own order. */
export function blankedTree(source: string, path: string): BlankedNode[] {
  const { program, errors } = parseSync(path, source);
  if (errors.length > 0) throw new TypeError(`${path}: ${errors[0]!.message}`);
  const lineStarts = [0, ...[...source.matchAll(/\n/g)].map(({ index }) => index + 1)];
  const lineOf = (offset: number): number => lineStarts.findLastIndex((start) => start <= offset) + 1;
  const statements = program.body.map((statement) => {
    const nodes: BlankedNode[] = [];
    collect(statement, 0, (node, offset) => nodes.push({ node, line: lineOf(offset) }));
    return { isImport: statement.type === 'ImportDeclaration', nodes };
  });
  const text = ({ nodes }: (typeof statements)[number]) => nodes.map(({ node }) => node).join();
  const imports = statements.filter(({ isImport }) => isImport).sort((a, b) => (text(a) < text(b) ? -1 : 1));
  return [...imports, ...statements.filter(({ isImport }) => !isImport)].flatMap(({ nodes }) => nodes);
}

function collect(value: unknown, depth: number, add: (node: string, offset: number) => void): void {
  if (Array.isArray(value)) {
    for (const one of value) collect(one, depth, add);
    return;
  }
  if (typeof value !== 'object' || value === null || !('type' in value) || !('start' in value)) return;
  const entries = Object.entries(value);
  const plain = entries.filter(([name, own]) => isIncluded(name, own)).map(([name, own]) => `${name}=${own}`);
  add(`${depth} ${value.type} ${plain.join(' ')}`, Number(value.start));
  for (const [, own] of entries) collect(own, depth + 1, add);
}

/** Returns whether a property is part of the tree: numbers, booleans and operators are. `raw` only repeats a number or a text. */
function isIncluded(name: string, value: unknown): boolean {
  if (/^(type|start|end|raw|name|tail)$/.test(name)) return false;
  return (
    /^(operator|kind|accessibility)$/.test(name) || typeof value === 'number' || typeof value === 'boolean'
  );
}
