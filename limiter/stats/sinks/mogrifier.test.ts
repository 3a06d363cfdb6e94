import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { ExpressionError } from '../../../process/regex/expression.ts';
import { Mogrifiers, type MogrifierText } from './mogrifier.ts';

function mogrifier(pattern: string, name: string, tags: MogrifierText['tags'] = []): MogrifierText {
  return { pattern, name, tags };
}

const name = 'ratelimit.service.rate_limit.domain.key_value.total_hits';

describe('Mogrifiers', () => {
  it('rewrite the name and add tags', () => {
    const mogrifiers = new Mogrifiers([
      mogrifier('^ratelimit\\.service\\.rate_limit\\.([^.]+)\\.([^.]+)\\.(.*)$', 'ratelimit.$3', [
        ['domain', '$1'],
        ['descriptor', '$2'],
      ]),
    ]);
    expect(mogrifiers.apply(name)).toEqual({
      name: 'ratelimit.total_hits',
      tags: [
        ['domain', 'domain'],
        ['descriptor', 'key_value'],
      ],
    });
  });

  it('go in order: the first that is found anywhere decides', () => {
    const mogrifiers = new Mogrifiers([
      mogrifier('nowhere', 'a'),
      mogrifier('rate_limit', 'b'),
      mogrifier('.*', 'c'),
    ]);
    expect(mogrifiers.apply(name)).toEqual({ name: 'b', tags: [] });
    expect(mogrifiers.apply('other')).toEqual({ name: 'c', tags: [] });
  });

  it('leave alone what none is for', () => {
    expect(new Mogrifiers([mogrifier('^x$', 'y')]).apply(name)).toEqual({ name, tags: [] });
    expect(new Mogrifiers([]).apply(name)).toEqual({ name, tags: [] });
  });

  it('know $0, and leave the number of a group that there is not as text', () => {
    const mogrifiers = new Mogrifiers([mogrifier('^(a)(b)?', '$0-$1-$2-$3-$10-$', [['k$1', '$9']])]);
    expect(mogrifiers.apply('abc')).toEqual({ name: 'ab-a-b-$3-$10-$', tags: [['ka', '$9']] });
  });

  it('leave out a tag that comes out empty', () => {
    const mogrifiers = new Mogrifiers([
      mogrifier('^a(b)?', 'n', [
        ['k', '$1'],
        ['$1', 'v'],
        ['x', 'y'],
      ]),
    ]);
    expect(mogrifiers.apply('ac').tags).toEqual([['x', 'y']]);
  });

  it('reject what RE2 does not have, and invalid patterns', () => {
    expect(() => new Mogrifiers([mogrifier('(?=a)', 'n')])).toThrow(ExpressionError);
    expect(() => new Mogrifiers([mogrifier('(a)\\1', 'n')])).toThrow(ExpressionError);
    expect(() => new Mogrifiers([mogrifier('a(', 'n')])).toThrow(
      'error parsing regexp: missing closing ): `a(`',
    );
  });

  it('take what would keep an engine that goes back busy for years', () => {
    const mogrifiers = new Mogrifiers([mogrifier('^(([a-z])+.)+[A-Z]([a-z])+$', 'n')]);
    expect(mogrifiers.apply('a'.repeat(5_000)).name).toHaveLength(5_000);
  });

  it('expand groups as String.replace would, for names without $', () => {
    const word = fc.stringMatching(/^[a-z_]{1,8}$/);
    fc.assert(
      fc.property(word, word, word, (a, b, c) => {
        const mogrifiers = new Mogrifiers([
          mogrifier('^([a-z_]+)\\.([a-z_]+)\\.([a-z_]+)$', '$3.$1', [['t', '<$2>']]),
        ]);
        expect(mogrifiers.apply(`${a}.${b}.${c}`)).toEqual({ name: `${c}.${a}`, tags: [['t', `<${b}>`]] });
      }),
    );
  });
});

it('leaves a name unchanged if its groups cannot be found in time', () => {
  const mogrifiers = new Mogrifiers([{ pattern: '^(.*)\\.a.{1,100}$', name: '$1', tags: [['of', '$1']] }]);
  expect(mogrifiers.apply('x.ab')).toEqual({ name: 'x', tags: [['of', 'x']] });
  const long = `${'x'.repeat(4_000)}.ab`;
  expect(mogrifiers.apply(long)).toEqual({ name: long, tags: [] });
  expect(mogrifiers.cost).toBeGreaterThan(0);
});
