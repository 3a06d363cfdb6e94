import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { patternMatches } from '../../rules/model.ts';
import { caseCount } from '../../test/support/property-cases.ts';
import {
  type DomainOwners,
  type DomainOwnership,
  fleetDomainOwners,
  isOwner,
  parseDomainOwners,
} from './domain-owners.ts';

function owners(text: string, ownership: DomainOwnership = 'open'): DomainOwners {
  const parsed = parseDomainOwners(text, ownership);
  if (!parsed.ok) throw new Error(parsed.errors.join('\n'));
  return parsed.owners;
}

function mayUse(owned: DomainOwners, namespace: string, domain: string): boolean {
  return isOwner(namespace, owned.ownersOf(domain));
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
    expect(mayUse(owners(rules), namespace, domain)).toBe(may);
  });

  it.each(['', ' ', ';\n;'])('leaves everything to everyone with %j', (text) => {
    expect(mayUse(owners(text), 'a', 'b')).toBe(true);
    expect(owners(text).ownersOf('b')).toBeUndefined();
  });

  it('leaves a domain to everyone that no entry matches', () => {
    expect(mayUse(owners('a*=x'), 'y', 'b')).toBe(true);
  });

  it.each(['', 'a*=x'])(
    'leaves a domain without owner that no entry of %j matches, when domains are claimed',
    (text) => {
      expect(mayUse(owners(text, 'claimed'), 'x', 'b')).toBe(false);
      expect(owners(text, 'claimed').ownersOf('b')).toEqual([]);
      expect(mayUse(owners('a*=x', 'claimed'), 'x', 'ab')).toBe(true);
    },
  );

  it('does not count one character for both sides of a star', () => {
    expect(mayUse(owners('ab*ba=x'), 'y', 'aba')).toBe(true);
    expect(mayUse(owners('ab*ba=x'), 'y', 'abba')).toBe(false);
  });

  it('names each bad entry', () => {
    const parsed = parseDomainOwners('payments; =x; a=; b=x,,y; c=No; d=x; *=z; e=y; d=w', 'open');
    expect(parsed).toEqual({
      ok: false,
      errors: [
        "entry 1 'payments' needs '=' between a domain and its namespaces",
        "entry 2 '=x' names no domain before '='",
        "entry 3 'a=' names no namespace after '='",
        "entry 4 'b=x,,y' has '' in place of a namespace",
        "entry 5 'c=No' has 'No' in place of a namespace",
        "entry 8 'e=y' never applies: '*' comes before it and matches the same domains",
        "entry 9 'd=w' never applies: 'd' comes before it and matches the same domains",
      ],
    });
  });
});

describe('many entries', () => {
  const piece = fc.constantFrom('*', '*', 'a', 'b', 'ab', '-', 'team-eu-1', 'team-eu-2');
  const text = fc.array(piece, { minLength: 1, maxLength: 5 }).map((pieces) => pieces.join(''));

  it('are found as by asking one after the other, and so is what precedes one that is never asked', () => {
    const domain = text.map((some) => some.replaceAll('*', 'x'));
    const lists = fc.tuple(
      fc.array(text, { maxLength: 12 }),
      fc.array(domain, { minLength: 20, maxLength: 20 }),
    );
    fc.assert(
      fc.property(lists, ([matches, domains]) => {
        const read = (list: string[]) =>
          fleetDomainOwners(list.map((match, at) => ({ match, namespaces: [`ns-${at}`] })));
        const cover = (match: string, at: number) =>
          matches.slice(0, at).find((earlier) => patternMatches(earlier, match));
        const errors = matches.flatMap((match, at) => {
          const found = cover(match, at);
          const words = `never applies: '${found}' comes before it and matches the same domains`;
          return found === undefined ? [] : `entry ${at + 1} '${match}=ns-${at}' ${words}`;
        });
        const all = read(matches);
        expect(all.ok ? [] : all.errors).toEqual(errors);
        const asked = matches.filter((match, at) => cover(match, at) === undefined);
        const kept = read(asked);
        if (!kept.ok) throw new Error(kept.errors.join());
        for (const some of domains) {
          const first = asked.findIndex((match) => patternMatches(match, some));
          expect(kept.owners.ownersOf(some)).toEqual(first === -1 ? undefined : [`ns-${first}`]);
        }
      }),
      { numRuns: caseCount(300) },
    );
  });
});
