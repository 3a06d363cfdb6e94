import type { CertificatePair, TestAuthority } from './certificates.ts';
import { freePort } from './free-port.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

export interface RedisTlsFiles {
  authority: TestAuthority;
  pair: CertificatePair;
  /** Take nobody who shows no certificate of the authority. */
  needsClient?: boolean;
}

export interface RedisTlsServerOptions extends RedisTlsFiles {
  /** The program redis-server. */
  path: string;
}

export interface RedisTlsServer {
  /** Without TLS on its own port. */
  server: RedisServer;
  tlsPort: number;
}

/** Of redis-server, besides its port. */
export function tlsArguments({ authority, pair, needsClient = false }: RedisTlsFiles): string[] {
  const files = ['--tls-cert-file', pair.certFile, '--tls-key-file', pair.keyFile];
  const trust = ['--tls-ca-cert-file', authority.caFile, '--tls-auth-clients', needsClient ? 'yes' : 'no'];
  return [...files, ...trust];
}

/** A Redis that speaks TLS on one port, and plain on another for the test itself. */
export async function startRedisTls(options: RedisTlsServerOptions): Promise<RedisTlsServer> {
  const tlsPort = await freePort();
  const args = ['--tls-port', String(tlsPort), ...tlsArguments(options)];
  const server = await startRedis({ path: options.path, args });
  return { server, tlsPort };
}
