import { expect, it } from 'vitest';
import { yamlText } from './yaml-text.ts';

it('writes blocks, and quotes what could be taken for something else', () => {
  const value = {
    domain: 'shop',
    flag: true,
    none: null,
    number: 2.5,
    list: [{ key: 'path', value: '/search*' }, 'on', ['a'], {}, []],
    empty: {},
    nothing: [],
    'a b': '192.0.2.1',
  };
  expect(yamlText(value)).toBe(`domain: shop
flag: true
none: null
number: 2.5
list:
  - key: path
    value: /search*
  - "on"
  - - a
  - {}
  - []
empty: {}
nothing: []
"a b": "192.0.2.1"
`);
});
