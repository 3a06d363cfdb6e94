import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { exampleCases } from '../support/example-cases.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

function write(name: string, text: string): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
}

function manifest(name: string, domain: string, more = ''): string {
  return `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitConfig
metadata: { name: ${name} }
spec:
  domain: ${domain}
  descriptors:
    - key: k
      rateLimit: { unit: minute, requestsPerUnit: 5 }
${more}`;
}

const shadowed = `domain: d
descriptors:
  - key: k
    rate_limit: { unit: minute, requests_per_unit: 5 }
  - key: k
    value: "*"
    rate_limit: { unit: minute, requests_per_unit: 9 }
`;

describe('weir check', () => {
  it('shows warnings with line, caret and hint; only --strict fails because of them', () => {
    const path = write('a.yaml', shadowed);
    const { status, stderr, stdout } = runWeir(['check', path]);
    expect(stderr.split('\n')).toEqual([
      `${path}:3:10: warning: no entry with the key 'k' finds this rule: 'k_*' takes all of its values (line 5) [never-matches]`,
      '  3 |   - key: k',
      '    |          ^',
      '  hint: patterns are tried before rules without a value, wherever they stand; one of the two is too many',
      '1 warning',
      '',
    ]);
    expect(stdout).toMatch(/1 file, 1 domain, 2 rules\nall rate limit configs ok\n$/);
    expect(status).toBe(0);
    const strict = runWeir(['check', '--strict', path]);
    expect(strict.stderr).toMatch(
      /\n1 warning\nfailed: there are no errors, but --strict does not let warnings pass\n$/,
    );
    expect(strict.stdout).not.toContain('all rate limit configs ok');
    expect(strict.status).toBe(1);
    const waived = runWeir(['check', '--strict', '--allow', 'never-matches,no-effect', path]);
    expect(waived).toMatchObject({ status: 0, stderr: '1 warning waived by --allow\n' });
    expect(runWeir(['check', '--allow', 'never', path]).status).toBe(2);
  });

  it('places warnings of one of several limits, and of a burst', () => {
    const path = write(
      'several.yaml',
      `domain: d
descriptors:
  - key: a
    rate_limits:
      - { requests_per_unit: 100, unit: minute }
      - requests_per_unit: 10000
        unit: hour
  - { key: b, rate_limit: { requests_per_unit: 5, unit: day, algorithm: token_bucket, burst: 0 } }
`,
    );
    const { stdout } = runWeir(['check', path]);
    expect(stdout).toContain(
      `${path}:6:9: warning: '10000 per hour' never refuses anything: what '100 per minute' beside it lets pass is always within it [never-tighter]\n`,
    );
    expect(stdout).toContain(`${path}:8:94: warning: a burst of 0 refuses every request [burst-of-zero]\n`);
    expect(runWeir(['check', '--strict', '--allow', 'never-tighter,burst-of-zero', path]).status).toBe(0);
  });

  it('speaks of manifests in their words', () => {
    const bucket = '{ unit: minute, unitMultiplier: 2, requestsPerUnit: 5, burst: 5 }';
    const zero = '{ unit: day, requestsPerUnit: 5, algorithm: TokenBucket, burst: 0 }';
    const path = write('m.yaml', manifest('a', 'a', `    - { key: l, rateLimit: ${bucket} }\n`));
    expect(runWeir(['check', path]).stdout).toMatch(
      /burst is for algorithm TokenBucket alone\n.*\n.*\n {2}hint: write algorithm: TokenBucket, or leave burst out\n/,
    );
    const odd = write('o.yaml', manifest('a', 'a', `    - { key: l, rateLimit: ${zero} }\n`));
    expect(runWeir(['check', odd]).stdout).toContain('leave it out for as many as requestsPerUnit\n');
  });

  it('refuses what a limiter with these settings refuses, in all spellings', () => {
    const rules = write(
      'a.yaml',
      `domain: d
descriptors:
  - { key: a, rate_limit: { requests_per_unit: 5, unit: day, algorithm: sliding_window } }
  - { key: b, rate_limits: [{ requests_per_unit: 5, window: 1m }, { requests_per_unit: 50, window: 1h }] }
  - { key: c, rate_limit: { requests_per_unit: 5, window: 2mo } }
`,
    );
    const json = write('a.json', runWeir(['convert', '--to', 'xds', rules]).stdout);
    const objects = write('m.yaml', runWeir(['convert', '--to', 'manifest', '--name', 'a', rules]).stdout);
    // Each is said of all three.
    const refusedBy = (...settings: string[]) => {
      const flags = settings.flatMap((one) => ['--setting', one]);
      const { status, stdout } = runWeir(['check', rules, json, objects, ...flags]);
      const found = stderr.match(/(?<=of 'd\.)\w+' cannot be counted: [A-Z_]+/g) ?? [];
      expect(found).toHaveLength(3 * new Set(found).size);
      return [status, ...new Set(found)];
    };
    const narrow = (why: string) => [1, `a' cannot be counted: ${why}`, `b' cannot be counted: ${why}`];
    expect(refusedBy()).toEqual([0]);
    expect(refusedBy('BACKEND_TYPE=memory', 'REDIS_SCRIPTS=never')).toEqual([0]);
    expect(refusedBy('BACKEND_TYPE=memcache')).toEqual(narrow('BACKEND_TYPE'));
    expect(refusedBy('REDIS_SCRIPTS=never')).toEqual(narrow('REDIS_SCRIPTS'));
    expect(refusedBy('CACHE_KEY_PREFIX=x{}')).toEqual([1, "b' cannot be counted: CACHE_KEY_PREFIX"]);
    const months = 'USE_CALENDAR_MONTH_RATE_LIMIT';
    expect(refusedBy(`${months}=true`)).toEqual([1, `c' cannot be counted: ${months}`]);
    for (const wrong of ['BACKEND_TYPE', 'BACKEND_TYPE=disk', 'NEAR_LIMIT_RATIO=1'])
      expect(refusedBy(wrong)).toEqual([2]);
  });

  it('warns of leases that take nothing, by the rule or by settings, in all spellings', () => {
    const rules = write(
      'a.yaml',
      `domain: d
descriptors:
  - { key: a, lease: 50%, rate_limit: { requests_per_unit: 5, unit: day } }
  - { key: b, lease: 1%, rate_limit: { requests_per_unit: 5, unit: day } }
  - { key: c, lease: 0, rate_limit: { requests_per_unit: 5, unit: day } }
`,
    );
    const json = write('a.json', runWeir(['convert', '--to', 'xds', rules]).stdout);
    const objects = write('m.yaml', runWeir(['convert', '--to', 'manifest', '--name', 'a', rules]).stdout);
    for (const path of [rules, json, objects]) {
      const warned = (...settings: string[]) => {
        const { status, stdout } = runWeir(['check', path, ...settings.flatMap((one) => ['--setting', one])]);
        return [status, ...(stderr.match(/(?<=warning \(never-leased\): ).*/g) ?? [])];
      };
      const few = expect.stringContaining(
        "a lease of 1% of '5 per day' is less than 2 hits: nothing is leased",
      );
      expect(warned()).toEqual([0, few]);
      expect(warned('LEASES=on')).toEqual([0, few]);
      const unleased = `${path}: 2 rules have a lease, and nothing is leased: `;
      expect(warned('LEASES=off')).toEqual([0, few, `${unleased}LEASES is off`]);
      const why = 'LEASES has no effect without BACKEND_TYPE=redis: every hit is counted as it comes';
      expect(warned('LEASES=on', 'BACKEND_TYPE=memory')).toEqual([0, few, `${unleased}${why}`]);
    }
    expect(runWeir(['check', '--strict', '--allow', 'never-leased', rules]).status).toBe(0);
  });

  it('reads a rendered chart from standard input, and counts what is not its business', () => {
    const chart = [
      '# Source: a.yaml',
      'apiVersion: v1\nkind: ConfigMap\nmetadata: { name: c }',
      manifest('a', 'a'),
      '# nothing',
      'apiVersion: v1\nkind: Service\nmetadata: { name: s }',
    ].join('\n---\n');
    const { status, stdout, stderr } = runWeir(['check', '-'], { input: chart });
    expect(stdout).toContain(
      '1 file, 1 domain, 1 rule; 2 other objects passed over (v1 ConfigMap, v1 Service)\n',
    );
    expect([status, stderr]).toEqual([0, '']);
  });

  it('reads RateLimitOverrides, alone and beside rules', () => {
    const override = (spec: string) =>
      `apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitOverride\nmetadata: { name: o }\nspec:\n  fleet: eu\n${spec}`;
    const spec = '  domain: a\n  match: [{ key: k, value: v }]\n  block: true\n  for: 2h\n  reason: r\n';
    const good = runWeir(['check', '--strict', write('good.yaml', override(spec))]);
    expect([good.stderr, good.status]).toEqual(['', 0]);
    const path = write(
      'bad.yaml',
      `${manifest('a', 'a')}---\n${override(spec.replace('for: 2h', 'for: 2x'))}`,
    );
    const bad = runWeir(['check', path]);
    expect(bad.stderr).toContain(`${path}:18:8: spec.for: "2x" `);
    expect(bad.status).toBe(1);
  });

  it('finds mistakes in manifests, each with its line', () => {
    const path = write('m.yaml', `${manifest('a', 'a')}---\n${manifest('b', 'b', '      rateLimitz: 1\n')}`);
    const { status, stdout } = runWeir(['check', path]);
    expect(stdout).toContain(`${path}:18:19: spec.descriptors[0].rateLimitz: unknown field`);
    expect(stdout).toContain('  18 |       rateLimitz: 1\n     |                   ^\n');
    expect(status).toBe(1);
  });

  it('lets objects of several classes have one domain, and refuses what is no class', () => {
    const ofClass = (name: string, className: string) =>
      manifest(name, 'shop', `  className: ${className}\n`);
    const path = write('m.yaml', `${manifest('a', 'shop')}---\n${ofClass('b', 'edge')}`);
    expect(runWeir(['check', path])).toMatchObject({ status: 0, stderr: '' });
    const twice = write('t.yaml', `${manifest('a', 'shop')}---\n${ofClass('b', 'weir')}`);
    expect(runWeir(['check', twice]).stdout).toContain('warning (duplicate-domain)');
    const bad = write('bad.yaml', ofClass('b', 'Edge'));
    const { stdout, status } = runWeir(['check', bad]);
    expect(stdout).toContain(
      "spec.className: must be a DNS label (lower case letters, digits and inner hyphens), found 'Edge'",
    );
    expect(status).toBe(1);
  });

  it('warns of objects that claim one domain, unless domains are merged', () => {
    const path = write(
      'm.yaml',
      `${manifest('a', 'shop')}---\n${manifest('b', 'shop').replace('key: k', 'key: l')}`,
    );
    const { stdout, status } = runWeir(['check', path]);
    expect(stdout).toContain(
      `${path}:14:11: warning: domain 'shop' of fleet 'default' is taken by default/a (${path}:5): only one of them is served [duplicate-domain]`,
    );
    expect(status).toBe(0);
    expect(runWeir(['check', '--merge-domain-configs', path]).stdout).toBe('');
    const clash = write(
      'n.yaml',
      `${manifest('a', 'shop')}---\n${manifest('b', 'shop')}---\n${manifest('b', 'x')}`,
    );
    const merged = runWeir(['check', '--merge-domain-configs', clash]).stdout;
    expect(merged).toContain("descriptor 'k' in domain 'shop' of fleet 'default' is taken by default/a");
    expect(merged).toContain('warning (duplicate-object)');
  });

  it('reads folders with subfolders, JSON of xDS, and passes over other JSON', () => {
    mkdirSync(join(folder, 'sub'));
    write('package.json', '{"name":"x"}');
    write(
      'rules.yaml',
      'domain: a\ndescriptors:\n  - key: k\n    rate_limit: { unit: day, requests_per_unit: 1 }\n',
    );
    write(
      'sub/xds.json',
      '{"resources":[{"@type":"type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig","domain":"b","descriptors":[{"key":"k","rateLimit":{"unit":"SECOND","requestsPerUnit":3}}]},{"@type":"type.googleapis.com/other"}]}',
    );
    write('sub/m.json', JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap' }));
    const { status, stdout, stderr } = runWeir(['check', folder]);
    expect(stdout).toBe('');
    expect(stdout).toContain(
      '3 files, 2 domains, 2 rules; 2 other objects passed over (v1 ConfigMap, type.googleapis.com/other); 1 other JSON file passed over\n',
    );
    expect(status).toBe(0);
  });

  it('warns of documents behind the first of a rule file', () => {
    const { stdout } = runWeir(['check', '-'], { input: 'domain: a\n---\n# nothing\n---\ndomain: b\n' });
    expect(stdout).toContain(
      'warning (unread-document): <stdin>:4:1: only the first document of a rule file',
    );
  });

  it('prints one JSON object', () => {
    const path = write('a.yaml', `${shadowed}  - kye: x\n`);
    const { status, stdout, stderr } = runWeir(['check', '--output', 'json', path]);
    expect(JSON.parse(stdout)).toEqual({
      errorCount: 1,
      warningCount: 0,
      allowedCount: 0,
      files: [path],
      domains: 0,
      rules: 0,
      callersFiles: [],
      skipped: [],
      findings: [
        {
          severity: 'error',
          code: 'unknown-key',
          file: path,
          line: 8,
          column: 5,
          message: "config error, unknown key 'kye'",
          hint: 'did you mean key?',
          excerpt: '  - kye: x',
        },
      ],
    });
    expect([status, stderr]).toEqual([1, '']);
  });

  it('takes a JSON file for a rule file only where it is named itself', () => {
    const path = write('rules.json', '{"domain":"d","descriptors":[]}');
    expect(runWeir(['check', path]).status).toBe(0);
    const { status, stdout } = runWeir(['check', folder]);
    expect(stdout).toContain(`${folder}: holds no rules`);
    expect(status).toBe(1);
  });

  it('calls a path that is not there, and objects that are no JSON, errors', () => {
    expect(runWeir(['check', join(folder, 'none.yaml')])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('none.yaml: no such file or directory'),
    });
    const path = write('x.json', '{"apiVersion": "v1", "kind": }');
    expect(runWeir(['check', path])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`${path}:1:`),
    });
  });

  it('warns of JSON of a folder that is none', () => {
    const mixed = temporaryFolder();
    writeFileSync(
      join(mixed, 'a.yaml'),
      'domain: d\ndescriptors: [{ key: k, rate_limit: { unlimited: true } }]\n',
    );
    writeFileSync(join(mixed, 'b.json'), '{"some": ["other", 1]}');
    writeFileSync(join(mixed, 'c.json'), '{"@type": 1');
    writeFileSync(join(mixed, 'd.json'), '{"domain": ');
    const { status, stdout } = runWeir(['check', '--strict', mixed]);
    expect(stdout).toContain(`warning (unreadable): ${mixed}/d.json: is no JSON, and is passed over\n`);
    expect(stdout).toContain(`error loading rate limit configs: ${mixed}/c.json`);
    expect(stdout).not.toContain('b.json');
    expect(status).toBe(1);
  });

  it('shows 50 warnings of a kind and the number of the others, in JSON all', () => {
    const rules = Array.from(
      { length: 2_000 },
      (_, i) => `  - { key: a.${i}, rate_limit: { unit: day, requests_per_unit: 1 } }\n`,
    );
    const input = `domain: d\ndescriptors:\n${rules.join('')}`;
    const { stdout } = runWeir(['check', '-'], { input });
    expect(stderr.match(/^warning \(dotted-metric\)/gm)).toHaveLength(50);
    expect(stdout).toContain('\n... and 1950 more (dotted-metric); --output json has all\n2000 warnings\n');
    const json = JSON.parse(runWeir(['check', '-', '--output', 'json'], { input }).stdout);
    expect(json.findings).toHaveLength(2_000);
    expect(json.findings.at(-1).excerpt).toBe(rules.at(-1)!.trimEnd());
  });

  it('reads rule files in ConfigMaps, with their lines', () => {
    const data = {
      'shop.yaml': 'domain: shop\ndescriptors:\n  - key: k\n    rate_limit: { unit: minuet }\n',
      'app.yaml': 'port: 80\ndomain: example.com\n',
      'rules.txt': 'descriptors: 1\n',
    };
    const chart = (text: string): string =>
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'c' },
        data: { ...data, 'shop.yaml': text },
      });
    const wrong = runWeir(['check', '-'], { input: chart(data['shop.yaml']) });
    expect(wrong.stderr).toContain(
      "<stdin> ConfigMap c/shop.yaml:4:25: invalid rate limit unit 'minuet'\n  4 |     rate_limit: { unit: minuet }\n",
    );
    expect(wrong.status).toBe(1);
    const mended = data['shop.yaml'].replace('minuet', 'minute, requests_per_unit: 0');
    const { status, stdout, stderr } = runWeir(['check', '--strict', '-'], { input: chart(mended) });
    expect(stdout).toContain(
      'opening config file: <stdin> ConfigMap c/shop.yaml\n2 files, 1 domain, 1 rule\n',
    );
    expect([status, stderr]).toEqual([0, '']);
  });

  it('takes rule files of two ConfigMaps for two loads', () => {
    const text = 'domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }\n';
    const object = (name: string) => ({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name },
      data: { 'a.yaml': text },
    });
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [object('a'), object('b')] });
    expect(runWeir(['check', '--strict', '-'], { input })).toMatchObject({ status: 0, stderr: '' });
  });

  it('has nothing to say against a file of overrides', () => {
    const input =
      'domain: shop\noverrides:\n  - { match: [{ key: k, value: v }], block: true, permanent: true, reason: r }\n';
    expect(runWeir(['check', '--strict', '-'], { input })).toMatchObject({ status: 0, stderr: '' });
  });

  it('fails with --strict where nothing was checked', () => {
    const input = 'apiVersion: v1\nkind: Service\n';
    const { status, stdout } = runWeir(['check', '--strict', '-'], { input });
    expect(stdout).toContain('warning (no-rules): -: holds no rules: nothing was checked of 1 object\n');
    expect(status).toBe(1);
    expect(runWeir(['check', '--strict', '-', '--allow', 'no-rules'], { input }).status).toBe(0);
    const bare = runWeir(['check', '--strict', '-'], { input: '# ours\ndomain: shop\n' });
    expect(bare.stderr).toContain(
      "warning (no-rules): <stdin>:2:9: 'shop' has no descriptors: nothing is limited\n",
    );
    expect(bare.status).toBe(1);
  });

  it('warns of files that hold rules under another name', () => {
    write('a.yaml', shadowed.replace('value: "*"', 'value: "b"'));
    for (const name of ['old.yaml.bak', 'rules', 'x.json', '.hidden']) write(name, 'domain: e\n');
    write('README.md', '# domain: the rules\n');
    write('other.json', '{}');
    const json = runWeir(['check', '--output', 'json', folder]);
    const { skipped, findings } = JSON.parse(json.stdout);
    const files = ['old.yaml.bak', 'rules', 'x.json'].map((name) => join(folder, name));
    expect(findings.map(({ code, file }: { code: string; file: string }) => [code, file])).toEqual(
      files.map((file) => ['passed-over', file]),
    );
    expect(skipped.map(({ file }: { file: string }) => file)).toEqual([...files, join(folder, 'other.json')]);
    const { stdout, stderr } = runWeir(['check', folder]);
    expect(stdout).toContain(
      `${files[1]}: holds rules and is not read: only *.yaml and *.yml are rule files\n`,
    );
    expect(stdout).toContain('2 other JSON files passed over; 2 files of other names passed over\n');
  });

  it('finds a limit of 0 hardly meant only where it is not written', () => {
    const rules = (limit: string): string =>
      `domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n${limit}`;
    expect(runWeir(['check', '-'], { input: rules('') }).stdout).toContain(
      'warning (limit-of-zero): <stdin>:5:7',
    );
    expect(runWeir(['check', '-'], { input: rules('      requests_per_unit: 0\n') }).stdout).toBe('');
    const zero = manifest('a', 'a').replace('requestsPerUnit: 5', 'requestsPerUnit: 0');
    expect(runWeir(['check', '-'], { input: zero }).stdout).toBe('');
  });

  it('finds mistakes in the spec of a manifest whose metadata is wrong', () => {
    const input = manifest('A', 'a').replace('minute', 'minuet');
    const { stdout } = runWeir(['check', '-'], { input });
    expect(stdout).toContain('metadata.name: must be a DNS name');
    expect(stdout).toContain('spec.descriptors[0].rateLimit.unit');
    expect(stdout).toMatch(/\n2 errors\n$/);
  });

  it.each([
    ['1.5', 'error checking config', 'write a whole number from 0 to 4294967295'],
    ['1e3', 'error checking config', 'write a whole number from 0 to 4294967295'],
    ['-5', 'cannot unmarshal !!int `-5` into uint32', 'write a whole number from 0 to 4294967295'],
    ['4294967296', 'cannot unmarshal !!int `4294967296` into uint32', 'write a whole number from 0'],
    ['5, replaces: [a]', 'contains list of type other than map: a', 'replaces is a list of mappings'],
    ['5, replaces: a', 'into []config.yamlReplaces', 'replaces is a list of mappings'],
    ['5 }, shadow_mode: { a', 'into bool', 'write true or false'],
  ])('tells what requests_per_unit: %s is to be', (value, message, hint) => {
    const input = `domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: ${value} } }\n`;
    const { stdout } = runWeir(['check', '-'], { input });
    expect(stdout).toContain(message);
    expect(stdout).toContain(`  hint: ${hint}`);
  });

  it.each([
    ['descriptors: { key: k }', 'descriptors is a list: each rule begins with "- key:"'],
    ['descriptors:\n  - { key: k, rate_limit: [{ unit: day }] }', 'rate_limit is a mapping: { unit:'],
    ['descriptors:\n  - { key: k, limit: { unit: day } }', 'did you mean rate_limit?'],
    ['descriptors: [k]', 'each element of descriptors is a mapping: "- key: <key>"'],
  ])('tells what is to stand in the place of %j', (text, hint) => {
    const { stdout } = runWeir(['check', '-'], { input: `domain: d\n${text}\n` });
    expect(stdout).toContain(`  hint: ${hint}`);
  });

  it('passes the examples of this project, strictly', () => {
    const root = new URL('../../examples/', import.meta.url).pathname;
    const paths = exampleCases.flatMap((name) => [
      join(root, name, 'rules'),
      join(root, name, 'manifest.yaml'),
    ]);
    const unambiguous = ['--counter-keys', 'unambiguous'];
    const outcome = runWeir(['check', '--strict', ...unambiguous, '--undotted-metrics', ...paths]);
    expect(outcome).toMatchObject({ status: 0, stderr: '' });
    const dotted = runWeir(['check', '--strict', ...unambiguous, '--allow', 'dotted-metric', ...paths]);
    expect(dotted.status).toBe(0);
  });

  it('warns of rules whose counters could meet, unless keys are unambiguous', () => {
    const path = write(
      'meet.yaml',
      'domain: d\ndescriptors:\n  - key: ip\n    rate_limit: { unit: day, requests_per_unit: 1 }\n    descriptors:\n      - key: path\n        rate_limit: { unit: day, requests_per_unit: 1 }\n',
    );
    const { status, stdout } = runWeir(['check', path]);
    expect(stdout).toContain(
      `${path}:6:14: warning: rule ip.path of domain d counts as d_ip_*_path_*_, which can be a key of rule ip of domain d as well (line 3) [meeting-counters]`,
    );
    expect(status).toBe(0);
    expect(runWeir(['check', '--strict', path]).status).toBe(1);
    expect(runWeir(['check', '--strict', '--counter-keys', 'unambiguous', path]).stdout).toBe('');
    const env = { ...process.env, COUNTER_KEYS: 'unambiguous' };
    expect(runWeir(['check', '--strict', path], { env }).stdout).toBe('');
    expect(runWeir(['check', '--strict', '--counter-keys', 'compatible', path], { env }).status).toBe(1);
    expect(runWeir(['check', '--strict', '--allow', 'meeting-counters', path]).status).toBe(0);
  });

  it.each([
    [['--counter-keys', 'short'], {}, '--counter-keys is compatible or unambiguous, not "short"'],
    [[], { COUNTER_KEYS: 'long' }, 'the variable COUNTER_KEYS is compatible or unambiguous, not "long"'],
  ])('refuses other counter keys: %j %j', (flags, variables, text) => {
    const { status, stdout } = runWeir(['check', ...flags, '-'], {
      input: 'domain: d\n',
      env: { ...process.env, ...variables },
    });
    expect(stdout).toContain(text);
    expect(status).toBe(2);
  });

  it('tells of objects whose counters could meet with the place of the later one', () => {
    const manifest = (name: string, domain: string, key: string) =>
      `apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: { name: ${name} }\nspec:\n  domain: ${domain}\n  descriptors:\n    - key: ${key}\n      rateLimit: { unit: day, requestsPerUnit: 1 }\n`;
    const path = write(
      'meet.manifest.yaml',
      `${manifest('one', 'bank', 'ip')}---\n${manifest('two', 'bank_ip', 'x')}`,
    );
    const { stdout } = runWeir(['check', path]);
    expect(stdout).toContain('(meeting-counters)');
    expect(stdout).toContain(
      'rule x of domain bank_ip counts as bank_ip_x_*_, which can be a key of rule ip of domain bank as well',
    );
  });
});
