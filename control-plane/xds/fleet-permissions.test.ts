import type { PeerCertificate } from 'node:tls';
import { describe, expect, it } from 'vitest';
import { certificateNames } from './certificate-names.ts';
import { fleetRefusal } from './fleet-permissions.ts';

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

describe('fleetRefusal', () => {
  const allowed = new Map([
    ['a.example', ['blue', 'green']],
    ['b.example', ['red']],
  ]);

  it.each(['blue', 'green', 'red'])('lets any name of the certificate ask: %s', (fleet) => {
    expect(fleetRefusal(allowed, certificate('DNS:b.example, DNS:a.example'), fleet)).toBeUndefined();
  });

  it('names the certificate and the fleet it is not bound to', () => {
    expect(fleetRefusal(allowed, certificate('DNS:b.example'), 'blue')).toBe(
      'the certificate of "b.example" is not bound to the fleet "blue"',
    );
  });

  it('names a certificate that is bound to no fleet', () => {
    expect(fleetRefusal(allowed, certificate('DNS:x, DNS:y'), 'blue')).toBe(
      'the certificate of "x", "y" is bound to no fleet',
    );
  });

  it('refuses who shows no certificate', () => {
    expect(fleetRefusal(allowed, undefined, 'blue')).toBe('the client shows no certificate with a name');
  });
});
