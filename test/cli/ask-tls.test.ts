import { once } from 'node:events';
import { type AddressInfo, createServer } from 'node:net';
import { fileURLToPath } from 'node:url';
import { expect, it, onTestFinished } from 'vitest';

import { type CertificatePair, createAuthority } from '../support/certificates.ts';
import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { opensslProgram } from '../support/find-server.ts';
import { startLimiterHere } from '../support/in-process-limiter.ts';
import { runWeirHere } from '../support/run-command.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { weirProgram } from '../support/weir-program.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const rules = { BACKEND_TYPE: 'memory', RUNTIME_ROOT: `${root}examples`, RUNTIME_APPDIRECTORY: 'rules' };

interface Outcome {
  status: number | null;
  /** Both streams. */
  output: string;
}

/** What `weir ask` says to a port of this machine. */
async function ask(address: string, ...flags: string[]): Promise<Outcome> {
  const question = ['-domain', 'mail', '-descriptors', 'tenant=acme', '--timeout', '20s'];
  const { status, stdout, stderr } = await runWeirHere(
    ['ask', '-dial_string', address, ...question, ...flags],
    process.env,
  );
  return { status, output: stdout + stderr };
}

const serve = (server: CertificatePair): Record<string, string> => ({
  GRPC_SERVER_USE_TLS: 'true',
  GRPC_SERVER_TLS_CERT: server.certFile,
  GRPC_SERVER_TLS_KEY: server.keyFile,
});

const show = ({ certFile, keyFile }: CertificatePair): string[] => [
  '-grpc-cert-file',
  certFile,
  '-grpc-key-file',
  keyFile,
];

const failed = (reason: string, hint: string): Outcome => ({
  status: 1,
  output: `request error: UNAVAILABLE: ${reason}\n${hint}\n`,
});

