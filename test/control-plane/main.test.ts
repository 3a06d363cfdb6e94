/** What every setting does to a whole control plane: the tests that notice a setting read, checked and then not handed on. */
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { request as httpsRequest } from 'node:https';
import { type AddressInfo, connect, createServer } from 'node:net';
import { join } from 'node:path';
import { connect as connectTls } from 'node:tls';
import { credentials } from '@grpc/grpc-js';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { controlPlaneSettingGroups } from '../../control-plane/settings/table.ts';
import { systemTimers, type Timers } from '../../process/time/clock.ts';
import { type CertificatePair, createAuthority, overwritePair } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import {
  InProcessControlPlane,
  type InProcessControlPlaneOptions,
} from '../support/in-process-control-plane.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { describeSettingRows } from '../support/setting-tests.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { verified, WebhookReceiver } from '../support/webhook-receiver.ts';
import { ScriptedXdsClient, type ScriptedXdsClientOptions } from '../support/xds-client.ts';

const folder = suiteFolder();

function writeFile(path: string, text: string): string {
  const full = join(folder, path);
  mkdirSync(join(full, '..'), { recursive: true });
  writeFileSync(full, text);
  return full;
}

function writeManifest(directory: string, domain: string, fleet = 'default', name = domain): void {
  const text = rateLimitConfigText({ name, domain, fleet, requests: 5 });
  writeFile(`${directory}/${name}.json`, text);
}

writeManifest('usual', 'shop');
writeManifest('fleets', 'blue', 'blue');
writeManifest('fleets', 'green', 'green');
for (const name of ['one', 'two', 'three', 'four']) writeManifest('several', name);
writeManifest('twice', 'same', 'default', 'first');
writeFile(
  'twice/second.json',
  JSON.stringify({
    ...JSON.parse(rateLimitConfigText({ name: 'second', domain: 'same', requests: 5 })),
    spec: { domain: 'same', descriptors: [{ key: 'other', rateLimit: { unit: 'day', requestsPerUnit: 1 } }] },
  }),
);

const common = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: join(folder, 'usual') };
const several = { MANIFESTS_DIRECTORY: join(folder, 'several') };
const fleets = { MANIFESTS_DIRECTORY: join(folder, 'fleets') };

const secretOf = (fill: number): string => `whsec_${Buffer.alloc(32, fill).toString('base64')}`;
const [firstSecret, secondSecret] = [secretOf(1), secretOf(2)];
/** Written anew by each test that reads it. */
const secretFile = join(folder, 'secret');
const tokenFile = writeFile('token', 'T0KEN-IN-A-FILE-\n');

const running: InProcessControlPlane[] = [];
const clients: ScriptedXdsClient[] = [];

/** Nobody waits five seconds for a look at a file. */
const hasty: Timers = {
  after: (delayMs, callback) => systemTimers.after(delayMs, callback),
  every: (intervalMs, callback) => systemTimers.every(Math.min(intervalMs, 20), callback),
};

async function start(
  env: Record<string, string> = {},
  options: Partial<InProcessControlPlaneOptions> = {},
): Promise<InProcessControlPlane> {
  const controlPlane = await InProcessControlPlane.start({
    timers: hasty,
    random: () => 0.5,
    hostName: 'this-machine',
    ...options,
    env: { ...common, ...env },
  });
  running.push(controlPlane);
  return controlPlane;
}

function connectLimiter(port: number, options: Partial<ScriptedXdsClientOptions> = {}): ScriptedXdsClient {
  const client = new ScriptedXdsClient({ port, reconnects: false, ...options });
  clients.push(client);
  return client;
}

let receiver: WebhookReceiver;
beforeAll(async () => {
  receiver = await new WebhookReceiver().start();
});
afterAll(() => receiver.stop());
afterEach(async () => {
  for (const client of clients.splice(0)) client.close();
  // Ends what it left unanswered.
  await receiver.answer(204).stop();
  await Promise.all(running.splice(0).map((controlPlane) => controlPlane.stop()));
  receiver.deliveries.length = 0;
  await receiver.start();
});

interface Row {
  setting: string;
  /** By the value of the setting; `unset` is none. */
  seen: Record<string, unknown>;
  /** What it takes to see something. */
  env?: Record<string, string>;
  /** Comes before the start. */
  prepare?(): void;
  observe(controlPlane: InProcessControlPlane): unknown;
}

/** Set aside for documentation, so no machine has it. */
const foreignAddress = '192.0.2.1';
const other = createServer();
other.listen(0, '127.0.0.1');
await once(other, 'listening');
afterAll(() => void other.close());
const taken = String((other.address() as AddressInfo).port);

