import type { PeerCertificate } from 'node:tls';
import { describe, expect, it } from 'vitest';
import {
  certificateClient,
  certificateNames,
  fleetRejection,
  isClientName,
  kindOfClient,
  tokenClient,
} from './caller-identity.ts';

function certificate(subjectaltname: string | undefined, commonName?: string | string[]): PeerCertificate {
  return { subjectaltname, subject: { CN: commonName } } as PeerCertificate;
}

describe('certificateNames', () => {
  const cases: Record<string, { names: string | undefined; commonName?: string | string[]; want: string[] }> =
    {
      'DNS names and URIs': {
        names: 'DNS:a.example, URI:spiffe://x/y',
        commonName: 'cn',
        want: ['a.example', 'spiffe://x/y'],
      },
      'no addresses': { names: 'IP Address:10.0.0.1, DNS:a', want: ['a'] },
      'the common name where there is no other': { names: undefined, commonName: 'cn', want: ['cn'] },
      'the common name beside an address': { names: 'IP Address:10.0.0.1', commonName: 'cn', want: ['cn'] },
      'several common names': { names: undefined, commonName: ['a', 'b'], want: ['a', 'b'] },
      'a quoted name as one': { names: 'URI:"x, DNS:victim", DNS:b', want: ['x, DNS:victim', 'b'] },
      'an escaped quote': { names: 'DNS:"a\\", DNS:victim"', want: ['a", DNS:victim'] },
      nothing: { names: undefined, want: [] },
    };
  it.each(Object.entries(cases))('gives %s', (_, { names, commonName, want }) => {
    expect(certificateNames(certificate(names, commonName))).toEqual(want);
  });
});

describe('certificateClient', () => {
  it('drops names that are those of service accounts and tokens', () => {
    const posing = certificate('URI:system:serviceaccount:shop:limiter, DNS:token:edge, DNS:a');
    expect(certificateClient(posing)).toEqual({ kind: 'certificate', names: ['a'] });
    const commonName = certificate(undefined, 'system:serviceaccount:shop:limiter');
    expect(certificateClient(commonName)).toEqual({ kind: 'certificate', names: [] });
  });
});

describe('isClientName', () => {
  it.each([
    ['a.example', 'certificate'],
    ['spiffe://c/ns/a=b/sa', 'certificate'],
    ['system:serviceaccount:weir-system:weir-limiter', 'service account'],
    ['system:serviceaccount:a:b.c', 'service account'],
    ['token:edge', 'token'],
    ['token:Edge_1.eu-west', 'token'],
  ])('takes %s as the name of a %s', (name, kind) => {
    expect([isClientName(name), kindOfClient(name)]).toEqual([true, kind]);
  });

  it.each([
    '',
    'system:serviceaccount:',
    'system:serviceaccount:shop',
    'system:serviceaccount:Shop:limiter',
    'system:serviceaccount:shop:limiter:x',
    'token:',
    'token:two words',
  ])('rejects "%s"', (name) => {
    expect(isClientName(name)).toBe(false);
  });
});

describe('fleetRejection', () => {
  const account = 'system:serviceaccount:shop:limiter';
  const allowed = new Map([
    ['a.example', ['blue', 'green']],
    ['b.example', ['red']],
    [account, ['blue']],
    ['token:edge', ['red']],
  ]);
  const shows = (names: string) => certificateClient(certificate(names));

  it.each(['blue', 'green', 'red'])('lets any name of the certificate ask: %s', (fleet) => {
    expect(fleetRejection(allowed, shows('DNS:b.example, DNS:a.example'), fleet)).toBeUndefined();
  });

  it('binds service accounts and tokens', () => {
    const limiter = { kind: 'service account', names: [account] } as const;
    expect(fleetRejection(allowed, limiter, 'blue')).toBeUndefined();
    expect(fleetRejection(allowed, limiter, 'red')).toBe(
      `the client "${account}" is not bound to the fleet "red"`,
    );
    expect(fleetRejection(allowed, tokenClient('edge'), 'red')).toBeUndefined();
    expect(fleetRejection(allowed, tokenClient('other'), 'red')).toBe(
      'the client "token:other" has no fleet: add it to XDS_CLIENT_FLEETS',
    );
  });

  it('names the certificate and the fleet it is not bound to', () => {
    expect(fleetRejection(allowed, shows('DNS:b.example'), 'blue')).toBe(
      'the certificate of "b.example" is not bound to the fleet "blue"',
    );
  });

  it('names a certificate that has no fleet', () => {
    expect(fleetRejection(allowed, shows('DNS:x, DNS:y'), 'blue')).toBe(
      'the certificate of "x", "y" has no fleet: add it to XDS_CLIENT_FLEETS',
    );
  });

  it('rejects a certificate without a name', () => {
    expect(fleetRejection(allowed, shows(''), 'blue')).toBe(
      'the certificate has no name that XDS_CLIENT_FLEETS could bind to a fleet',
    );
  });
});
