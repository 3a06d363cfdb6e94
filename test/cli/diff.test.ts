import { spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { rateLimitConfigTexts } from '../support/rate-limit-config.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';

const root = new URL('../..', import.meta.url).pathname;
const shop = readFileSync(`${root}examples/rules/shop.yaml`, 'utf8');

function changed(folder: string): string {
  const path = join(folder, 'shop.yaml');
  const fewer = shop
    .replace('requests_per_unit: 5\n', 'requests_per_unit: 4\n')
    .replace('shadow_mode: true', '');
  writeFileSync(path, fewer);
  return path;
}

describe('weir diff', () => {
  it('says what each change means, with status 1', () => {
    const path = changed(temporaryFolder());
    expect(runWeir(['diff', 'examples/rules/shop.yaml', path])).toEqual({
      status: 1,
      stdout: `~ shop: remote_address
    requests_per_unit: 5 -> 4
    stricter: 4 per minute instead of 5 per minute
~ shop: path=/checkout
    shadow_mode: true -> false
    stricter: shadow mode let these requests pass; those over limit no longer pass
2 changes: 2 stricter
`,
      stderr: '',
    });
  });

  it('says what becomes of leases', () => {
    const folder = temporaryFolder();
    const [before, after] = ['', 'lease: 2%, '].map((lease, n) => {
      const path = join(folder, `${n}.yaml`);
      const rule = `{ key: k, ${lease}rate_limit: { requests_per_unit: 100, unit: minute } }`;
      writeFileSync(path, `domain: d\ndescriptors: [${rule}]\n`);
      return path;
    });
    expect(runWeir(['diff', before!, after!]).stdout).toBe(`~ d: k
    lease: LEASE_SHARE -> 2%
    same: a limiter leases up to 2 of its hits at a time, if LEASES is on
1 change: 1 same
`);
  });

  it('says what another algorithm, window or number of limits means, and which counts restart', () => {
    const folder = temporaryFolder();
    const [before, after] = ['before.yaml', 'after.yaml'].map((name) => join(folder, name));
    const rules = (...limits: string[]) =>
      `domain: d\ndescriptors:\n${limits.map((one, index) => `  - { key: k${index}, ${one} }\n`).join('')}`;
    const minute = 'requests_per_unit: 100, unit: minute';
    const bucket = '{ requests_per_unit: 10, unit: second, algorithm: token_bucket, burst: 20 }';
    const day = '{ requests_per_unit: 5000, unit: day, name: daily }';
    const was = [`{ ${minute} }`, `{ ${minute} }`, `{ ${minute}, algorithm: sliding_window }`];
    writeFileSync(
      before!,
      rules(...was.map((one) => `rate_limit: ${one}`), `rate_limits: [{ ${minute} }, ${bucket}]`),
    );
    writeFileSync(
      after!,
      rules(
        `rate_limit: { ${minute}, algorithm: sliding_window }`,
        `rate_limits: [{ ${minute} }, ${day}]`,
        `rate_limit: { ${minute}, unit_multiplier: 5, algorithm: sliding_window }`,
        `rate_limits: [{ ${minute} }, ${bucket}, ${day}]`,
      ),
    );
    expect(runWeir(['diff', before!, after!]).stdout).toBe(`~ d: k0
    algorithm: fixed_window -> sliding_window
    stricter: 100 per minute, sliding window instead of 100 per minute; hits of the previous window still count in part, so there is no second burst at its end
    other counter key, so counting starts again at 0: d_k0_<any>_ -> 1{d;k0=<any>}
~ d: k1
    unit: minute -> none, requests_per_unit: 100 -> none, rate_limits: none -> 100 per minute; 5000 per day (name daily)
    stricter: 100 per minute; 5000 per day instead of 100 per minute
    other counter key, so counting starts again at 0 (with COUNTER_KEYS=unambiguous 100 per minute continues): d_k1_<any>_ -> 1{d;k1=<any>}
    other metric name: d.k1 -> d.k1.1m, d.k1.daily
~ d: k2
    unit_multiplier: 1 -> 5
    stricter: 100 in 5m, sliding window instead of 100 per minute, sliding window
    another window, so counting starts again at 0
~ d: k3
    rate_limits: 100 per minute; 10 per second, token bucket, burst 20 -> 100 per minute; 10 per second, token bucket, burst 20; 5000 per day (name daily)
    stricter: 100 per minute; 10 per second, token bucket, burst 20; 5000 per day instead of 100 per minute; 10 per second, token bucket, burst 20
    its own counter, so counting starts again at 0: 5000 per day
4 changes: 4 stricter
`);
  });

  it('finds no difference between a rule file, its manifest and its xDS resource', () => {
    const folder = temporaryFolder();
    for (const target of ['manifest', 'xds']) {
      const path = join(folder, `${target}.json`);
      writeFileSync(path, runWeir(['convert', 'examples/rules', '--to', target, '--output', 'json']).stdout);
      const outcome = runWeir(['diff', 'examples/rules', path]);
      expect(outcome).toEqual({ status: 0, stdout: 'no changes\n', stderr: '' });
    }
  });

  it('reads pipes, as of git show, and standard input', () => {
    const path = changed(temporaryFolder());
    const script = 'exec "$0" "$1" diff <(cat examples/rules/shop.yaml) "$2"';
    const { stdout } = spawnSync('bash', ['-c', script, process.execPath, weirProgram, path], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(stdout).toContain('2 changes: 2 stricter\n');
    expect(runWeir(['diff', '-', path], { input: shop }).stdout).toBe(stdout);
  });

  it('takes an empty file for no rules', () => {
    const { status, stdout } = runWeir(['diff', '/dev/null', 'examples/rules/mail.yaml']);
    expect(stdout).toContain('+ mail: tenant\n');
    expect(stdout).toContain('2 changes: 2 new\n');
    expect(status).toBe(1);
  });

  it('prints JSON', () => {
    const { status, stdout } = runWeir(['diff', 'examples/rules/mail.yaml', '/dev/null', '--output', 'json']);
    expect(JSON.parse(stdout)).toMatchObject({
      changes: [
        { kind: 'removed', fleet: 'default', domain: 'mail', rule: ['tenant'], effect: 'gone' },
        { kind: 'removed', rule: ['contract'], fields: [{ name: 'unit', before: 'month' }, {}, {}] },
      ],
      effects: { gone: 2 },
    });
    expect(status).toBe(1);
  });

  it.each([
    ['gone', 0],
    ['gone,new', 1],
    ['unlimited', 1],
    ['shadow,gone', 1],
    ['looser', 1],
    ['stricter', 0],
    ['none', 0],
  ])('fails on changes of the effects %s with status %i', (effects, expected) => {
    const folder = temporaryFolder();
    const rule = (key: string, more: string): string => `  - key: ${key}\n${more}`;
    const limit = '    rate_limit: { unit: minute, requests_per_unit: 5 }\n';
    const old = `domain: d\ndescriptors:\n${rule('a', limit)}${rule('b', limit)}`;
    const now = `domain: d\ndescriptors:\n${rule('a', '    rate_limit: { unlimited: true }\n')}${rule('b', `${limit}    shadow_mode: true\n`)}${rule('c', limit)}`;
    const path = join(folder, 'now.yaml');
    writeFileSync(path, now);
    const { status, stdout, stderr } = runWeir(['diff', '--fail-on', effects, '-', path], { input: old });
    expect(stdout).toContain('3 changes: 1 new, 2 looser\n');
    expect(status).toBe(expected);
    expect(stderr === '').toBe(expected === 0);
    if (effects === 'unlimited')
      expect(stderr).toBe('failed: 1 change that --fail-on names: d: a (unlimited)\n');
  });

  it('ends quietly when the reader closes before the end', () => {
    const rules = Array.from(
      { length: 5_000 },
      (_, i) => `  - { key: k${i}, rate_limit: { unlimited: true } }\n`,
    );
    const path = join(temporaryFolder(), 'many.yaml');
    writeFileSync(path, `domain: d\ndescriptors:\n${rules.join('')}`);
    const script = '"$0" "$1" diff /dev/null "$2" | head -n 1; echo $PIPESTATUS';
    const { stdout, stderr } = spawnSync('bash', ['-c', script, process.execPath, weirProgram, path], {
      cwd: root,
      encoding: 'utf8',
    });
    expect([stdout, stderr]).toEqual(['+ d: k0\n1\n', '']);
  });

  it.each([
    ['standard output', '>/dev/full', 'weir: the output cannot be written: no space left on device\n'],
    ['both outputs', '>/dev/full 2>/dev/full', ''],
  ])('ends with one line and status 2 when %s cannot be written', (_, redirection, line) => {
    const path = join(temporaryFolder(), 'one.yaml');
    writeFileSync(path, 'domain: d\ndescriptors: [{ key: k, rate_limit: { unlimited: true } }]\n');
    const script = `"$0" bin/weir.js diff /dev/null "$1" ${redirection}`;
    const options = { cwd: root, encoding: 'utf8' } as const;
    const { status, stderr } = spawnSync('bash', ['-c', script, process.execPath, path], options);
    expect([status, stderr]).toEqual([2, line]);
  });

  it('fails on each effect that a change has for some requests', () => {
    const rule = (more: string): string =>
      `domain: d\ndescriptors:\n  - key: tenant\n    descriptors:\n      - key: user\n        rate_limit: { unit: minute, requests_per_unit: 10 }\n${more}`;
    const path = join(temporaryFolder(), 'now.yaml');
    writeFileSync(
      path,
      rule('  - key: tenant\n    value: acme\n    rate_limit: { unit: minute, requests_per_unit: 1000 }\n'),
    );
    expect(runWeir(['diff', '--fail-on', 'gone', '-', path], { input: rule('') })).toEqual({
      status: 1,
      stdout: `+ d: tenant=acme
    unit: minute, requests_per_unit: 1000
    mixed: these requests had no limit, and are limited now
    takes requests from 'tenant > user' (10 per minute): these requests no longer have a limit
1 change: 1 mixed
`,
      stderr: 'failed: 1 change that --fail-on names: d: tenant=acme (gone)\n',
    });
  });

  it('compares manifests of several classes within their class, and those of one with files of none', () => {
    const objects = (edge: number): string =>
      rateLimitConfigTexts(
        { name: 'a', domain: 'd', requests: 5 },
        { name: 'b', domain: 'd', className: 'edge', requests: edge },
      );
    const path = join(temporaryFolder(), 'objects.yaml');
    writeFileSync(path, objects(7));
    const diff = (input: string, ...flags: string[]) => runWeir(['diff', path, '-', ...flags], { input });
    expect(diff(objects(7))).toEqual({ status: 0, stdout: 'no changes\n', stderr: '' });
    const changed = diff(objects(6));
    expect(changed.stdout).toContain('~ d (class edge): key\n    requests_per_unit: 7 -> 6\n    stricter');
    expect(diff(objects(6), '--class', 'weir').status).toBe(0);
    const file = 'domain: d\ndescriptors: [{ key: key, rate_limit: { unit: day, requests_per_unit: 7 } }]\n';
    expect(diff(file, '--class', 'edge')).toEqual({ status: 0, stdout: 'no changes\n', stderr: '' });
  });

  it.each([
    [['diff', 'a'], 'diff takes two sets of rules, not 1'],
    [
      ['diff', 'a', 'b', '--fail-on', 'gone,fewer'],
      'weir: --fail-on: "fewer" is not an effect; it takes new, stricter, mixed, looser, gone, same, unlimited, shadow, or none\n',
    ],
    [['diff', '-', '-'], 'only one of the two can be standard input'],
    [['diff', 'examples/rules', 'nowhere'], 'weir: nowhere: no such file or directory'],
    [['diff', 'examples/envoy', 'examples/rules'], "unknown key 'static_resources'"],
  ])('rejects %j with status 2', (args, message) => {
    const { status, stderr } = runWeir(args);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
  });
});
