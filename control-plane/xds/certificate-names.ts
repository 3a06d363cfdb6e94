/** The names in a client's certificate, as Node gives it: RFC 5280, section 4.2.1.6. */
import type { PeerCertificate } from 'node:tls';

/** DNS names and URIs of the subject's alternative names; where there are none, its common names. */
export function certificateNames(certificate: Pick<PeerCertificate, 'subject' | 'subjectaltname'>): string[] {
  const alternatives = splitAlternativeNames(certificate.subjectaltname ?? '').flatMap((entry) => {
    const match = /^(?:DNS|URI):(.*)$/s.exec(entry);
    return match === null ? [] : [unquoted(match[1] as string)];
  });
  if (alternatives.length > 0) return alternatives;
  // Node's types know one; a subject may have several.
  const commonName = certificate.subject?.CN as string | string[] | undefined;
  return commonName === undefined ? [] : [commonName].flat();
}

/** Node quotes a name, as JSON does, where it holds a comma or a quote that could pass for a separator. */
function splitAlternativeNames(names: string): string[] {
  return names.match(/(?:[^,"]|"(?:[^"\\]|\\.)*")+/gs)?.map((entry) => entry.trimStart()) ?? [];
}

function unquoted(name: string): string {
  return name.startsWith('"') ? (JSON.parse(name) as string) : name;
}
