import { readFileSync } from 'node:fs';
import { createServer } from 'node:tls';
import { expect, it, onTestFinished, vi } from 'vitest';
import { ClientTls, dial } from '../../limiter/stores/client-tls.ts';
import { bind } from '../../process/net/bind.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { opensslProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describeWithServer('the client of a store', opensslProgram, (openssl) => {
  it('verifies the server, whatever the environment says', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    onTestFinished(() => void vi.unstubAllEnvs());
    const authority = createAuthority(openssl, temporaryFolder(), 'stranger');
    const { certFile, keyFile } = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) });
    server.on('tlsClientError', () => {});
    const { port } = await bind(server, { host: '127.0.0.1', port: 0 });
    onTestFinished(() => void server.close());
    const files = { certPath: '', keyPath: '', caPath: '', skipHostnameVerification: false };
    const socket = dial({ host: '127.0.0.1', port }, new ClientTls(files, () => {}));
    const outcome = new Promise((resolve) => {
      socket.on('secureConnect', () => resolve('opened'));
      socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
    });
    expect(await outcome).toBe('UNABLE_TO_VERIFY_LEAF_SIGNATURE');
  });
});
