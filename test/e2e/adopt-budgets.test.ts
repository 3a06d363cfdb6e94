/** docs/budgets.md: its commands, as they are written, get the answers that it says. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { commandsToRun, readDocument } from '../support/documents.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { ManualClock } from '../support/manual-clock.ts';

const page = 'docs/budgets.md';
const [start = '', reserve = '', commit = '', look = '', ...others] = commandsToRun('docs/budgets.md');
/** No hour ends meanwhile. */
const clock = new ManualClock(Date.UTC(2026, 10, 23, 8));
let limiter: InProcessLimiter;

beforeAll(async () => {
  const [, root = ''] = /^RUNTIME_ROOT=(\S+) npm start$/.exec(start) ?? [];
  const env = { RUNTIME_ROOT: root, RUNTIME_APPDIRECTORY: 'rules', RUNTIME_WATCH_ROOT: 'false' };
  limiter = await InProcessLimiter.start({ clock, env });
});
afterAll(() => limiter?.stop());

async function run(command: string) {
  const here = command.replace('localhost:8080', `127.0.0.1:${limiter.ports.http}`);
  const { stdout } = await promisify(execFile)('sh', ['-c', here.replace('curl ', 'curl -s ')]);
  return JSON.parse(stdout);
}

it('reserves, commits and reads', async () => {
  expect(others).toEqual([]);
  const [shown] = fencedBlocks(readDocument(page)).filter(({ language }) => language === 'json');
  const first = await run(reserve);
  expect({ ...first, scopes: [] }).toEqual(JSON.parse(shown!.text));
  expect(first.scopes).toEqual([expect.objectContaining({ used: 6000, reserved: 6000, left: 4000 })]);
  expect(await run(reserve)).toMatchObject({ code: 'OK', repeated: true });
  const other = await run(reserve.replace('answer-17', 'answer-18'));
  expect(other).toMatchObject({ code: 'OVER_LIMIT', scopes: [{ refused: true, used: 6000, left: 4000 }] });
  expect(await run(commit)).toMatchObject({ outcome: 'settled', charged: 400, amount: 6000 });
  const { budgets } = await run(look);
  expect(budgets).toEqual([expect.objectContaining({ used: 400, reserved: 0, left: 9600 })]);
});
