/** Every example of every help text runs, on loopback and in a folder of its own: each that cannot is listed with its reason. */
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ChildProgram } from '../support/child-program.ts';
import { projectRoot } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { findServer, helmProgram } from '../support/find-server.ts';
import { httpAsk } from '../support/http-ask.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { type CommandOutcome, runWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';

/** By its beginning, why nothing runs an example. */
const notRun: [beginning: RegExp, reason: string][] = [
  [/^weir init$/, 'asks its questions at a terminal; cli/init/init-command.test.ts answers them'],
  [/^weir status (?!--limiter)/, 'needs a cluster; test/operate/pods.test.ts asks one'],
  [/^kubectl weir (?!status --limiter)/, 'needs a cluster; test/control-plane/kubectl-weir.test.ts asks one'],
];

/** What an example prints that does not end by itself. */
const untilStopped: [beginning: RegExp, printed: RegExp][] = [
  [/ weir limiter$/, /Listening for gRPC/],
  [/ weir control-plane$/, /Listening for xDS/],
  [/^weir top .*--watch$/, /remote_address_203\.0\.113\.7/],
];

/** `weir diff` says by 1 that something changed; all others end with 0. */
const hasChanged = /^weir diff (?!--fail-on)/;

/** Commands whose help has no example to run: a form of the line, or no flag that has to be shown. */
const withoutExamples = ['replay', 'webhook'];

type Program = 'weir' | 'kubectl weir';

function helpOf(program: Program, ...words: string[]): string {
  const { status, stdout } = runWeir([...words, '--help'], { program });
  expect(status).toBe(0);
  return stdout;
}

/** Of one command, and of the words that it takes first. */
function helpsOf(program: Program, command: string): string[] {
  const help = helpOf(program, command);
  const [, words = ''] = /^Usage: .*?weir \S+ ([a-z]+(?:\|[a-z]+)+)/.exec(help) ?? [];
  const own = help.includes(`${command} <word> --help"`) ? words.split('|') : [];
  return [help, ...own.map((word) => helpOf(program, command, word))];
}

