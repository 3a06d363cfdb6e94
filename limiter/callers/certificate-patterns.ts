/**
 * Which certificate is meant: patterns of one name of it, in which `*` stands for one character or more and never leaves
 * its label (between dots) or its path segment (between slashes). Pure.
 */
import type { X509Certificate } from 'node:crypto';

/** What a certificate says of its owner. */
export interface CertificateNames {
  uri: readonly string[];
  dns: readonly string[];
  /** Common names of the subject. */
  cn: readonly string[];
}

/** Each name that is given must match. At least one is. */
export type CertificatePattern = Readonly<Partial<Record<keyof CertificateNames, string>>>;

export const nameKinds = ['uri', 'dns', 'cn'] as const satisfies readonly (keyof CertificateNames)[];

export const noNames: CertificateNames = { uri: [], dns: [], cn: [] };

export function certificateMatches(pattern: CertificatePattern, names: CertificateNames): boolean {
  const { uri, dns, cn } = pattern;
  if (uri !== undefined && !uriNameMatches(uri, names.uri)) return false;
  if (dns !== undefined && !names.dns.some((name) => labelsMatch(dns, name))) return false;
  // A subject with several could be read as either.
  if (cn !== undefined && !(names.cn.length === 1 && labelsMatch(cn, names.cn[0]!))) return false;
  return uri !== undefined || dns !== undefined || cn !== undefined;
}

const spiffeScheme = /^spiffe:/i;

/** A SPIFFE identity is the only URI of its certificate, and well-formed: X509-SVID, section 2; SPIFFE-ID, section 2. */
function uriNameMatches(pattern: string, names: readonly string[]): boolean {
  if (spiffeScheme.test(pattern) && !(names.length === 1 && isSpiffeId(names[0]!))) return false;
  return names.some((name) => uriMatches(pattern, name));
}

/** Nothing encoded, no port, no empty segment and none that is relative. */
function isSpiffeId(uri: string): boolean {
  return /^spiffe:\/\/[a-z0-9._-]+(?:\/(?!\.{1,2}(?:\/|$))[a-z0-9._-]+)*$/i.test(uri);
}

const uriForm = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(\/[^?#]*)?$/i;

/** Why a pattern can match nothing; undefined when it is well. */
export function patternProblem(kind: keyof CertificateNames, pattern: string): string | undefined {
  if (kind === 'uri') {
    if (!uriForm.test(pattern)) return 'expected scheme://host/path, such as spiffe://prod.example/ns/edge/*';
    if (pattern.includes('**')) return severalStars;
    if (!spiffeScheme.test(pattern) || isSpiffeId(pattern.replaceAll('*', 'x'))) return undefined;
    return 'is no SPIFFE ID: trust domain and path have letters, digits, `.`, `-` and `_`, and the path no empty or relative segment';
  }
  if (pattern.split('.').includes('')) return 'has an empty label';
  return pattern.includes('**') ? severalStars : undefined;
}

const severalStars = '`**` means no more than `*`, which never leaves its label or segment';

/** Scheme and host without regard to case (RFC 3986, section 6.2.2.1), the path as it is written. Neither has a query. */
export function uriMatches(pattern: string, uri: string): boolean {
  const [wanted, given] = [uriForm.exec(pattern), uriForm.exec(uri)];
  if (wanted === null || given === null) return false;
  const [, scheme = '', host = '', path = ''] = wanted;
  const [, itsScheme = '', itsHost = '', itsPath = ''] = given;
  return (
    scheme.toLowerCase() === itsScheme.toLowerCase() &&
    labelsMatch(host, itsHost) &&
    partsMatch(path.split('/'), itsPath.split('/'))
  );
}

/** Label by label, without regard to the case of ASCII letters: RFC 4343, section 3. */
export function labelsMatch(pattern: string, name: string): boolean {
  return partsMatch(asciiLower(pattern).split('.'), asciiLower(name).split('.'));
}

/** Others stay: `toLowerCase` makes the sign of Kelvin a `k`, and so one name another. */
function asciiLower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function partsMatch(patterns: readonly string[], parts: readonly string[]): boolean {
  return patterns.length === parts.length && patterns.every((one, at) => partMatches(one, parts[at]!));
}

/** Each star takes a character at least, and as few as may be. */
function partMatches(pattern: string, part: string): boolean {
  if (!pattern.includes('*')) return pattern === part;
  const [first = '', ...others] = pattern.split('*');
  const last = others.pop() ?? '';
  if (!part.startsWith(first) || !part.endsWith(last)) return false;
  let from = first.length;
  for (const piece of others) {
    const at = part.indexOf(piece, from + 1);
    if (at === -1) return false;
    from = at + piece.length;
  }
  return from + 1 + last.length <= part.length;
}

export function namesOf(certificate: X509Certificate): CertificateNames {
  const { CN: cn } = certificate.toLegacyObject().subject as { CN?: string | string[] };
  const names = alternativeNames(certificate.subjectAltName ?? '');
  return { ...names, cn: cn === undefined ? [] : [cn].flat() };
}

/** One name as Node writes it: `URI:spiffe://a/b`; where it has characters that could mislead, between quotes as JSON has it. */
const oneName = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)/gy;

/** Text that is not wholly understood has no names. */
export function alternativeNames(text: string): Pick<CertificateNames, 'uri' | 'dns'> {
  const names = { uri: [] as string[], dns: [] as string[] };
  let end = 0;
  for (const [whole, kind, written = ''] of text.matchAll(oneName)) {
    end += whole.length;
    const name = written.startsWith('"') ? unquoted(written) : written;
    if (name === undefined) return { uri: [], dns: [] };
    if (kind === 'URI') names.uri.push(name);
    else if (kind === 'DNS') names.dns.push(name);
  }
  return end === text.length ? names : { uri: [], dns: [] };
}

function unquoted(text: string): string | undefined {
  try {
    return String(JSON.parse(text));
  } catch {
    return undefined;
  }
}
