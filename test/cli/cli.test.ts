import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeEach, describe, expect, it } from 'vitest';

import { freePort } from '../support/free-port.ts';
import { spawnLimiter, startLimiter } from '../support/limiter-process.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type CommandOutcome, runWeir, spawnWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));

const weir = (...args: string[]): CommandOutcome => runWeir(args);

describe('weir', () => {
  it('reports its version', () => {
    const { version } = JSON.parse(readFileSync(`${root}package.json`, 'utf8')) as { version: string };
    expect(spawnWeir(['--version'])).toEqual({
      status: 0,
      stdout: `weir ${version} (node ${process.versions.node})\n`,
      stderr: '',
    });
  });

  it("takes the path of the Go service's program for the limiter", () => {
    const { status, stdout } = weir('/bin/ratelimit', '--help');
    expect([status, stdout]).toEqual([0, expect.stringMatching('^Usage: weir limiter')]);
  });

  it.each([
    ['limiter/main.ts', 'limiter'],
    ['control-plane/main.ts', 'control-plane'],
    ['cli/main.ts', '<command>'],
  ])('says how to start %s', (file, command) => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [file], { cwd: root, encoding: 'utf8' });
    expect([status, stdout, stderr]).toEqual([
      2,
      '',
      `${file} cannot be started directly: run "bin/weir ${command}" instead\n`,
    ]);
  });

  it.each([
    [[], 'weir: no command given'],
    [['frobnicate'], 'weir: there is no command "frobnicate"'],
    [['constructor'], 'weir: there is no command "constructor"'],
    [['override', 'rm'], 'weir: override rm needs an id, or a domain and entries\n"weir override rm --help"'],
    [['limiter', 'now'], 'weir: limiter takes no arguments, found "now"'],
    [['control-plane', 'now'], 'weir: control-plane takes no arguments, found "now"'],
    [['ask', '-nope'], "weir: Unknown option '--nope'"],
    [['ask', '-dial_string', ''], 'weir: --dial-string is host:port, not ""'],
    [
      ['ask', '-descriptors', 'a=b', '-hits-addend', '-4294967296'],
      'weir: --hits-addend is a whole number from -4294967295 to 4294967295, not "-4294967296"',
    ],
    [
      ['ask', '-descriptors', 'a=b', '--until-over-limit', '0'],
      'weir: --until-over-limit is a whole number from 1 to 86400, not "0"',
    ],
    [
      ['ask', '-descriptors', 'a'],
      'weir: invalid value "a" for --descriptors: "a" is not of the form key=value',
    ],
    [['ask', '--output', 'xml'], 'weir: --output is table, json or yaml, not "xml"'],
    [['ask', '-domain', 'd'], 'weir: ask needs a domain and the entries of a descriptor'],
    [['ask', 'd', 'a=b', '-domain', 'd'], 'weir: ask takes a request once'],
    [['ask', 'd', 'a=b', '-oltp-protocol', 'udp'], 'weir: --oltp-protocol is http or grpc, not "udp"'],
    [['ask', 'd', 'a=b', '+'], 'weir: a + separates two descriptors'],
    [
      ['why', 'd', 'a=b', '+', 'c=d', '--limiter', '127.0.0.1'],
      'weir: why takes one descriptor, without a +',
    ],
    [
      ['ask', '-descriptors', 'a=b', '-grpc-server-ca-file', 'ca.pem'],
      'weir: --grpc-server-ca-file has no effect without --grpc-use-tls',
    ],
    [
      ['ask', '-descriptors', 'a=b', '-grpc-use-tls', '-grpc-cert-file', 'package.json'],
      'weir: --grpc-cert-file: package.json: is not PEM',
    ],
    [
      ['ask', '-descriptors', 'a=b', '-grpc-use-tls', '-grpc-server-ca-file', '/nowhere/ca.pem'],
      'weir: --grpc-server-ca-file: /nowhere/ca.pem: no such file or directory',
    ],
    [['check'], 'weir: check needs a folder or a file'],
  ])('rejects %j with status 2', (args, message) => {
    const { status, stderr } = weir(...args);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
  });

  it('rejects an older Node in one sentence', () => {
    const script = `
      Object.defineProperty(process.versions, 'node', { value: '20.1.0' });
      await import(${JSON.stringify(weirProgram)});`;
    const result = spawnSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' });
    expect(result.status).toBe(2);
    expect(result.stderr).toMatch(/^weir needs Node 26 or newer and this is Node 20\.1\.0: [^\n]*\n$/);
  });
});