/** Lines that are typed, and no flags, without what is said of them. */
function examplesOf(help: string): string[] {
  return help
    .replaceAll(/ \\\n +/g, ' ')
    .split('\n')
    .filter((line) => /^ {2}(?![-<])\S/.test(line))
    .map((line) => line.trim().replace(/ {2,}#.*$/, ''))
    .filter((line) => /(?:^|[ (])weir [a-z]/.test(line) && !/ {2}/.test(line));
}

const helps = (['weir', 'kubectl weir'] as const).flatMap((program) => {
  const commands = [...helpOf(program).matchAll(/^ {2}([a-z][a-z-]*) {2,}\w/gm)];
  return commands.map(([, command = '']) => ({
    command,
    examples: helpsOf(program, command).flatMap(examplesOf),
  }));
});
const examples = [...new Set(helps.flatMap(({ examples }) => examples))];

const rules = {
  shop: '- { key: path, rate_limit: { unit: hour, requests_per_unit: 5 } }\n- { key: remote_address, rate_limit: { unit: hour, requests_per_unit: 1 } }\n- { key: tenant, rate_limit: { unit: hour, requests_per_unit: 5 } }',
  mail: '- { key: tenant, rate_limit: { unit: hour, requests_per_unit: 5 } }\n- { key: contract, rate_limit: { unit: hour, requests_per_unit: 5 } }',
  llm: '- key: team\n  rate_limit: { unit: day, requests_per_unit: 9 }\n  descriptors:\n    - { key: model, rate_limit: { unit: day, requests_per_unit: 9 } }',
};

describe('the examples of help texts', () => {
  const former = process.cwd();
  let folder: string;
  let limiter: LimiterProcess;
  let env: Record<string, string>;

  /** With the limiter of this test in the place of limiters by name. */
  const here = (example: string): string =>
    example
      .replaceAll(
        /limiter\.example\.com|10\.0\.0\.1|10\.0\.0\.2:6071|localhost(:6070)?/g,
        `127.0.0.1:${limiter.ports.debug}`,
      )
      .replace(/^weir ask /, `weir ask --dial-string 127.0.0.1:${limiter.ports.grpc} `);

  function inShell(text: string): CommandOutcome {
    return spawnSync('bash', ['-e', '-o', 'pipefail', '-c', text], {
      cwd: folder,
      // What goes to a cluster is made for it, not for limiters.
      env: text.includes('kubectl') ? { ...env, WEIR_LIMITERS: undefined } : env,
      encoding: 'utf8',
    });
  }

  function put(path: string, text: string): void {
    mkdirSync(join(folder, path, '..'), { recursive: true });
    writeFileSync(join(folder, path), text);
  }

  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'weir-help-'));
    cpSync(join(projectRoot, 'examples'), join(folder, 'examples'), { recursive: true });
    for (const copy of ['rules', 'old/rules'])
      cpSync('examples/rules', join(folder, copy), { recursive: true });
    cpSync('examples/replay/requests.ndjson', join(folder, 'requests.ndjson'));
    put('charts/my-limits/Chart.yaml', 'apiVersion: v2\nname: my-limits\nversion: 1.0.0\n');
    const configMap = 'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: limits }\ndata:\n  shop.yaml: |\n';
    const shop = readFileSync('examples/rules/shop.yaml', 'utf8');
    put('charts/my-limits/templates/limits.yaml', configMap + shop.replaceAll(/^/gm, '    '));
    for (const [domain, text] of Object.entries(rules))
      put(
        `served/config/${domain}.yaml`,
        `domain: ${domain}\ndescriptors:\n${text.replaceAll(/^/gm, '  ')}\n`,
      );
    put('.bin/weir', `#!/bin/sh\nexec '${process.execPath}' '${weirProgram}' "$@"\n`);
    // In the place of an API server: takes manifests, and nothing else.
    put('.bin/kubectl', `#!/bin/sh\ngrep -q '^kind: RateLimit'\n`);
    for (const name of ['weir', 'kubectl']) chmodSync(join(folder, '.bin', name), 0o755);
    const helm = findServer(helmProgram);
    if (!('path' in helm)) throw new Error(helm.missing);
    symlinkSync(helm.path, join(folder, '.bin/helm'));
    mkdirSync(join(folder, '.config/fish/completions'), { recursive: true });
    limiter = await startLimiter({
      env: {
        ...{ BACKEND_TYPE: 'memory', RLQS: 'true' },
        ...{ RUNTIME_ROOT: join(folder, 'served'), RUNTIME_APPDIRECTORY: 'config' },
      },
    });
    env = {
      PATH: [join(folder, '.bin'), process.env['PATH']].join(delimiter),
      NODE_COMPILE_CACHE: process.env['NODE_COMPILE_CACHE'] ?? '',
      HOME: folder,
      WEIR_LIMITERS: `127.0.0.1:${limiter.ports.debug}`,
    };
    const git = 'git -c user.name=test -c user.email=test@localhost';
    inShell(`git init -q -b main; git add rules; ${git} commit -q -m rules`);
    put('rules/shop.yaml', shop.replace('requests_per_unit: 5\n', 'requests_per_unit: 4\n'));
    for (let i = 0; i < 2; i++) {
      const body = JSON.stringify({ domain: 'shop', descriptors: [[{ remote_address: '203.0.113.7' }]] });
      const headers = {
        'content-type': 'application/json',
        'x-request-id': '3f1c9a52-6f0e-9f0c-8c43-0d0b1c6d3a11',
      };
      await httpAsk(limiter.ports.http, '/v1/check', { method: 'POST', headers, body });
    }
    // In the same second, the request of an example without an id would take the place of this one.
    const secondOf = (): number => Math.floor(Date.now() / 1_000);
    const second = secondOf();
    await eventually(() => expect(secondOf()).toBeGreaterThan(second));
    process.chdir(folder);
  }, 60_000);

  afterAll(async () => {
    process.chdir(former);
    await limiter?.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  it('are there for every command that needs them', () => {
    const without = helps.filter((one) => one.examples.length === 0).map(({ command }) => command);
    expect(without).toEqual(withoutExamples);
    const listed = [...notRun, ...untilStopped].map(([beginning]) => beginning);
    expect(listed.filter((beginning) => !examples.some((one) => beginning.test(one)))).toEqual([]);
  });

  it.each(examples)('%s', async (example) => {
    if (notRun.some(([beginning]) => beginning.test(example))) return;
    const [, printed] = untilStopped.find(([beginning]) => beginning.test(example)) ?? [];
    if (printed !== undefined) {
      const anyPorts = { HOST: '127.0.0.1', PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0', XDS_PORT: '0' };
      const program = new ChildProgram({
        command: 'bash',
        args: ['-c', here(example)],
        cwd: folder,
        env: { ...env, ...anyPorts },
        group: true,
      });
      try {
        await program.printed(printed);
      } finally {
        await program.stop('SIGINT');
      }
      return;
    }
    const typed = here(example);
    // What a shell does takes a process; the others run in one thread.
    const words = [...typed.matchAll(/(?:'[^']*'|"[^"]*"|[^\s'"])+/g)].map(([word]) =>
      word.replaceAll(/['"]/g, ''),
    );
    const { status, stdout, stderr } = /[|<>]/.test(typed)
      ? inShell(`fpath=(. .); ${typed}`)
      : words[0] === 'kubectl'
        ? runWeir(words.slice(2), { env, program: 'kubectl weir' })
        : runWeir(words.slice(1), { env });
    expect(status, stdout + stderr).toBe(hasChanged.test(example) ? 1 : 0);
  });
});
