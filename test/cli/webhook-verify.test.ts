import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { openSecretApi } from '../../control-plane/http/secret-api.ts';
import { systemClock, systemTimers } from '../../process/time/clock.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { freePort } from '../support/free-port.ts';
import { runWeirHere } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

const secret = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const body = '{"test": 2432232314}';
const sentMs = 1_614_265_330_000;
const goldenTime = ['--now', '2021-02-25T15:02:10Z'];

let headers: string;
let bodyFile: string;

beforeEach(() => {
  const folder = temporaryFolder();
  headers = join(folder, 'headers');
  bodyFile = join(folder, 'body');
  const signature = new Webhook(secret).sign('msg_1', new Date(sentMs), body);
  writeFileSync(
    headers,
    `Webhook-Id: msg_1\nWebhook-Timestamp: ${sentMs / 1000}\nWebhook-Signature: ${signature}\n`,
  );
  writeFileSync(bodyFile, body);
});

interface Outcome {
  code: number | null;
  output: string;
}

async function verify(
  args: string[],
  env: Record<string, string> = { WEBHOOK_SECRET: secret },
): Promise<Outcome> {
  const { status, stdout, stderr } = await runWeirHere(['webhook', ...args], env);
  return { code: status, output: stdout + stderr };
}

const verifyFiles = (args: string[], env?: Record<string, string>): Promise<Outcome> =>
  verify(['verify', '--headers', headers, '--body', bodyFile, ...args], env);

describe('weir webhook verify', () => {
  const valid = { code: 0, output: 'valid: msg_1, sent 2021-02-25T15:02:10.000Z\n' };

  it('says that a delivery is valid', async () => {
    expect(await verifyFiles(goldenTime)).toEqual(valid);
    expect(await verifyFiles(['--now', String(sentMs / 1000 + 300)])).toEqual(valid);
  });

  it('takes headers one by one, which count before those of the file', async () => {
    const { code, output } = await verifyFiles([...goldenTime, '--header', 'webhook-id: msg_2']);
    expect([code, output]).toEqual([
      1,
      'invalid: no signature matches: the secret, ID, time or body is another one\n',
    ]);
    const missing = await verify(['verify', '--header', 'webhook-id: msg_1', '--body', bodyFile]);
    expect(missing).toEqual({ code: 1, output: 'invalid: the header webhook-timestamp is missing\n' });
  });

  it('judges the age by its tolerance', async () => {
    const { code, output } = await verifyFiles([]);
    expect(output).toMatch(/^invalid: it was sent \d+ s ago, at most 300 s are allowed\n$/);
    expect(code).toBe(1);
    expect(await verifyFiles(['--tolerance', '1000000h'])).toEqual(valid);
  });

  it('prints JSON', async () => {
    const good = await verifyFiles([...goldenTime, '--output', 'json']);
    expect(JSON.parse(good.output)).toEqual({ valid: true, id: 'msg_1', timestampSeconds: sentMs / 1000 });
    writeFileSync(bodyFile, `${body}\n`);
    const bad = await verifyFiles([...goldenTime, '--output', 'json']);
    expect(JSON.parse(bad.output)).toMatchObject({ valid: false, problem: 'bad_signature' });
    expect(bad.code).toBe(1);
  });

  it('takes the secret from a file or another variable', async () => {
    const file = `${bodyFile}.secret`;
    writeFileSync(file, `whsec_${Buffer.alloc(24).toString('base64')}\n${secret}\n`);
    expect(await verifyFiles([...goldenTime, '--secret-file', file], {})).toEqual(valid);
    expect(await verifyFiles([...goldenTime, '--secret-env', 'MINE'], { MINE: secret })).toEqual(valid);
  });

  it('asks the secret lookup for the secret', async () => {
    const api = await openSecretApi({
      token: { variable: 'API_TOKEN', value: 'T0KEN-OF-THE-API' },
      signingSecret: () => secret,
      clock: systemClock,
      timers: systemTimers,
      closeGraceMs: 0,
      ...recordedTelemetry(),
    });
    onTestFinished(() => api.close());
    const { port } = await api.listen({ host: '127.0.0.1', port: 0 });
    const from = [...goldenTime, '--secret-from', `http://127.0.0.1:${port}/`];
    expect(await verifyFiles(from, { API_TOKEN: 'T0KEN-OF-THE-API' })).toEqual(valid);
    const refused = await verifyFiles([...from, '--token-env', 'MINE'], { MINE: 'WR0NG' });
    expect(refused.output).toContain(
      `weir: http://127.0.0.1:${port} answered 401: it does not know the token`,
    );
    expect(refused.output).not.toContain('WR0NG');
    expect(refused.code).toBe(2);
  });

  it('says that the secret lookup is not there', async () => {
    const from = `http://127.0.0.1:${await freePort()}`;
    const { code, output } = await verifyFiles(['--secret-from', from], { API_TOKEN: 'T0KEN' });
    expect(output).toContain(`weir: ${from}: connection refused`);
    expect(code).toBe(2);
  });

  const header = ['--header', 'webhook-id: 1'];
  it.each<[string[], Record<string, string>, string]>([
    [[], {}, 'webhook needs the word verify: weir webhook verify'],
    [['sign'], {}, 'webhook can only verify, not "sign"'],
    [['verify', 'now'], {}, 'webhook verify takes only flags, not "now"'],
    [['verify'], {}, 'webhook verify needs --headers or --header'],
    [['verify', '--header', 'x'], {}, '--header "x" is not of the form "name: value"'],
    [['verify', '--headers', '-'], {}, '--headers is a file: standard input is for the body'],
    [['verify', '--headers', '/nowhere'], {}, '--headers /nowhere: no such file or directory'],
    [['verify', '--tolerance', 'long'], {}, '--tolerance is a duration such as 5m or 24h, not "long"'],
    [
      ['verify', '--now', 'today'],
      {},
      '--now is a time such as 2026-01-31T12:00:00Z or seconds since 1970, not "today"',
    ],
    [['verify', '--output', 'xml'], {}, '--output is table, json or yaml, not "xml"'],
    [
      ['verify', ...header],
      {},
      'the environment variable WEBHOOK_SECRET is not set: give it, --secret-file or --secret-from',
    ],
    [
      ['verify', ...header],
      { WEBHOOK_SECRET: 'S3CRET' },
      'WEBHOOK_SECRET: the signing secret must begin with whsec_',
    ],
    [
      ['verify', ...header, '--secret-env', 'A', '--secret-file', 'b'],
      {},
      'only one of --secret-file, --secret-env and --secret-from can be given',
    ],
    [
      ['verify', ...header, '--secret-from', 'https://host'],
      {},
      '--secret-from needs a token in the environment variable API_TOKEN',
    ],
    [
      ['verify', ...header, '--secret-from', 'host:1'],
      { API_TOKEN: 'x' },
      '--secret-from is a URL such as https://host:port, without credentials',
    ],
  ])('rejects %j with status 2', async (args, env, message) => {
    const { code, output } = await verify(args, env);
    expect(output).toContain(`weir: ${message}\n`);
    expect(output).not.toContain('S3CRET');
    expect(code).toBe(2);
  });

  it('explains itself', async () => {
    const { code, output } = await verify(['verify', '--help']);
    expect(output).toMatch(/^Usage: weir webhook verify/);
    expect(code).toBe(0);
  });
});
