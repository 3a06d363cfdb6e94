/** Mutants of the Lua in strings and template literals of TypeScript, each of which is one string to other tools. Pure. */
import { parseAst } from 'rolldown/parseAst';

export interface LuaMutant {
  /** Of the change, in the text of the file. */
  start: number;
  end: number;
  line: number;
  text: string;
  replacement: string;
}

const replacements: ReadonlyMap<string, string> = new Map([
  ['+', '-'],
  ['-', '+'],
  ['*', '/'],
  ['/', '*'],
  ['%', '*'],
  ['and', 'or'],
  ['or', 'and'],
  ['not', ''],
  ['<', '<='],
  ['<=', '<'],
  ['>', '>='],
  ['>=', '>'],
  ['==', '~='],
  ['~=', '=='],
  ['true', 'false'],
  ['false', 'true'],
]);

/** Comments and texts first, so that nothing within them is taken for an operator. Reference Manual of Lua 5.1, section 2.1. */
const token =
  /(?<skipped>--[^\n]*|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|\.\.\.?)|(?<number>\b\d+\b)|(?<word>[A-Za-z_]\w*)|(?<operator>[<>=~]=|[-+*/%<>])/g;

/** Of all Lua in the file. */
export function luaMutants(source: string): LuaMutant[] {
  return luaParts(source).flatMap(({ start, text }) =>
    mutantsOf(text).map((mutant) => ({
      ...mutant,
      start: start + mutant.start,
      end: start + mutant.end,
      line: source.slice(0, start + mutant.start).split('\n').length,
    })),
  );
}

/** Around a token and what stands there in a mutant: its number, the token, the replacement. */
const marks = { start: '\u0001', token: '\u0002', replacement: '\u0003', end: '\u0004' };
const marked = new RegExp(
  `${marks.start}(\\d+)${marks.token}(.*?)${marks.replacement}(.*?)${marks.end}`,
  'gs',
);

/** Marks each mutant in a source, so that its Lua has all of them until `chosenLua` has chosen one. */
export function withLuaMutants(source: string, mutants: readonly (readonly [number, LuaMutant])[]): string {
  let [changed, copied] = ['', 0];
  const inOrder = mutants.toSorted(([, one], [, other]) => one.start - other.start);
  for (const [number, { start, end, text, replacement }] of inOrder) {
    changed += source.slice(copied, start);
    changed += [marks.start, number, marks.token, text, marks.replacement, replacement, marks.end].join('');
    copied = end;
  }
  return changed + source.slice(copied);
}

/** The Lua with the mutant of this number; without any if there is none. */
export function chosenLua(lua: string, chosen: number | undefined): string {
  return lua.replace(marked, (_, number: string, text: string, replacement: string) =>
    Number(number) === chosen ? replacement : text,
  );
}

function mutantsOf(lua: string): Omit<LuaMutant, 'line'>[] {
  return [...lua.matchAll(token)].flatMap((match) => {
    const [text] = match;
    const before = lua.slice(Math.max(0, match.index - 10), match.index);
    const replacement =
      match.groups!['number'] === undefined ? replacementOf(text, before) : String(Number(text) + 1);
    if (replacement === undefined) return [];
    return [{ start: match.index, end: match.index + text.length, text, replacement }];
  });
}

function replacementOf(text: string, before: string): string | undefined {
  const isSign = text === '-' && /(?:^|[-+*/%<>=~(,{[]|\b(?:and|or|not|return))\s*$/.test(before);
  return isSign ? '' : replacements.get(text);
}

interface Node {
  type: string;
  start: number;
  end: number;
  quasis?: Node[];
  /** Of a property. */
  key?: { name?: string };
  /** Of a property, a node; of a literal, what it is. */
  value?: unknown;
}

/**
 * The texts of Lua in the file: template literals that look like Lua, between their braces, and all strings of a property named `lua`,
 * whose formulas may be too short to look like it.
 */
function luaParts(source: string): { start: number; text: string }[] {
  const file = parseAst(source, { lang: 'ts' }) as unknown as Node;
  // By their start, because a template literal of a property named `lua` may also look like Lua.
  const parts = new Map<number, string>();
  const add = (start: number, end: number): unknown => parts.set(start, source.slice(start, end));
  const addTemplate = ({ quasis }: Node): void => {
    for (const { start, end } of quasis ?? []) add(start, end);
  };
  visit(file, (node) => {
    if (node.type === 'TemplateLiteral' && looksLikeLua.test(source.slice(node.start, node.end))) {
      addTemplate(node);
    }
    if (node.type !== 'Property' || node.key?.name !== 'lua') return;
    visit(node.value, (inner) => {
      if (inner.type === 'TemplateLiteral') addTemplate(inner);
      if (inner.type === 'Literal' && typeof inner.value === 'string') add(inner.start + 1, inner.end - 1);
    });
  });
  return [...parts].map(([start, text]) => ({ start, text })).sort((a, b) => a.start - b.start);
}

const looksLikeLua = /\blocal [a-zA-Z]|\bend\n/;

function visit(node: unknown, act: (node: Node) => void): void {
  if (typeof node !== 'object' || node === null) return;
  if (Array.isArray(node)) {
    for (const element of node) visit(element, act);
    return;
  }
  if ('type' in node) act(node as Node);
  for (const value of Object.values(node)) visit(value, act);
}
