/**
 * Runs the first pages: every `sh` block in them is run here, as written and on the ports it names, unless a comment before
 * it says why not (test/documents.test.ts lists those).
 */
import { spawnSync } from 'node:child_process';
import { connect } from 'node:net';
import { delimiter, dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { ChildProgram, runVariables } from '../support/child-program.ts';
import { describeWithBareApiServer } from '../support/describe-with-api-server.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { commandBlocks, commandsToRun } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { envoyProgram, findServer, kubectlProgram } from '../support/find-server.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
// A command may stand on several pages.
const blocks = [
  ...new Set([
    ...commandsToRun('README.md'),
    ...commandsToRun('docs/start.md'),
    ...commandsToRun('docs/kubernetes.md'),
  ]),
];

const sixTimes = "for i in 1 2 3 4 5 6; do curl -s -o /dev/null -w '%{http_code}";

/** The PATH of a person: without the project's own programs, which npm and npx put there themselves. */
const personalPath = (process.env['PATH'] ?? '')
  .split(delimiter)
  .filter((folder) => !folder.includes('node_modules'))
  .join(delimiter);
const envoy = findServer(envoyProgram);
const env = {
  ...runVariables(),
  PATH: 'path' in envoy ? [dirname(envoy.path), personalPath].join(delimiter) : personalPath,
  HOME: process.env['HOME'],
  npm_config_update_notifier: 'false',
};

function block(beginning: string): string {
  const found = blocks.filter((text) => text.startsWith(beginning));
  expect(found, `blocks that begin with "${beginning}"`).toHaveLength(1);
  return found[0] as string;
}

function shell(command: string, more: Record<string, string> = {}): string {
  const options = { cwd: root, env: { ...env, ...more }, encoding: 'utf8', timeout: 60_000 } as const;
  const result = spawnSync('sh', ['-c', command], options);
  expect(result.status, `${command}\n${result.stderr}`).toBe(0);
  return result.stdout;
}

/** Starts what a block starts, with all that it starts itself. */
function start(command: string, more: Record<string, string> = {}): ChildProgram {
  const options = { cwd: root, env: { ...env, ...more }, group: true };
  return new ChildProgram({ command: 'sh', args: ['-c', command], ...options });
}

/** Runs the command until its output matches: a window may end while it runs, so it gets twice the limit. */
function shellUntil(command: string, pattern: RegExp, times: number): string {
  for (let i = 0; i < times; i++) {
    const output = shell(command);
    if (pattern.test(output)) return output;
  }
  throw new Error(`${times} runs of "${command}" never printed ${pattern}`);
}

/** Whether something listens there already, which the commands would then talk to. */
function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    socket.once('connect', () => socket.destroy());
    socket.once('error', () => {});
    socket.once('close', (hadError) => resolve(!hadError));
  });
}

