import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { descriptorLevels, domainFields, limitFields, ruleFields } from '../../rules/language/fields.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

/** Fifteen processes, one after the other, on a machine that others use, too. */
const patience = { timeout: 120_000 };

describe('weir convert', () => {
  it('writes manifests, with a word about comments', () => {
    const { status, stdout, stderr } = runWeir([
      ...['convert', 'examples/rules', '--to', 'manifest', '--domain', 'mail'],
      ...['--name', 'limits', '--namespace', 'team', '--fleet', 'edge'],
    ]);
    expect(stdout).toBe(`apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: limits
  namespace: team
spec:
  fleet: edge
  domain: mail
  descriptors:
    - key: tenant
      rateLimit:
        unit: day
        requestsPerUnit: 1000
        name: per_tenant
      valueToMetric: true
    - key: contract
      rateLimit:
        unit: month
        requestsPerUnit: 500000
        replaces:
          - name: per_tenant
`);
    expect(stderr).toBe('weir: comments are lost\n');
    expect(status).toBe(0);
  });

  it.each(['rules', 'manifest', 'xds'])(
    'writes control characters in JSON of %s as YAML allows them',
    (to) => {
      const input =
        'domain: d\ndescriptors:\n  - { key: "a\\x7f\\u0085", rate_limit: { unlimited: true } }\n';
      const { stdout } = runWeir(['convert', '-', '--to', to, '-o', 'json'], { input });
      expect(stdout).toContain('"a\\u007f\\u0085"');
      expect(runWeir(['convert', '-', '--to', 'rules'], { input: stdout })).toMatchObject({ status: 0 });
    },
  );

  it('carries windows, algorithms and several limits over, from each spelling to each', patience, () => {
    const folder = temporaryFolder();
    const path = (name: string): string => join(folder, name);
    const targets = ['rules', 'manifest', 'xds'];
    writeFileSync(
      path('rules'),
      `domain: d
descriptors:
  - key: tenant
    rate_limit: { requests_per_unit: 100, window: 5m, algorithm: sliding_window }
  - key: message
    rate_limits:
      - { requests_per_unit: 5, unit: second, algorithm: token_bucket, burst: 0 }
      - { requests_per_unit: 1000, unit: month, name: monthly, replaces: [{ name: x }] }
`,
    );
    const convert = (from: string, to: string): string => {
      const { status, stdout } = runWeir(['convert', path(from), '--to', to]);
      expect(status).toBe(0);
      return stdout;
    };
    expect(convert('rules', 'rules')).toContain('      unit: minute\n      unit_multiplier: 5\n');
    const manifest = convert('rules', 'manifest');
    expect(manifest).toContain('        unitMultiplier: 5\n');
    expect(manifest).toContain('          algorithm: TokenBucket\n          burst: 0\n');
    writeFileSync(path('manifest'), manifest);
    const xds = convert('rules', 'xds');
    expect(JSON.parse(xds).resources[0].descriptors[1].rateLimits[0]).toEqual({
      unit: 'SECOND',
      requestsPerUnit: 5,
      algorithm: 'TOKEN_BUCKET',
      burst: 0,
    });
    writeFileSync(path('xds'), xds);
    for (const from of ['manifest', 'xds']) {
      for (const to of targets) {
        writeFileSync(path('converted'), convert(from, to));
        expect(runWeir(['diff', path('rules'), path('converted')]).stdout).toBe('no changes\n');
      }
    }
  });

  it('warns of a repeated key, of which the last one counts as in limiters', () => {
    const input = 'domain: one\ndescriptors:\n- key: a\ndomain: two\n';
    const { status, stdout, stderr } = runWeir(['convert', '-', '--to', 'manifest'], { input });
    expect([status, stderr]).toEqual([
      0,
      expect.stringMatching(
        /^weir: warning: <stdin>:4:1: .*key 'domain' is repeated, the last one counts\n$/,
      ),
    ]);
    expect(stdout).toContain('  domain: two\n');
  });

  it('warns of a number of requests beside unlimited, which it omits', () => {
    const folder = temporaryFolder();
    const limit = 'rate_limit: { unlimited: true, requests_per_unit: 5 }';
    const file = join(folder, 'a.yaml');
    writeFileSync(
      file,
      `domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n        ${limit}\n  - key: c\n    rate_limit: { unlimited: true }\n`,
    );
    for (const to of ['rules', 'manifest']) {
      const { status, stdout, stderr } = runWeir(['convert', file, '--to', to]);
      expect([status, stderr]).toEqual([
        0,
        `weir: warning: ${file}:6:59: requests_per_unit has no effect beside unlimited, so the output omits it\n`,
      ]);
      expect(stdout).not.toMatch(/requests/i);
    }
    const { stdout, stderr } = runWeir(['convert', file, '--to', 'xds']);
    expect([stdout, stderr]).toEqual([expect.stringContaining('"requestsPerUnit": 5'), '']);
    writeFileSync(join(folder, 'xds.json'), stdout);
    expect(runWeir(['convert', join(folder, 'xds.json'), '--to', 'rules']).stderr).toMatch(
      /^weir: warning: .*xds\.json:\d+:\d+: requestsPerUnit has no effect beside unlimited/,
    );
  });

  it('makes names of objects out of domains', () => {
    const names = ['Shop_API', 'a..b', '*', 'x/y.z'].map((domain) => {
      const input = JSON.stringify({ domain, descriptors: [] });
      const { stdout } = runWeir(['convert', '-', '--to', 'manifest'], { input });
      return /name: (.*)/.exec(stdout)?.[1];
    });
    expect(names).toEqual(['shop-api', 'a.b', 'rules', 'x-y.z']);
  });

  it('keeps the class of an object, and names it if it is lost', () => {
    const path = join(temporaryFolder(), 'class.yaml');
    const spec = 'spec: { className: edge, domain: d }';
    const head = 'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: { name: a }\n';
    writeFileSync(path, `${head}${spec}\n`);
    expect(runWeir(['convert', path, '--to', 'manifest']).stdout).toContain(
      'spec:\n  className: edge\n  domain: d\n',
    );
    expect(runWeir(['convert', path, '--to', 'rules']).stderr).toContain(
      "a rule file cannot specify a class: the output omits the class 'edge' of default/a",
    );
    const given = runWeir(['convert', path, '--to', 'manifest', '--class', 'inner']);
    expect(given.stdout).toContain('className: inner\n');
  });

  it('names what is lost, and writes nothing unless that is allowed', () => {
    const args = ['convert', 'examples/manifests', '--to', 'rules', '--domain', 'mail'];
    expect(runWeir(args)).toEqual({
      status: 1,
      stdout: '',
      stderr:
        'weir: a rule file has no labels: app.kubernetes.io/part-of of default/mail are lost\nweir: --allow-loss omits it\n',
    });
    const allowed = runWeir([...args, '--allow-loss']);
    expect(allowed.stdout).toMatch(/^domain: mail\ndescriptors:\n {2}- key: tenant\n/);
    expect(allowed.stderr).toContain('weir: warning: a rule file has no labels');
    expect(allowed.status).toBe(0);
  });

  it('joins files of one domain, and never gives one name to two objects', () => {
    const folder = temporaryFolder();
    const write = (file: string, domain: string, key: string): void =>
      writeFileSync(join(folder, file), JSON.stringify({ domain, descriptors: [{ key }] }));
    write('a.yaml', 'a_b', 'one');
    write('b.yaml', 'a_b', 'two');
    const merged = ['convert', folder, '--merge-domain-configs', '--to'];
    const { stdout } = runWeir([...merged, 'manifest']);
    expect(stdout).toContain('  domain: a_b\n  descriptors:\n    - key: one\n    - key: two\n');
    expect(stdout.match(/^kind:/gm)).toHaveLength(1);
    expect(JSON.parse(runWeir([...merged, 'xds']).stdout)).toMatchObject({ resources: [{ domain: 'a_b' }] });
    write('c.yaml', 'a-b', 'one');
    const { status, stderr } = runWeir([...merged, 'manifest']);
    expect(stderr).toContain("c.yaml: several objects would be called 'a-b': use --domain and --name");
    expect(status).toBe(1);
  });

  it('rejects what a manifest cannot say, each with its place', () => {
    const nested = (levels: number): object =>
      levels === 1 ? { key: 'k' } : { key: 'k', descriptors: [nested(levels - 1)] };
    const deep = (levels: number): object => (levels === 1 ? {} : { a: deep(levels - 1) });
    const text = (max: number): string => 'x'.repeat(max + 1);
    const { key, value, metadata } = ruleFields;
    const { name, replaces } = limitFields;
    const limit = (own: object) => ({ rate_limit: { unit: 'day', requests_per_unit: 1, ...own } });
    const names = Array.from({ length: replaces.max + 1 }, () => ({ name: 'n' }));
    const descriptors = [
      { key: text(key.max) },
      { key: 'a', value: text(value.max) },
      { key: 'b', ...limit({ name: text(name.max) }) },
      { key: 'c', ...limit({ replaces: names }) },
      { key: 'd', ...limit({ replaces: [{ name: text(name.max) }] }) },
      { key: 'e', metadata: deep(metadata.max + 1) },
      nested(descriptorLevels + 1),
    ];
    const domain = text(domainFields.domain.max);
    const input = JSON.stringify({ domain, descriptors });
    const { status, stdout, stderr } = runWeir(['convert', '-', '--to', 'manifest', '--allow-loss'], {
      input,
    });
    const refusals = stderr.matchAll(
      /^weir: <stdin>:1:\d+: a manifest cannot express it: (.*?): (?:must )(.*)$/gm,
    );
    expect(Array.from(refusals, ([, place, problem]) => [place, problem])).toEqual([
      ['spec.domain', 'have at most 253 characters, found 254'],
      ['spec.descriptors[0].key', 'have at most 1024 characters, found 1025'],
      ['spec.descriptors[1].value', 'have at most 4096 characters, found 4097'],
      ['spec.descriptors[2].rateLimit.name', 'have at most 253 characters, found 254'],
      ['spec.descriptors[3].rateLimit.replaces', 'have at most 64 elements, found 65'],
      ['spec.descriptors[4].rateLimit.replaces[0].name', 'have at most 253 characters, found 254'],
      ['spec.descriptors[5].metadata', 'nest objects and lists at most 16 levels deep'],
      [
        `spec.descriptors[6]${'.descriptors[0]'.repeat(7)}.descriptors`,
        'be empty: rules nest at most 8 levels deep',
      ],
    ]);
    expect([status, stdout]).toEqual([1, '']);
  });

  it('names the line in the file of a rule that it rejects', () => {
    const folder = temporaryFolder();
    const rule = (key: string): string =>
      `  - key: ${key}\n    rate_limit:\n      unit: day\n      requests_per_unit: 1\n`;
    writeFileSync(join(folder, 'a.yaml'), `domain: d\ndescriptors:\n${rule('a')}`);
    const name = 'x'.repeat(limitFields.name.max + 1);
    writeFileSync(
      join(folder, 'b.yaml'),
      `domain: d\ndescriptors:\n${rule('b')}${rule('c')}      name: ${name}\n`,
    );
    const { status, stderr } = runWeir(['convert', folder, '--to', 'manifest', '--merge-domain-configs']);
    const place = `${join(folder, 'b.yaml')}:11:13`;
    expect(stderr).toContain(
      `${place}: a manifest cannot express it: spec.descriptors[2].rateLimit.name: must have`,
    );
    expect(status).toBe(1);
  });

  it('goes round: rule file, manifest, xDS, rule file', () => {
    const folder = temporaryFolder();
    let input = 'examples/rules/shop.yaml';
    const first = runWeir(['convert', input, '--to', 'rules']).stdout;
    for (const target of ['manifest', 'xds', 'rules']) {
      const { status, stdout } = runWeir(['convert', input, '--to', target]);
      expect(status).toBe(0);
      input = join(folder, `${target}.yaml`);
      writeFileSync(input, stdout);
      if (target === 'rules') expect(stdout).toBe(first);
    }
  });

  it.each([
    [['convert', 'examples/rules'], 2, 'convert needs --to rules, manifest or xds'],
    [['convert', 'examples/rules', '--to', 'toml'], 2, '--to is rules, manifest or xds, not "toml"'],
    [['convert', '--to', 'xds'], 2, 'convert needs rules: a file or a folder'],
    [
      ['convert', 'examples/rules', '--to', 'xds', '--domain', 'x'],
      2,
      'weir: examples/rules: it has no rules for that domain, class and fleet\n',
    ],
    [
      ['convert', 'examples/rules', '--to', 'xds', '--domain', 'shpo'],
      2,
      'weir: examples/rules: it has no rules for that domain, class and fleet; did you mean "shop"?',
    ],
    [['convert', 'examples/rules', '--to', 'manifest', '--name', 'x'], 2, '--name is for one domain'],
    [
      ['convert', 'examples/rules/mail.yaml', '--to', 'manifest', '--name', 'Mail_1'],
      2,
      "--name must be a DNS name (lower case letters, digits, '-' and '.', at most 253 characters), found \"Mail_1\"",
    ],
    [
      ['convert', 'examples/rules/mail.yaml', '--to', 'manifest', '--namespace', 'a.b'],
      2,
      '--namespace must be a DNS label (lower case letters, digits and \'-\', at most 63 characters), found "a.b"',
    ],
    [
      ['convert', 'examples/rules/mail.yaml', '--to', 'rules', '--name', 'x'],
      2,
      '--name has no effect with --to rules',
    ],
    [
      ['convert', 'examples/rules/mail.yaml', '--to', 'xds', '--namespace', 'x'],
      2,
      '--namespace has no effect with --to xds',
    ],
    [['convert', 'nowhere', '--to', 'xds'], 2, 'nowhere: no such file or directory'],
    [['convert', 'examples/rules', '--to', 'rules'], 1, 'choose one by --domain: mail, shop'],
  ])('rejects %j', (args, expected, message) => {
    const { status, stderr } = runWeir(args);
    expect(stderr).toContain(message);
    expect(status).toBe(expected);
  });
});
