/** What no option of Node may lower for a process: verification of servers, and the oldest version of TLS. */
import tls from 'node:tls';

/** Neither listeners nor clients speak anything older. RFC 8996. */
export const oldestTls = 'TLSv1.2';

const verification = 'NODE_TLS_REJECT_UNAUTHORIZED';

/**
 * For all connections that name no version and no verification of their own: those of libraries, too. Node turns
 * verification off for a whole process by an environment variable. Takes that out, and returns whether it was set.
 */
export function holdTlsFloor(environment: Record<string, string | undefined>): boolean {
  tls.DEFAULT_MIN_VERSION = oldestTls;
  const isOff = environment[verification] === '0';
  if (isOff) delete environment[verification];
  return isOff;
}
