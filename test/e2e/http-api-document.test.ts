/** docs/http-api.md: its command is asked as it is written until it ends in a 429, and answers look as they are shown. */
import { spawnSync } from 'node:child_process';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { commandsToRun, projectRoot, readDocument } from '../support/documents.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { httpAsk } from '../support/http-ask.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';

const page = 'docs/http-api.md';
let limiter: LimiterProcess;

beforeAll(async () => {
  limiter = await startLimiter({
    env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: `${projectRoot}/examples`, RUNTIME_APPDIRECTORY: 'rules' },
  });
});
afterAll(() => limiter?.stop());

it('asks until it is over limit', () => {
  const [command = '', ...others] = commandsToRun('docs/http-api.md');
  expect(others).toEqual([]);
  const asked = command
    .replace('localhost:8080', `127.0.0.1:${limiter.ports.http}`)
    .replace('curl ', 'curl -s ');
  const answers: string[] = [];
  while (answers.length < 15 && !answers.at(-1)?.includes('429')) {
    answers.push(spawnSync('sh', ['-c', asked], { encoding: 'utf8' }).stdout);
  }
  const [shown] = fencedBlocks(readDocument(page)).filter(({ language }) => language === 'text');
  const sameNumbers = (text: string) => text.replace(/\d+/g, '0').trim();
  const reported = new Set(answers[0]!.split('\r\n').map(sameNumbers));
  expect(
    shown!.text
      .trim()
      .split('\n')
      .map(sameNumbers)
      .filter((line) => !reported.has(line)),
  ).toEqual([]);
  expect(answers.at(-1)).toMatch(/^HTTP\/1\.1 429 Too Many Requests\r\n.*Retry-After: \d+.*"OVER_LIMIT"/s);
});

it('shows the mistakes of a body as they are reported', async () => {
  const [shown] = fencedBlocks(readDocument(page)).filter(({ language }) => language === 'json');
  const body = JSON.stringify({ domain: 'shop', descriptors: [{ entries: [] }], hitsAddend: 1 });
  const headers = { 'content-type': 'application/json' };
  const answer = await httpAsk(limiter.ports.http, '/v1/check', { method: 'POST', headers, body });
  expect(JSON.parse(answer.body)).toEqual(JSON.parse(shown!.text));
});
