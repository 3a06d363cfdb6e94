import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  alternativeNames,
  certificateMatches,
  labelsMatch,
  noNames,
  patternProblem,
  uriMatches,
} from './certificate-patterns.ts';

/** A star as one character or more that is no separator, by a regular expression. */
function naiveMatch(pattern: string, text: string, separator: '.' | '/'): boolean {
  const source = [...pattern]
    .map((char) => (char === '*' ? `[^${separator}]+` : char.replace(/[^a-zA-Z0-9]/, '\\$&')))
    .join('');
  return new RegExp(`^${source}$`, 's').test(text);
}

const piece = fc.string({ unit: fc.constantFrom('a', 'b', '-'), maxLength: 4 });
const patternPiece = fc.string({ unit: fc.constantFrom('a', 'b', '-', '*'), maxLength: 5 });

describe('labelsMatch', () => {
  it('is what a naive matcher says, of any pattern and name', () => {
    fc.assert(
      fc.property(
        fc.array(patternPiece, { minLength: 1, maxLength: 4 }),
        fc.array(piece, { minLength: 1, maxLength: 4 }),
        (labels, names) => {
          const [pattern, name] = [labels.join('.'), names.join('.')];
          expect(labelsMatch(pattern, name)).toBe(naiveMatch(pattern, name, '.'));
        },
      ),
    );
  });

  it('matches what a pattern is filled in to, and never with a dot more', () => {
    fc.assert(
      fc.property(
        fc.array(patternPiece, { minLength: 1, maxLength: 4 }),
        fc.string({ unit: fc.constantFrom('a', 'b', '-'), minLength: 1, maxLength: 3 }),
        (labels, filling) => {
          const pattern = labels.join('.');
          expect(labelsMatch(pattern, pattern.replaceAll('*', filling).toUpperCase())).toBe(true);
          if (pattern.includes('*')) {
            expect(labelsMatch(pattern, pattern.replaceAll('*', `${filling}.${filling}`))).toBe(false);
          }
        },
      ),
    );
  });
});

describe('uriMatches', () => {
  it('is what a naive matcher says of the path', () => {
    fc.assert(
      fc.property(
        fc.array(patternPiece, { maxLength: 4 }),
        fc.array(piece, { maxLength: 4 }),
        (segments, parts) => {
          const [pattern, path] = [segments, parts].map((all) => all.map((one) => `/${one}`).join(''));
          expect(uriMatches(`spiffe://a.b${pattern}`, `spiffe://a.b${path}`)).toBe(
            naiveMatch(pattern!, path!, '/'),
          );
        },
      ),
    );
  });

  const cases: [pattern: string, uri: string, want: boolean][] = [
    ['spiffe://prod.example/ns/edge/sa/*', 'spiffe://prod.example/ns/edge/sa/envoy', true],
    ['spiffe://prod.example/ns/edge/sa/*', 'spiffe://prod.example/ns/edge/sa/a/b', false],
    ['spiffe://prod.example/ns/edge/sa/*', 'spiffe://prod.example/ns/edge/sa/', false],
    ['spiffe://prod.example/ns/edge/sa/*', 'spiffe://prod.example/ns/edge/sa', false],
    ['spiffe://prod.example/ns/*/sa/x-*', 'spiffe://prod.example/ns/q/sa/x-1', true],
    ['spiffe://*.example/a', 'spiffe://prod.example/a', true],
    ['spiffe://*.example/a', 'spiffe://eu.prod.example/a', false],
    ['spiffe://*.example/a', 'spiffe://evil/x.example/a', false],
    ['spiffe://prod.example/a', 'SPIFFE://PROD.example/a', true],
    ['spiffe://prod.example/a', 'spiffe://prod.example/A', false],
    ['spiffe://prod.example/*', 'spiffe://prod.example/a?b', false],
    ['spiffe://prod.example/*', 'spiffe://prod.example/a#b', false],
    ['https://a.example', 'https://a.example', true],
    ['https://a.example', 'http://a.example', false],
    ['spiffe://a/b', 'not a uri', false],
  ];
  for (const [pattern, uri, want] of cases) {
    it(`${pattern} ${want ? 'is' : 'is not'} ${uri}`, () => expect(uriMatches(pattern, uri)).toBe(want));
  }
});

