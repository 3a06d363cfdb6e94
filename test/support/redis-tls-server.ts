import type { CertificatePair, TestAuthority } from './certificates.ts';
import { freePort } from './free-port.ts';
import { type RedisServer, startRedis } from './redis-server.ts';

export interface RedisTlsServerOptions {
  /** The program redis-server. */
  path: string;
  authority: TestAuthority;
  pair: CertificatePair;
  /** Take nobody who shows no certificate of the authority. */
  needsClient?: boolean;
}

export interface RedisTlsServer {
  /** Without TLS on its own port. */
  server: RedisServer;
  tlsPort: number;
}

/** A Redis that speaks TLS on one port, and plain on another for the test itself. */
export async function startRedisTls(options: RedisTlsServerOptions): Promise<RedisTlsServer> {
  const { path, authority, pair, needsClient = false } = options;
  const tlsPort = await freePort();
  const files = ['--tls-cert-file', pair.certFile, '--tls-key-file', pair.keyFile];
  const trust = ['--tls-ca-cert-file', authority.caFile, '--tls-auth-clients', needsClient ? 'yes' : 'no'];
  const server = await startRedis({ path, args: ['--tls-port', String(tlsPort), ...files, ...trust] });
  return { server, tlsPort };
}
