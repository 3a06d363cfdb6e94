import { createHash } from 'node:crypto';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { credentials } from '@grpc/grpc-js';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parseTokens } from '../../control-plane/xds/caller-identity.ts';
import { createAuthority } from '../support/certificates.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { unsignedToken } from '../support/service-account-token.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { ScriptedXdsClient, type ScriptedXdsClientOptions } from '../support/xds-client.ts';
import {
  fleetsOf,
  type RunningXdsServer,
  type StartOptions,
  startXdsServer,
  testSnapshot,
} from '../support/xds-server.ts';

const audience = 'weir-control-plane';
const account = 'system:serviceaccount:shop:limiter';
const edgeToken = 'token-of-the-edge-limiters';
const otherToken = 'token-of-other-limiters';
const served = fleetsOf(testSnapshot('blue', ['b']), testSnapshot('green', ['g']));

async function start(options: StartOptions): Promise<RunningXdsServer> {
  const running = await startXdsServer({ allowAnonymous: false, ...options });
  running.server.serve(served);
  return running;
}

function tokensFile(text: string): { path: string; reloadIntervalMs: number } {
  const path = join(temporaryFolder(), 'tokens');
  writeFileSync(path, text);
  return { path, reloadIntervalMs: 10 };
}

function connect(
  { port }: RunningXdsServer,
  { token, fleet = 'blue', ...rest }: Partial<ScriptedXdsClientOptions> & { token?: string; fleet?: string },
): ScriptedXdsClient {
  const client = new ScriptedXdsClient({
    port,
    metadata: { fleet },
    reconnects: false,
    ...(token === undefined ? {} : { authorization: () => `Bearer ${token}` }),
    ...rest,
  });
  onTestFinished(() => client.close());
  return client;
}

const outcome = async (client: ScriptedXdsClient): Promise<unknown> => {
  await eventually(() => expect(client.last ?? client.ends[0]).toBeDefined());
  return client.last?.domains ?? client.ends[0];
};

/** Says of each token what a test wants. */
const reviewed = (answer: { user: string } | { problem: string } | Error) => ({
  audience,
  perSecond: 100,
  review: async () => {
    if (answer instanceof Error) throw answer;
    return answer;
  },
});

describe('an anonymous client', () => {
  it('gets no rules, and nothing that it says counts', async () => {
    const running = await start({ tokensFile: tokensFile(`edge ${edgeToken}`) });
    const client = connect(running, { userAgentName: 'weir', metadata: { pod: 'p', fleet: 'blue' } });
    client.rejectWith('these rules are bad');
    client.request({ versionInfo: 'v', responseNonce: 'n', refusal: 'these rules are bad' });
    expect(await outcome(client)).toBe(
      '16 UNAUTHENTICATED: the client does not prove its identity: send a token (authorization: Bearer ...)',
    );
    expect(client.received).toEqual([]);
    expect(running.server.limiters()).toEqual([]);
    expect(running.changes()).toBe(0);
    expect(running.messages()).toEqual(['Rejected a stream']);
    expect(await running.counted('xds_streams_refused_total{reason="identity"}')).toBe(1);
  });

  it('is served every fleet if that is allowed, but not with a wrong token', async () => {
    const fleetsOfClients = new Map([['token:edge', ['blue']]]);
    const running = await start({
      tokensFile: tokensFile(`edge ${edgeToken}`),
      fleetsOfClients,
      allowAnonymous: true,
    });
    expect(await outcome(connect(running, { fleet: 'green' }))).toEqual(['g']);
    expect(await outcome(connect(running, { token: 'a-token-of-nobody-here' }))).toBe(
      '16 UNAUTHENTICATED: the token is not known',
    );
    expect(await outcome(connect(running, { token: edgeToken, fleet: 'green' }))).toBe(
      '7 PERMISSION_DENIED: the client "token:edge" is not bound to the fleet "green"',
    );
  });

  it('may ask for the health of the server', async () => {
    const { port } = await start({ tokensFile: tokensFile(`edge ${edgeToken}`) });
    const client = new LimiterClient(port);
    onTestFinished(() => client.close());
    const statuses: number[] = [];
    void client.watchHealth('', (status) => statuses.push(status)).catch(() => {});
    await eventually(() => expect(statuses).toEqual([1]));
  });
});

