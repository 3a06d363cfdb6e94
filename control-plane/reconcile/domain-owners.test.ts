import { describe, expect, it } from 'vitest';
import { type DomainOwners, type DomainOwnership, parseDomainOwners } from './claims.ts';

function owners(text: string, ownership: DomainOwnership = 'open'): DomainOwners {
  const parsed = parseDomainOwners(text, ownership);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  return parsed.owners;
}

describe('parseDomainOwners', () => {
  const rules =
    'payments=pay ; payments*=payments, platform\n*.edge.*=edge-*; public*=*; a=b=equals; *=platform;';
  it.each<[namespace: string, domain: string, may: boolean]>([
    ['pay', 'payments', true],
    ['payments', 'payments', false],
    ['payments', 'payments-eu', true],
    ['platform', 'payments-eu', true],
    ['pay', 'payments-eu', false],
    ['edge-1', 'eu.edge.http', true],
    ['edge', 'eu.edge.http', false],
    ['edge-1', 'eu.edge', false],
    ['anyone', 'public', true],
    ['equals', 'a=b', true],
    ['platform', 'a=c', true],
    ['platform', '', true],
    ['payments', '__proto__', false],
  ])('asks whether %s may use %s', (namespace, domain, may) => {
    expect(owners(rules).mayUse(namespace, domain)).toBe(may);
  });

  it.each(['', ' ', ';\n;'])('leaves everything to everyone with %j', (text) => {
    expect(owners(text).mayUse('a', 'b')).toBe(true);
    expect(owners(text).ownersOf('b')).toBeUndefined();
  });

  it('leaves a domain to everyone that no entry matches', () => {
    expect(owners('a*=x').mayUse('y', 'b')).toBe(true);
  });

  it.each(['', 'a*=x'])(
    'leaves a domain to nobody that no entry of %j matches, when domains are claimed',
    (text) => {
      expect(owners(text, 'claimed').mayUse('x', 'b')).toBe(false);
      expect(owners(text, 'claimed').ownersOf('b')).toEqual([]);
      expect(owners('a*=x', 'claimed').mayUse('x', 'ab')).toBe(true);
    },
  );

  it('does not count one character for both sides of a star', () => {
    expect(owners('ab*ba=x').mayUse('y', 'aba')).toBe(true);
    expect(owners('ab*ba=x').mayUse('y', 'abba')).toBe(false);
  });

  it('names each bad entry', () => {
    const parsed = parseDomainOwners('payments; =x; a=; b=x,,y; c=No; d=x; *=z; e=y; d=w', 'open');
    expect(parsed).toEqual({
      ok: false,
      errors: [
        "entry 1 'payments' has no '=' between a domain and its namespaces",
        "entry 2 '=x' names no domain before '='",
        "entry 3 'a=' names no namespace after '='",
        "entry 4 'b=x,,y' has '' where a namespace must stand",
        "entry 5 'c=No' has 'No' where a namespace must stand",
        "entry 8 'e=y' is never asked: '*' stands before it and matches the same domains",
        "entry 9 'd=w' is never asked: 'd' stands before it and matches the same domains",
      ],
    });
  });
});
