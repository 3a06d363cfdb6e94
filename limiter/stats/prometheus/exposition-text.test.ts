import { describe, expect, it } from 'vitest';
import { helpText, labelText, metricName, valueText } from './metric-text.ts';

describe('metricName', () => {
  for (const [name, wanted] of [
    ['ratelimit.redis_pool.cx_active', 'ratelimit_redis_pool_cx_active'],
    ['9lives', '_9lives'],
    ['a--b', 'a_b'],
    ['a-b', 'a_b'],
    ['a.-b', 'a__b'],
    ['größe', 'gr__e'],
    ['smile😀', 'smile_'],
    ['a:b c', 'a_b_c'],
  ] as const) {
    it(`makes ${wanted} of ${name}`, () => expect(metricName(name)).toBe(wanted));
  }
});

describe('labelText', () => {
  it('orders labels by name and escapes their values', () => {
    const labels = new Map([
      ['b', 'x'],
      ['a', 'say "hi"\\\n'],
    ]);
    expect(labelText(labels)).toBe('a="say \\"hi\\"\\\\\\n",b="x"');
  });

  it('keeps text of other scripts, and replaces half characters', () => {
    expect(labelText(new Map([['a', 'größe\ud83d']]))).toBe('a="größe\ufffd"');
  });

  it('is empty without labels', () => {
    expect(labelText(new Map())).toBe('');
  });
});

describe('helpText', () => {
  it('escapes what would end the line', () => {
    expect(helpText('one\ntwo\\three "four"')).toBe('one\\ntwo\\\\three "four"');
  });
});

describe('valueText', () => {
  it('writes numbers as Prometheus reads them', () => {
    const values = [0, 1, 0.25, 1e21, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY, Number.NaN];
    expect(values.map(valueText)).toEqual(['0', '1', '0.25', '1e+21', '+Inf', '-Inf', 'NaN']);
  });
});
