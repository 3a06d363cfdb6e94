import { readFileSync, writeFileSync } from 'node:fs';
import { type IncomingHttpHeaders, request as plainRequest } from 'node:http';
import { request as tlsRequest } from 'node:https';
import { join } from 'node:path';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openSecretApi, type SecretApiOptions } from '../../control-plane/http/secret-api.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type CertificatePair, createAuthority, overwritePair } from '../support/certificates.ts';
import { type RecordedTelemetry, recordedTelemetry, reportTo } from '../support/control-plane-telemetry.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const path = '/v1/webhooks/default/secret';
const token = 'T0KEN-of-the-api';
const tokenRejected = 'A new secret cannot be used: the previous one stays in use: API_TOKEN_FILE';
const key = `whsec_${Buffer.alloc(32, 1).toString('base64')}`;

/** What was logged. */
let reported: string[];
let telemetry: RecordedTelemetry;
let port: number;

beforeEach(() => {
  reported = [];
  telemetry = recordedTelemetry(reportTo(reported));
});

async function start(options: Partial<SecretApiOptions> = {}): Promise<void> {
  const api = await openSecretApi({
    token: { variable: 'API_TOKEN', value: token },
    signingSecret: () => key,
    clock: systemClock,
    timers: systemTimers,
    intervalMs: 10,
    closeGraceMs: 0,
    ...telemetry,
    ...options,
  });
  onTestFinished(() => api.close());
  ({ port } = await api.listen({ host: '127.0.0.1', port: 0 }));
}

interface Answer {
  status: number | undefined;
  headers: IncomingHttpHeaders;
  body: string;
}

interface Question {
  method?: string;
  path?: string;
  authorization?: string | undefined;
  userAgent?: string;
  /** A CA: the request goes over TLS. */
  ca?: string;
}

/** Not `fetch`: it would tidy up the path. */
function ask(question: Question = {}): Promise<Answer> {
  const { method = 'GET', path: target = path, ca } = question;
  const authorization = 'authorization' in question ? question.authorization : `Bearer ${token}`;
  const headers = {
    ...(authorization === undefined ? {} : { authorization }),
    ...(question.userAgent === undefined ? {} : { 'user-agent': question.userAgent }),
  };
  const options = { host: '127.0.0.1', port, method, path: target, headers, agent: false as const };
  return new Promise((resolve, reject) => {
    const request = ca === undefined ? plainRequest(options) : tlsRequest({ ...options, ca });
    request.on('error', reject).on('response', async (response) => {
      const body = Buffer.concat(await response.toArray()).toString();
      resolve({ status: response.statusCode, headers: response.headers, body });
    });
    request.end();
  });
}