describeWithServer('weir ask over TLS', opensslProgram, (openssl) => {
  const folder = suiteFolder();
  const authority = createAuthority(openssl, folder, 'authority');
  const foreign = createAuthority(openssl, folder, 'foreign');
  const local = 'DNS:localhost,IP:127.0.0.1';
  const server = authority.issue({ name: 'server', alternativeNames: local });
  const trust = ['-grpc-use-tls', '-grpc-server-ca-file', authority.caFile];

  /** With a limiter that has these settings. */
  async function withLimiter(
    env: Record<string, string>,
    use: (at: string, httpAt: string) => Promise<void>,
  ): Promise<void> {
    const limiter = await startLimiterHere({ env: { ...rules, ...env } });
    try {
      await use(`127.0.0.1:${limiter.ports.grpc}`, `127.0.0.1:${limiter.ports.http}`);
    } finally {
      await limiter.stop();
    }
  }

  it('says which side lacks TLS, and what speaks HTTP/1.1', async () => {
    const portHint = 'The limiter answers gRPC at GRPC_PORT, 8081 by default.';
    await withLimiter({}, async (at, httpAt) => {
      const hint = 'Leave out --grpc-use-tls, or start the limiter with GRPC_SERVER_USE_TLS=true.';
      expect(await ask(at, ...trust)).toEqual(failed(`${at} does not speak TLS`, hint));
      expect(await ask(httpAt)).toEqual(failed(`${httpAt} speaks HTTP/1.1`, portHint));
      expect(await ask(httpAt, ...trust)).toEqual(failed(`${httpAt} speaks HTTP/1.1, without TLS`, portHint));
    });
    await withLimiter(serve(server), async (at) => {
      const hint = 'Add --grpc-use-tls, and --grpc-server-ca-file unless the system trusts its authority.';
      expect(await ask(at)).toEqual(failed(`${at} accepts only TLS`, hint));
      expect(await ask(at, ...trust)).toMatchObject({ status: 0, output: expect.stringMatching(/^OK\n/) });
    });
  }, 60_000);

  it('ends although the server never answers in the TLS handshake', async () => {
    const silent = createServer(() => undefined).listen(0, '127.0.0.1');
    onTestFinished(() => void silent.close());
    await once(silent, 'listening');
    const address = `127.0.0.1:${(silent.address() as AddressInfo).port}`;
    const flags = ['--dial-string', address, '--grpc-use-tls', '--timeout', '200ms'];
    const args = [weirProgram, 'ask', 'shop', 'a=b', ...flags];
    const program = new ChildProgram({ command: process.execPath, args });
    onTestFinished(async () => void (await program.stop('SIGKILL')));
    await program.printed(/ does not answer\n/);
    expect(await program.ended).toEqual({ code: 1, signal: null });
  });

  it('says what is wrong with the certificate of the limiter', async () => {
    await withLimiter(serve(server), async (at) => {
      const reason = `the certificate of ${at} is issued by CN=authority, which this client does not trust`;
      const named = 'Give a file with this authority by --grpc-server-ca-file.';
      expect(await ask(at, '-grpc-use-tls')).toEqual(failed(reason, named));
      const wrong = 'The file of --grpc-server-ca-file needs this authority.';
      const wrongFile = ['-grpc-use-tls', '-grpc-server-ca-file', foreign.caFile];
      expect(await ask(at, ...wrongFile)).toEqual(failed(reason, wrong));
    });
    const elsewhere = authority.issue({ name: 'elsewhere', alternativeNames: 'DNS:else.example' });
    await withLimiter(serve(elsewhere), async (at) => {
      const hint = 'Use a name that the certificate contains, or add this name to the certificate.';
      expect(await ask(at, ...trust)).toEqual(
        failed(`the certificate of ${at} is for DNS:else.example, not for 127.0.0.1`, hint),
      );
    });
    const old = authority.issue({ name: 'old-server', alternativeNames: local, days: -1 });
    await withLimiter(serve(old), async (at) => {
      const { status, output } = await ask(at, ...trust);
      expect(output).toMatch(
        /: the certificate of [\d.:]+ expired at [\dT:.-]+Z\nThe limiter needs a new one\.\n$/,
      );
      expect(status).toBe(1);
    });
  }, 60_000);

  it('shows a certificate, and says why it may not be taken', async () => {
    const mine = authority.issue({ name: 'mine', alternativeNames: 'DNS:me.example' });
    const other = authority.issue({ name: 'other', alternativeNames: 'DNS:other.example' });
    const old = authority.issue({ name: 'old', alternativeNames: 'DNS:me.example', days: -1 });
    const alien = foreign.issue({ name: 'alien', alternativeNames: 'DNS:me.example' });
    const callers = { GRPC_CLIENT_TLS_CACERT: authority.caFile, GRPC_CLIENT_TLS_SAN: 'me.example' };
    await withLimiter({ ...serve(server), ...callers }, async (at) => {
      expect(await ask(at, ...trust, ...show(mine))).toMatchObject({ status: 0 });
      // All flags of the Go client, with two dashes; all other questions here have one.
      const ofGo = ['--dial_string', at, '--domain', 'mail', '--descriptors', 'tenant=acme,user=x'];
      const twoDashes = [...trust, ...show(mine), '-oltp-protocol', 'http'].map((word) =>
        word.replace(/^-(?=\w)/, '--'),
      );
      const asked = await runWeirHere(['ask', ...ofGo, ...twoDashes], process.env);
      expect([asked.status, asked.stdout.split('\n')[1]]).toEqual([
        0,
        '  tenant=acme,user=x: OK, no rule limits it ("weir explain" shows why)',
      ]);
      // The alert that says so may be overtaken by the end of the connection.
      const bare = await ask(at, ...trust);
      expect(bare.output).toMatch(
        /(requires a certificate of its callers\nAdd|closed the connection in the TLS handshake\nIt may require a certificate:) --grpc-cert-file and --grpc-key-file\.\n$/,
      );
      const closed = `${at} closed the connection after it received the certificate`;
      const must =
        "GRPC_CLIENT_TLS_CACERT must contain that authority, and the names must include GRPC_CLIENT_TLS_SAN if it is set. The limiter's log has the reason.";
      expect(await ask(at, ...trust, ...show(alien))).toEqual(
        failed(closed, `It is issued by CN=foreign for DNS:me.example: ${must}`),
      );
      expect(await ask(at, ...trust, ...show(other))).toEqual(
        failed(closed, `It is issued by CN=authority for DNS:other.example: ${must}`),
      );
      expect((await ask(at, ...trust, ...show(old))).output).toMatch(
        /received the certificate\nThe certificate of --grpc-cert-file expired at [\dT:.-]+Z\.\n$/,
      );
    });
  }, 60_000);

  it('rejects files that cannot be used, before it asks', async () => {
    const half = await ask('127.0.0.1:1', ...trust, '-grpc-cert-file', server.certFile);
    expect(half.output).toMatch('weir: --grpc-cert-file and --grpc-key-file must be given together\n');
    const mine = authority.issue({ name: 'unfit' });
    const unfit = ['-grpc-cert-file', mine.certFile, '-grpc-key-file', server.keyFile];
    const wrong = await ask('127.0.0.1:1', ...trust, ...unfit);
    expect(wrong.output).toMatch(/^weir: --grpc-cert-file and --grpc-key-file: .*key values mismatch/);
    const folderAsFile = await ask('127.0.0.1:1', '-grpc-use-tls', '-grpc-server-ca-file', folder);
    expect(folderAsFile.output).toMatch(
      `weir: --grpc-server-ca-file: ${folder}: illegal operation on a directory\n`,
    );
    expect([half.status, wrong.status, folderAsFile.status]).toEqual([2, 2, 2]);
  }, 60_000);
});
