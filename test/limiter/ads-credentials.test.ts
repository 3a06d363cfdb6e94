import { copyFileSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { ServerCredentials } from '@grpc/grpc-js';
import { beforeEach, expect, it, onTestFinished } from 'vitest';
import type { AdsTls } from '../../limiter/config-source/xds/ads-credentials.ts';
import { AdsServer } from '../support/ads-server.ts';
import { type CertificatePair, createAuthority, type TestAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { WatchedXdsSource } from '../support/watched-xds-source.ts';

describeWithServer('an xDS source with TLS', opensslProgram, (openssl) => {
  let folder: string;
  let authority: TestAuthority;
  let stranger: TestAuthority;
  let server: CertificatePair;
  let client: CertificatePair;
  beforeEach(() => {
    folder = temporaryFolder();
    authority = createAuthority(openssl, folder, 'authority');
    stranger = createAuthority(openssl, folder, 'stranger');
    server = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1,DNS:ads.internal' });
    client = authority.issue({ name: 'client' });
  });

  async function startServer(options: { needsClient?: boolean; port?: number } = {}): Promise<AdsServer> {
    const { needsClient = false, port = 0 } = options;
    const credentials = ServerCredentials.createSsl(
      readFileSync(authority.caFile),
      [{ cert_chain: readFileSync(server.certFile), private_key: readFileSync(server.keyFile) }],
      needsClient,
    );
    const started = await AdsServer.start({ credentials, port });
    onTestFinished(() => started.stop());
    return started;
  }

  const tls = (options: Partial<AdsTls> = {}): AdsTls => {
    const fileSettings = { certPath: 'CERT', keyPath: 'KEY', caPath: 'CACERT' };
    return { certPath: '', keyPath: '', caPath: authority.caFile, serverName: '', fileSettings, ...options };
  };

  it.each([
    ['the address', ''],
    ['the name that is set', 'ads.internal'],
    ['the address that is set', '127.0.0.1'],
  ])('trusts a certificate with %s', async (_, serverName) => {
    const ads = await startServer();
    await WatchedXdsSource.start({ port: ads.port, tls: tls({ serverName }) });
    expect(await (await ads.stream()).request()).toMatchObject({ versionInfo: '' });
  });

  it.each([
    [
      'another name than the one that is set',
      { serverName: 'other.internal' },
      "Hostname/IP does not match certificate's altnames: Host: other.internal. is not in the cert's altnames: IP Address:127.0.0.1, DNS:ads.internal",
    ],
    [
      'another address than the one that is set',
      { serverName: '127.0.0.2' },
      "Hostname/IP does not match certificate's altnames: IP: 127.0.0.2 is not in the cert's list: 127.0.0.1",
    ],
  ])('does not trust a certificate with %s', async (_, options, reason) => {
    const ads = await startServer();
    const watched = await WatchedXdsSource.start({ port: ads.port, tls: tls(options) });
    await eventually(() => expect(watched.reported[0]).toBe(`lost: ${reason}`));
    expect(ads.waiting).toBe(0);
  });

  it('does not trust a certificate of an authority that it does not know, and says so', async () => {
    const ads = await startServer();
    for (const caPath of ['', stranger.caFile]) {
      const watched = await WatchedXdsSource.start({ port: ads.port, tls: tls({ caPath }) });
      await eventually(() =>
        expect(watched.reported[0]).toBe('lost: self-signed certificate in certificate chain'),
      );
    }
    expect(ads.waiting).toBe(0);
  });

  it('says so when the server speaks no TLS', async () => {
    const ads = await AdsServer.start();
    onTestFinished(() => ads.stop());
    const watched = await WatchedXdsSource.start({ port: ads.port, tls: tls() });
    await eventually(() => expect(watched.reported[0]).toMatch(/^lost: .*wrong.version.number/i));
  });

  it('shows its own certificate if the server asks for one', async () => {
    const ads = await startServer({ needsClient: true });
    const own = { certPath: client.certFile, keyPath: client.keyFile };
    await WatchedXdsSource.start({ port: ads.port, tls: tls(own) });
    await (await ads.stream()).request();
    const other = stranger.issue({ name: 'other' });
    for (const without of [{}, { certPath: other.certFile, keyPath: other.keyFile }]) {
      const watched = await WatchedXdsSource.start({ port: ads.port, tls: tls(without) });
      await eventually(() => expect(watched.reported[0]).toMatch(/^lost: \S/));
    }
    expect(ads.waiting).toBe(0);
  });

  it('reads its files again for every connection, and keeps the last good ones', async () => {
    const caPath = join(folder, 'rotated.pem');
    copyFileSync(stranger.caFile, caPath);
    const ads = await startServer();
    const watched = await WatchedXdsSource.start({ port: ads.port, tls: tls({ caPath }) });
    await eventually(() => expect(watched.reported.length).toBeGreaterThan(1));
    rmSync(caPath);
    const missing = `files: CACERT: failed to read file: ${caPath}: no such file or directory`;
    await eventually(() => expect(watched.reported).toContain(missing));
    copyFileSync(authority.caFile, caPath);
    expect(await (await ads.stream()).request()).toMatchObject({ versionInfo: '' });
  });

  it('does not start with files that it cannot use', async () => {
    const empty = join(folder, 'empty.pem');
    writeFileSync(empty, '');
    const broken = join(folder, 'broken.pem');
    writeFileSync(broken, '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n');
    const nowhere = join(folder, 'nowhere.pem');
    const { certFile, keyFile } = client;
    const refused: [options: Partial<AdsTls>, message: string | RegExp][] = [
      [{ caPath: nowhere }, `CACERT: failed to read file: ${nowhere}: no such file or directory`],
      [{ caPath: broken }, `CACERT: failed to load the provided TLS CA certificate: ${broken}: `],
      [{ caPath: empty }, `CACERT: failed to load the provided TLS CA certificate: ${empty}`],
      [
        { certPath: nowhere, keyPath: keyFile },
        `CERT: failed to read file: ${nowhere}: no such file or directory`,
      ],
      [
        { certPath: certFile, keyPath: nowhere },
        `KEY: failed to read file: ${nowhere}: no such file or directory`,
      ],
      [
        { certPath: certFile, keyPath: empty },
        /^CERT and KEY: failed to load TLS key pair \(.*client\.pem,.*empty\.pem\): \S/,
      ],
      [
        { certPath: certFile, keyPath: server.keyFile },
        /^CERT and KEY: failed to load TLS key pair \(.*client\.pem,.*server\.key\): .*key values mismatch/,
      ],
    ];
    for (const [options, message] of refused) {
      const watched = new WatchedXdsSource({ port: 1, tls: tls(options) });
      await expect(watched.start()).rejects.toMatchObject({ code: 'bad-credentials' });
      await expect(watched.start()).rejects.toThrow(message);
    }
  });
});
