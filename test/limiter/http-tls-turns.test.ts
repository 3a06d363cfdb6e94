import { readFileSync } from 'node:fs';
import { connect } from 'node:tls';
import { expect, it, onTestFinished } from 'vitest';
import { type HttpCall, HttpServer } from '../../process/http/http-server.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { systemTimers } from '../../process/time/clock.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describeWithServer('an HTTP connection over TLS', opensslProgram, (openssl) => {
  it('is read no further while a request waits', async () => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const { certFile, keyFile } = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    const connectionMemory = new ConnectionMemory({ maxBytes: 1e9, timers: systemTimers });
    const calls: HttpCall[] = [];
    const server = new HttpServer({
      serve: (call) => void calls.push(call),
      closeGraceMs: 0,
      onFault: (error) => {
        throw error;
      },
      tls: { cert: readFileSync(certFile), key: readFileSync(keyFile) },
      connections: { maxConnections: 10, connectionMemory, changed: () => {}, rejected: () => {} },
    });
    onTestFinished(() => server.close());
    const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
    const client = connect({ port, host: '127.0.0.1', rejectUnauthorized: false });
    onTestFinished(() => void client.destroy());
    client.on('error', () => {});
    const requests = 'GET /wait HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(2_000);
    for (let i = 0; i < 20; i++) client.write(requests);
    await eventually(() => expect(calls).toHaveLength(1));
    await new Promise((resolve) => setTimeout(resolve, 300));
    // Those of one read wait; the other nine tenths were never parsed.
    expect(calls).toHaveLength(1);
    expect(connectionMemory.bytes / 4_096).toBeLessThan(4_000);
  });
});
