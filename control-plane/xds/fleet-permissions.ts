import type { PeerCertificate } from 'node:tls';
import { certificateNames } from './certificate-names.ts';

/** By a name in client certificates: the fleets that its bearer may ask for. */
export type FleetsOfCertificates = ReadonlyMap<string, readonly string[]>;

/** Why a client may not have the rules of `fleet`; undefined when it may. */
export function fleetRefusal(
  allowed: FleetsOfCertificates,
  certificate: PeerCertificate | undefined,
  fleet: string,
): string | undefined {
  const names = certificate === undefined ? [] : certificateNames(certificate);
  if (names.length === 0) return 'the client shows no certificate with a name';
  const listed = names.map((name) => JSON.stringify(name)).join(', ');
  const fleets = names.flatMap((name) => allowed.get(name) ?? []);
  if (fleets.includes(fleet)) return undefined;
  return fleets.length === 0
    ? `the certificate of ${listed} is bound to no fleet`
    : `the certificate of ${listed} is not bound to the fleet "${fleet}"`;
}
