/** The commands in the READMEs of examples/ start a limiter and ask it, as they are written, on ports of their own. */
import { spawnSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { commandsToRun, projectRoot } from '../support/documents.ts';
import { exampleCases } from '../support/example-cases.ts';
import { runWeir } from '../support/weir-command.ts';
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

  it.each(cases)(
    'of %s get the answer that it says',
    { timeout: 60_000 },
    async (_, commands, times, last) => {
      const [start = '', ask = '', ...others] = commands;
      expect(others).toEqual([]);
      expect(ask).toMatch(/^bin\/weir ask /);
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
        let answer = spawnSync('sh', ['-c', typed], options).stdout;
        // A shell would have nothing to do for it but to find its words.
        expect(ask).toMatch(/^[\w ./=+-]+$/);
        const words = [...ask.split(/ +/).slice(1), ...target];
        for (let i = 1; i < times || (i <= 2 * times && !answer.startsWith(last)); i++)
          answer = runWeir(words).stdout;
        expect(answer).toMatch(new RegExp(`^${last}\\b`));
      } finally {
        await limiter.stop('SIGINT');
      }
    },
  );
});