/** The listeners that opened, in order, and why another one did not. */
function listeners({ lines }: InProcessControlPlane): string[] {
  return lines.flatMap(
    (line) => /(?<=Listening for )[\w ]+(?= on)|cannot listen on .*?\)/.exec(line)?.[0] ?? [],
  );
}

/** Domains by fleet, once something is decided. */
async function domains(controlPlane: InProcessControlPlane): Promise<Record<string, string[]>> {
  await eventually(async () => expect((await controlPlane.get('/readyz')).status).toBe(200));
  const { fleets: pages } = await controlPlane.snapshot();
  return Object.fromEntries(
    pages.map(({ fleet, resources }: { fleet: string; resources: { domain: string }[] }) => [
      fleet,
      resources.map(({ domain }) => domain),
    ]),
  );
}

/** Why each object is accepted or not. */
async function reasons(controlPlane: InProcessControlPlane): Promise<string[]> {
  await domains(controlPlane);
  const { fleets: pages } = await controlPlane.snapshot();
  return pages.flatMap(({ objects }: { objects: { name: string; accepted: { reason: string } }[] }) =>
    objects.map(({ name, accepted }) => `${name}: ${accepted.reason}`),
  );
}

const foreign = `cannot listen on ${foreignAddress}:0: address not available (EADDRNOTAVAIL)`;
const inUse = `cannot listen on 127.0.0.1:${taken}: address already in use (EADDRINUSE)`;
const apiToken = 'T0KEN-OF-THE-API';
const withToken = { API_TOKEN: apiToken };
const allOpen = ['HTTP', 'xDS', 'the secret lookup'];

const listenerRows: Row[] = [
  ['HOST', foreignAddress, [foreign]] as const,
  ['PORT', taken, [inUse]] as const,
  ['XDS_HOST', foreignAddress, ['HTTP', foreign]] as const,
  ['XDS_PORT', taken, ['HTTP', inUse]] as const,
  ['API_HOST', foreignAddress, ['HTTP', 'xDS', foreign]] as const,
  ['API_PORT', taken, ['HTTP', 'xDS', inUse]] as const,
].map(([setting, value, seen]) => ({
  setting,
  env: { ...withToken, XDS_ALLOW_ANONYMOUS: 'true', API_ALLOW_PLAIN: 'true' },
  seen: { unset: allOpen, [value]: seen },
  observe: listeners,
}));

const sourceRows: Row[] = [
  {
    setting: 'SOURCE',
    seen: {
      DIRECTORY: 'the directory',
      KUBERNETES: 'MANIFESTS_DIRECTORY: has an effect only with SOURCE=DIRECTORY',
    },
    observe: async (controlPlane) => {
      const refusal = /MANIFESTS_DIRECTORY: has an effect only with SOURCE=DIRECTORY/.exec(
        controlPlane.lines.join(),
      );
      return refusal?.[0] ?? ((await domains(controlPlane))['default'] && 'the directory');
    },
  },
  {
    setting: 'MANIFESTS_DIRECTORY',
    seen: {
      [common.MANIFESTS_DIRECTORY]: { default: ['shop'] },
      [fleets.MANIFESTS_DIRECTORY]: { blue: ['blue'], green: ['green'] },
    },
    observe: domains,
  },
  {
    setting: 'CLASS_NAME',
    seen: { unset: { default: ['shop'] }, edge: {} },
    observe: domains,
  },
  {
    setting: 'MERGE_DOMAIN_CONFIG',
    env: { MANIFESTS_DIRECTORY: join(folder, 'twice') },
    seen: {
      unset: ['default/first: Valid', 'default/second: DomainConflict'],
      true: ['default/first: Valid', 'default/second: Valid'],
    },
    observe: reasons,
  },
  {
    setting: 'DOMAIN_OWNERS',
    seen: { unset: ['default/shop: Valid'], 'sh*=shops': ['default/shop: DomainNotAllowed'] },
    observe: reasons,
  },
  {
    setting: 'DOMAIN_OWNERSHIP',
    seen: {
      unset: ['default/shop: Valid'],
      claimed: ['default/shop: DomainNotAllowed'],
    },
    observe: reasons,
  },
];

