/**
 * The commands in the READMEs of examples/ start a limiter and ask it, on ports of their own: those of the first case by a shell, the others,
 * which differ in settings and words alone, in this process.
 */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

import { demoEnvironment } from '../../scripts/demo.ts';
import { ChildProgram } from '../support/child-program.ts';
import { commandsToRun, projectRoot } from '../support/documents.ts';
import { exampleCases } from '../support/example-cases.ts';
import { InProcessLimiter } from '../support/in-process-limiter.ts';
import { runWeirHere } from '../support/run-command.ts';
import { weirProgram } from '../support/weir-program.ts';

/** The commands of each README, and the last answer of so many: of twice as many and one, if a window ends in between. */
const cases: readonly [name: string, commands: string[], times: number, last: string][] = [
  ['concurrency', commandsToRun('examples/concurrency/README.md'), 4, 'OVER_LIMIT'],
  ['llm-tokens', commandsToRun('examples/llm-tokens/README.md'), 3, 'OVER_LIMIT'],
  ['login-throttling', commandsToRun('examples/login-throttling/README.md'), 6, 'OVER_LIMIT'],
  ['per-client-address', commandsToRun('examples/per-client-address/README.md'), 1, 'OK'],
  ['per-path-and-method', commandsToRun('examples/per-path-and-method/README.md'), 1, 'OK'],
  ['per-tenant', commandsToRun('examples/per-tenant/README.md'), 1, 'OVER_LIMIT'],
  ['shadow-rollout', commandsToRun('examples/shadow-rollout/README.md'), 4, 'OK'],
];
const environment = { ...process.env, npm_config_update_notifier: 'false' };
const anyPorts = { PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0' };

describe('the commands in examples/', () => {
  it('are there for each case', () => {
    expect(cases.map(([name]) => name)).toEqual(exampleCases);
  });

  it.each(cases.slice(0, 1))(
    'of %s get the answer that it says, typed in a shell',
    { timeout: 60_000 },
    async (_, commands, times, last) => {
      const [start = '', ask = ''] = commands;
      const limiter = new ChildProgram({
        command: 'sh',
        args: ['-c', start],
        cwd: projectRoot,
        env: { ...environment, ...anyPorts },
        group: true,
      });
      try {
        const [, port] = await limiter.printed(/gRPC on (\d+)/);
        const target = ['--dial-string', `localhost:${port}`];
        const typed = [ask.replace('bin/weir', `node ${weirProgram}`), ...target].join(' ');
        const options = { cwd: projectRoot, encoding: 'utf8', env: environment } as const;
        const { stdout } = spawnSync('sh', ['-c', typed], options);
        await expectLast(ask, { port: Number(port), answer: stdout, times, last });
      } finally {
        await limiter.stop('SIGINT');
      }
    },
  );

  it.each(cases.slice(1))('of %s get the answer that it says', async (_, commands, times, last) => {
    const [start = '', ask = '', ...others] = commands;
    expect(others).toEqual([]);
    const [, assignments = ''] = /^((?:[A-Z_]+=\S+ )+)npm start$/.exec(start) ?? [];
    const settings = assignments
      .trim()
      .split(' ')
      .map((word) => word.split('='));
    const env = demoEnvironment({ ...Object.fromEntries(settings), ...anyPorts });
    const limiter = await InProcessLimiter.start({ env: env as Record<string, string> });
    try {
      await expectLast(ask, { port: limiter.ports.grpc, answer: '', times: times + 1, last });
    } finally {
      await limiter.stop();
    }
  });
});

/** `answer`: the first one, where it was asked before. */
async function expectLast(
  ask: string,
  { port, answer, times, last }: { port: number; answer: string; times: number; last: string },
): Promise<void> {
  // A shell would have nothing to do for it but to find its words.
  expect(ask).toMatch(/^bin\/weir ask [\w ./=+-]+$/);
  const words = [...ask.split(/ +/).slice(1), '--dial-string', `localhost:${port}`];
  let latest = answer;
  for (let i = 1; i < times || (i <= 2 * times && !latest.startsWith(last)); i++)
    latest = (await runWeirHere(words)).stdout;
  expect(latest).toMatch(new RegExp(`^${last}\\b`));
  expect(latest).not.toContain('no rule limits it');
}