describe('a token of the file', () => {
  const text = `# who may take rules\n\nedge  ${edgeToken}\r\nother\t${otherToken}\nother another-token-of-others\n`;
  const fleetsOfClients = new Map([['token:edge', ['blue']]]);

  it.each([
    [{ token: edgeToken }, ['b']],
    [
      { token: edgeToken, fleet: 'green' },
      '7 PERMISSION_DENIED: the client "token:edge" is not bound to the fleet "green"',
    ],
    [
      { token: otherToken },
      '7 PERMISSION_DENIED: the client "token:other" has no fleet: add it to XDS_CLIENT_FLEETS',
    ],
    [{ token: `${edgeToken}x` }, '16 UNAUTHENTICATED: the token is not known'],
    [
      { authorization: () => `Basic ${edgeToken}` },
      '16 UNAUTHENTICATED: the authorization is not of the form "Bearer <token>"',
    ],
  ])('decides what %j gets', async (shown, expected) => {
    const running = await start({ tokensFile: tokensFile(text), fleetsOfClients });
    expect(await outcome(connect(running, shown))).toEqual(expected);
  });

  it('is followed: a client with another one is served, the streams of one that is gone end, and a bad file changes nothing', async () => {
    const file = tokensFile(text);
    const running = await start({ tokensFile: file });
    let shown = edgeToken;
    const edge = connect(running, { authorization: () => `Bearer ${shown}`, reconnects: true });
    const other = connect(running, { token: otherToken });
    await eventually(() => expect([edge.last, other.last]).not.toContain(undefined));
    writeFileSync(file.path, 'edge short');
    await eventually(() =>
      expect(running.messages()).toContain('A new secret cannot be used: the previous one stays in use'),
    );
    expect(
      running.events.find(([name]) => name === 'A new secret cannot be used: the previous one stays in use'),
    ).toEqual([
      'A new secret cannot be used: the previous one stays in use',
      {
        secret: 'XDS_TOKENS_FILE',
        reason: `XDS_TOKENS_FILE: ${file.path}: line 1: the token must have at least 16 characters, it has 5`,
      },
    ]);
    expect(await outcome(connect(running, { token: edgeToken }))).toEqual(['b']);
    shown = 'next-token-of-the-edge';
    writeFileSync(file.path, `edge ${shown}\nother ${otherToken}\n`);
    const gone = '16 UNAUTHENTICATED: the token of this stream is no longer known';
    await eventually(() => expect(edge.ends).toEqual([gone]));
    await eventually(() => expect(edge.received).toHaveLength(2));
    expect(other.ends).toEqual([]);
    expect(await outcome(connect(running, { token: edgeToken }))).toBe(
      '16 UNAUTHENTICATED: the token is not known',
    );
  });
});

describe('a file of tokens', () => {
  it.each([
    ['edge short', 'line 1: the token must have at least 16 characters, it has 5'],
    [undefined, 'no such file or directory'],
  ])('that holds %j stops the start with its setting', async (held, problem) => {
    const file = tokensFile(held ?? '');
    if (held === undefined) rmSync(file.path);
    await expect(start({ tokensFile: file })).rejects.toThrow(`XDS_TOKENS_FILE: ${file.path}: ${problem}`);
  });
});

describe('parseTokens', () => {
  it('gives names by the hash of the token', () => {
    const hash = createHash('sha256').update(edgeToken).digest('base64');
    expect(parseTokens(`edge ${edgeToken}`)).toEqual(new Map([[hash, 'edge']]));
  });

  it.each([
    ['', 'the file has no token'],
    ['# edge\n', 'the file has no token'],
    [edgeToken, 'line 1: expected a name and a token, separated by blanks'],
    [`edge ${edgeToken} x`, 'line 1: expected a name and a token, separated by blanks'],
    [
      `\n-edge ${edgeToken}`,
      'line 2: the name must have up to 63 letters, digits and inner "-", "_" and "."',
    ],
    ['edge 123456789012345', 'line 1: the token must have at least 16 characters, it has 15'],
    [`a ${edgeToken}\nb ${edgeToken}`, 'line 2: another name has the same token'],
  ])('rejects %j without showing a token', (text, message) => {
    expect(() => parseTokens(text)).toThrow(new Error(message));
    expect(message).not.toContain(edgeToken);
  });
});