/** A connection that says hello in HTTP/2 and then nothing: what it still hears, and whether it is cut. */
async function silentConnection(port: number, ms: number): Promise<{ pings: number; isCut: boolean }> {
  const socket = connect(port, '127.0.0.1');
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  socket.write('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
  // RFC 9113, section 6.5: SETTINGS without any, then its acknowledgement.
  socket.write(Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 1, 0, 0, 0, 0]));
  let isCut = false;
  const closed = once(socket, 'close').then(() => {
    isCut = true;
  });
  let cancel = (): void => {};
  await Promise.race([closed, new Promise<void>((resolve) => (cancel = systemTimers.after(ms, resolve)))]);
  cancel();
  const wasCut = isCut;
  socket.destroy();
  return { pings: frames(Buffer.concat(chunks)).filter((type) => type === 6).length, isCut: wasCut };
}

/** Types of the frames in what a peer sent. RFC 9113, section 4.1. */
function frames(bytes: Buffer): number[] {
  const types: number[] = [];
  for (let at = 0; at + 9 <= bytes.length; at += 9 + bytes.readUIntBE(at, 3))
    types.push(bytes[at + 3] as number);
  return types;
}

const limiterToken = 'T0KEN-OF-A-LIMITER';
const limiterTokens = writeFile('limiter-tokens', `edge ${limiterToken}\n`);

const limiterRows: Row[] = [
  {
    setting: 'XDS_TOKENS_FILE',
    seen: { unset: [['shop'], ['shop']], [limiterTokens]: [['shop'], '16 UNAUTHENTICATED'] },
    observe: ({ ports }) =>
      Promise.all(
        [{ authorization: () => `Bearer ${limiterToken}` }, {}].map(async (shown) => {
          const client = connectLimiter(ports.xds, shown);
          await eventually(() => expect(client.last ?? client.ends[0]).toBeDefined());
          return client.last?.domains ?? client.ends[0]?.replace(/:.*/s, '');
        }),
      ),
  },
  {
    setting: 'XDS_ALLOW_ANONYMOUS',
    env: { XDS_HOST: '0.0.0.0' },
    seen: {
      unset: 'XDS_ALLOW_ANONYMOUS: with XDS_HOST=0.0.0.0 anyone who reaches that port would get all rules',
      true: ['shop'],
    },
    observe: async (controlPlane) => {
      const refusal = /XDS_ALLOW_ANONYMOUS: with .* all rules/.exec(controlPlane.lines.join());
      if (refusal !== null) return refusal[0];
      const client = connectLimiter(controlPlane.ports.xds);
      await eventually(() => expect(client.last).toBeDefined());
      return client.last?.domains;
    },
  },
  {
    setting: 'XDS_MAX_STREAMS',
    seen: { unset: 0, 1: 1 },
    observe: async (controlPlane) => {
      const pair = [connectLimiter(controlPlane.ports.xds), connectLimiter(controlPlane.ports.xds)];
      const settled = (): number => pair.filter(({ last, ends }) => (last ?? ends[0]) !== undefined).length;
      await eventually(() => expect(settled()).toBe(2));
      return pair.flatMap(({ ends }) => ends).filter((end) => end.startsWith('8 RESOURCE_EXHAUSTED')).length;
    },
  },
  {
    setting: 'XDS_KEEPALIVE_INTERVAL',
    seen: { unset: 0, '1s': 1 },
    observe: async ({ ports }) => (await silentConnection(ports.xds, 1_700)).pings,
  },
  {
    setting: 'XDS_KEEPALIVE_TIMEOUT',
    env: { XDS_KEEPALIVE_INTERVAL: '1s' },
    seen: { unset: false, '100ms': true },
    observe: async ({ ports }) => (await silentConnection(ports.xds, 2_000)).isCut,
  },
];

const replicaRows: Row[] = [
  {
    setting: 'POD_NAME',
    seen: { unset: true, 'weir-7': false },
    observe: async (controlPlane) => (await controlPlane.snapshot()).replica.startsWith('this-machine-'),
  },
  {
    setting: 'STATUS_WRITES_PER_SECOND',
    env: several,
    seen: { unset: 'at once', 1: 'one by one' },
    observe: async (controlPlane) => {
      const written = () => controlPlane.metric('status_writes_total{outcome="written"}');
      await eventually(async () => expect(await written()).toBeGreaterThan(0), { intervalMs: 5 });
      // One a second takes the four of them 3 s.
      const endMs = performance.now() + 1_000;
      do {
        if ((await written()) === 4) return 'at once';
        await new Promise((resolve) => setTimeout(resolve, 20));
      } while (performance.now() < endMs);
      return 'one by one';
    },
  },
];

