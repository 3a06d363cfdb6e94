/** What a caller learns about a failed store: the kind of failure. Only the log contains the address of the store. */

const ipv4 = String.raw`\d{1,3}(?:\.\d{1,3}){3}`;
const ipv6 = String.raw`\[[0-9a-f:.%]+\]|(?<![\w:])(?:[0-9a-f]{0,4}:){2,}[0-9a-f:.]*`;
/** A name counts as an address if a port follows it. */
const named = String.raw`[\w-]+(?:\.[\w-]+)*\.?(?=:\d{1,5}\b)`;
const address = new RegExp(`(?:${ipv6}|${ipv4}|${named})(?::\\d{1,5}\\b)?`, 'gi');

/** The text without addresses and host names. */
export function textForCallers(text: string): string {
  return (
    text
      // TLS lists the names of the certificate.
      .replace(/\b(certificate's altnames)\b.*/s, '$1')
      .replace(/\b(getaddrinfo|query[A-Z]\w*) (E?[A-Z_]+) \S+/g, '$1 $2')
      .replace(/\b(connect E[A-Z]+) \S+/g, '$1')
      .replace(address, '(address)')
      .replace(/(?<![\w)])\/[\w.-]+(?:\/[\w.-]+)+/g, '(path)')
  );
}