describe('a service account', () => {
  const fleetsOfClients = new Map([[account, ['blue']]]);
  const inAnHour = () => Date.now() / 1000 + 3_600;
  const goodToken = () => unsignedToken({ aud: [audience], exp: inAnHour() });

  it('is known by the token that the API server vouches for', async () => {
    const running = await start({ fleetsOfClients, serviceAccounts: reviewed({ user: account }) });
    expect(await outcome(connect(running, { token: goodToken() }))).toEqual(['b']);
    expect(await outcome(connect(running, { token: goodToken(), fleet: 'green' }))).toBe(
      `7 PERMISSION_DENIED: the client "${account}" is not bound to the fleet "green"`,
    );
  });

  it.each<[string, object, ReturnType<typeof reviewed>, string]>([
    [
      'another account',
      {},
      reviewed({ user: `${account}x` }),
      `7 PERMISSION_DENIED: the client "${account}x" has no fleet: add it to XDS_CLIENT_FLEETS`,
    ],
    [
      'an unknown token',
      {},
      reviewed({ problem: 'no' }),
      '16 UNAUTHENTICATED: the API server does not know the token',
    ],
    [
      'an expired token',
      { exp: 1 },
      reviewed({ user: account }),
      '16 UNAUTHENTICATED: the token has expired',
    ],
    [
      'a token without an end',
      { exp: undefined },
      reviewed({ user: account }),
      '16 UNAUTHENTICATED: the token has expired',
    ],
    [
      'a token for the API server',
      { aud: ['https://kubernetes.default.svc'] },
      reviewed({ user: account }),
      '16 UNAUTHENTICATED: the token is not for the audience "weir-control-plane"',
    ],
    [
      'a token while the API server is away',
      {},
      reviewed(new Error('connection refused')),
      '14 UNAVAILABLE: the API server cannot be asked about the token',
    ],
  ])('is rejected with %s', async (_, claims, serviceAccounts, expected) => {
    const running = await start({ fleetsOfClients, serviceAccounts });
    const token = unsignedToken({ aud: [audience], exp: inAnHour(), ...claims });
    const client = connect(running, { token });
    expect(await outcome(client)).toBe(expected);
    expect(client.received).toEqual([]);
    expect(running.server.limiters()).toEqual([]);
  });

  it('loses its stream when the token expires, and its place in the counts only if it does not come again', async () => {
    const running = await start({ fleetsOfClients, serviceAccounts: reviewed({ user: account }) });
    let token = unsignedToken({ aud: [audience], exp: Date.now() / 1000 + 0.5 });
    const client = connect(running, {
      authorization: () => `Bearer ${token}`,
      userAgentName: 'weir',
      metadata: { pod: 'p', instance: 'p-1', fleet: 'blue' },
      reconnects: true,
    });
    await eventually(() => expect(running.server.limiters()[0]?.acceptedVersion).toBeDefined());
    token = goodToken();
    const counts = new Set<number>();
    await eventually(() => {
      counts.add(running.server.limiters().filter(({ acceptedVersion }) => acceptedVersion).length);
      expect(client.received).toHaveLength(2);
    });
    expect(client.ends).toEqual([
      '16 UNAUTHENTICATED: the token of this stream has expired: show a newer one',
    ]);
    expect([...counts]).toEqual([1]);
    client.close();
    await eventually(() => expect(running.server.limiters()).toEqual([]), { timeoutMs: 8_000 });
  });
});

describeWithServer('with certificates and tokens', opensslProgram, (openssl) => {
  it('takes either, and no certificate of another authority', async () => {
    const folder = temporaryFolder();
    const authority = createAuthority(openssl, folder, 'authority');
    const server = authority.issue({ name: 'server', alternativeNames: 'DNS:localhost' });
    const running = await start({
      tls: { ...server, clientCaFile: authority.caFile },
      tokensFile: tokensFile(`edge ${edgeToken}`),
      fleetsOfClients: new Map([
        ['token:edge', ['blue']],
        ['limiter', ['green']],
      ]),
    });
    const shown = (pair?: { certFile: string; keyFile: string }) =>
      credentials.createSsl(
        readFileSync(authority.caFile),
        pair === undefined ? null : readFileSync(pair.keyFile),
        pair === undefined ? null : readFileSync(pair.certFile),
      );
    const limiter = authority.issue({ name: 'limiter' });
    const stranger = createAuthority(openssl, folder, 'other').issue({ name: 'stranger' });
    expect(await outcome(connect(running, { credentials: shown(), token: edgeToken }))).toEqual(['b']);
    expect(await outcome(connect(running, { credentials: shown(limiter), fleet: 'green' }))).toEqual(['g']);
    expect(await outcome(connect(running, { credentials: shown() }))).toBe(
      '16 UNAUTHENTICATED: the client does not prove its identity: send a client certificate or a token (authorization: Bearer ...)',
    );
    // Even beside a good token: somebody poses there.
    expect(await outcome(connect(running, { credentials: shown(stranger), token: edgeToken }))).toMatch(
      /^14 UNAVAILABLE/,
    );
    expect(running.events.at(-1)).toMatchObject([
      'A TLS handshake failed',
      { reason: "the caller's certificate is not valid (UNABLE_TO_VERIFY_LEAF_SIGNATURE)" },
    ]);
  });
});
