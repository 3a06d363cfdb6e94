/** `weir callers token`, the check of a callers file, and `weir ask` with a token. */
import { createHash } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { readCallersFile } from '../../limiter/callers/callers-file.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { runWeirHere } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';

async function weirCommand(
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<{ code: number | null; stdout: string; stderr: string }> {
  const { status, stdout, stderr } = await runWeirHere(args, env);
  return { code: status, stdout, stderr };
}

it('makes a token that a limiter with its line knows, and ask shows it', async () => {
  const made = await weirCommand(['callers', 'token', 'billing']);
  expect([made.code, made.stdout]).toEqual([0, expect.stringMatching(/^billing\.[A-Za-z0-9_-]{43}\n$/)]);
  const secret = made.stdout.trim().slice('billing.'.length);
  const digest = createHash('sha256').update(secret).digest('hex');
  expect(made.stderr).toContain(`  - name: billing\n    token_sha256: ${digest}\n`);
  expect(made.stderr).not.toContain(secret);

  const folder = temporaryFolder();
  const [file, token] = [join(folder, 'callers.yaml'), join(folder, 'token')];
  const entry = made.stderr.split('\n').slice(1).join('\n').replace('[]', '[bank]');
  writeFileSync(file, `callers:\n${entry}`);
  writeFileSync(token, made.stdout);
  const limiter = await InProcessLimiter.start({ env: { RUNTIME_ROOT: folder, CALLERS_FILE: file } });
  onTestFinished(() => void limiter.stop());
  const question = ['ask', '--dial-string', `127.0.0.1:${limiter.ports.grpc}`, 'bank', 'a=b'];
  expect((await weirCommand([...question, '--token-file', token])).code).toBe(0);
  expect((await weirCommand(question, { WEIR_TOKEN: made.stdout.trim() })).code).toBe(0);
  const without = await weirCommand(question);
  expect([without.code, without.stderr]).toEqual([
    1,
    'request error: UNAUTHENTICATED: the request has neither a token nor a client certificate of a caller\n',
  ]);
});

it('rejects a command line without a caller, and an invalid token file', async () => {
  for (const args of [
    ['callers'],
    ['callers', 'token'],
    ['callers', 'token', 'a.b'],
    ['callers', 'token', 'a', 'b'],
  ]) {
    expect((await weirCommand(args)).code).toBe(2);
  }
  for (const name of ['unknown', 'anonymous']) {
    const { code, stderr } = await weirCommand(['callers', 'token', name]);
    expect([code, stderr]).toEqual([2, expect.stringContaining(`the name "${name}" is reserved`)]);
  }
  const file = join(temporaryFolder(), 'token');
  const ask = ['ask', 'a', 'a=b', '--token-file', file];
  expect((await weirCommand(ask)).stderr).toContain(`--token-file: ${file}: no such file or directory`);
  writeFileSync(file, 'HUNTER 2');
  const { code, stderr } = await weirCommand(ask);
  expect([code, stderr]).toEqual([2, expect.stringContaining('must be of visible ASCII characters')]);
  expect(stderr).not.toContain('HUNTER');
});

it('checks a callers file, every mistake with its place', async () => {
  const file = join(temporaryFolder(), 'callers.yaml');
  const good = `callers:\n  - { name: a, token_sha256: ${'0'.repeat(64)}, domains: [a] }\n`;
  expect(readCallersFile(good).problems).toBeUndefined();
  writeFileSync(file, good);
  const checked = await weirCommand(['check', file]);
  expect(checked).toMatchObject({ code: 0, stderr: '' });
  expect(checked.stdout).toMatch(/^ok: callers file, 1 caller\n$/);
  const json = await weirCommand(['check', '--output', 'json', file]);
  expect(JSON.parse(json.stdout)).toMatchObject({ errorCount: 0, callersFiles: [{ file, callers: 1 }] });
  writeFileSync(file, good.replace('callers', 'caller'));
  expect((await weirCommand(['check', file])).stdout).toContain(
    `${file}:1:1: error: unknown key "caller", did you mean callers? [callers]\n  1 | caller:`,
  );
  writeFileSync(file, good.replace('[a] }', '[a], requests_per_second: 1, on_excess: 429 }'));
  expect((await weirCommand(['check', file])).stdout).toContain(
    'error: on_excess: expected error or over_limit, not "429"',
  );
  writeFileSync(file, good.replace('domains: [a]', 'rights: [all]'));
  const { code, stdout } = await weirCommand(['check', file]);
  expect(code).toBe(1);
  expect(stdout).toContain(`${file}:2:5: error: domains: is missing`);
  expect(stdout).toContain(`${file}:2:105: error: rights: there is no right "all", there are ask, refund`);
  expect(stdout).toContain('failed: 2 errors');
});
