/** What every setting of the gRPC listener does to a whole limiter, as main.test.ts has it for the others. */
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import {
  type ClientHttp2Session,
  connect as connectHttp2,
  type SecureClientSessionOptions,
} from 'node:http2';
import { connect as connectTcp, type Socket } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { createAuthority, overwritePair, type TestAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import type { InProcessLimiter } from '../support/in-process-limiter.ts';
import { limitersOfSuite } from '../support/limiters-of-suite.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { ManualTimers } from '../support/manual-timers.ts';
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

/** Lets time go by, and the connections notice. */
function pass(ms: number): void {
  clock.ms += ms;
  timers.advance(250);
}

async function counted(limiter: InProcessLimiter, reason: string): Promise<number | undefined> {
  return (await limiter.stats()).get(`ratelimit_server.http2.${reason}`);
}

/** A session that is open from the limiter's side, too. */
async function session(
  limiter: InProcessLimiter,
  options: SecureClientSessionOptions = {},
  scheme = 'http',
): Promise<ClientHttp2Session> {
  const one = connectHttp2(`${scheme}://127.0.0.1:${limiter.ports.grpc}`, options);
  onTestFinished(() => one.destroy());
  await new Promise((resolve, reject) => {
    one.once('error', reject).once('close', () => reject(new Error('closed')));
    one.once('remoteSettings', resolve);
  });
  // Whose answer says that the limiter saw what was sent before: that its own settings were read.
  await new Promise((resolve) => one.ping(resolve));
  one.on('error', () => {});
  return one;
}

function goAways(of: ClientHttp2Session): number[] {
  const codes: number[] = [];
  of.on('goaway', (code: number) => codes.push(code));
  return codes;
}

const message = Buffer.from([0, 0, 0, 0, 0]);

/** The status of a call, usually with one message that says nothing. */
function grpcStatus(of: ClientHttp2Session, path: string, body = message): Promise<string> {
  return new Promise((resolve, reject) => {
    const headers = { ':method': 'POST', ':path': path, 'content-type': 'application/grpc', te: 'trailers' };
    const stream = of.request(headers);
    const found = (fields: Record<string, unknown>): void => {
      if (fields['grpc-status'] !== undefined) resolve(String(fields['grpc-status']));
    };
    stream.on('response', found).on('trailers', found).on('error', reject);
    stream.resume().end(body);
  });
}

const listPath = '/grpc.health.v1.Health/List';

/** A health watch, which runs until somebody ends it. */
function watch(of: ClientHttp2Session): Promise<void> {
  const stream = of.request({
    ':method': 'POST',
    ':path': '/grpc.health.v1.Health/Watch',
    'content-type': 'application/grpc',
    te: 'trailers',
  });
  stream.on('error', () => {}).end(message);
  return new Promise((resolve) => stream.once('data', () => resolve()));
}

/** With SETTINGS that say nothing. */
const clientPreface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0');

/** A caller that says the least a caller must, and then nothing any more. */
async function silentPeer(limiter: InProcessLimiter): Promise<Socket> {
  const socket = connectTcp(limiter.ports.grpc, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  const acknowledged = Buffer.from([0, 0, 0, 4, 1, 0, 0, 0, 0]);
  socket.write(Buffer.concat([clientPreface, acknowledged]));
  let bytes = 0;
  socket.on('data', (data) => {
    bytes += data.length;
  });
  // Its SETTINGS, a WINDOW_UPDATE and the acknowledgement of ours.
  await eventually(() => expect(bytes).toBeGreaterThan(30));
  return socket;
}

const hour = 3_600_000;

describe('connections', () => {
  it('are asked to end at GRPC_MAX_CONNECTION_AGE', async () => {
    for (const [value, ms] of [
      ['', 24 * hour],
      ['10m', 600_000],
    ] as const) {
      const limiter = await start(value === '' ? {} : { GRPC_MAX_CONNECTION_AGE: value });
      const codes = goAways(await session(limiter));
      pass(ms - 1);
      expect(await counted(limiter, 'connections')).toBe(1);
      expect(codes).toEqual([]);
      pass(1);
      await eventually(() => expect(codes[0]).toBe(0));
      await eventually(async () => expect(await counted(limiter, 'connections')).toBe(0));
      expect(await counted(limiter, 'max_connection_age')).toBe(0);
      await limiter.stop();
    }
  });

  it('stay for ever with GRPC_MAX_CONNECTION_AGE=0', async () => {
    const limiter = await start({ GRPC_MAX_CONNECTION_AGE: '0', GRPC_KEEPALIVE_TIME: '0' });
    const one = await session(limiter);
    pass(1_000 * 24 * hour);
    expect(await grpcStatus(one, listPath)).toBe('0');
  });

  it('are cut after GRPC_MAX_CONNECTION_AGE_GRACE, calls and all', async () => {
    for (const [value, ms] of [
      ['', hour],
      ['5s', 5_000],
    ] as const) {
      const env = { GRPC_KEEPALIVE_TIME: '0', GRPC_MAX_CONNECTION_AGE: '10m' };
      const limiter = await start({
        ...env,
        ...(value === '' ? {} : { GRPC_MAX_CONNECTION_AGE_GRACE: value }),
      });
      const one = await session(limiter);
      const codes = goAways(one);
      await watch(one);
      pass(600_000);
      await eventually(() => expect(codes).toHaveLength(2));
      pass(ms - 1);
      expect([await counted(limiter, 'connections'), one.destroyed]).toEqual([1, false]);
      pass(1);
      await eventually(() => expect(one.destroyed).toBe(true));
      expect(await counted(limiter, 'max_connection_age')).toBe(1);
      await limiter.stop();
    }
  });

  it('end when they are without a call for GRPC_MAX_CONNECTION_IDLE, if that is set', async () => {
    const patient = await start({ GRPC_KEEPALIVE_TIME: '0' });
    await session(patient);
    pass(20 * hour);
    expect([await counted(patient, 'connections'), await counted(patient, 'idle_timeout')]).toEqual([1, 0]);
    await patient.stop();

    const limiter = await start({ GRPC_MAX_CONNECTION_IDLE: '1m' });
    const codes = goAways(await session(limiter));
    pass(60_000);
    await eventually(() => expect(codes).toEqual([0]));
    expect(await counted(limiter, 'idle_timeout')).toBe(1);
  });

  it('are pinged after GRPC_KEEPALIVE_TIME, and cut GRPC_KEEPALIVE_TIMEOUT later', async () => {
    for (const [env, timeMs, timeoutMs] of [
      [{}, 2 * hour, 20_000],
      [{ GRPC_KEEPALIVE_TIME: '30s', GRPC_KEEPALIVE_TIMEOUT: '5s' }, 30_000, 5_000],
    ] as const) {
      const limiter = await start(env);
      const dead = await silentPeer(limiter);
      let pinged = false;
      dead.on('data', () => {
        pinged = true;
      });
      pass(timeMs - 1);
      expect([await counted(limiter, 'connections'), pinged]).toEqual([1, false]);
      pass(1);
      await eventually(() => expect(pinged).toBe(true));
      pass(timeoutMs - 1);
      expect(await counted(limiter, 'keepalive_timeout')).toBe(0);
      pass(1);
      expect(await counted(limiter, 'keepalive_timeout')).toBe(1);
      await limiter.stop();
    }
  });

  it('beyond GRPC_MAX_CONNECTIONS are closed at once', async () => {
    const limiter = await start({ GRPC_MAX_CONNECTIONS: '1' });
    const one = await session(limiter);
    const next = connectTcp(limiter.ports.grpc, '127.0.0.1');
    next.on('error', () => {});
    await new Promise((resolve) => next.on('close', resolve).resume());
    expect(await counted(limiter, 'too_many_connections')).toBe(1);
    expect(await grpcStatus(one, listPath)).toBe('0');
    one.destroy();
    await eventually(async () => expect(await grpcStatus(await session(limiter), listPath)).toBe('0'));
  });

  it('are shown what services there are with GRPC_REFLECTION', async () => {
    const path = '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo';
    const nothing = Buffer.alloc(0);
    const limiter = await start();
    expect(await grpcStatus(await session(limiter), path, nothing)).toBe('12');
    await limiter.stop();
    const open = await start({ GRPC_REFLECTION: 'true' });
    expect(await grpcStatus(await session(open), path, nothing)).toBe('0');
  });
});

describe('GRPC_UDS', () => {
  it.each([
    [{}, 0o660],
    [{ GRPC_UDS_MODE: '0606' }, 0o606],
  ])('answers on a socket instead of the port, with %j', async (env, mode) => {
    const path = join(temporaryFolder(), 'grpc.sock');
    const limiter = await start({ GRPC_UDS: path, ...env });
    expect(limiter.lines).toContain(`level=warning msg="Listening for gRPC on '${path}'"`);
    expect(limiter.ports.grpc).toBe(0);
    expect(statSync(path).mode & 0o777).toBe(mode);
    const one = connectHttp2('http://localhost', { createConnection: () => connectTcp(path) });
    expect(await grpcStatus(one, listPath)).toBe('0');
    await limiter.stop();
    expect(existsSync(path)).toBe(false);
    one.destroy();
  });

  it('rejects the socket of another process', async () => {
    const path = join(temporaryFolder(), 'grpc.sock');
    await start({ GRPC_UDS: path });
    const second = await start({ GRPC_UDS: path });
    expect(await second.ended).toBe(1);
    expect(second.lines.at(-1)).toBe(
      `level=fatal msg="Cannot start: GRPC_UDS: cannot listen on ${path}: another process listens on it (EADDRINUSE)"`,
    );
  });
});

describeWithServer('GRPC_SERVER_USE_TLS', opensslProgram, (openssl) => {
  interface World {
    authority: TestAuthority;
    ca: Buffer;
    env: { GRPC_SERVER_USE_TLS: string; GRPC_SERVER_TLS_CERT: string; GRPC_SERVER_TLS_KEY: string };
  }

  function makeWorld(): World {
    const authority = createAuthority(openssl, temporaryFolder(), 'authority');
    const server = authority.issue({ name: 'server', alternativeNames: 'IP:127.0.0.1' });
    return {
      authority,
      ca: readFileSync(authority.caFile),
      env: {
        GRPC_SERVER_USE_TLS: 'true',
        GRPC_SERVER_TLS_CERT: server.certFile,
        GRPC_SERVER_TLS_KEY: server.keyFile,
      },
    };
  }

  const shown = ({ certFile, keyFile }: { certFile: string; keyFile: string }) => ({
    cert: readFileSync(certFile),
    key: readFileSync(keyFile),
  });

  /** The status of a call over a connection of its own, or how that connection ended. */
  async function tlsStatus(limiter: InProcessLimiter, options: SecureClientSessionOptions): Promise<string> {
    try {
      const one = await session(limiter, options, 'https');
      return await grpcStatus(one, listPath);
    } catch {
      return 'no connection';
    }
  }

  it('answers over TLS 1.2 and 1.3, with the certificate of GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY', async () => {
    const { ca, env } = makeWorld();
    const limiter = await start(env);
    for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
      expect(await tlsStatus(limiter, { ca, minVersion: version, maxVersion: version })).toBe('0');
    }
    expect(await tlsStatus(limiter, {})).toBe('no connection');
  });

  it('has no ciphers that HTTP/2 forbids, and no renegotiation', async () => {
    const { ca, env } = makeWorld();
    const limiter = await start(env);
    const weak = { ca, maxVersion: 'TLSv1.2', ciphers: 'ECDHE-ECDSA-AES128-SHA256' } as const;
    expect(await tlsStatus(limiter, weak)).toBe('no connection');
    await eventually(async () => expect(await counted(limiter, 'tls_handshake')).toBe(1));
    expect(limiter.lines.at(-1)).toMatch(
      /^level=warning msg="A TLS handshake failed" peer="127.0.0.1:\d+" counter=tls_handshake reason="the caller supports no allowed cipher" times=1$/,
    );
    const socket = connectTls({
      ...{ port: limiter.ports.grpc, host: '127.0.0.1', ca },
      ...{ maxVersion: 'TLSv1.2', ALPNProtocols: ['h2'] },
    });
    onTestFinished(() => void socket.destroy());
    socket.on('error', () => {});
    await new Promise((resolve) => socket.once('secureConnect', resolve));
    const refusal = new Promise((resolve) => {
      socket.renegotiate({}, resolve);
      socket.on('error', resolve);
    });
    expect(await refusal).toBeInstanceOf(Error);
  });

  it('closes connections that do not choose HTTP/2, and those without TLS', async () => {
    const { ca, env } = makeWorld();
    const limiter = await start(env);
    const ends: Promise<unknown>[] = [];
    for (const ALPNProtocols of [[], ['http/1.1']]) {
      const socket = connectTls({ port: limiter.ports.grpc, host: '127.0.0.1', ca, ALPNProtocols });
      ends.push(
        new Promise((resolve) =>
          socket
            .on('error', () => {})
            .on('close', resolve)
            .resume(),
        ),
      );
    }
    const plain = connectTcp(limiter.ports.grpc, '127.0.0.1', () => plain.write(clientPreface));
    ends.push(
      new Promise((resolve) =>
        plain
          .on('error', () => {})
          .on('close', resolve)
          .resume(),
      ),
    );
    await Promise.all(ends);
    await eventually(async () =>
      expect([await counted(limiter, 'tls_no_h2'), await counted(limiter, 'tls_handshake')]).toEqual([2, 1]),
    );
    expect(await tlsStatus(limiter, { ca })).toBe('0');
  });

  it('asks callers for a certificate of GRPC_CLIENT_TLS_CACERT', async () => {
    const { authority, ca, env } = makeWorld();
    const limiter = await start({ ...env, GRPC_CLIENT_TLS_CACERT: authority.caFile });
    const stranger = createAuthority(openssl, temporaryFolder(), 'other').issue({ name: 'stranger' });
    const known = authority.issue({ name: 'proxy' });
    // Of TLS 1.3 a client thinks well until it reads: Node's own HTTP/2 does not say what it finds then.
    const isServed = (options: SecureClientSessionOptions): Promise<boolean> =>
      new Promise((resolve) => {
        const address = { port: limiter.ports.grpc, host: '127.0.0.1' };
        const socket = connectTls({ ...address, ca, ALPNProtocols: ['h2'], ...options });
        onTestFinished(() => void socket.destroy());
        socket.on('error', () => {}).on('close', () => resolve(false));
        socket.write(clientPreface);
        socket.on('data', () => {
          resolve(true);
          socket.destroy();
        });
      });
    expect(await isServed(shown(known))).toBe(true);
    expect(await isServed({})).toBe(false);
    expect(await isServed(shown(stranger))).toBe(false);
    await eventually(async () => expect(await counted(limiter, 'tls_handshake')).toBe(2));
  });

  it.each([
    ['proxy.example', 'DNS:proxy.example', true],
    ['proxy.mesh.example', 'DNS:*.mesh.example', true],
    ['proxy.example', 'DNS:other.example', false],
    ['10.1.2.3', 'IP:10.1.2.3', true],
    ['10.1.2.3', 'IP:10.1.2.4', false],
    // The common name is no name, with alternative names or without.
    ['common.example', 'DNS:other.example', false],
    ['common.example', undefined, false],
  ])('asks for the name GRPC_CLIENT_TLS_SAN=%s: %s', async (san, alternativeNames, isLetIn) => {
    const { authority, ca, env } = makeWorld();
    const limiter = await start({
      ...{ ...env, GRPC_CLIENT_TLS_CACERT: authority.caFile, GRPC_CLIENT_TLS_SAN: san },
    });
    const names = alternativeNames === undefined ? {} : { alternativeNames };
    const caller = authority.issue({ name: 'common.example', ...names });
    expect(await tlsStatus(limiter, { ca, ...shown(caller) })).toBe(isLetIn ? '0' : 'no connection');
    expect(await counted(limiter, 'tls_client_name')).toBe(isLetIn ? 0 : 1);
  });

  it('takes a new certificate for new connections, and keeps the old one while the files do not fit', async () => {
    const { authority, ca, env } = makeWorld();
    const limiter = await start({ ...env, LOG_LEVEL: 'info' });
    const [certFile, keyFile] = [env.GRPC_SERVER_TLS_CERT, env.GRPC_SERVER_TLS_KEY];
    const serial = async (): Promise<string> => {
      const { socket } = await session(limiter, { ca }, 'https');
      return (socket as ReturnType<typeof connectTls>).getPeerCertificate().serialNumber;
    };
    const before = await session(limiter, { ca }, 'https');
    const first = await serial();
    const next = authority.issue({ name: 'next', alternativeNames: 'IP:127.0.0.1' });
    writeFileSync(certFile, readFileSync(next.certFile));
    const look = (text: string) =>
      eventually(() => {
        timers.advance(5_000);
        expect(limiter.lines.filter((line) => line.includes(text))).toHaveLength(1);
      });
    await look('A new certificate cannot be used: the previous one stays in use');
    expect((await limiter.stats()).get('certs.load_failed')).toBe(1);
    expect(await serial()).toBe(first);
    overwritePair(next, { certFile, keyFile });
    await look('A new certificate is in use');
    expect(await serial()).not.toBe(first);
    expect(await grpcStatus(before, listPath)).toBe('0');
    const stats = await limiter.stats();
    const loads = ['load_attempts', 'load_failures', 'load_failed'].map((name) => stats.get(`certs.${name}`));
    expect(loads).toEqual([2, 1, 0]);
  });

  it('does not start without its files', async () => {
    const { env } = makeWorld();
    const missing = join(temporaryFolder(), 'missing.pem');
    const limiter = await start({ ...env, GRPC_SERVER_TLS_KEY: missing });
    expect(await limiter.ended).toBe(1);
    expect(limiter.lines.at(-1)).toBe(
      `level=fatal msg="Cannot start: GRPC_SERVER_TLS_KEY: ${missing}: no such file or directory"`,
    );
  });
});
