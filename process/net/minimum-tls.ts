/** Limits that no option of Node may lower for a process: verification of servers, and the oldest version of TLS. */
import tls from 'node:tls';

/** Neither listeners nor clients use older versions. RFC 8996. */
export const minimumTlsVersion = 'TLSv1.2';

const verification = 'NODE_TLS_REJECT_UNAUTHORIZED';

/**
 * Applies to all connections without a version and verification of their own, including those of libraries. Node turns verification off
 * for a whole process by an environment variable. This removes that variable, and returns whether it was set.
 */
export function enforceMinimumTls(environment: Record<string, string | undefined>): boolean {
  tls.DEFAULT_MIN_VERSION = minimumTlsVersion;
  const isOff = environment[verification] === '0';
  if (isOff) delete environment[verification];
  return isOff;
}