const processRows: Row[] = [
  {
    setting: 'LOG_LEVEL',
    seen: { unset: true, warn: false },
    observe: async (controlPlane) => {
      await domains(controlPlane);
      return controlPlane.lines.some((line) => line.includes('Read the first complete list'));
    },
  },
  {
    setting: 'LOG_FORMAT',
    seen: { unset: false, json: true },
    observe: ({ lines }) => lines[0]?.startsWith('{"level":'),
  },
  {
    setting: 'SHUTDOWN_DRAIN_DELAY',
    seen: { unset: [0, 'ended'], '200ms': [200, 503] },
    observe: async (controlPlane) => {
      const ended = controlPlane.stop().then(() => 'ended');
      const delayMs = Number(/drainDelayMs=(\d+)/.exec(controlPlane.lines.at(-1) ?? '')?.[1]);
      if (delayMs === 0) return [delayMs, await ended];
      return [delayMs, (await controlPlane.get('/readyz')).status];
    },
  },
];

const posting = { WEBHOOK_URLS: 'RECEIVER', WEBHOOK_ALLOW_LOCAL: 'true', WEBHOOK_SECRET: firstSecret };

/** The deliveries of one limit that was accepted. */
async function delivered(controlPlane: InProcessControlPlane): Promise<typeof receiver.deliveries> {
  await eventually(async () => expect(await controlPlane.metric('webhook_events_delivered_total')).toBe(1));
  return receiver.deliveries;
}

/** Which of the two secrets signed. */
function signers(delivery: (typeof receiver.deliveries)[number] | undefined): string[] {
  return Object.entries({ first: firstSecret, second: secondSecret }).flatMap(([name, secret]) => {
    try {
      verified(secret, delivery!);
      return [name];
    } catch {
      return [];
    }
  });
}