describe('openSecretApi', () => {
  it('gives the secret to a caller with the token', async () => {
    await start();
    const { status, headers, body } = await ask();
    expect(status).toBe(200);
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'cache-control': 'no-store' });
    expect(body).toBe(`{"key":"${key}"}`);
    expect((await ask({ authorization: `bearer  ${token}` })).status).toBe(200);
    expect((await ask({ path: `${path}?x=1` })).status).toBe(200);
  });

  it.each<[string | undefined, string]>([
    [undefined, 'Bearer'],
    ['', 'Bearer error="invalid_token"'],
    ['Bearer', 'Bearer error="invalid_token"'],
    ['Bearer ', 'Bearer error="invalid_token"'],
    ['Bearer other', 'Bearer error="invalid_token"'],
    [`Bearer ${token}x`, 'Bearer error="invalid_token"'],
    [`Bearer ${token.slice(0, -1)}`, 'Bearer error="invalid_token"'],
    [`Bearer ${token.toLowerCase()}`, 'Bearer error="invalid_token"'],
    [`Basic ${token}`, 'Bearer error="invalid_token"'],
    [token, 'Bearer error="invalid_token"'],
    [`Bearer ${token} x`, 'Bearer error="invalid_token"'],
  ])('answers 401 to the authorization %j', async (authorization, challenge) => {
    await start();
    const { status, headers, body } = await ask({ authorization });
    expect([status, body]).toEqual([401, 'Unauthorized\n']);
    expect(headers).toMatchObject({ 'www-authenticate': challenge, 'cache-control': 'no-store' });
  });

  const questions: [question: Question, status: number, headers: Record<string, string>][] = [
    [{ method: 'POST' }, 405, { allow: 'GET' }],
    [{ method: 'HEAD' }, 405, { allow: 'GET' }],
    [{ method: 'DELETE' }, 405, { allow: 'GET' }],
    [{ method: 'OPTIONS' }, 405, { allow: 'GET' }],
    [{ path: '/' }, 404, {}],
    [{ path: `${path}/` }, 404, {}],
    [{ path: '/v1/webhooks/other/secret' }, 404, {}],
    [{ path: '/v1//webhooks/default/secret' }, 301, { location: path }],
    [{ path: '/%zz' }, 400, {}],
  ];
  it.each(questions)('answers %j with %s, but 401 first', async (question, expected, headers) => {
    await start();
    const answer = await ask(question);
    expect(answer.status).toBe(expected);
    expect(answer.headers).toMatchObject({ ...headers, 'cache-control': 'no-store' });
    expect(answer.body).not.toContain(key);
    const stranger = await ask({ ...question, authorization: undefined });
    expect(stranger.status).toBe(401);
    expect(stranger.headers).toMatchObject({ 'www-authenticate': 'Bearer', 'cache-control': 'no-store' });
  });

  it('answers 404 to every method while webhooks are off', async () => {
    await start({ signingSecret: () => undefined });
    for (const method of ['GET', 'POST']) expect((await ask({ method })).status).toBe(404);
    expect((await ask({ authorization: undefined })).status).toBe(401);
  });

  it('answers with the secret of the moment', async () => {
    let current = key;
    await start({ signingSecret: () => current });
    current = `${key}2`;
    expect((await ask()).body).toBe(`{"key":"${key}2"}`);
  });

  it('answers 500 without a word when something throws', async () => {
    await start({
      signingSecret: () => {
        throw new Error('broken');
      },
    });
    const { status, headers, body } = await ask();
    expect([status, body, headers['cache-control']]).toEqual([500, 'Internal Server Error\n', 'no-store']);
    expect(reported).toEqual(['Fault: secret lookup: broken']);
  });

  it('takes a token from a file, and another one when that changes', async () => {
    const file = join(temporaryFolder(), 'token');
    writeFileSync(file, `${token}\n`);
    await start({ token: { file } });
    expect((await ask()).status).toBe(200);
    writeFileSync(file, '\n');
    const files = (): string[] => reported.filter((line) => line.includes('API_TOKEN_FILE'));
    await eventually(() => expect(files()).toEqual([`${tokenRejected}: ${file}: the token is empty`]));
    expect((await ask()).status).toBe(200);
    writeFileSync(file, 'short');
    const short = `${tokenRejected}: ${file}: the token must have at least 16 characters, it has 5`;
    await eventually(() => expect(files()[1]).toBe(short));
    expect((await ask()).status).toBe(200);
    writeFileSync(file, 'another-token-of-the-api');
    await eventually(() => expect(files()[2]).toBe('A new secret is in use: API_TOKEN_FILE'));
    expect((await ask()).status).toBe(401);
    expect((await ask({ authorization: 'Bearer another-token-of-the-api' })).status).toBe(200);
  });

  it.each([
    ['', 'API_TOKEN: the token is empty'],
    ['two words', 'API_TOKEN: the token must be of visible ASCII characters without spaces'],
    ['x', 'API_TOKEN: the token must have at least 16 characters, it has 1'],
    ['x'.repeat(15), 'API_TOKEN: the token must have at least 16 characters, it has 15'],
    ['x'.repeat(4_097), 'API_TOKEN: the token must have at most 4096 characters, it has 4097'],
  ])('does not open with a token that no client can send', async (value, message) => {
    await expect(start({ token: { variable: 'API_TOKEN', value } })).rejects.toThrow(message);
  });
});

