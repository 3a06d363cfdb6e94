/** TLS of every listener and every client of Weir: the oldest version, other bytes than those of TLS, and files that are no good. */
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { copyFileSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect as connectTcp, createServer, type Socket } from 'node:net';
import { join } from 'node:path';
import tls, { connect as connectTls, type TLSSocket } from 'node:tls';
import { KubeConfig } from '@kubernetes/client-node';
import { beforeAll, describe, expect, it, onTestFinished } from 'vitest';
import { openAdmissionServer } from '../../control-plane/http/admission-server.ts';
import { openSecretApi } from '../../control-plane/http/secret-api.ts';
import { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { webhookAgent } from '../../control-plane/webhooks/target-address.ts';
import { AdsTransport } from '../../limiter/config-source/xds/ads-credentials.ts';
import { ClientTls, dial } from '../../limiter/stores/client-tls.ts';
import { bind } from '../../process/net/bind.ts';
import { ConnectionMemory } from '../../process/net/connection-memory.ts';
import { enforceMinimumTls } from '../../process/net/minimum-tls.ts';
import { systemClock, systemTimers, type Timers } from '../../process/time/clock.ts';
import {
  type CertificatePair,
  createAuthority,
  overwritePair,
  type TestAuthority,
} from '../support/certificates.ts';
import { recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { InProcessControlPlane } from '../support/in-process-control-plane.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { WatchedXdsSource } from '../support/watched-xds-source.ts';
import { startXdsServer } from '../support/xds-server.ts';

interface Door {
  port: number;
  /** What was logged, a text each. */
  lines(): readonly string[];
}

/** Files are looked at without the wait of five seconds. */
const quickTimers: Timers = {
  ...systemTimers,
  every: (intervalMs, callback) => systemTimers.every(intervalMs === 5_000 ? 15 : intervalMs, callback),
};
const http2Preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n';
/** With SETTINGS of no setting. RFC 9113, section 3.4. */
const http2Opening = `${http2Preface}\0\0\0\x04\0\0\0\0\0`;

async function limiter(env: Record<string, string>): Promise<InProcessLimiter> {
  const root = temporaryFolder();
  mkdirSync(join(root, 'config'));
  const started = await InProcessLimiter.start({ env: { RUNTIME_ROOT: root, ...env }, timers: quickTimers });
  onTestFinished(async () => void (await started.stop()));
  return started;
}

const telemetry = () => {
  const reported: string[] = [];
  return { reported, ...recordedTelemetry(reportTo(reported)) };
};
const connections = () => ({
  maxConnections: 100,
  connectionMemory: new ConnectionMemory({ maxBytes: 1 << 20, timers: systemTimers }),
  changed: () => {},
  rejected: () => {},
});

async function openLookup(tls?: CertificatePair): Promise<Door> {
  const { reported, ...recorded } = telemetry();
  const token = { variable: 'API_TOKEN', value: 'a-token-of-the-test' };
  const [clock, timers] = [systemClock, systemTimers];
  const options = { token, clock, timers, intervalMs: 15, closeGraceMs: 0, ...(tls && { tls }) };
  const server = await openSecretApi({ ...options, ...recorded, signingSecret: () => undefined });
  onTestFinished(() => server.close());
  return { ...(await server.listen({ host: '127.0.0.1', port: 0 })), lines: () => reported };
}

/** Each listener that speaks TLS, with what it chooses by ALPN. */
const tlsDoors: [name: string, protocols: string[], open: (pair: CertificatePair) => Promise<Door>][] = [
  ...(['GRPC', 'HTTP'] as const).map((name): (typeof tlsDoors)[number] => [
    name,
    name === 'GRPC' ? ['h2'] : [],
    async ({ certFile, keyFile }) => {
      const started = await limiter({
        [`${name}_SERVER_USE_TLS`]: 'true',
        [`${name}_SERVER_TLS_CERT`]: certFile,
        [`${name}_SERVER_TLS_KEY`]: keyFile,
      });
      const { grpc, http } = started.ports;
      return { port: name === 'GRPC' ? grpc : http, lines: () => started.lines };
    },
  ]),
  [
    'xDS',
    ['h2'],
    async (pair) => {
      const { port, events } = await startXdsServer({ tls: { ...pair, reloadIntervalMs: 15 } });
      return { port, lines: () => events.map((event) => JSON.stringify(event)) };
    },
  ],
  [
    'admission',
    [],
    async (files) => {
      const { reported, ...recorded } = telemetry();
      const answer = async () => ({ allowed: true, warnings: [] }) as const;
      const [clock, timers] = [systemClock, systemTimers];
      const options = { files, answer, clock, timers, reloadIntervalMs: 15, closeGraceMs: 0 };
      const server = await openAdmissionServer({ ...options, ...recorded, connections: connections() });
      onTestFinished(() => server.close());
      return { ...(await server.listen({ host: '127.0.0.1', port: 0 })), lines: () => reported };
    },
  ],
  ['secret lookup', [], openLookup],
];

async function openOperatorPort(): Promise<number> {
  const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: temporaryFolder(), XDS_ALLOW_ANONYMOUS: 'true' };
  const started = await InProcessControlPlane.start({ env });
  onTestFinished(async () => void (await started.stop()));
  return started.ports.http;
}

/** Each listener without TLS. */
const plainDoors: [name: string, open: () => Promise<number>, isHttp: boolean][] = [
  ['GRPC', async () => (await limiter({})).ports.grpc, false],
  ['HTTP', async () => (await limiter({})).ports.http, true],
  ['debug', async () => (await limiter({})).ports.debug, true],
  ['xDS', async () => (await startXdsServer()).port, false],
  ['secret lookup', async () => (await openLookup()).port, true],
  ["the control plane's HTTP", openOperatorPort, true],
];

/** The certificate's serial number, or the code with which the handshake ended. */
async function handshake(port: number, options: tls.ConnectionOptions): Promise<string> {
  const socket = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ...options });
  onTestFinished(() => void socket.destroy());
  try {
    await once(socket, 'secureConnect');
    return socket.getPeerCertificate().serialNumber;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code ?? 'failed';
  } finally {
    socket.destroy();
  }
}

