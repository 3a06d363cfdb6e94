/** What an operator reads of callers that misbehave, of TLS that does not come about, and of certificates. */
import { spawn } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, type NetConnectOpts, type Socket } from 'node:net';
import { join } from 'node:path';
import { type ConnectionOptions, connect as connectTls } from 'node:tls';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { ManualTimers } from '../support/manual-timers.ts';
import { headersFrame } from '../support/socket-peer.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

let clock: ManualClock;
let timers: ManualTimers;

beforeEach(() => {
  clock = new ManualClock();
  timers = new ManualTimers();
});

const start = limitersOfSuite(() => ({
  clock,
  timers,
  random: () => 0.5,
  env: { FORCE_START_WITHOUT_INITIAL_CONFIG: 'true', RUNTIME_ROOT: temporaryFolder() },
}));

/** Without what an empty folder of rules gives, whenever that is. */
const reported = (limiter: InProcessLimiter): string[] =>
  limiter.lines.filter((line) => !line.includes('No rules are loaded'));

const counted = async (limiter: InProcessLimiter, name: string) =>
  (await limiter.stats()).get(`ratelimit_server.http2.${name}`);

/** With SETTINGS that say nothing, and the acknowledgement of the server's. */
const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');
const settingsAck = Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]);
const ping = Buffer.from([0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);

interface Caller {
  socket: Socket;
  /** As the limiter names it. */
  name(): string;
  received(): string;
  /** Until the limiter ended the connection. */
  closed: Promise<void>;
}

function watched(socket: Socket): Caller {
  onTestFinished(() => void socket.destroy());
  const chunks: Buffer[] = [];
  let name = '';
  socket.on('connect', () => {
    name = `127.0.0.1:${socket.localPort}`;
  });
  const closed = new Promise<void>((resolve) => socket.on('close', () => resolve()));
  socket.on('error', () => {}).on('data', (chunk: Buffer) => chunks.push(chunk));
  return { socket, name: () => name, received: () => Buffer.concat(chunks).toString('latin1'), closed };
}

function call(to: NetConnectOpts, ...bytes: Buffer[]): Caller {
  const caller = watched(connectTcp(to));
  caller.socket.write(Buffer.concat(bytes));
  return caller;
}

const grpcOf = (limiter: InProcessLimiter) => ({ port: limiter.ports.grpc, host: '127.0.0.1' });
const http1 = Buffer.from('GET / HTTP/1.1\r\n\r\n');

const ended = 'level=warning msg="Rejected or ended a connection because of its peer"';
const notHttp2 = 'reason="it does not speak HTTP/2 (perhaps HTTP/1.1, or TLS on a port without TLS)"';

describe('a caller that misbehaves', () => {
  it('is named in one line a minute for each reason, with how many there were since', async () => {
    const limiter = await start({ GRPC_MAX_CONNECTIONS: '1' });
    const grpc = grpcOf(limiter);
    const first = call(grpc, http1);
    await first.closed;
    for (let times = 0; times < 2; times += 1) await call(grpc, http1).closed;
    const line = (peer: string, times: number) =>
      `${ended} peer="${peer}" counter=not_http2 ${notHttp2} times=${times}`;
    await eventually(async () => expect(await counted(limiter, 'not_http2')).toBe(3));
    expect(reported(limiter).filter((one) => one.startsWith(ended))).toEqual([line(first.name(), 1)]);

    const kept = call(grpc, preface, settingsAck);
    await eventually(async () => expect(await counted(limiter, 'connections')).toBe(1));
    const beyond = call(grpc);
    await beyond.closed;
    await eventually(() =>
      expect(reported(limiter).at(-1)).toBe(
        `${ended} peer="${beyond.name()}" counter=too_many_connections reason="the maximum number of connections is open" times=1`,
      ),
    );
    kept.socket.destroy();
    await eventually(async () => expect(await counted(limiter, 'connections')).toBe(0));

    clock.ms += 60_000;
    const last = call(grpc, http1);
    await last.closed;
    await eventually(() => expect(reported(limiter).at(-1)).toBe(line(last.name(), 3)));
  });

  it('is named if it does not end a request, and keeps its connection', async () => {
    const limiter = await start();
    const fields = [':method', 'POST', ':scheme', 'http', ':path', '/grpc.health.v1.Health/Check'];
    fields.push(':authority', 'a', 'te', 'trailers', 'content-type', 'application/grpc');
    const pairs = Array.from({ length: 6 }, (_, at) => fields.slice(2 * at, 2 * at + 2) as [string, string]);
    const caller = call(grpcOf(limiter), preface, settingsAck, headersFrame(1, pairs));
    await eventually(async () => expect(await counted(limiter, 'connections')).toBe(1));
    // By then its bytes have been read.
    caller.socket.write(ping);
    await eventually(() => expect(caller.received()).toContain(ping.subarray(9).toString('latin1')));
    clock.ms += 60_000;
    timers.advance(250);
    await eventually(async () => expect(await counted(limiter, 'unfinished_request')).toBe(1));
    expect(reported(limiter).at(-1)).toBe(
      `level=warning msg="Reset a request because of its peer" peer="${caller.name()}" counter=unfinished_request reason="it did not complete a request in time" times=1`,
    );
    expect(await counted(limiter, 'connections')).toBe(1);
  });

  it('is shown why in the debug data of GOAWAY', async () => {
    const limiter = await start();
    const caller = call(grpcOf(limiter), preface, settingsAck, ...Array.from({ length: 1_100 }, () => ping));
    await caller.closed;
    const reason =
      'too many frames that are not requests: SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA';
    expect(caller.received()).toContain(`control_flood: ${reason}`);
    expect(reported(limiter).at(-1)).toBe(
      `${ended} peer="${caller.name()}" counter=control_flood reason="${reason}" times=1`,
    );
  });

  it('is counted when its age, or its time without a call, is up before it began', async () => {
    const limiter = await start({ GRPC_MAX_CONNECTION_AGE: '5s', LOG_LEVEL: 'info' });
    const caller = call(grpcOf(limiter));
    await eventually(async () => expect(await counted(limiter, 'connections')).toBe(1));
    clock.ms += 5_000;
    timers.advance(250);
    await caller.closed;
    expect(await counted(limiter, 'preface_timeout')).toBe(1);
    expect(reported(limiter).at(-1)).toBe(
      `${ended} peer="${caller.name()}" counter=preface_timeout reason="it did not begin HTTP/2 in time" times=1`,
    );
    await limiter.stop();

    const hasty = await start({ GRPC_MAX_CONNECTION_IDLE: '2s', LOG_LEVEL: 'info' });
    const silent = call(grpcOf(hasty));
    await eventually(async () => expect(await counted(hasty, 'connections')).toBe(1));
    clock.ms += 2_000;
    timers.advance(250);
    await silent.closed;
    expect(await counted(hasty, 'idle_timeout')).toBe(1);
    expect(reported(hasty).at(-1)).toBe(
      `level=info msg="Ended a connection" peer="${silent.name()}" counter=idle_timeout reason="it made no call for too long" times=1`,
    );
  });

  it('is a "unix socket" if it has no address', async () => {
    const path = join(temporaryFolder(), 'grpc.sock');
    const limiter = await start({ GRPC_UDS: path });
    await call({ path }, http1).closed;
    expect(reported(limiter).at(-1)).toBe(
      `${ended} peer="unix socket" counter=not_http2 ${notHttp2} times=1`,
    );
  });
});

describe('GRPC_UDS', () => {
  it('says what is wrong with its folder', async () => {
    const folder = join(temporaryFolder(), 'missing');
    const limiter = await start({ GRPC_UDS: `${folder}/grpc.sock` });
    expect(await limiter.ended).toBe(1);
    expect(reported(limiter).at(-1)).toBe(
      `level=fatal msg="Cannot start: GRPC_UDS: cannot listen on ${folder}/grpc.sock: there is no folder ${folder}: create it, or mount it (ENOENT)"`,
    );
  });
});

describeWithServer('TLS', opensslProgram, (openssl) => {
  interface World {
    authority: TestAuthority;
    ca: Buffer;
    files: CertificatePair;
    env: Record<string, string>;
  }

  function makeWorld(days?: number): World {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const wish = {
      name: 'server',
      alternativeNames: 'IP:127.0.0.1',
      ...(days === undefined ? {} : { days }),
    };
    const files = authority.issue(wish);
    const env = {
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: files.certFile,
      GRPC_SERVER_TLS_KEY: files.keyFile,
    };
    return { authority, ca: readFileSync(authority.caFile), files, env };
  }

  const shown = ({ certFile, keyFile }: CertificatePair) => ({
    cert: readFileSync(certFile),
    key: readFileSync(keyFile),
  });

  function callTls(limiter: InProcessLimiter, options: ConnectionOptions): Caller {
    const caller = watched(connectTls({ ...grpcOf(limiter), ALPNProtocols: ['h2'], ...options }));
    caller.socket.write(preface);
    return caller;
  }

  const failure = (peer: string, reason: string, times = 1, counter = 'tls_handshake') =>
    `level=warning msg="A TLS handshake failed" peer="${peer}" counter=${counter} reason="${reason}" times=${times}`;

  it('reports each reason by itself, with the peer, what the caller did', async () => {
    const { authority, ca, env } = makeWorld();
    const limiter = await start({ ...env, GRPC_CLIENT_TLS_CACERT: authority.caFile });
    const expired = shown(authority.issue({ name: 'expired', days: -1 }));
    const foreign = shown(createAuthority(openssl, temporaryFolder(), 'other').issue({ name: 'foreign' }));
    const stranger =
      "the caller's certificate is from an unknown authority (UNABLE_TO_VERIFY_LEAF_SIGNATURE)";
    const cases: [options: ConnectionOptions, reason: string, counter?: string][] = [
      [{ ...expired, maxVersion: 'TLSv1.3' }, "the caller's certificate has expired"],
      [{ ...foreign, maxVersion: 'TLSv1.3' }, stranger],
      [{}, 'the caller sent no certificate'],
      [{ ALPNProtocols: ['http/1.1'] }, 'the caller does not choose HTTP/2 (ALPN h2)', 'tls_no_h2'],
      [
        { minVersion: 'TLSv1', maxVersion: 'TLSv1.1', ciphers: 'DEFAULT@SECLEVEL=0' },
        'the caller supports no allowed version of TLS (1.2 and 1.3)',
      ],
    ];
    for (const [options, reason, counter] of cases) {
      const caller = callTls(limiter, { ca, ...options });
      await caller.closed;
      const line = failure(caller.name(), reason, 1, counter);
      await eventually(() => expect(reported(limiter).at(-1)).toBe(line));
    }
    expect([await counted(limiter, 'tls_handshake'), await counted(limiter, 'tls_no_h2')]).toEqual([4, 1]);
    // The same by TLS 1.2 is no other reason.
    const before = reported(limiter).length;
    for (const options of [expired, foreign]) {
      await callTls(limiter, { ca, ...options, maxVersion: 'TLSv1.2' }).closed;
    }
    await eventually(async () => expect(await counted(limiter, 'tls_handshake')).toBe(6));
    expect(reported(limiter)).toHaveLength(before);
    clock.ms += 60_000;
    const again = callTls(limiter, { ca, ...expired });
    await again.closed;
    const line = failure(again.name(), "the caller's certificate has expired", 2);
    await eventually(() => expect(reported(limiter).at(-1)).toBe(line));
  });

  it('reports clients that speak another protocol, send nothing until the end, or leave halfway', async () => {
    const { env } = makeWorld();
    const limiter = await start(env);
    const grpc = grpcOf(limiter);
    const halfHello = Buffer.from([0x16, 3, 1, 0, 100, 1, 0]);
    const http = call(grpc, http1);
    await http.closed;
    await eventually(() =>
      expect(reported(limiter).at(-1)).toBe(failure(http.name(), 'the caller does not speak TLS')),
    );
    const plain = call(grpc, preface);
    await plain.closed;
    await eventually(async () => expect(await counted(limiter, 'tls_handshake')).toBe(2));
    const halfway = call(grpc, halfHello);
    halfway.socket.end();
    await eventually(() =>
      expect(reported(limiter).at(-1)).toBe(
        failure(halfway.name(), 'the caller hung up during the handshake'),
      ),
    );
    expect(await counted(limiter, 'tls_handshake')).toBe(3);
  });

  it('says that a caller does not trust the certificate', async () => {
    const { env } = makeWorld();
    const limiter = await start(env);
    const other = createAuthority(openssl, temporaryFolder(), 'other');
    const client = spawn(
      openssl,
      ['s_client', '-connect', `127.0.0.1:${limiter.ports.grpc}`, '-alpn', 'h2', '-CAfile', other.caFile]
        // Which ends the handshake with an alert.
        .concat('-verify_return_error'),
      { stdio: 'ignore' },
    );
    await new Promise((resolve) => client.once('close', resolve));
    await eventually(async () => expect(await counted(limiter, 'tls_handshake')).toBe(1));
    // The alert may be lost where the caller hangs up at once.
    expect(reported(limiter).at(-1)).toMatch(
      /^level=warning msg="A TLS handshake failed" peer="127\.0\.0\.1:\d+" counter=tls_handshake reason="the caller (hung up during the handshake, perhaps because it )?does not trust the server's certificate( \(unknown ca\))?" times=1$/,
    );
  });

  it('neither counts nor logs clients that connect and leave without a message', async () => {
    const { authority, env } = makeWorld();
    for (const more of [{}, { GRPC_CLIENT_TLS_CACERT: authority.caFile }]) {
      const limiter = await start({ ...env, ...more });
      const before = reported(limiter).length;
      for (const leave of ['end', 'resetAndDestroy', 'end'] as const) {
        const probe = watched(connectTcp(grpcOf(limiter)));
        await new Promise((resolve) => probe.socket.once('connect', resolve));
        probe.socket[leave]();
        await probe.closed;
      }
      const http = call(grpcOf(limiter), http1);
      await http.closed;
      await eventually(() => expect(reported(limiter).length).toBeGreaterThan(before));
      expect(reported(limiter).slice(before)).toEqual([
        failure(http.name(), 'the caller does not speak TLS'),
      ]);
      expect(await counted(limiter, 'tls_handshake')).toBe(1);
      await limiter.stop();
    }
  });

  it('is reported on a Unix socket, too', async () => {
    const { env } = makeWorld();
    const path = join(temporaryFolder(), 'grpc.sock');
    const limiter = await start({ ...env, GRPC_UDS: path });
    const probe = call({ path });
    probe.socket.end();
    await probe.closed;
    await call({ path }, http1).closed;
    await eventually(() =>
      expect(reported(limiter).at(-1)).toBe(failure('unix socket', 'the caller does not speak TLS')),
    );
    expect(await counted(limiter, 'tls_handshake')).toBe(1);
  });

  it('ends in order what has another name than GRPC_CLIENT_TLS_SAN', async () => {
    const { authority, ca, env } = makeWorld();
    const limiter = await start({
      ...{ ...env, GRPC_CLIENT_TLS_CACERT: authority.caFile, GRPC_CLIENT_TLS_SAN: 'proxy.example' },
    });
    const caller = callTls(limiter, { ca, ...shown(authority.issue({ name: 'other' })) });
    const ends: string[] = [];
    caller.socket.on('end', () => ends.push('end')).on('error', () => ends.push('error'));
    await caller.closed;
    expect(ends).toEqual(['end']);
    expect(reported(limiter).at(-1)).toBe(
      failure(caller.name(), "the caller's certificate does not contain proxy.example", 1, 'tls_client_name'),
    );
  });

  it('says that a new certificate is in use after one that was not, and until when', async () => {
    clock.ms = Date.now();
    const { authority, files, env } = makeWorld(30);
    const limiter = await start(env);
    const expiry = async () => (await limiter.stats()).get('certs.expires_at_seconds') ?? 0;
    const first = await expiry();
    expect(Math.abs(first - Date.now() / 1000 - 30 * 86_400)).toBeLessThan(3_600);
    const before = reported(limiter).length;
    const next = authority.issue({ name: 'next', alternativeNames: 'IP:127.0.0.1', days: 60 });
    const look = (wanted: string[]) =>
      eventually(() => {
        timers.advance(5_000);
        expect(reported(limiter).slice(before)).toEqual(wanted);
      });
    writeFileSync(files.certFile, readFileSync(next.certFile));
    const refused = `level=error msg="A new certificate cannot be used: the previous one stays in use" listener=gRPC reason="GRPC_SERVER_TLS_KEY: ${files.keyFile}: its key does not belong to the first certificate of ${files.certFile}"`;
    await look([refused]);
    expect(await expiry()).toBe(first);
    overwritePair(next, files);
    await eventually(async () => {
      timers.advance(5_000);
      expect(await expiry()).toBeGreaterThan(first);
    });
    const expires = new Date(1000 * (await expiry())).toISOString();
    await look([
      refused,
      `level=warning msg="A new certificate is in use" listener=gRPC expires="${expires}"`,
    ]);
    // What works is reported at the level info alone.
    overwritePair(authority.issue({ name: 'third', alternativeNames: 'IP:127.0.0.1', days: 90 }), files);
    const second = await expiry();
    await eventually(async () => {
      timers.advance(5_000);
      expect(await expiry()).toBeGreaterThan(second);
    });
    expect(reported(limiter)).toHaveLength(before + 2);
  });

  it.each([
    [-1, 'has expired'],
    [1, 'expires within a day'],
  ])('warns at the start of a certificate of %i days', async (days, text) => {
    const { env } = makeWorld(days);
    clock.ms = Date.now() + 60_000;
    const limiter = await start(env);
    const expires = new Date(
      1000 * ((await limiter.stats()).get('certs.expires_at_seconds') ?? 0),
    ).toISOString();
    expect(reported(limiter)).toContain(
      `level=warning msg="The certificate of the gRPC listener ${text}" expires="${expires}"`,
    );
  });
});
