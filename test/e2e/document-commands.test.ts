/** Runs the commands in docs/running.md, docs/webhooks.md, docs/control-plane.md and examples/README.md as they are written, on ports of their own. */
import { spawnSync } from 'node:child_process';
import { expect, it } from 'vitest';

import { ChildProgram } from '../support/child-program.ts';
import { commandsToRun, projectRoot, readDocument } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { fencedBlocks } from '../support/fenced-blocks.ts';
import { runWeir } from '../support/weir-command.ts';

/** `npm` is the test's own, and brings the project's Node with it. */
const environment = { ...process.env, npm_config_update_notifier: 'false' };
const anyPorts = { PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0' };

it('docs/webhooks.md makes a secret', () => {
  const [makeSecret, ...others] = commandsToRun('docs/webhooks.md');
  expect(others).toEqual([]);
  const result = spawnSync('sh', ['-c', makeSecret as string], { encoding: 'utf8' });
  expect(result.stdout).toMatch(/^whsec_[A-Za-z0-9+/]{43}=\n$/);
});

it('docs/running.md starts a limiter, checks it and lists a rule', async () => {
  const [start = '', check = '', ...others] = commandsToRun('docs/running.md');
  expect(others).toEqual([]);
  const limiter = new ChildProgram({
    command: 'sh',
    args: ['-c', start.replace('weir limiter', 'exec bin/weir limiter')],
    cwd: projectRoot,
    env: { ...environment, ...anyPorts },
  });
  try {
    const [, debugPort = ''] = await limiter.printed(/Listening for debug on '[^']*:(\d+)'/);
    const [, httpPort = ''] = await limiter.printed(/Listening for HTTP on '[^']*:(\d+)'/);
    const asked = check.replace(':8080', `:${httpPort}`).replace(':6070', `:${debugPort}`);
    const [shown] = fencedBlocks(readDocument('docs/running.md')).filter(
      ({ language }) => language === 'text',
    );
    expect(spawnSync('sh', ['-c', asked], { encoding: 'utf8' }).stdout.trim()).toBe(shown?.text.trim());
  } finally {
    await limiter.stop('SIGTERM');
  }
});

it('docs/cli.md lists every command of weir, and no other', () => {
  const commands = [...runWeir(['--help']).stdout.matchAll(/^ {2}([a-z][a-z-]*) {2,}\w/gm)].map(
    ([, name]) => name,
  );
  expect(commands.length).toBeGreaterThanOrEqual(5);
  const listed = [...readDocument('docs/cli.md').matchAll(/^\| `weir ([a-z-]+)/gm)].map(([, name]) => name);
  expect(listed.sort()).toEqual(commands.sort());
});

it('examples/README.md starts a limiter with the rules of a case', async () => {
  const [start, ...others] = commandsToRun('examples/README.md');
  expect(others).toEqual([]);
  const limiter = new ChildProgram({
    command: 'sh',
    args: ['-c', start as string],
    cwd: projectRoot,
    env: { ...environment, ...anyPorts },
    group: true,
  });
  try {
    const [, port] = await limiter.printed(/HTTP on (\d+), debug/);
    await limiter.printed(/curl \S+\/rlconfig\n {2}bin\/weir explain examples\/per-tenant\/rules <domain>/);
    const answers = await Promise.all(
      ['umbrella', 'initech'].map(async (value) => {
        const response = await fetch(`http://127.0.0.1:${port}/json`, {
          method: 'POST',
          body: JSON.stringify({
            domain: 'per-tenant',
            descriptors: [{ entries: [{ key: 'tenant', value }] }],
          }),
        });
        return response.status;
      }),
    );
    expect(answers).toEqual([200, 429]);
  } finally {
    await limiter.stop('SIGINT');
  }
});

it('docs/control-plane.md serves a folder without a cluster', async () => {
  const start = commandsToRun('docs/control-plane.md').find((text) => text.includes('MANIFESTS_DIRECTORY'));
  const controlPlane = new ChildProgram({
    command: 'sh',
    args: ['-c', start ?? ''],
    cwd: projectRoot,
    env: { ...environment, PORT: '0', XDS_PORT: '0' },
    group: true,
  });
  try {
    await controlPlane.printed(/Listening for xDS/);
    const [, port] = await controlPlane.printed(/Listening for HTTP.*?:(\d+)/);
    await eventually(async () => {
      const snapshot = await fetch(`http://127.0.0.1:${port}/snapshot`);
      expect(await snapshot.text()).toContain('shop');
    });
  } finally {
    await controlPlane.stop('SIGINT');
  }
});
