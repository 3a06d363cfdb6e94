import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { createAuthority } from '../test/support/certificates.ts';
import { describeWithServer } from '../test/support/describe-with-server.ts';
import { opensslProgram } from '../test/support/find-server.ts';
import { ManualTimers } from '../test/support/manual-timers.ts';
import { temporaryFolder } from '../test/support/temporary-folder.ts';
import { type TlsFiles, watchTlsCredentials } from './tls-credentials.ts';

describeWithServer('watchTlsCredentials', opensslProgram, (openssl) => {
  const watch = (files: TlsFiles) =>
    watchTlsCredentials({ files, timers: new ManualTimers(), changed: () => {}, refused: () => {} });

  it('reads a certificate with its key, and authorities', async () => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const pair = authority.issue({ name: 'server' });
    const { first } = await watch({ ...pair, clientCaFile: authority.caFile });
    expect(first).toEqual({
      cert: readFileSync(pair.certFile, 'utf8'),
      key: readFileSync(pair.keyFile, 'utf8'),
      ca: readFileSync(authority.caFile, 'utf8'),
    });
  });

  it.each([
    ['certFile', 'cert'],
    ['keyFile', 'key'],
  ] as const)('refuses an empty %s, which is no file that is missing', async (file, part) => {
    const folder = temporaryFolder();
    const pair = createAuthority(openssl, folder, 'authority').issue({ name: 'server' });
    const empty = join(folder, 'empty.pem');
    writeFileSync(empty, '');
    await expect(watch({ ...pair, [file]: empty })).rejects.toThrow(
      `not a certificate and its key: the ${part} is empty`,
    );
  });
});