describe('weir check', () => {
  let folder: string;

  beforeEach(() => {
    folder = temporaryFolder();
  });
  const write = (name: string, text: string): void => writeFileSync(join(folder, name), text);

  it('is content with the examples', () => {
    expect(weir('check', 'examples/rules')).toEqual({
      status: 0,
      stdout: 'ok: 2 files, 2 domains, 8 rules\n',
      stderr: '',
    });
  });

  it('prints every error of every file with its place', () => {
    write(
      'a.yaml',
      'domain: a\ndescriptors:\n  - key: x\n    rate_limit: { unit: fortnight }\n  - value: y\n',
    );
    write('b.yml', 'domain: ""\nfoo: 1\n');
    const { status, stdout } = weir('check', folder);
    expect(stdout.split('\n')).toEqual([
      `${folder}/a.yaml:4:25: error: unknown unit 'fortnight' [invalid-unit]`,
      '  4 |     rate_limit: { unit: fortnight }',
      '    |                         ^^^^^^^^^',
      '  hint: units are second, minute, hour, day, week, month and year',
      `${folder}/a.yaml:5:5: error: the rule has no key [empty-key]`,
      '  5 |   - value: y',
      '    |     ^^^^^',
      '  hint: each rule needs "key:", the key of the request\'s entry',
      `${folder}/b.yml:1:9: error: the domain is empty [empty-domain]`,
      '  1 | domain: ""',
      '    |         ^^',
      '  hint: the first line of a rule file is "domain: <name>"',
      `${folder}/b.yml:2:1: error: unknown key 'foo' [unknown-key]`,
      '  2 | foo: 1',
      '    | ^^^',
      '  hint: known here: domain, descriptors',
      `failed: 4 errors: 2 files; ${folder}/a.yaml and ${folder}/b.yml are not reviewed further until you correct the errors`,
      '',
    ]);
    expect(status).toBe(1);
  });

  it('takes two files for one domain only when they are merged', () => {
    write('a.yaml', 'domain: d\ndescriptors: [{ key: x }]\n');
    write('b.yaml', 'domain: d\ndescriptors: [{ key: y }]\n');
    const apart = weir('check', '-config_dir', folder);
    expect(apart.stdout).toContain(`${folder}/b.yaml:1:9: duplicate domain 'd' in config file`);
    expect(apart.status).toBe(1);
    expect(weir('check', '-config_dir', folder, '-merge_domain_configs').status).toBe(0);
  });

  it('checks a single file', () => {
    write('a.yaml', 'domain: d\n');
    expect(weir('check', join(folder, 'a.yaml')).status).toBe(0);
  });

  it('calls a folder without rules an error', () => {
    const { status, stdout } = weir('check', folder);
    expect(stdout).toContain(`${folder}: error: contains no *.yaml, *.yml or *.json file [unreadable]\n`);
    expect(status).toBe(1);
  });

  it('names a folder that is not there', () => {
    const { status, stdout } = weir('check', join(folder, 'nowhere'));
    expect(stdout).toContain(`${folder}/nowhere: error: no such file or directory [unreadable]\n`);
    expect(status).toBe(2);
  });
});

