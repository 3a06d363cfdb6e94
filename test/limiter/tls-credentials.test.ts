import { createPrivateKey } from 'node:crypto';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { WatchedFilesError } from '../../process/files/watched-files.ts';
import { expiryOf, type TlsFiles, watchTlsCredentials } from '../../process/net/tls-credentials.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { opensslProgram } from '../support/find-server.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

describeWithServer('watchTlsCredentials', opensslProgram, (openssl) => {
  const watch = (files: TlsFiles) =>
    watchTlsCredentials({ files, timers: new ManualTimers(), changed: () => {}, rejected: () => {} });

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

  const settings = { certFile: 'THE_CERT', keyFile: 'THE_KEY', clientCaFile: 'THE_CA' };

  /** Why these files are rejected; `PEM` stands for the file that the case is about. */
  async function refusal(files: TlsFiles, pem: string): Promise<string> {
    const error = await watchTlsCredentials({
      ...{ files, settings, timers: new ManualTimers() },
      changed: () => {},
      rejected: () => {},
    }).catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(WatchedFilesError);
    return (error as Error).message.replaceAll(pem, 'PEM');
  }

  const files = { certFile: 'THE_CERT', keyFile: 'THE_KEY', clientCaFile: 'THE_CA' } as const;
  const emptyOrNot = [
    ['', 'the file is empty'],
    [' \n', 'the file is empty'],
  ] as const;
  const cert = 'it contains no certificate (PEM)';
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  it.each<[keyof TlsFiles, string, string | RegExp]>([
    ...(Object.keys(files) as (keyof TlsFiles)[]).flatMap((file) =>
      emptyOrNot.map(([text, why]): [keyof TlsFiles, string, string] => [file, text, why]),
    ),
    ['certFile', 'certificate: none', cert],
    ['clientCaFile', 'certificate: none', cert],
    ['certFile', broken, /^its certificate cannot be read: /],
    ['clientCaFile', broken, /^its certificate cannot be read: /],
    ['keyFile', broken, 'it contains no private key (PEM)'],
    ['keyFile', broken.replaceAll('CERTIFICATE', 'PRIVATE KEY'), /^its key cannot be read: /],
  ])('rejects as %s a file that holds %j', async (file, text, why) => {
    const folder = temporaryFolder();
    const authority = createAuthority(openssl, folder, 'authority');
    const pem = join(folder, 'case.pem');
    writeFileSync(pem, text);
    const all = { ...authority.issue({ name: 'server' }), clientCaFile: authority.caFile, [file]: pem };
    const [, named, problem] = /^(\S+: PEM): (.*)$/s.exec(await refusal(all, pem)) ?? [];
    expect(named).toBe(`${files[file]}: PEM`);
    expect(problem).toMatch(why);
  });

  it('says that a key is encrypted, and which key does not belong to the certificate', async () => {
    const folder = temporaryFolder();
    const authority = createAuthority(openssl, folder, 'authority');
    const [pair, other] = [authority.issue({ name: 'server' }), authority.issue({ name: 'other' })];
    const pem = join(folder, 'encrypted.key');
    const key = createPrivateKey(readFileSync(pair.keyFile));
    const cipher = { cipher: 'aes-256-cbc', passphrase: 'secret' };
    for (const type of ['pkcs8', 'sec1'] as const) {
      writeFileSync(pem, key.export({ type, format: 'pem', ...cipher }));
      expect(await refusal({ ...pair, keyFile: pem }, pem)).toBe(
        'THE_KEY: PEM: its key is encrypted, and there is no setting for a passphrase: store it without one (openssl pkey -in FILE -out FILE)',
      );
    }
    expect(await refusal({ ...pair, keyFile: other.keyFile }, other.keyFile)).toBe(
      `THE_KEY: PEM: its key does not belong to the first certificate of ${pair.certFile}`,
    );
    const missing = join(folder, 'missing.pem');
    expect(await refusal({ ...pair, clientCaFile: missing }, missing)).toBe(
      'THE_CA: PEM: no such file or directory',
    );
  });

  it('names paths alone if there are no settings', async () => {
    const missing = join(temporaryFolder(), 'missing.pem');
    await expect(watch({ certFile: missing, keyFile: missing })).rejects.toThrow(
      `${missing}: no such file or directory`,
    );
  });

  it('knows when a certificate expires', async () => {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const { first } = await watch(authority.issue({ name: 'server', days: 7 }));
    expect(Math.abs(expiryOf(first) - Date.now() - 7 * 86_400_000)).toBeLessThan(3_600_000);
  });
});