const webhookRows: Row[] = [
  {
    setting: 'WEBHOOK_URLS',
    env: { WEBHOOK_ALLOW_LOCAL: 'true', WEBHOOK_SECRET: firstSecret },
    seen: { unset: [], RECEIVER: ['ratelimitconfig.accepted'] },
    observe: async (controlPlane) => {
      const status = () => controlPlane.metric('status_writes_total{outcome="written"}');
      await eventually(async () => expect(await status()).toBe(1));
      await controlPlane.stop();
      return receiver.deliveries.map(({ body }) => JSON.parse(body).type);
    },
  },
  {
    setting: 'WEBHOOK_ALLOW_LOCAL',
    env: { WEBHOOK_URLS: 'RECEIVER', WEBHOOK_SECRET: firstSecret },
    seen: {
      unset: '127.0.0.1 is a loopback address: set WEBHOOK_ALLOW_LOCAL=true to post there',
      true: 1,
    },
    observe: async (controlPlane) => {
      const problem = (): string | undefined => /127\.0\.0\.1 is a[^"]*/.exec(controlPlane.lines.join())?.[0];
      await eventually(() => expect(problem() ?? receiver.deliveries[0]).toBeDefined());
      return problem() ?? receiver.deliveries.length;
    },
  },
  {
    setting: 'WEBHOOK_SECRET',
    env: posting,
    seen: { [firstSecret]: ['first'], [secondSecret]: ['second'] },
    observe: async (controlPlane) => signers((await delivered(controlPlane))[0]),
  },
  {
    setting: 'WEBHOOK_SECRET_FILE',
    env: { WEBHOOK_URLS: 'RECEIVER', WEBHOOK_ALLOW_LOCAL: 'true' },
    seen: {
      unset:
        'WEBHOOK_SECRET_FILE: is needed with WEBHOOK_URLS, or WEBHOOK_SECRET is: events are never posted unsigned',
      [secretFile]: ['first'],
    },
    observe: async (controlPlane) =>
      /WEBHOOK_SECRET_FILE: [^"]*/.exec(controlPlane.lines.join())?.[0] ??
      signers((await delivered(controlPlane))[0]),
  },
  {
    setting: 'WEBHOOK_SECRET_OVERLAP',
    env: {
      WEBHOOK_URLS: 'RECEIVER',
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET_FILE: secretFile,
      MANIFESTS_DIRECTORY: join(folder, 'rotating'),
    },
    prepare: () => {
      rmSync(join(folder, 'rotating'), { recursive: true, force: true });
      writeManifest('rotating', 'shop');
    },
    seen: { unset: ['first', 'second'], 0: ['second'] },
    observe: async (controlPlane) => {
      await delivered(controlPlane);
      writeFileSync(secretFile, secondSecret);
      await eventually(() => expect(controlPlane.lines.join()).toContain('A new secret is in use'));
      writeManifest('rotating', 'late');
      await eventually(() => expect(receiver.deliveries).toHaveLength(2));
      return signers(receiver.deliveries[1]);
    },
  },
  {
    setting: 'WEBHOOK_QUEUE_SIZE',
    env: { ...posting, MANIFESTS_DIRECTORY: join(folder, 'many') },
    prepare: () => void receiver.answer('hang'),
    seen: { unset: 0, 1: 3 },
    observe: async (controlPlane) => {
      const written = () => controlPlane.metric('status_writes_total{outcome="written"}');
      await eventually(async () => expect(await written()).toBe(12));
      return controlPlane.metric('webhook_events_dropped_total{reason="queue full"}');
    },
  },
  {
    setting: 'WEBHOOK_TIMEOUT',
    env: posting,
    prepare: () => void receiver.answer('hang'),
    seen: { unset: false, '100ms': true },
    observe: async (controlPlane) => {
      await eventually(() => expect(receiver.deliveries).toHaveLength(1));
      await new Promise((resolve) => setTimeout(resolve, 500));
      return controlPlane.lines.join().includes('no answer within 100 ms');
    },
  },
];
for (let i = 0; i < 12; i++) writeManifest('many', `domain-${i}`);

/** Status of the lookup by the tokens that are shown. */
async function lookup({ ports }: InProcessControlPlane, ...tokens: string[]): Promise<unknown> {
  if (ports.api === 0) return 'closed';
  const asked = tokens.map((token) =>
    httpAsk(ports.api, '/v1/webhooks/default/secret', { headers: { authorization: `Bearer ${token}` } }),
  );
  return (await Promise.all(asked)).map(({ status }) => status);
}

const lookupRows: Row[] = [
  {
    setting: 'API_TOKEN',
    env: posting,
    seen: { unset: 'closed', [apiToken]: [200, 401], 'OTH3R-T0KEN-OF-THE-API': [401, 200] },
    observe: (controlPlane) => lookup(controlPlane, apiToken, 'OTH3R-T0KEN-OF-THE-API'),
  },
  {
    setting: 'API_TOKEN_FILE',
    env: posting,
    seen: { unset: 'closed', [tokenFile]: [200, 401] },
    observe: (controlPlane) => lookup(controlPlane, 'T0KEN-IN-A-FILE-', apiToken),
  },
  {
    setting: 'API_ALLOW_PLAIN',
    env: { ...withToken, API_HOST: '0.0.0.0' },
    seen: {
      unset: [
        'API_TLS_CERT: is needed with API_HOST=0.0.0.0: others on the network could read token and secret',
      ],
      true: allOpen,
    },
    observe: (controlPlane) => [
      ...listeners(controlPlane),
      ...(/API_TLS_CERT: is needed[^;]*/.exec(controlPlane.lines.join()) ?? []),
    ],
  },
];

const rows = [
  ...listenerRows,
  ...sourceRows,
  ...limiterRows,
  ...replicaRows,
  ...webhookRows,
  ...lookupRows,
  ...processRows,
];

/** A test for each value of each row. */
const cases = (of: Row[]) =>
  of.flatMap((row) =>
    Object.entries(row.seen).map(([value, seen]) => {
      const shown = value
        .replace(folder, '')
        .replace(taken, 'the port of another')
        .replace(/whsec_.*/, 'a secret');
      return { name: `${row.setting} ${value === 'unset' ? value : `= ${shown}`}`, row, value, seen };
    }),
  );

async function observed(row: Row, value: string): Promise<unknown> {
  const env: Record<string, string> = { ...row.env, ...(value === 'unset' ? {} : { [row.setting]: value }) };
  for (const [name, text] of Object.entries(env)) env[name] = text.replace('RECEIVER', receiver.url);
  return row.observe(await start(env));
}

describe('what a setting does', () => {
  it.each(cases(rows))('$name', async ({ row, value, seen }) => {
    writeFileSync(secretFile, `${firstSecret}\n`);
    row.prepare?.();
    expect(await observed(row, value)).toEqual(seen);
  });
});

const pem = (name: string): string => join(folder, `${name}.pem`);
const keyOf = (name: string): string => join(folder, `${name}.key`);
const serverCertificate = { XDS_TLS_CERT: pem('server'), XDS_TLS_KEY: keyOf('server') };
const lookupCertificate = { API_TLS_CERT: pem('server'), API_TLS_KEY: keyOf('server') };

/** The common name in the certificate that a listener shows, or why the control plane did not start. */
const certificate = (listener: 'xds' | 'api'): Row['observe'] => {
  return async (controlPlane) => {
    const problem = /[A-Z]+_TLS_\w+: needs \w+ as well|its key does not belong/;
    const refusal = problem.exec(controlPlane.lines.join())?.[0];
    return refusal ?? (await shownName(controlPlane.ports[listener]));
  };
};

function shownName(port: number): Promise<string> {
  return new Promise((resolve, reject) => {
    const options = { port, host: '127.0.0.1', rejectUnauthorized: false, ALPNProtocols: ['h2', 'http/1.1'] };
    const socket = connectTls(options, () => {
      resolve(String(socket.getPeerCertificate().subject.CN));
      socket.destroy();
    });
    socket.on('error', reject);
  });
}

/** What becomes of a limiter that trusts the authority and shows this certificate, or none. */
const limiterOf = (fleet: string, name?: string): Row['observe'] => {
  return async ({ ports }) => {
    const [key, cert] =
      name === undefined ? [null, null] : [keyOf(name), pem(name)].map((f) => readFileSync(f));
    const client = connectLimiter(ports.xds, {
      metadata: { fleet },
      credentials: credentials.createSsl(readFileSync(pem('authority')), key, cert),
    });
    await eventually(() => expect(client.last ?? client.ends[0]).toBeDefined());
    return client.last?.domains ?? client.ends[0]?.replace(/(?<=UNAVAILABLE).*/s, '');
  };
};

const tlsRows: Row[] = [
  {
    setting: 'XDS_TLS_CERT',
    env: { XDS_TLS_KEY: keyOf('server') },
    seen: { unset: 'XDS_TLS_KEY: needs XDS_TLS_CERT as well', [pem('server')]: 'server' },
    observe: certificate('xds'),
  },
  {
    setting: 'XDS_TLS_KEY',
    env: { XDS_TLS_CERT: pem('server') },
    seen: {
      unset: 'XDS_TLS_CERT: needs XDS_TLS_KEY as well',
      [keyOf('server')]: 'server',
      [keyOf('limiter')]: 'its key does not belong',
    },
    observe: certificate('xds'),
  },
  {
    setting: 'XDS_TLS_CLIENT_CACERT',
    env: serverCertificate,
    seen: { unset: ['shop'], [pem('authority')]: '14 UNAVAILABLE' },
    observe: limiterOf('default'),
  },
  {
    setting: 'XDS_CLIENT_FLEETS',
    env: { ...serverCertificate, XDS_TLS_CLIENT_CACERT: pem('authority'), ...fleets },
    seen: {
      unset: ['blue'],
      'limiter=green': '7 PERMISSION_DENIED: the certificate of "limiter" is not bound to the fleet "blue"',
      'stranger=blue':
        '7 PERMISSION_DENIED: the certificate of "limiter" has no fleet: add it to XDS_CLIENT_FLEETS',
    },
    observe: limiterOf('blue', 'limiter'),
  },
  {
    setting: 'API_TLS_CERT',
    env: { ...withToken, API_TLS_KEY: keyOf('server') },
    seen: { unset: 'API_TLS_KEY: needs API_TLS_CERT as well', [pem('server')]: 'server' },
    observe: certificate('api'),
  },
  {
    setting: 'API_TLS_KEY',
    env: { ...withToken, API_TLS_CERT: pem('server') },
    seen: {
      unset: 'API_TLS_CERT: needs API_TLS_KEY as well',
      [keyOf('server')]: 'server',
      [keyOf('limiter')]: 'its key does not belong',
    },
    observe: certificate('api'),
  },
];

describeWithServer('what a setting does with certificates', opensslProgram, (openssl) => {
  let next: CertificatePair;
  beforeAll(() => {
    const authority = createAuthority(openssl, folder, 'authority');
    authority.issue({ name: 'server', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
    authority.issue({ name: 'limiter' });
    next = authority.issue({ name: 'next', alternativeNames: 'DNS:localhost,IP:127.0.0.1' });
  });

  it.each(cases(tlsRows))('$name', async ({ row, value, seen }) => {
    expect(await observed(row, value)).toEqual(seen);
  });

  it('reads certificates again while it runs', async () => {
    const mutable = { certFile: join(folder, 'mutable.pem'), keyFile: join(folder, 'mutable.key') };
    overwritePair({ certFile: pem('server'), keyFile: keyOf('server') }, mutable);
    const { certFile, keyFile } = mutable;
    const files = {
      XDS_TLS_CERT: certFile,
      XDS_TLS_KEY: keyFile,
      API_TLS_CERT: certFile,
      API_TLS_KEY: keyFile,
    };
    const { ports, lines } = await start({ ...withToken, ...files });
    const shown = () => Promise.all([ports.xds, ports.api].map(shownName));
    expect(await shown()).toEqual(['server', 'server']);
    overwritePair(next, mutable);
    await eventually(async () => expect(await shown()).toEqual(['next', 'next']));
    writeFileSync(keyFile, readFileSync(keyOf('limiter')));
    const refused = `level=error msg="A new certificate cannot be used: the previous one stays in use"`;
    await eventually(() => expect(lines.filter((line) => line.startsWith(refused))).toHaveLength(2));
    expect(await shown()).toEqual(['next', 'next']);
  });

  it('answers the secret lookup over TLS', async () => {
    const { ports } = await start({
      ...lookupCertificate,
      ...withToken,
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_SECRET: firstSecret,
    });
    const request = httpsRequest({
      port: ports.api,
      path: '/v1/webhooks/default/secret',
      host: '127.0.0.1',
      ca: readFileSync(pem('authority')),
      headers: { authorization: `Bearer ${apiToken}` },
      agent: false,
    });
    const answered = once(request, 'response');
    request.end();
    const [response] = await answered;
    const body = Buffer.concat(await response.toArray()).toString();
    expect([response.statusCode, body]).toEqual([200, JSON.stringify({ key: firstSecret })]);
  });
});

describe('a control plane', () => {
  const token = 'T0KEN-THAT-NOBODY-SEES';

  it('shows no secret in logs, metrics or snapshot, whatever goes wrong', async () => {
    writeFileSync(secretFile, `${firstSecret}\n`);
    const file = writeFile('api-token', token);
    const hidden = receiver
      .answer(500)
      .url.replace('//', '//user:PASSW0RD@')
      .concat('/t0ken-in-path?q=QUERY-T0KEN');
    const controlPlane = await start({
      WEBHOOK_URLS: hidden,
      WEBHOOK_ALLOW_LOCAL: 'true',
      WEBHOOK_SECRET_FILE: secretFile,
      API_TOKEN_FILE: file,
      LOG_LEVEL: 'debug',
    });
    await eventually(() => expect(controlPlane.lines.join()).toContain('Could not deliver a webhook'));
    await lookup(controlPlane, token, 'WR0NG-T0KEN');
    writeFileSync(secretFile, 'whsec_BROKEN-SECRET');
    writeFileSync(file, 'BROKEN TOKEN');
    const refused = () => controlPlane.lines.filter((line) => line.includes('A new secret cannot be used'));
    await eventually(() => expect(refused()).toHaveLength(2));
    const paths = ['/', '/metrics', '/snapshot', '/snapshot?format=json', '/readyz'];
    const bodies = (await Promise.all(paths.map((path) => controlPlane.get(path)))).map(({ body }) => body);
    await controlPlane.stop();
    const shown = [...controlPlane.lines, ...bodies].join('\n');
    for (const secret of [
      firstSecret.slice(6),
      token,
      'WR0NG',
      'BROKEN',
      'PASSW0RD',
      't0ken-in-path',
      'QUERY-T0KEN',
    ]) {
      expect(shown).not.toContain(secret);
    }
  });

  it('leaves a trace of wrong tokens, and slows them', async () => {
    const controlPlane = await start({
      WEBHOOK_URLS: receiver.url,
      WEBHOOK_SECRET: firstSecret,
      ...withToken,
    });
    const ask = (given: string) => lookup(controlPlane, given) as Promise<number[]>;
    const guesses = Array.from({ length: 2_000 }, (_, i) => `T0KEN-THAT-IS-GUESSED-${i}`);
    const startMs = performance.now();
    const statuses: number[] = [];
    for (let at = 0; at < guesses.length; at += 50) {
      statuses.push(...(await Promise.all(guesses.slice(at, at + 50).map(ask))).flat());
    }
    const seconds = (performance.now() - startMs) / 1000;
    expect(await ask(apiToken)).toEqual([200]);
    // Five are free; after that one for each wait of 1, 2, 4 ... s.
    const wrong = statuses.filter((status) => status === 401).length;
    expect(wrong).toBeLessThanOrEqual(5 + Math.log2(1 + seconds));
    expect(statuses.filter((status) => status === 429)).toHaveLength(guesses.length - wrong);
    const counted = (reason: string) =>
      controlPlane.metric(`secret_lookups_refused_total{reason="${reason}"}`);
    expect(await counted('wrong token')).toBe(wrong);
    expect(await counted('slowed')).toBe(guesses.length - wrong);
    expect(await controlPlane.metric('secret_reads_total')).toBe(1);
    await controlPlane.stop();
    const reported = (text: string) => controlPlane.lines.filter((line) => line.includes(`msg="${text}"`));
    const refused = reported('Rejected a lookup of the signing secret');
    expect(refused.length).toBeLessThanOrEqual(2 * (Math.ceil(seconds) + 2));
    const timesOf = (reason: string) =>
      refused
        .filter((line) => line.includes(`reason=${reason}`))
        .reduce((sum, line) => sum + Number(/times=(\d+)/.exec(line)?.[1]), 0);
    expect([timesOf('"wrong token"'), timesOf('slowed')]).toEqual([wrong, guesses.length - wrong]);
    expect(refused[0]).toContain('from=127.0.0.1');
    expect(reported('A caller looked up the signing secret')).toEqual([
      expect.stringMatching(/^level=info .*from=127\.0\.0\.1.*token=API_TOKEN/),
    ]);
    expect(controlPlane.lines.join()).not.toContain('T0KEN');
  });

  it('gives no rules to an unknown client, and accepts no rejection from it', async () => {
    const controlPlane = await start({ XDS_TOKENS_FILE: limiterTokens, XDS_HOST: '0.0.0.0' });
    const metadata = { pod: 'limiter-0', instance: 'one', fleet: 'default' };
    const limiter = connectLimiter(controlPlane.ports.xds, {
      authorization: () => `Bearer ${limiterToken}`,
      userAgentName: 'weir',
      metadata,
    });
    const programmed = async () => {
      const {
        fleets: [fleet],
      } = await controlPlane.snapshot();
      return fleet.objects[0].programmed;
    };
    await eventually(async () => expect(await programmed()).toMatchObject({ status: 'True' }));
    // As a limiter of another name, and as the one that is there.
    const strangers = ['two', 'one'].map((instance) => {
      const stranger = connectLimiter(controlPlane.ports.xds, {
        userAgentName: 'weir',
        metadata: { ...metadata, pod: `limiter-${instance}`, instance },
      });
      stranger.rejectWith('these rules are bad');
      return stranger;
    });
    for (const stranger of strangers) {
      await eventually(() => expect(stranger.ends[0]).toMatch(/^16 UNAUTHENTICATED/));
      expect(stranger.received).toEqual([]);
    }
    // Longer than a report takes to become a status.
    await new Promise((resolve) => systemTimers.after(500, () => resolve(undefined)));
    expect(await programmed()).toMatchObject({ status: 'True' });
    expect(await controlPlane.metric('xds_nacks_total')).toBe(0);
    expect(await controlPlane.metric('xds_streams_refused_total{reason="identity"}')).toBe(2);
    expect(controlPlane.lines.join()).toContain('msg="Rejected a stream"');
    limiter.close();
  });

  it.each([
    ['WEBHOOK_SECRET', { WEBHOOK_URLS: 'https://h/', WEBHOOK_SECRET: 'whsec_HIDDEN' }],
    ['WEBHOOK_URLS', { WEBHOOK_URLS: 'https://user:HIDDEN%@h/HIDDEN', WEBHOOK_SECRET: firstSecret }],
    ['API_TOKEN', { API_TOKEN: 'HIDDEN HIDDEN' }],
  ])('does not start with a bad %s and does not show it', async (setting, env) => {
    const controlPlane = await start(env);
    expect(await controlPlane.ended).toBe(1);
    expect(controlPlane.lines.join('\n')).toContain(`${setting}: `);
    expect(controlPlane.lines.join('\n')).not.toContain('HIDDEN');
  });

  it('leads, if there is no other', async () => {
    const controlPlane = await start({ POD_NAME: 'alone' });
    expect(await controlPlane.metric('leader')).toBe(1);
    expect((await controlPlane.snapshot()).leader).toBe('alone');
  });

  it('has no secret to look up while webhooks are off', async () => {
    const controlPlane = await start({ ...withToken, WEBHOOK_SECRET: firstSecret });
    expect(await lookup(controlPlane, apiToken, 'OTH3R-T0KEN-OF-THE-API')).toEqual([404, 401]);
  });

  it('leaves nothing open when it cannot start', async () => {
    const controlPlane = await start({ ...withToken, API_PORT: taken });
    expect(await controlPlane.ended).toBe(1);
    const ports = controlPlane.lines.flatMap(
      (line) => /Listening for .* on '.*:(\d+)'/.exec(line)?.[1] ?? [],
    );
    expect(ports).toHaveLength(2);
    for (const port of ports)
      await expect(httpAsk(Number(port), '/')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  });
});

describeSettingRows([...rows, ...tlsRows], controlPlaneSettingGroups, {
  file: 'test/control-plane/main.test.ts',
  others: ['test/control-plane/*.test.ts'],
});
