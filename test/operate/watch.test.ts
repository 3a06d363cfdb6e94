import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { ChildProgram } from '../support/child-program.ts';
import { runWeirHere } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { weirProgram } from '../support/weir-program.ts';

/** The address of a server. */
async function served(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** A server that is sometimes down, when it answers nothing but errors. */
async function unsteadyServer(
  answerOf: (path: string) => object,
): Promise<{ address: string; setDown(isDown: boolean): void }> {
  let isDown = true;
  const address = await served(({ url = '' }, response) => {
    response.setHeader('Content-Type', 'application/json');
    if (isDown) response.writeHead(503).end('{"message":"out of order"}');
    else response.end(JSON.stringify(answerOf(url)));
  });
  return { address, setDown: (value) => (isDown = value) };
}

function kubeconfigOf(server: string): string {
  const path = join(temporaryFolder(), 'kubeconfig');
  const config = {
    clusters: [{ name: 'a', cluster: { server: `http://${server}`, 'insecure-skip-tls-verify': true } }],
    contexts: [{ name: 'a', context: { cluster: 'a', user: 'a' } }],
    users: [{ name: 'a', user: {} }],
    'current-context': 'a',
  };
  writeFileSync(path, JSON.stringify(config));
  return path;
}

function watching(...args: string[]): ChildProgram {
  const program = new ChildProgram({
    command: process.execPath,
    args: [weirProgram, ...args, '--watch', '--interval', '100ms'],
  });
  onTestFinished(async () => void (await program.stop()));
  return program;
}

describe('--watch', () => {
  it.each([
    {
      what: 'the API server',
      answerOf: () => ({ items: [] }),
      command: (address: string) => ['status', '--only', 'objects', '--kubeconfig', kubeconfigOf(address)],
      report: 'no RateLimitConfigs in namespace default',
      statusOfProblem: 2,
    },
    {
      what: 'every limiter',
      answerOf: (path: string) =>
        path.startsWith('/v1/status')
          ? { limiter: { name: 'lim-0', instance: 'a' } }
          : { since: null, domainCount: 0, domains: [] },
      command: (address: string) => ['top', '--limiter', address],
      report: 'no request was over limit',
      statusOfProblem: 1,
    },
  ])('continues after errors of $what', async ({ answerOf, command, report, statusOfProblem }) => {
    const problem = 'weir: [^\\n]*(?:503|out of order)';
    const { address, setDown } = await unsteadyServer(answerOf);
    const program = watching(...command(address));
    await program.printed(new RegExp(problem));
    setDown(false);
    await program.printed(new RegExp(`${problem}[^]*${report}`));
    setDown(true);
    await program.printed(new RegExp(`${report}[^]*${problem}[^]*${problem}`));
    await program.stop('SIGINT');
    expect(program.process.exitCode).toBe(statusOfProblem);
  });

  it('ends at once although a limiter does not answer', async () => {
    const asked = Promise.withResolvers<void>();
    const address = await served(() => asked.resolve());
    const program = watching('top', '--limiter', address, '--timeout', '5m');
    await asked.promise;
    expect(await program.stop('SIGINT')).toEqual({ code: 1, signal: null });
  });

  it('ends when no program reads its output any more', async () => {
    const { address, setDown } = await unsteadyServer(() => ({ limiter: { name: 'lim-0', instance: 'a' } }));
    setDown(false);
    const status = ['status', '--limiter', address, '--watch', '--interval', '100ms'];
    const args = ['-c', '"$0" "$@" | head -n 1', process.execPath, weirProgram, ...status];
    const program = new ChildProgram({ command: 'sh', args, group: true });
    onTestFinished(async () => void (await program.stop('SIGKILL')));
    await program.ended;
    expect(program.stdout).toMatch(/^LIMITER .*\n$/);
  });

  it('ends if no cluster is configured', async () => {
    const found = await runWeirHere(['status', '--watch'], { HOME: '/nowhere' });
    expect(found).toMatchObject({
      status: 2,
      stderr: expect.stringMatching(/^weir: cannot find the Kubernetes API: .*\n$/),
    });
  });
});