describe('weir ask', () => {
  it('prints the answer as text and as JSON', async () => {
    const limiter = await startLimiter({
      env: { BACKEND_TYPE: 'memory', RUNTIME_ROOT: `${root}examples`, RUNTIME_APPDIRECTORY: 'rules' },
    });
    try {
      const target = ['-dial_string', `127.0.0.1:${limiter.ports.grpc}`];
      const text = weir('ask', ...target, 'mail', 'tenant=acme', '+', 'other=1', '--hits-addend', '3');
      expect(text.stdout).toMatch(
        /^OK\n {2}tenant=acme: OK, 997 left, limit 1000 per day \(per_tenant\), resets in \d+ s\n {2}other=1: OK, no rule limits it \("weir explain" shows why\)\n$/,
      );
      const acme = [...target, 'mail', 'tenant=acme', '--hits-addend'];
      const look = weir('ask', ...acme, '0', '--output', 'json');
      expect(JSON.parse(look.stdout)).toMatchObject({
        overallCode: 'OK',
        statuses: [{ limitRemaining: 997 }],
      });
      expect(look.status).toBe(0);
      weir('ask', ...acme, '-3');
      const refunded = weir('ask', ...acme, '0');
      expect(refunded.stdout).toContain('1000 left, limit 1000 per day');
      const wrong = weir('ask', ...target, '-descriptors', 'a=b');
      expect(weir('help', 'ask').stdout).toMatch('Usage: weir ask');
      expect(wrong.stderr).toBe('request error: UNKNOWN: rate limit domain must not be empty\n');
      expect(wrong.status).toBe(1);
      const many = (descriptor: string, seconds: string) =>
        weir('ask', ...target, 'mail', descriptor, '--until-over-limit', seconds, '--hits-addend', '300');
      const over = many('tenant=other', '20');
      expect([over.status, over.stderr]).toEqual([0, '']);
      expect(over.stdout).toMatch(/^OVER_LIMIT\n {2}tenant=other: OVER_LIMIT, 0 left, limit 1000 per day/);
      const never = many('other=1', '4');
      expect([never.status, never.stdout]).toEqual([1, '']);
      expect(never.stderr).toMatch(
        /^request error: not OVER_LIMIT within 4 s, asked \d+ times; at last: OK\n {2}other=1: OK, no rule/,
      );
    } finally {
      await limiter.stop();
    }
  });

  it('asks over a Unix socket, named as gRPC does or by its path', async () => {
    const path = join(temporaryFolder(), 'grpc.sock');
    const rules = { RUNTIME_ROOT: `${root}examples`, RUNTIME_APPDIRECTORY: 'rules' };
    const limiter = spawnLimiter({ env: { BACKEND_TYPE: 'memory', GRPC_UDS: path, ...rules } });
    try {
      await limiter.printed(/Listening for gRPC on/);
      const wanted = ['mail', 'tenant=acme'];
      for (const target of [`unix:${path}`, `unix://${path}`, path]) {
        expect(weir('ask', '-dial_string', target, ...wanted)).toMatchObject({ status: 0, stderr: '' });
      }
    } finally {
      await limiter.stop();
    }
  });

  it('has only the words of gRPC for several addresses, without a note that is empty', async () => {
    const target = `ipv4:127.0.0.1:${await freePort()},127.0.0.1:${await freePort()}`;
    const { status, stderr } = weir('ask', '-dial_string', target, '-domain', 'd', '-descriptors', 'a=b');
    expect(stderr).toMatch(/^request error: UNAVAILABLE: [^\n]*ECONNREFUSED [\d.:]+\n$/);
    expect(status).toBe(1);
  });

  it('says when no limiter is there', async () => {
    const target = ['-dial_string', `127.0.0.1:${await freePort()}`, '-domain', 'd', '-descriptors', 'a=b'];
    const { status, stderr } = weir('ask', ...target);
    expect(stderr).toBe(
      `request error: UNAVAILABLE: ${target[1]}: connection refused\nA limiter listens there only after its store has answered and its rules are loaded; its log says what it waits for.\n`,
    );
    expect(status).toBe(1);
  });
});