/** Sends bytes and waits until the other side has ended the connection. */
async function refusal(port: number, bytes: string | Buffer): Promise<string> {
  const socket = connectTcp(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  let answer = '';
  socket.on('data', (data) => {
    answer += data.toString('latin1');
  });
  socket.on('error', () => {});
  socket.write(bytes);
  await new Promise((resolve) => socket.on('close', resolve));
  return answer;
}

/** What comes first from the other side. */
async function answerTo(port: number, bytes: string): Promise<string> {
  const socket = connectTcp(port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.write(bytes, 'latin1');
  const [data] = (await once(socket, 'data')) as [Buffer];
  socket.destroy();
  return data.toString('latin1');
}

/** One that is open meanwhile, and what it says when it is no more. */
async function neighborOf(open: () => Socket): Promise<() => boolean> {
  const socket = open();
  onTestFinished(() => void socket.destroy());
  let isOpen = true;
  socket
    .on('error', () => {})
    .on('close', () => {
      isOpen = false;
    });
  socket.resume();
  await once(socket, 'encrypted' in socket ? 'secureConnect' : 'connect');
  return () => isOpen;
}

const legacy = { minVersion: 'TLSv1', ciphers: 'DEFAULT@SECLEVEL=0' } as const;

/** Each way in which files of a pair can be no good; `file` is named by the error. */
const badFiles: [
  what: string,
  file: keyof CertificatePair,
  spoil: (pair: CertificatePair, next: CertificatePair) => void,
][] = [
  ['a certificate that is not there', 'certFile', ({ certFile }) => rmSync(certFile)],
  ['a key that is not there', 'keyFile', ({ keyFile }) => rmSync(keyFile)],
  ['an empty certificate', 'certFile', ({ certFile }) => writeFileSync(certFile, '')],
  ['an empty key', 'keyFile', ({ keyFile }) => writeFileSync(keyFile, '')],
  ['half a certificate', 'certFile', ({ certFile }, next) => half(next.certFile, certFile)],
  ['half a key', 'keyFile', ({ keyFile }, next) => half(next.keyFile, keyFile)],
  ['the key of another certificate', 'keyFile', ({ keyFile }, next) => copyFileSync(next.keyFile, keyFile)],
];

function half(from: string, to: string): void {
  const bytes = readFileSync(from);
  writeFileSync(to, bytes.subarray(0, bytes.length / 2));
}

describeWithServer('TLS', opensslProgram, (openssl) => {
  const folder = suiteFolder();
  let authority: TestAuthority;
  let first: CertificatePair;
  let second: CertificatePair;

  beforeAll(() => {
    authority = createAuthority(openssl, folder, 'authority');
    const alternativeNames = 'IP:127.0.0.1,DNS:localhost';
    first = authority.issue({ name: 'first', alternativeNames });
    second = authority.issue({ name: 'second', alternativeNames });
  });

  /** Of files that the test may change. */
  function copied(): CertificatePair {
    const own = temporaryFolder();
    const pair = { certFile: join(own, 'cert.pem'), keyFile: join(own, 'key.pem') };
    overwritePair(first, pair);
    return pair;
  }
  const serialOf = ({ certFile }: CertificatePair): string =>
    new X509Certificate(readFileSync(certFile)).serialNumber;

  describe.each(tlsDoors)('of the listener %s', (_, ALPNProtocols, open) => {
    it('is 1.2 or newer, and nothing else', async () => {
      const { port, lines } = await open(first);
      const isOpen = await neighborOf(() =>
        connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols }),
      );
      for (const maxVersion of ['TLSv1', 'TLSv1.1'] as const) {
        expect(await handshake(port, { ...legacy, maxVersion, ALPNProtocols })).toMatch(
          /^ERR_SSL_.*PROTOCOL_VERSION$/,
        );
      }
      for (const version of ['TLSv1.2', 'TLSv1.3'] as const) {
        const options = { minVersion: version, maxVersion: version, ALPNProtocols };
        expect(await handshake(port, options)).toBe(serialOf(first));
      }
      for (const bytes of ['GET / HTTP/1.1\r\nHost: a\r\n\r\n', http2Preface, '\0'.repeat(1_000)])
        expect(await refusal(port, bytes)).not.toContain('HTTP/1.1 2');
      await eventually(() => expect(lines().join('\n')).toContain('A TLS handshake failed'));
      expect(await handshake(port, { ALPNProtocols })).toBe(serialOf(first));
      expect(isOpen()).toBe(true);
    });

    it('keeps a good pair until there is another one, and names the file that is no good', async () => {
      const pair = copied();
      const { port, lines } = await open(pair);
      const shown = () => handshake(port, { ALPNProtocols });
      for (const [what, file, spoil] of badFiles) {
        const before = lines().length;
        spoil(pair, second);
        const reported = () =>
          lines()
            .slice(before)
            .filter((line) => line.includes('A new certificate cannot be used'));
        await eventually(() => expect([what, reported().length]).toEqual([what, 1]));
        expect([what, reported()[0]]).toEqual([what, expect.stringContaining(pair[file])]);
        expect([what, await shown()]).toEqual([what, serialOf(first)]);
        overwritePair(first, pair);
      }
      overwritePair(second, pair);
      await eventually(async () => expect(await shown()).toBe(serialOf(second)));
    });
  });

  describe.each(plainDoors)('at the plain listener %s', (_, open, isHttp) => {
    it('is rejected, and no other connection notices', async () => {
      const port = await open();
      const isOpen = await neighborOf(() => connectTcp(port, '127.0.0.1'));
      expect(await handshake(port, { ALPNProtocols: ['h2', 'http/1.1'] })).toMatch(/^(ERR_SSL_|ECONNRESET)/);
      const question = isHttp ? 'GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n' : http2Opening;
      const answer = await answerTo(port, question);
      // The type of the first frame is SETTINGS.
      expect(isHttp ? answer.slice(0, 9) : answer.charCodeAt(3)).toBe(isHttp ? 'HTTP/1.1 ' : 4);
      expect(isOpen()).toBe(true);
    });
  });

  describe('of the client', () => {
    const clientTls = (files: Partial<CertificatePair> = {}, refused = (_: string): void => {}) =>
      new ClientTls(
        {
          certPath: files.certFile ?? '',
          keyPath: files.keyFile ?? '',
          caPath: authority.caFile,
          skipHostnameVerification: false,
        },
        refused,
      );
    const fileSettings = { certPath: 'CERT', keyPath: 'KEY', caPath: 'CACERT' };
    /** Begins a connection to a port of 127.0.0.1. */
    const clients: [name: string, connect: (port: number) => void][] = [
      [
        'Redis and memcached',
        (port) => void dial({ host: '127.0.0.1', port }, clientTls()).on('error', () => {}),
      ],
      [
        'xDS',
        (port) => {
          const files = { certPath: '', keyPath: '', caPath: authority.caFile, serverName: '', fileSettings };
          void WatchedXdsSource.start({ port, tls: files });
        },
      ],
      [
        'Kubernetes API',
        (port) => {
          const config = new KubeConfig();
          config.loadFromClusterAndUser(
            {
              name: 'c',
              server: `https://127.0.0.1:${port}`,
              caFile: authority.caFile,
              skipTLSVerify: false,
            },
            { name: 'u' },
          );
          const client = new KubernetesClient({ config, userAgent: 'test', timeoutMs: 1_000 });
          client.request({ path: '/' }).catch(() => {});
        },
      ],
      [
        'webhooks',
        (port) => {
          const agent = webhookAgent({ allowLocal: true });
          const request = { origin: `https://127.0.0.1:${port}`, path: '/', method: 'GET' } as const;
          agent.request(request).catch(() => {});
          onTestFinished(() => agent.destroy());
        },
      ],
    ];

    /** The versions that the first message of a client offers. RFC 8446, section 4.2.1. */
    async function offered(connect: (port: number) => void): Promise<string[]> {
      const server = createServer();
      const { port } = await bind(server, { host: '127.0.0.1', port: 0 });
      onTestFinished(() => void server.close());
      connect(port);
      const [socket] = (await once(server, 'connection')) as [Socket];
      const [hello] = (await once(socket, 'data')) as [Buffer];
      socket.destroy();
      return versionsOf(hello);
    }

    it.each(clients)('%s is 1.2 or newer, whatever options Node has', async (_, connect) => {
      const { DEFAULT_MIN_VERSION: version, DEFAULT_CIPHERS: ciphers } = tls;
      onTestFinished(() => {
        tls.DEFAULT_MIN_VERSION = version;
        tls.DEFAULT_CIPHERS = ciphers;
      });
      tls.DEFAULT_MIN_VERSION = 'TLSv1';
      tls.DEFAULT_CIPHERS = 'DEFAULT@SECLEVEL=0';
      const careless = (port: number): TLSSocket =>
        connectTls({ port, host: '127.0.0.1' }).on('error', () => {});
      expect(await offered(careless)).toContain('TLS 1.0');
      enforceMinimumTls({});
      expect(await offered(connect)).toEqual(['TLS 1.3', 'TLS 1.2']);
    });

    /** What each client makes of a pair for one connection. */
    const users: [
      name: string,
      open: (pair: CertificatePair, refused: (reason: string) => void) => () => unknown,
    ][] = [
      [
        'Redis and memcached',
        (pair, refused) => {
          const client = clientTls(pair, refused);
          return () => client.options.secureContext;
        },
      ],
      [
        'xDS',
        ({ certFile, keyFile }, refused) => {
          const files = { certPath: certFile, keyPath: keyFile, caPath: authority.caFile, serverName: '' };
          const transport = new AdsTransport('127.0.0.1:1', { ...files, fileSettings }, refused);
          return () => transport.secureContext;
        },
      ],
    ];

    it.each(users)('%s keeps a good pair, and names the file that is no good', (_, open) => {
      const pair = copied();
      const reported: string[] = [];
      const use = open(pair, (reason) => reported.push(reason));
      for (const [what, file, spoil] of badFiles) {
        const good = use();
        reported.length = 0;
        spoil(pair, second);
        for (let i = 0; i < 3; i += 1) expect([what, use() === good]).toEqual([what, true]);
        expect([what, reported]).toEqual([what, [expect.stringContaining(pair[file])]]);
        overwritePair(first, pair);
      }
      const good = use();
      overwritePair(second, pair);
      expect(use()).not.toBe(good);
    });
  });
});

const versionNames: Readonly<Record<number, string>> = {
  769: 'TLS 1.0',
  770: 'TLS 1.1',
  771: 'TLS 1.2',
  772: 'TLS 1.3',
};

function versionsOf(hello: Buffer): string[] {
  // Record, handshake, version and random.
  let at = 5 + 4 + 2 + 32;
  at += 1 + hello.readUInt8(at);
  at += 2 + hello.readUInt16BE(at);
  at += 1 + hello.readUInt8(at);
  const end = at + 2 + hello.readUInt16BE(at);
  for (at += 2; at < end; at += 4 + hello.readUInt16BE(at + 2)) {
    if (hello.readUInt16BE(at) !== 43) continue;
    const count = hello.readUInt8(at + 4) / 2;
    return Array.from({ length: count }, (_, i) => {
      const version = hello.readUInt16BE(at + 5 + 2 * i);
      return versionNames[version] ?? version.toString(16);
    }).filter((name) => !/^.a.a$/.test(name));
  }
  return ['TLS 1.2'];
}
