/** What TLS says in plain words; its own text also names places in the library's source. */
export function tlsErrorText(error: Error): string | undefined {
  const { code, reason } = error as { code?: unknown; reason?: unknown };
  if (typeof code !== 'string' || !code.startsWith('ERR_SSL_') || typeof reason !== 'string')
    return undefined;
  return `TLS: ${reason}`;
}