describe('the first pages', () => {
  let limiter: ChildProgram;

  beforeAll(async () => {
    for (const port of [8080, 8081, 6070, 10_000, 10_001, 18_000, 19_000])
      expect(await accepts(port), `port ${port} is taken`).toBe(false);
    // `npm ci` would take the packages away from under this test; the gate runs it before.
    expect(commandBlocks('README.md')[0]?.text).toBe('npm ci && npm start');
    limiter = new ChildProgram({ command: 'npm', args: ['start'], cwd: root, env, group: true });
    await limiter.printed(/curl .*\/v1\/check/);
  });

  afterAll(async () => {
    await limiter?.stop();
  });

  it('has no block that no test runs', () => {
    const known = [
      'export PATH=',
      'curl -i --json',
      `${sixTimes} ' --json`,
      `${sixTimes}\\n' -H`,
      'bin/weir ask',
      'bin/weir explain',
      'curl http://localhost:6070/rlconfig',
      'bin/weir why',
      'envoy -c',
      `${sixTimes}\\n' http://localhost:10000`,
      'bin/weir check',
      'npm run control-plane',
      'CONFIG_TYPE=GRPC_XDS_DELTA',
      'curl http://localhost:19000/snapshot',
      'kubectl apply -f crds/',
      'XDS_HOST=127.0.0.1 bin/weir control-plane',
      'kubectl apply -f examples/manifests/',
    ];
    expect(blocks.filter((text) => !known.some((beginning) => text.startsWith(beginning)))).toEqual([]);
    for (const beginning of known) block(beginning);
  });

  it('finds weir in the clone', () => {
    expect(shell(`${block('export PATH=')}\nweir --version`)).toMatch(/^weir \d/);
  });

  it('gets decisions with curl until the answer is 429', () => {
    const curl = block('curl -i --json');
    const first = shell(curl);
    expect(first).toMatch(/^HTTP\/1\.1 (200 OK|429 Too Many Requests)\r\n/);
    expect(first).toMatch(
      /"rule":"shop.remote_address","limit":\{"name":"","requestsPerUnit":5,"unit":"minute"/,
    );
    shellUntil(curl, /^HTTP\/1\.1 429 Too Many Requests\r\n/, 12);
  });

  it('asks six times in a line', () => {
    expect(shellUntil(block(`${sixTimes} ' --json`), /429 $/, 2)).toMatch(/^((200|429) ){6}$/);
  });

  it('answers other proxies until it says 429', () => {
    expect(shellUntil(block(`${sixTimes}\\n' -H`), /429\n$/, 2)).toMatch(/^((200|429)\n){6}$/);
  });

  it('says which rule applies', () => {
    expect(shell(block('bin/weir explain'))).toContain('5 per minute');
  });

  it('starts with a curl line to copy that works', () => {
    const line = /^\s*(curl .*\/v1\/check)$/m.exec(limiter.output)?.[1] as string;
    shellUntil(line, /429/, 12);
  });

  it('asks over gRPC', () => {
    expect(shell(block('bin/weir ask'))).toMatch(
      /^(OK|OVER_LIMIT)\n {2}remote_address=203\.0\.113\.7: .* left, limit 5 per minute/,
    );
  });

  it('shows rules and counters', () => {
    const output = shell(block('curl http://localhost:6070/rlconfig'));
    expect(output).toContain('shop.remote_address: unit=MINUTE requests_per_unit=5, shadow_mode: false');
    expect(output).toMatch(/^ratelimit\.service\.rate_limit\.shop\.remote_address\.total_hits: \d+$/m);
  });

  it('says which callers were over limit, lets them through and reverts that', () => {
    shellUntil(block('curl -i --json'), /^HTTP\/1\.1 429 /, 12);
    const output = shell(`set -e\n${block('bin/weir why')}`);
    expect(output).toMatch(/ over limit: remote_address=203\.0\.113\.7 of shop/);
    expect(output).toMatch(/\n[01] counters? (?:was|were) reset\n/);
    expect(output).toContain('1 override was removed');
  }, 90_000);

  it('checks the example rules', () => {
    expect(shell(block('bin/weir check'))).toContain('ok: 2 files, 2 domains, 8 rules\n');
  });

  describeWithServer('with Envoy in front', envoyProgram, () => {
    it('answers 429 through it', async () => {
      const program = new ChildProgram({
        command: 'sh',
        args: ['-c', `exec ${block('envoy -c')}`],
        cwd: root,
        env,
      });
      try {
        await program.printed(/starting main dispatch loop/);
        const output = shellUntil(block(`${sixTimes}\\n' http://localhost:10000`), /429\n$/, 2);
        expect(output).toMatch(/^((200|429)\n){6}$/);
      } finally {
        await program.stop();
      }
    });
  });

  it('stops in order at Ctrl-C', async () => {
    await limiter.stop('SIGINT');
    expect(limiter.output).toContain('Shutting down after a signal');
    expect(limiter.output).not.toContain('Ending at once');
    const refused = spawnSync('curl', ['-s', 'http://localhost:8080/healthcheck']);
    expect(refused.status).toBe(7);
  });

  it('gets rules from the control plane, and shows which limiters have them', async () => {
    const controlPlane = start(block('npm run control-plane'));
    try {
      await controlPlane.printed(/start a limiter/);
      const served = start(block('CONFIG_TYPE=GRPC_XDS_DELTA'));
      try {
        await served.printed(/Rules: from the control plane at localhost:18000/);
        shellUntil(block('curl -i --json'), /^HTTP\/1\.1 429 Too Many Requests\r\n/, 12);
        await eventually(() => {
          const snapshot = shell(block('curl http://localhost:19000/snapshot'));
          expect(snapshot).toMatch(/object default\/shop: .* programmed$/m);
        });
      } finally {
        await served.stop();
      }
    } finally {
      await controlPlane.stop();
    }
  });

  describeWithBareApiServer('in a cluster', (api) => {
    it('applies, waits and lists', async () => {
      const kubectl = findServer(kubectlProgram);
      if (!('path' in kubectl)) throw new Error(kubectl.missing);
      const inCluster = {
        PATH: [dirname(kubectl.path), personalPath].join(delimiter),
        KUBECONFIG: api().kubeconfig(),
      };
      shell(block('kubectl apply -f crds/'), inCluster);
      const controlPlane = start(block('XDS_HOST=127.0.0.1 bin/weir control-plane'), inCluster);
      try {
        await controlPlane.printed(/Leading/);
        const served = start(block('CONFIG_TYPE=GRPC_XDS_DELTA'));
        try {
          await served.printed(/Rules: from the control plane/);
          const output = shell(block('kubectl apply -f examples/manifests/'), inCluster);
          expect(output).toMatch(/^NAME +DOMAIN +RULES +ACCEPTED +PROGRAMMED +READY +AGE$/m);
          expect(output).toMatch(/^mail +mail +2 +True +True .*\nshop +shop +6 +True +True /m);
        } finally {
          await served.stop();
        }
      } finally {
        await controlPlane.stop();
      }
    });
  });
});
