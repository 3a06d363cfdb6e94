import { expect, it } from 'vitest';
import { blankedTree } from './blanked-tree.ts';

const tree = (source: string) => blankedTree(source, 'a.test.ts').map(({ node }) => node);
const source = `import { a } from './a.ts';\nit('works', () => {\n  expect(reported(\`x \${a}\`)).toBe(1);\n});\n`;

it('is the same with other names, texts, lines and order of imports', () => {
  const renamed = `import { b } from './b.ts';\nit('works well', () => { expect(shown(\`y \${b}\`)).toEqual(1); });\n`;
  expect(tree(renamed)).toEqual(tree(source));
  const two = (first: string, second: string) =>
    tree(`import ${first} from 'x';\nimport ${second} from 'y';\n`);
  expect(two('{ a }', 'b')).toEqual(two('b', '{ a }'));
});

it.each([
  ['another number', source.replace('toBe(1)', 'toBe(2)')],
  ['another statement', source.replace('});', '  more();\n});')],
  ['a negated assertion', source.replace(').toBe', ').not.toBe')],
  ['a skipped test', source.replace("it('", "it.skip('")],
])('differs by %s', (_, changed) => {
  expect(tree(changed)).not.toEqual(tree(source));
});

it('says which line a node is on', () => {
  expect(blankedTree(source, 'a.test.ts').at(-1)?.line).toBe(3);
});
