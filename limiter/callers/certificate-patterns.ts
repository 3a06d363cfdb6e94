/**
 * Patterns of one name in a certificate. `*` stands for one or more characters, and never leaves its label (between dots) or its
 * path segment (between slashes). Pure.
 */
import type { X509Certificate } from 'node:crypto';

/** Names of the owner in a certificate. */
export interface CertificateNames {
  uri: readonly string[];
  dns: readonly string[];
  /** Common names of the subject. */
  cn: readonly string[];
}

/** Patterns of names. Each given pattern must match. At least one is given. */
export type CertificatePattern = Readonly<Partial<Record<keyof CertificateNames, string>>>;

export const nameKinds = ['uri', 'dns', 'cn'] as const satisfies readonly (keyof CertificateNames)[];

export const noNames: CertificateNames = { uri: [], dns: [], cn: [] };

export function certificateMatches(pattern: CertificatePattern, names: CertificateNames): boolean {
  const { uri, dns, cn } = pattern;
  if (uri !== undefined && !uriNameMatches(uri, names.uri)) return false;
  if (dns !== undefined && !names.dns.some((name) => labelsMatch(dns, name))) return false;
  // A subject with several common names is ambiguous.
  if (cn !== undefined && !(names.cn.length === 1 && labelsMatch(cn, names.cn[0]!))) return false;
  return uri !== undefined || dns !== undefined || cn !== undefined;
}

const spiffeScheme = /^spiffe:/i;

/** A SPIFFE identity is the only URI of its certificate, and well-formed: X509-SVID, section 2; SPIFFE-ID, section 2. */
function uriNameMatches(pattern: string, names: readonly string[]): boolean {
  if (spiffeScheme.test(pattern) && !(names.length === 1 && isSpiffeId(names[0]!))) return false;
  return names.some((name) => uriMatches(pattern, name));
}

/** Returns whether the URI has no encoded characters, no port, and no empty or relative segments. */
function isSpiffeId(uri: string): boolean {
  return /^spiffe:\/\/[a-z0-9._-]+(?:\/(?!\.{1,2}(?:\/|$))[a-z0-9._-]+)*$/i.test(uri);
}

const uriForm = /^([a-z][a-z0-9+.-]*):\/\/([^/?#]*)(\/[^?#]*)?$/i;

/** Returns the reason why a pattern can never match. Undefined if it can. */
export function patternProblem(kind: keyof CertificateNames, pattern: string): string | undefined {
  if (kind === 'uri') {
    if (!uriForm.test(pattern)) return 'expected scheme://host/path, such as spiffe://prod.example/ns/edge/*';
    if (pattern.includes('**')) return severalStars;
    if (!spiffeScheme.test(pattern) || isSpiffeId(pattern.replaceAll('*', 'x'))) return undefined;
    return 'is not a SPIFFE ID: trust domain and path have letters, digits, `.`, `-` and `_`, and the path no empty or relative segment';
  }
  if (pattern.split('.').includes('')) return 'has an empty label';
  return pattern.includes('**') ? severalStars : undefined;
}

const severalStars = '`**` means the same as `*`, which matches within one label or segment';

/** Compares scheme and host case-insensitively (RFC 3986, section 6.2.2.1), and the path exactly. Neither URI has a query. */
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

/** Compares label by label, case-insensitively for ASCII letters: RFC 4343, section 3. */
export function labelsMatch(pattern: string, name: string): boolean {
  return partsMatch(asciiLower(pattern).split('.'), asciiLower(name).split('.'));
}

/** Converts ASCII letters only. `toLowerCase` makes the Kelvin sign a `k`, which would make two names equal. */
function asciiLower(text: string): string {
  return text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
}

function partsMatch(patterns: readonly string[], parts: readonly string[]): boolean {
  return patterns.length === parts.length && patterns.every((one, at) => partMatches(one, parts[at]!));
}

/** Each star matches at least one character, and as few as possible. */
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

/** Reads one name in Node's form: `URI:spiffe://a/b`. A name with characters that could mislead is quoted as in JSON. */
const oneName = /(?:^|, )([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^",]*)/gy;

/** Reads alternative names. A text that is not completely understood has no names. */
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
