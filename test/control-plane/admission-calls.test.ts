/** What the port of admission answers to whom, without an API server. */
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'node:tls';
import { beforeAll, expect, it, onTestFinished } from 'vitest';
import type { AdmissionAnswer, AdmissionRequest } from '../../control-plane/http/admission-answer.ts';
import { openAdmissionServer } from '../../control-plane/http/admission-server.ts';
import { CallerConnections } from '../../control-plane/http/ports.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { type CertificatePair, createAuthority } from '../support/certificates.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { opensslProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { suiteFolder } from '../support/suite-folder.ts';

const json = { 'Content-Type': 'application/json' };
const request: AdmissionRequest = {
  uid: 'review-1',
  resource: { group: 'ratelimit.weir.dev', resource: 'ratelimitconfigs' },
  object: { metadata: { name: 'shop', namespace: 'team', uid: 'u', generation: 1 } },
};
const review = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
const unread = 'Could not read an admission review';

describeWithServer('the port of admission', opensslProgram, (openssl) => {
  const folder = suiteFolder();
  let pair: CertificatePair;
  beforeAll(() => {
    const authority = createAuthority(openssl, folder, 'authority');
    pair = authority.issue({ name: 'plane', alternativeNames: 'IP:127.0.0.1' });
  });

  async function open(answer: AdmissionAnswer | Error = { allowed: true, warnings: [] }) {
    const telemetry = recordedTelemetry();
    const parts = { ...telemetry, clock: systemClock, timers: systemTimers };
    const asked: AdmissionRequest[] = [];
    const server = await openAdmissionServer({
      ...parts,
      files: pair,
      answer: async (review) => {
        asked.push(review);
        if (answer instanceof Error) throw answer;
        return answer;
      },
      connections: new CallerConnections(parts).of('admission'),
      closeGraceMs: 1_000,
    });
    const { port } = await server.listen({ host: '127.0.0.1', port: 0 });
    let isClosed = false;
    /** Also logs what is collected to be logged together. */
    const close = async (): Promise<void> => {
      if (!isClosed) await server.close();
      isClosed = true;
    };
    onTestFinished(close);
    const ask = (options: Parameters<typeof httpAsk>[2] = {}, path = '/validate') =>
      httpAsk(port, path, { method: 'POST', headers: json, body: review, tls: {}, ...options });
    const counted = (answer: string) => telemetry.counted(`admission_reviews_total{answer="${answer}"}`);
    return { port, ask, asked, close, counted, telemetry };
  }

  it.each<[counted: string, answer: AdmissionAnswer, response: object]>([
    ['allowed', { allowed: true, warnings: [] }, { allowed: true, warnings: [] }],
    ['warned', { allowed: true, warnings: ['a', 'b'] }, { allowed: true, warnings: ['a', 'b'] }],
    [
      'refused',
      { allowed: false, reason: 'Invalid', message: 'no domain' },
      { allowed: false, status: { code: 422, reason: 'Invalid', message: 'no domain' } },
    ],
  ])('answers a review, and counts it as %s', async (outcome, answer, response) => {
    const { ask, asked, close, counted, telemetry } = await open(answer);
    const { status, headers, body } = await ask();
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    expect(JSON.parse(body)).toEqual({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      response: { uid: 'review-1', ...response },
    });
    expect(asked).toEqual([request]);
    for (const each of ['allowed', 'warned', 'refused'])
      expect(await counted(each)).toBe(each === outcome ? 1 : 0);
    await close();
    const refusal = { object: 'team/shop', reason: 'Invalid', message: 'no domain', times: 1 };
    expect(telemetry.events).toEqual(
      outcome === 'refused' ? [['Rejected an object at admission', refusal]] : [],
    );
  });

  const maxBytes = 8 * 1024 * 1024;
  it.each<[reason: string, status: number, call: Parameters<typeof httpAsk>[2]]>([
    ['Method Not Allowed', 405, { method: 'PUT' }],
    ['the content type must be application/json', 415, { headers: { 'Content-Type': 'text/json' } }],
    ['the content type must be application/json', 415, { headers: {} }],
    ['the content length is missing', 411, { headers: { ...json, 'Transfer-Encoding': 'chunked' } }],
    [`the body is longer than ${maxBytes} bytes`, 413, { body: 'x'.repeat(maxBytes + 1) }],
    ['the body is not JSON', 400, { body: '{' }],
    ['not an AdmissionReview: kind: ', 400, { body: review.replace('"AdmissionReview"', '"Review"') }],
  ])('rejects an invalid review: %s', async (reason, status, call) => {
    const { ask, asked, close, counted, telemetry } = await open();
    const answer = await ask(call);
    expect(answer.status).toBe(status);
    expect(answer.body).toContain(reason);
    expect(answer.headers.allow).toBe(status === 405 ? 'POST' : undefined);
    expect([await counted('bad request'), asked]).toEqual([1, []]);
    await close();
    const fields = { from: '127.0.0.1', reason: expect.stringContaining(reason), times: 1 };
    expect(telemetry.events).toEqual([[unread, fields]]);
  });

  it.each([
    [2, 'keep-alive'],
    [3, 'close'],
  ])('rejects a body of %i bytes, of which 2 arrive, with Connection: %s', async (length, connection) => {
    const { port } = await open();
    const socket = connect({ host: '127.0.0.1', port, rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    let answer = '';
    socket.on('data', (chunk) => {
      answer += String(chunk);
    });
    const head = [
      'POST /validate HTTP/1.1',
      'Host: a',
      'Content-Type: text/json',
      `Content-Length: ${length}`,
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n{}`);
    await eventually(() => expect(answer).toMatch(/^HTTP\/1.1 415 .*\r\n\r\n/s));
    expect(/^connection: (.*)\r$/im.exec(answer)?.[1]).toBe(connection);
  });

  it('takes the content type with its character set, and a body as long as allowed', async () => {
    const { ask } = await open();
    const headers = { 'Content-Type': 'Application/JSON ; charset=utf-8' };
    expect((await ask({ headers })).status).toBe(200);
    expect((await ask({ body: review.padEnd(maxBytes) })).status).toBe(200);
  });

  it('has no other path', async () => {
    const { ask, counted, asked } = await open();
    expect((await ask({}, '/')).status).toBe(404);
    expect([await counted('bad request'), asked]).toEqual([0, []]);
  });

  it('answers 500 if the decision fails, with a line in the log', async () => {
    const { ask, telemetry } = await open(new Error('cannot decide'));
    expect((await ask()).status).toBe(500);
    expect(telemetry.events).toEqual([['Fault', { call: 'admission', error: new Error('cannot decide') }]]);
    expect(await telemetry.counted('faults_total')).toBe(1);
  });

  it('logs a caller without TLS', async () => {
    const { ask, close, telemetry } = await open();
    await expect(ask({ tls: undefined as never })).rejects.toThrow();
    await sleep(50);
    await close();
    expect(telemetry.events).toMatchObject([[expect.any(String), { peer: expect.stringMatching(/^127\./) }]]);
  });
});