describe('a lookup', () => {
  it('is reported with its caller and address, without the token', async () => {
    await start();
    await ask({ userAgent: `curl/8${'x'.repeat(200)}` });
    expect(reported).toEqual([
      `A caller looked up the signing secret: 127.0.0.1: API_TOKEN: curl/8${'x'.repeat(94)}`,
    ]);
    expect(reported.join()).not.toContain(token);
  });

  it('gets 429 after five wrong tokens, for a time that doubles, and a right one is never slowed', async () => {
    const clock = new ManualClock();
    await start({ clock });
    const wrong = async () => {
      const { status, headers } = await ask({ authorization: 'Bearer a-wrong-token-of-the-api' });
      return status === 429 ? headers['retry-after'] : status;
    };
    for (let i = 0; i < 5; i++) expect(await wrong()).toBe(401);
    expect(await wrong()).toBe('1');
    expect((await ask()).status).toBe(200);
    expect((await ask({ authorization: undefined })).status).toBe(401);
    clock.ms += 999;
    expect(await wrong()).toBe('1');
    clock.ms += 1;
    expect(await wrong()).toBe(401);
    expect(await wrong()).toBe('2');
    expect((await ask()).status).toBe(200);
    clock.ms += 2_000;
    expect(await wrong()).toBe(401);
    expect(await wrong()).toBe('4');
    const refused = (reason: string) => telemetry.counted(`secret_lookups_refused_total{reason="${reason}"}`);
    expect(await refused('slowed')).toBe(4);
    expect(await refused('wrong token')).toBe(7);
    expect(await refused('no token')).toBe(1);
    expect(reported).toContain('Rejected a lookup of the signing secret: 127.0.0.1: slowed: 1');
  });

  it('does not count a caller without a token, because that is no guess', async () => {
    await start();
    for (let i = 0; i < 20; i++) expect((await ask({ authorization: undefined })).status).toBe(401);
    expect((await ask({ authorization: 'Bearer a-wrong-token-of-the-api' })).status).toBe(401);
  });
});

describeWithServer('openSecretApi with TLS', opensslProgram, (openssl) => {
  /** An authority, and a certificate of it for 127.0.0.1. */
  function certificate(name: string): CertificatePair & { ca: string } {
    const authority = createAuthority(openssl, temporaryFolder(), name);
    const pair = authority.issue({ name: 'weir', alternativeNames: 'IP:127.0.0.1' });
    return { ...pair, ca: readFileSync(authority.caFile, 'utf8') };
  }

  it('speaks TLS, and takes a new certificate without a restart', async () => {
    const folder = temporaryFolder();
    const tls = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') };
    const [one, two] = [certificate('one'), certificate('two')];
    overwritePair(one, tls);
    await start({ tls });
    expect((await ask({ ca: one.ca })).body).toBe(`{"key":"${key}"}`);
    await expect(ask({ ca: two.ca })).rejects.toThrow(/unable to (get|verify)/);
    await expect(ask()).rejects.toThrow();

    writeFileSync(tls.keyFile, readFileSync(two.keyFile));
    const mismatch = `${tls.keyFile}: its key does not belong to the first certificate of ${tls.certFile}`;
    await eventually(() =>
      expect(reported.join('\n')).toContain(
        `cannot be used: the previous one stays in use: secret lookup: ${mismatch}`,
      ),
    );
    expect((await ask({ ca: one.ca })).status).toBe(200);

    overwritePair(two, tls);
    await eventually(() => expect(reported).toContain('A new certificate is in use: secret lookup'));
    expect((await ask({ ca: two.ca })).status).toBe(200);
    expect(reported.join()).not.toContain('PRIVATE KEY');
  });

  it('does not open without a usable certificate', async () => {
    const folder = temporaryFolder();
    const tls = { certFile: join(folder, 'tls.crt'), keyFile: join(folder, 'tls.key') };
    await expect(start({ tls })).rejects.toThrow(`${tls.certFile}: no such file or directory`);
    writeFileSync(tls.certFile, 'no certificate');
    writeFileSync(tls.keyFile, 'no key');
    await expect(start({ tls })).rejects.toThrow(`${tls.certFile}: it contains no certificate (PEM)`);
  });
});
