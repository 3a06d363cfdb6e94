/** A limiter with rules for the clients of other makers, over TLS or not, with an authority of its own. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createAuthority } from '../support/certificates.ts';
import { type InProcessLimiter, startLimiterHere } from '../support/in-process-limiter.ts';

export interface ServedLimiter {
  limiter: InProcessLimiter;
  /** For gRPC, at `localhost`, which is the name in its certificate. */
  port: number;
  folder: string;
  /** Undefined without TLS. */
  caFile: string | undefined;
  /** A counter of its debug page; 0 while there is none. */
  stat(name: string): Promise<number>;
  stop(): Promise<void>;
}

/** Of each value of `load`, so many calls are within the limit. */
export const loadLimit = 500;

// A year, lest a window ends while a test counts.
const rules = `domain: conformance
descriptors:
  - key: client
    rate_limit: { unit: year, requests_per_unit: 3 }
  - key: free
    rate_limit: { unit: year, requests_per_unit: 1000000 }
  - key: load
    value: ghz
    rate_limit: { unit: year, requests_per_unit: ${loadLimit} }
  - key: load
    value: h2load
    rate_limit: { unit: year, requests_per_unit: ${loadLimit} }
`;

export async function serveLimiter(options: {
  /** Path of the program; undefined: no TLS. */
  openssl?: string | undefined;
  env?: Record<string, string>;
}): Promise<ServedLimiter> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-conformance-'));
  mkdirSync(join(folder, 'rules'));
  writeFileSync(join(folder, 'rules', 'conformance.yaml'), rules);
  const { env: tlsEnv, caFile } = tlsSettings(folder, options.openssl);
  const env = {
    BACKEND_TYPE: 'memory',
    RUNTIME_ROOT: join(folder, 'rules'),
    RUNTIME_APPDIRECTORY: '.',
    ...tlsEnv,
    ...options.env,
  };
  const removeFolder = (): void => rmSync(folder, { recursive: true, force: true });
  const limiter = await startLimiterHere({ env }).catch((error: unknown) => {
    removeFolder();
    throw error;
  });
  return {
    limiter,
    port: limiter.ports.grpc,
    folder,
    caFile,
    stat: async (name) => {
      const text = await (await fetch(`http://127.0.0.1:${limiter.ports.debug}/stats`)).text();
      const line = text.split('\n').find((candidate) => candidate.startsWith(`${name}: `));
      return line === undefined ? 0 : Number(line.slice(name.length + 2));
    },
    stop: async () => {
      await limiter.stop();
      removeFolder();
    },
  };
}

function tlsSettings(
  folder: string,
  openssl: string | undefined,
): { env: Record<string, string>; caFile: string | undefined } {
  if (openssl === undefined) return { env: {}, caFile: undefined };
  const authority = createAuthority(openssl, folder, 'authority');
  const names = 'DNS:localhost,IP:127.0.0.1';
  const { certFile, keyFile } = authority.issue({ name: 'limiter', alternativeNames: names });
  const env = {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: certFile,
    GRPC_SERVER_TLS_KEY: keyFile,
  };
  return { env, caFile: authority.caFile };
}
