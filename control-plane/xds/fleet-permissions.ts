/** Determines the identity of a caller of the xDS port, and the fleets that it may request. */
import type { PeerCertificate } from 'node:tls';

/** The fleets that a client may request, by the name of the client. */
export type FleetsOfClients = ReadonlyMap<string, readonly string[]>;

export type ClientKind = 'certificate' | 'service account' | 'token';

export interface XdsClient {
  kind: ClientKind;
  /** The names in the form of XDS_CLIENT_FLEETS. */
  names: readonly string[];
}

const accountPrefix = 'system:serviceaccount:';
const tokenPrefix = 'token:';
const accountPattern =
  /^system:serviceaccount:[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?:[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/;
const tokenNamePattern = /^[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?$/;

/** Returns the kind of a name in XDS_CLIENT_FLEETS. */
export function kindOfClient(name: string): ClientKind {
  if (name.startsWith(accountPrefix)) return 'service account';
  return name.startsWith(tokenPrefix) ? 'token' : 'certificate';
}

/** Returns whether a client could have this name. */
export function isClientName(name: string): boolean {
  const kind = kindOfClient(name);
  if (kind === 'certificate') return name !== '';
  if (kind === 'service account') return accountPattern.test(name);
  return isTokenName(name.slice(tokenPrefix.length));
}

/** Returns whether the text has up to 63 letters, digits and inner `-`, `_` and `.`. */
export function isTokenName(name: string): boolean {
  return tokenNamePattern.test(name);
}

export function tokenClient(name: string): XdsClient {
  return { kind: 'token', names: [`${tokenPrefix}${name}`] };
}

/** Returns the client of a verified certificate. A name that looks like a name of another kind does not count. */
export function certificateClient(
  certificate: Pick<PeerCertificate, 'subject' | 'subjectaltname'>,
): XdsClient {
  const names = certificateNames(certificate).filter((name) => kindOfClient(name) === 'certificate');
  return { kind: 'certificate', names };
}

/** Returns the reason why a caller may not have the rules of `fleet`. Undefined if it may. */
export function fleetRejection(
  allowed: FleetsOfClients,
  { kind, names }: XdsClient,
  fleet: string,
): string | undefined {
  const fleets = names.flatMap((name) => allowed.get(name) ?? []);
  if (fleets.includes(fleet)) return undefined;
  if (names.length === 0) return 'the certificate has no name that XDS_CLIENT_FLEETS could bind to a fleet';
  const listed = names.map((name) => JSON.stringify(name)).join(', ');
  const who = kind === 'certificate' ? `the certificate of ${listed}` : `the client ${listed}`;
  return fleets.length === 0
    ? `${who} has no fleet: add it to XDS_CLIENT_FLEETS`
    : `${who} is not bound to the fleet "${fleet}"`;
}

/**
 * Returns DNS names and URIs of the subject's alternative names. If there are none, returns its common names. RFC 5280, section
 * 4.2.1.6, in Node's form.
 */
export function certificateNames(certificate: Pick<PeerCertificate, 'subject' | 'subjectaltname'>): string[] {
  const alternatives = splitAlternativeNames(certificate.subjectaltname ?? '').flatMap((entry) => {
    const match = /^(?:DNS|URI):(.*)$/s.exec(entry);
    return match === null ? [] : [unquoted(match[1] as string)];
  });
  if (alternatives.length > 0) return alternatives;
  // Node's types have one common name, but a subject may have several.
  const commonName = certificate.subject?.CN as string | string[] | undefined;
  return commonName === undefined ? [] : [commonName].flat();
}

/** Splits the names. Node quotes a name, as JSON does, if it contains a comma or a quote that could be taken for a separator. */
function splitAlternativeNames(names: string): string[] {
  return names.match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/gs)?.map((entry) => entry.trimStart()) ?? [];
}

function unquoted(name: string): string {
  return name.startsWith('"') ? (JSON.parse(name) as string) : name;
}