describe('certificateMatches', () => {
  const spiffe = 'spiffe://prod.example/ns/edge/sa/envoy';
  const names = { uri: [spiffe], dns: ['edge.example', 'two.example'], cn: ['Edge'] };

  it('wants each name that is given', () => {
    expect(certificateMatches({ uri: spiffe, dns: 'two.*', cn: 'edge' }, names)).toBe(true);
    expect(certificateMatches({ uri: spiffe, dns: 'three.*' }, names)).toBe(false);
    expect(certificateMatches({ uri: spiffe, cn: 'other' }, names)).toBe(false);
    expect(certificateMatches({}, names)).toBe(false);
    expect(certificateMatches({ cn: 'edge' }, noNames)).toBe(false);
  });

  it.each([
    'spiffe://prod.example/ns/edge/sa/..',
    'spiffe://prod.example/ns/./sa/envoy',
    'spiffe://prod.example/ns/edge%2Fsa/sa/envoy',
    'spiffe://prod.example/ns/édge/sa/envoy',
    'spiffe://prod.example:1/ns/edge/sa/envoy',
    'spiffe://u@prod.example/ns/edge/sa/envoy',
    'spiffe://prod.example/ns//sa/envoy',
    'spiffe://prod.example/ns/edge/sa/envoy/',
  ])('takes %s for no SPIFFE identity', (uri) => {
    const patterns = ['spiffe://prod.example/ns/*/sa/*', 'spiffe://*.*/ns/*/sa/envoy', uri];
    expect(patterns.map((pattern) => certificateMatches({ uri: pattern }, { ...names, uri: [uri] }))).toEqual(
      [false, false, false],
    );
  });

  it('takes letters that only look alike for others', () => {
    const like = (cn: string): boolean => certificateMatches({ cn: 'kate' }, { ...names, cn: [cn] });
    expect([like('KATE'), like('\u212aate'), like('kаte'), like('kate\u0000')]).toEqual([
      true,
      false,
      false,
      false,
    ]);
  });

  it('takes no SPIFFE identity of a certificate with two URIs, and no common name of two', () => {
    expect(certificateMatches({ uri: spiffe }, { ...names, uri: [spiffe, 'https://a.example'] })).toBe(false);
    expect(certificateMatches({ cn: 'edge' }, { ...names, cn: ['Edge', 'Edge'] })).toBe(false);
  });
});

describe('alternativeNames', () => {
  it('reads names as Node writes them, quoted ones as one name', () => {
    const text =
      'DNS:a.example, URI:spiffe://a/b, IP Address:127.0.0.1, DNS:"evil, URI:spiffe://root/x", email:x@y';
    expect(alternativeNames(text)).toEqual({
      uri: ['spiffe://a/b'],
      dns: ['a.example', 'evil, URI:spiffe://root/x'],
    });
    expect(alternativeNames('')).toEqual({ uri: [], dns: [] });
  });

  it('has no names of a text that it does not understand', () => {
    for (const text of ['URI:a"b, DNS:c', 'URI:a, ???', 'URI:"a']) {
      expect(alternativeNames(text)).toEqual({ uri: [], dns: [] });
    }
  });
});

describe('patternProblem', () => {
  it('rejects what cannot match anything', () => {
    expect(patternProblem('uri', 'prod.example/a')).toContain('expected scheme://host/path');
    expect(patternProblem('uri', 'spiffe://a/**')).toContain('`**` means the same as `*`');
    for (const path of ['a%20b', 'a/', '/a', '../a', 'a/./b']) {
      expect(patternProblem('uri', `spiffe://a/${path}`)).toContain('is not a SPIFFE ID');
    }
    expect(patternProblem('uri', 'spiffe://*.a-1_b/*/.../*.x')).toBeUndefined();
    expect(patternProblem('uri', 'https://a/%20')).toBeUndefined();
    expect(patternProblem('dns', 'a..b')).toBe('has an empty label');
    expect(patternProblem('dns', 'a.**')).toContain('`**`');
    expect(patternProblem('cn', 'Edge proxy')).toBeUndefined();
  });
});
