import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, it } from 'vitest';
import { manifestWords } from '../../rules/language/tables.ts';
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
  it('names what it cannot read below a folder by its path', () => {
    mkdirSync(join(folder, 'sub'));
    write('a.yaml', 'domain: a\n');
    symlinkSync('two.yaml', join(folder, 'sub/one.yaml'));
    symlinkSync('one.yaml', join(folder, 'sub/two.yaml'));
    symlinkSync('nowhere', join(folder, 'sub/link.yaml'));
    const { status, stdout } = runWeir(['check', folder]);
    expect(stdout).toContain(
      `${folder}/sub/link.yaml: warning: dangling symbolic link, skipped [unreadable]\n`,
    );
    expect(stdout).toContain(`${folder}/sub/one.yaml: error: too many `);
    expect([status, stdout]).toEqual([1, expect.not.stringContaining('sub.')]);
  });

  it('counts errors in the title of a comment as in the text, those beyond the list too', () => {
    const path = write('a.yaml', `domain: a\ndescriptors:\n${'- key: ""\n'.repeat(1500)}`);
    expect(runWeir(['check', path]).stdout).toContain('failed: 1500 errors:');
    expect(runWeir(['check', '-o', 'markdown', path]).stdout).toContain('Rate limits: 1500 errors\n');
  });

  it('reviews files without errors beside files with errors, and names the files that it does not review', () => {
    const good = write('a.yaml', shadowed);
    const bad = write('b.yaml', `${shadowed.replace('domain: d', 'domain: e')}  - kye: x\n`);
    const unread = `${bad} is not reviewed further until you correct the errors`;
    const { stdout } = runWeir(['check', folder]);
    expect(stdout.match(/^\S+: error: .*$/gm)).toEqual([
      expect.stringMatching(/a\.yaml:3:10: .*\[never-matches\]$/),
      expect.stringMatching(/b\.yaml:8:5: .*\[unknown-key\]$/),
    ]);
    expect(stdout).toMatch(new RegExp(`\nfailed: 2 errors: 2 files; ${unread}\n$`));
    expect(runWeir(['check', '-o', 'markdown', folder]).stdout).toContain(unread);
    const annotations = runWeir(['check', '-o', 'github', folder]).stdout;
    expect(annotations).toContain(`::notice file=${bad},title=weir%3A not-reviewed::${unread}\n`);
    const merged = runWeir(['check', '--merge-domain-configs', folder]).stdout;
    expect(merged).toContain(`failed: 1 error: 2 files; ${good} and ${bad} are not reviewed further`);
    const likeGo = runWeir(['check', '-config_dir', folder]).stdout;
    expect(likeGo).not.toMatch(/never-matches|not reviewed/);
  });

  it.each([['explain', 'd', 'k=v'], ['diff'], ['convert', '--to', 'xds']])(
    'has its words for errors in weir %s',
    (command, ...rest) => {
      const bad = write('a.yaml', 'domain: d\ndescriptors:\n  - key: k\n    rate_limit: [5]\n');
      const paths = command === 'diff' ? [bad, bad] : [bad];
      const { status, stderr } = runWeir([command, ...paths, ...rest]);
      expect(stderr).toContain(`weir: ${bad}:4:17: 'rate_limit' must be a mapping, found a list\n`);
      expect(stderr).toMatch(new RegExp(`"weir check ${bad}" shows the lines and how to correct them\\n$`));
      expect(stderr).not.toContain('unmarshal');
      expect(status).toBe(2);
    },
  );

  it('speaks as compilers do: place, severity, kind, line, caret and hint, and one line at the end', () => {
    const path = write('a.yaml', shadowed);
    const { status, stderr, stdout } = runWeir(['check', path]);
    expect(stdout.split('\n')).toEqual([
      `${path}:3:10: error: no entry with the key 'k' matches this rule: 'k_*' matches all of its values (line 5) [never-matches]`,
      '  3 |   - key: k',
      '    |          ^',
      '  hint: patterns come before rules without a value, in any order of the file; remove one of the two',
      'failed: 1 error: 1 file',
      '',
    ]);
    expect([status, stderr]).toEqual([1, '']);
    const waived = runWeir(['check', '--allow', 'never-matches,no-effect', path]);
    const ok = 'ok: 1 file, 1 domain, 2 rules; 1 finding waived by --allow\n';
    expect(waived).toEqual({ status: 0, stdout: ok, stderr: '' });
    expect(runWeir(['check', '--allow', 'never', path]).status).toBe(2);
    expect(runWeir(['check', '-q', path]).stdout).not.toContain('failed');
  });

  /** One of each kind that limiters accept and nobody means, each with the kind that is said. */
  const meantByNobody = [
    ['misplaced-key', '- { key: k, rate_limit: { unit: day, requests_per_unit: 1, shadow_mode: true } }\n'],
    ['duplicate-key', '- { key: k, value: a, value: b, rate_limit: { unit: day, requests_per_unit: 1 } }\n'],
    ['unread-document', '- { key: k, rate_limit: { unit: day, requests_per_unit: 1 } }\n---\ndomain: e\n'],
    ['limit-of-zero', '- { key: k, rate_limit: { unit: day } }\n'],
    ['no-effect', '- { key: k }\n'],
    ['never-matches', shadowed.slice(shadowed.indexOf('  - '))],
    [
      'shadowed-wildcard',
      '- { key: k, value: a*, rate_limit: { unit: day, requests_per_unit: 1 } }\n- { key: k, value: ab*, rate_limit: { unit: day, requests_per_unit: 1 } }\n',
    ],
    [
      'replaces-nothing',
      '- { key: k, rate_limit: { unit: day, requests_per_unit: 1, replaces: [{ name: n }] } }\n',
    ],
  ];

  it.each(meantByNobody)('takes %s for an error, waived by name, a warning with --compat', (kind, rules) => {
    const path = write('a.yaml', `domain: d\ndescriptors:\n${rules}`);
    const check = (...flags: string[]) => {
      const { status, stdout } = runWeir(['check', ...flags, path, '--output', 'json']);
      const { findings } = JSON.parse(stdout);
      return [status, ...findings.map(({ severity, code }: Record<string, string>) => `${severity} ${code}`)];
    };
    expect(check()).toEqual([1, `error ${kind}`]);
    expect(check('--compat')).toEqual([0, `warning ${kind}`]);
    expect(check('-config_dir', path)[0]).toBe(0);
    expect(check('--compat', '--strict')).toEqual([1, `error ${kind}`]);
    expect(check('--allow', kind!)).toEqual([0]);
  });

  it('waives no error of what limiters reject, although it has the name of what they accept', () => {
    const path = write(
      'a.yaml',
      'domain: d\ndescriptors:\n  - { key: k, burst: 5, rate_limit: { unit: day, requests_per_unit: 1 } }\n',
    );
    const { status, stdout } = runWeir(['check', '--compat', '--allow', 'misplaced-key', path]);
    expect(stdout).toContain("error: key 'burst' belongs to rate_limit [misplaced-key]\n");
    expect(status).toBe(1);
  });

  it.each(['-config_dir', '--config-dir', '--config_dir', '-config-dir'])(
    'prints the lines of the Go program with %s',
    (flag) => {
      const path = write('a.yaml', shadowed);
      const lines = (shown: string) =>
        `checking rate limit configs...\nloading config directory: ${folder}\nopening config file: ${path}\n${shown}`;
      const good = runWeir(['check', flag, folder, '--allow', 'never-matches']);
      const ok = '1 finding waived by --allow\nall rate limit configs ok\n';
      expect(good).toEqual({ status: 0, stdout: lines(ok), stderr: '' });
      write('a.yaml', `${shadowed}  - kye: x\n`);
      const shown = `error loading rate limit configs: ${path}:8:5: config error, unknown key 'kye'\n  8 |   - kye: x\n    |     ^^^\n  hint: did you mean key?\n1 error\n`;
      expect(runWeir(['check', `${flag}=${folder}`])).toEqual({
        status: 1,
        stdout: lines(shown),
        stderr: '',
      });
    },
  );

  it('ends as the Go program does if the folder of -config_dir is missing', () => {
    const missing = join(folder, 'nowhere');
    expect(runWeir(['check', '-config_dir', missing])).toEqual({
      status: 1,
      stdout: `checking rate limit configs...\nloading config directory: ${missing}\nerror opening directory ${missing}: no such file or directory\n1 error\n`,
      stderr: '',
    });
    expect(runWeir(['check', missing]).status).toBe(2);
  });

  it('accepts an empty folder of -config_dir with a warning, as the Go program accepts it', () => {
    const lines = [
      'checking rate limit configs...',
      `loading config directory: ${folder}`,
      `warning (no-rules): ${folder}: contains no *.yaml, *.yml or *.json file`,
      '  hint: rule files are called *.yaml, and their first line is "domain: <name>"',
      '1 warning',
      'all rate limit configs ok',
      '',
    ];
    expect(runWeir(['check', '-config_dir', folder])).toEqual({
      status: 0,
      stdout: lines.join('\n'),
      stderr: '',
    });
    expect(runWeir(['check', '-config_dir', folder, '--strict']).status).toBe(1);
    expect(runWeir(['check', folder]).status).toBe(1);
    // The Go program reads every entry, and fails at a folder.
    mkdirSync(join(folder, 'inner'));
    expect(runWeir(['check', '-config_dir', folder]).status).toBe(1);
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
      `${path}:6:9: warning: '10000 per hour' never limits anything: what '100 per minute' beside it allows is always within it [never-tighter]\n`,
    );
    expect(stdout).toContain(
      `${path}:8:94: warning: a burst of 0 makes every request over limit [burst-of-zero]\n`,
    );
    expect(runWeir(['check', '--strict', '--allow', 'never-tighter,burst-of-zero', path]).status).toBe(0);
  });

  it('speaks of manifests in their words', () => {
    const bucket = '{ unit: minute, unitMultiplier: 2, requestsPerUnit: 5, burst: 5 }';
    const zero = '{ unit: day, requestsPerUnit: 5, algorithm: TokenBucket, burst: 0 }';
    const path = write('m.yaml', manifest('a', 'a', `    - { key: l, rateLimit: ${bucket} }\n`));
    expect(runWeir(['check', path]).stdout).toMatch(
      /burst works only with algorithm TokenBucket \[burst-without-bucket\]\n.*\n.*\n {2}hint: write algorithm: TokenBucket, or remove burst\n/,
    );
    const odd = write('o.yaml', manifest('a', 'a', `    - { key: l, rateLimit: ${zero} }\n`));
    expect(runWeir(['check', odd]).stdout).toContain('remove it for as many as requestsPerUnit\n');
  });

  it('rejects what a limiter with these settings rejects, in all spellings', () => {
    const rules = write(
      'a.yaml',
      `domain: d
descriptors:
  - { key: a, rate_limit: { requests_per_unit: 5, unit: day, algorithm: sliding_window } }
  - { key: b, rate_limits: [{ requests_per_unit: 5, window: 1m }, { requests_per_unit: 50, window: 1h }] }
  - { key: c, rate_limit: { requests_per_unit: 5, window: 2mo } }
  - { key: e, rate_limit: { requests_per_unit: 5, unit: day }, reserve: {} }
`,
    );
    const json = write('a.json', runWeir(['convert', '--to', 'xds', rules]).stdout);
    const objects = write('m.yaml', runWeir(['convert', '--to', 'manifest', '--name', 'a', rules]).stdout);
    // Each is said of all three.
    const rejectedBy = (...settings: string[]) => {
      const flags = settings.flatMap((one) => ['--setting', one]);
      const { status, stdout } = runWeir(['check', rules, json, objects, ...flags]);
      const found = stdout.match(/(?<=of 'd\.)\w+' cannot be (?:counted|stored): [A-Z_]+/g) ?? [];
      expect(found).toHaveLength(3 * new Set(found).size);
      return [status, ...new Set(found)];
    };
    const unkept = (why: string) => [1, `e' cannot be stored: ${why}`];
    const narrow = (why: string) => [
      1,
      `a' cannot be counted: ${why}`,
      `b' cannot be counted: ${why}`,
      `e' cannot be stored: ${why}`,
    ];
    expect(rejectedBy()).toEqual([0]);
    expect(rejectedBy('BACKEND_TYPE=memory', 'REDIS_SCRIPTS=never')).toEqual([0]);
    expect(rejectedBy('BACKEND_TYPE=memcache')).toEqual(narrow('BACKEND_TYPE'));
    expect(rejectedBy('REDIS_SCRIPTS=never')).toEqual(narrow('REDIS_SCRIPTS'));
    expect(rejectedBy('REDIS_TYPE=sentinel')).toEqual([0]);
    expect(rejectedBy('REDIS_TYPE=cluster')).toEqual(unkept('REDIS_TYPE'));
    expect(rejectedBy('REDIS_TYPE=cluster', 'COUNTER_KEYS=unambiguous')).toEqual([0]);
    expect(rejectedBy('REDIS_PERSECOND=true', 'REDIS_PERSECOND_TYPE=cluster')).toEqual(
      unkept('REDIS_PERSECOND_TYPE'),
    );
    expect(rejectedBy('STORE_FAILURE_MODE=local')).toEqual(unkept('STORE_FAILURE_MODE'));
    expect(rejectedBy('CACHE_KEY_PREFIX=x{}')).toEqual([1, "b' cannot be counted: CACHE_KEY_PREFIX"]);
    const months = 'USE_CALENDAR_MONTH_RATE_LIMIT';
    expect(rejectedBy(`${months}=true`)).toEqual([1, `c' cannot be counted: ${months}`]);
    for (const wrong of ['BACKEND_TYPE', 'BACKEND_TYPE=disk', 'NEAR_LIMIT_RATO=1'])
      expect(rejectedBy(wrong)).toEqual([2]);
    const cluster = ['check', rules, '--setting', 'REDIS_TYPE=cluster', '--setting'];
    expect(runWeir([...cluster, 'COUNTER_KEYS=unambiguous']).status).toBe(0);
    expect(runWeir([...cluster, 'COUNTER_KEYS=compatible']).status).toBe(1);
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
        return [status, ...(stdout.match(/.+(?= \[never-leased\])/g) ?? [])];
      };
      const few = expect.stringContaining(
        "a lease of 1% of '5 per day' is less than 2 hits, so it is not leased",
      );
      expect(warned()).toEqual([0, few]);
      expect(warned('LEASES=on')).toEqual([0, few]);
      const unleased = `${path}: warning: 2 rules have a lease without effect: `;
      expect(warned('LEASES=off')).toEqual([0, `${unleased}LEASES is off`, few]);
      const why = 'LEASES has no effect without BACKEND_TYPE=redis: the limiter counts each hit at once';
      expect(warned('LEASES=on', 'BACKEND_TYPE=memory')).toEqual([0, `${unleased}${why}`, few]);
    }
    expect(runWeir(['check', '--strict', '--allow', 'never-leased', rules]).status).toBe(0);
  });

  it('warns of rules that cannot be assigned if quota clients are served, and of an assign without effect', () => {
    const rules = write(
      'quota.yaml',
      `domain: d
descriptors:
  - { key: a, assign: exact, rate_limit: { requests_per_unit: 5, unit: day, hits_unit: tokens } }
  - { key: b, assign: exact, rate_limit: { requests_per_unit: 5, unit: day, algorithm: token_bucket } }
  - { key: c, assign: refilling, rate_limit: { requests_per_unit: 5, unit: day } }
  - { key: e, reserve: { ttl: 60s }, rate_limit: { requests_per_unit: 5, unit: day } }
`,
    );
    const warned = (...settings: string[]) => {
      const { stdout } = runWeir(['check', rules, ...settings.flatMap((one) => ['--setting', one])]);
      return stdout.match(/(?<=warning: ).+(?= \[never-assigned\])/g);
    };
    const idle = [
      expect.stringMatching(/^assign: exact has no effect: its limit counts hits other than requests/),
      'assign: exact has no effect: a token bucket always refills',
    ];
    const all = '2 rules have limits that cannot be assigned: requests of quota clients for them are';
    expect(warned()).toEqual(idle);
    expect(warned('RLQS=true')).toEqual([`${all} denied`, ...idle]);
    expect(warned('RLQS=true', 'RLQS_UNASSIGNABLE=allow')).toEqual([`${all} allowed`, ...idle]);
  });

  it.each([[['-', '-']], [['-', '--envoy', '-']]])('reads standard input once: check %j', (args) => {
    expect(runWeir(['check', ...args], { input: 'domain: a' })).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('only one argument can be "-", standard input'),
    });
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
      'ok: 1 file, 1 domain, 1 rule; 2 other objects skipped (v1 ConfigMap, v1 Service)\n',
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
    expect(bad.stdout).toContain(`${path}:18:8: error: 'for': "2x" `);
    expect(bad.status).toBe(1);
  });

  it('finds mistakes in manifests, each with its line', () => {
    const path = write('m.yaml', `${manifest('a', 'a')}---\n${manifest('b', 'b', '      rateLimitz: 1\n')}`);
    const { status, stdout } = runWeir(['check', path]);
    expect(stdout).toContain(`${path}:18:7: error: unknown field 'rateLimitz' [unknown-key]\n`);
    expect(stdout).toContain(
      '  18 |       rateLimitz: 1\n     |       ^^^^^^^^^^\n  hint: did you mean rateLimit?\n',
    );
    expect(status).toBe(1);
  });

  it('lets objects of several classes have one domain, and rejects what is no class', () => {
    const ofClass = (name: string, className: string) =>
      manifest(name, 'shop', `  className: ${className}\n`);
    const path = write('m.yaml', `${manifest('a', 'shop')}---\n${ofClass('b', 'edge')}`);
    expect(runWeir(['check', path])).toMatchObject({ status: 0, stderr: '' });
    const twice = write('t.yaml', `${manifest('a', 'shop')}---\n${ofClass('b', 'weir')}`);
    expect(runWeir(['check', twice]).stdout).toContain('[duplicate-domain]');
    const bad = write('bad.yaml', ofClass('b', 'Edge'));
    const { stdout, status } = runWeir(['check', bad]);
    expect(stdout).toContain(
      "'className' must be a DNS label (lower case letters, digits and inner hyphens), found 'Edge'",
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
      `${path}:14:11: warning: domain 'shop' of fleet 'default' belongs to default/a (${path}:5): limiters get only one of them [duplicate-domain]`,
    );
    expect(status).toBe(0);
    for (const flag of ['--merge-domain-configs', '--setting=MERGE_DOMAIN_CONFIG=true'])
      expect(runWeir(['check', flag, path]).stdout).toBe('ok: 1 file, 1 domain, 2 rules\n');
    const clash = write(
      'n.yaml',
      `${manifest('a', 'shop')}---\n${manifest('b', 'shop')}---\n${manifest('b', 'x')}`,
    );
    const merged = runWeir(['check', '--merge-domain-configs', clash]).stdout;
    expect(merged).toContain("descriptor 'k' in domain 'shop' of fleet 'default' belongs to default/a");
    expect(merged).toContain('[duplicate-object]');
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
    expect(stderr).toBe('');
    expect(stdout).toContain(
      'ok: 3 files, 2 domains, 2 rules; 2 other objects skipped (v1 ConfigMap, type.googleapis.com/other); 1 other JSON file skipped\n',
    );
    expect(status).toBe(0);
  });

  it('warns of documents behind the first of a rule file', () => {
    const { stdout } = runWeir(['check', '-'], { input: 'domain: a\n---\n# nothing\n---\ndomain: b\n' });
    expect(stdout).toContain(
      '<stdin>:4:1: error: only the first document of a rule file is read, this one has no effect [unread-document]\n',
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
      profilesFiles: [],
      skipped: [],
      unreviewed: [path],
      findings: [
        {
          severity: 'error',
          code: 'unknown-key',
          file: path,
          line: 8,
          column: 5,
          length: 3,
          message: "unknown key 'kye'",
          hint: 'did you mean key?',
          excerpt: '  - kye: x',
        },
      ],
    });
    expect([status, stderr]).toEqual([1, '']);
  });

  it('takes a JSON file for a rule file only if it is named itself', () => {
    const path = write('rules.json', '{"domain":"d","descriptors":[]}');
    expect(runWeir(['check', path]).status).toBe(0);
    const { status, stdout } = runWeir(['check', folder]);
    expect(stdout).toContain(`${folder}: error: contains no rules`);
    expect(status).toBe(1);
  });

  it('calls a path that is not there, and objects that are no JSON, errors', () => {
    expect(runWeir(['check', join(folder, 'none.yaml')])).toMatchObject({
      status: 2,
      stdout: expect.stringContaining('none.yaml: error: no such file or directory'),
    });
    const path = write('x.json', '{"apiVersion": "v1", "kind": }');
    expect(runWeir(['check', path])).toMatchObject({
      status: 1,
      stdout: expect.stringContaining(`${path}:1:`),
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
    expect(stdout).toContain(`${mixed}/d.json: error: is not JSON, and is skipped [unreadable]\n`);
    expect(stdout).toMatch(new RegExp(`${mixed}/c.json:1:\\d+: error: `));
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
    expect(stdout.match(/ \[dotted-metric\]$/gm)).toHaveLength(50);
    expect(stdout).toContain(
      '\n... and 1950 more (dotted-metric); --output json has all\nok with 2000 warnings: 1 file, 1 domain, 2000 rules\n',
    );
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
    expect(wrong.stdout).toContain(
      "<stdin> ConfigMap c/shop.yaml:4:25: error: unknown unit 'minuet' [invalid-unit]\n  4 |     rate_limit: { unit: minuet }\n",
    );
    expect(wrong.status).toBe(1);
    const repaired = data['shop.yaml'].replace('minuet', 'minute, requests_per_unit: 0');
    const { status, stdout, stderr } = runWeir(['check', '--strict', '-'], { input: chart(repaired) });
    expect([status, stdout, stderr]).toEqual([0, 'ok: 2 files, 1 domain, 1 rule\n', '']);
  });

  it('reads the callers and profiles of a rendered chart, and does not expect their rules there', () => {
    const objects = (callers: string, profiles: string) =>
      [
        { name: 'weir-callers', data: { 'callers.yaml': callers } },
        { name: 'weir-profiles', data: { 'profiles.yaml': profiles } },
        { name: 'other', data: { 'app.yaml': 'callers: 1\n' } },
      ]
        .map(({ name, data }) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name }, data }))
        .map((object) => JSON.stringify(object))
        .join('\n---\n');
    const callers = 'callers:\n  - { anonymous: true, domains: [shop] }\n';
    const profiles = JSON.stringify({
      profiles: { p: { domain: 'shop', rate_limits: [{ actions: [{ remote_address: {} }] }] } },
    });
    const rule = 'domain: mail\ndescriptors: [{ key: k, rate_limit: { unit: day, requests_per_unit: 1 } }]\n';
    const rules = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'r' }, data: { 'r.yaml': rule } };
    const good = `${JSON.stringify(rules)}\n---\n${objects(callers, profiles)}`;
    expect(runWeir(['check', '--strict', '-'], { input: good })).toEqual({
      status: 0,
      stdout:
        'ok: 2 files, 1 domain, 1 rule; callers file, 1 caller; file of profiles, 1 profile; 1 other object skipped (v1 ConfigMap)\n',
      stderr: '',
    });
    const wrong = objects(
      callers.replace('anonymous: true', 'token_sha256: "zz"'),
      '{"profiles": {"p": {}}}',
    );
    const { status, stdout } = runWeir(['check', '-'], { input: wrong });
    expect(status).toBe(1);
    expect(stdout).toMatch(/^<stdin> ConfigMap weir-callers\/callers.yaml:2:\d+: error: /m);
    expect(stdout).toMatch(/^<stdin> ConfigMap weir-profiles\/profiles.yaml:1:\d+: error: /m);
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

  it('has nothing to say against a file of overrides, except among rule files, which limiters refuse', () => {
    const input =
      'domain: shop\noverrides:\n  - { match: [{ key: k, value: v }], block: true, permanent: true, reason: r }\n';
    expect(runWeir(['check', '--strict', '-'], { input })).toMatchObject({ status: 0, stderr: '' });
    write('rules.yaml', shadowed.replace('value: "*"', 'value: "b"'));
    const path = write('overrides.yaml', input);
    const { status, stdout } = runWeir(['check', folder]);
    expect([status, stdout]).toEqual([
      0,
      expect.stringContaining(`${path}: warning: is in a folder of rule`),
    ]);
    expect(stdout).toContain('[misplaced-file]');
  });

  it('fails with --strict if nothing was checked', () => {
    const input = 'apiVersion: v1\nkind: Service\n';
    const { status, stdout } = runWeir(['check', '--strict', '-'], { input });
    expect(stdout).toContain('-: error: contains no rules: nothing was checked of 1 object [no-rules]\n');
    expect(status).toBe(1);
    expect(runWeir(['check', '--strict', '-', '--allow', 'no-rules'], { input }).status).toBe(0);
    const bare = runWeir(['check', '--strict', '-'], { input: '# ours\ndomain: shop\n' });
    expect(bare.stdout).toContain(
      "<stdin>:2:9: error: 'shop' has no descriptors: nothing is limited [no-rules]\n",
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
      files.map((file) => ['ignored-file', file]),
    );
    expect(skipped.map(({ file }: { file: string }) => file)).toEqual([...files, join(folder, 'other.json')]);
    const { stdout } = runWeir(['check', folder]);
    expect(stdout).toContain(
      `${files[1]}: warning: has rules but is not read: only *.yaml and *.yml are rule files [ignored-file]\n`,
    );
    expect(stdout).toContain(
      'ok with 3 warnings: 1 file, 1 domain, 2 rules; 2 other JSON files skipped; 2 files with other names skipped\n',
    );
  });

  it('finds a limit of 0 unintended only if it is not written', () => {
    const rules = (limit: string): string =>
      `domain: d\ndescriptors:\n  - key: k\n    rate_limit:\n      unit: day\n${limit}`;
    expect(runWeir(['check', '-'], { input: rules('') }).stdout).toContain(
      '<stdin>:4:5: error: a limit of 0 makes every request over limit [limit-of-zero]\n  4 |     rate_limit:\n    |     ^^^^^^^^^^\n',
    );
    expect(runWeir(['check', '-'], { input: rules('      requests_per_unit: 0\n') }).stdout).toBe(
      'ok: 1 file, 1 domain, 1 rule\n',
    );
    const zero = manifest('a', 'a').replace('requestsPerUnit: 5', 'requestsPerUnit: 0');
    expect(runWeir(['check', '-'], { input: zero }).stdout).toBe('ok: 1 file, 1 domain, 1 rule\n');
    // Its JSON has no zeros.
    const resources = runWeir(['convert', '-', '--to', 'xds'], { input: zero }).stdout;
    expect(resources).not.toContain('requestsPerUnit');
    expect(runWeir(['check', '-'], { input: resources }).stdout).toBe('ok: 1 file, 1 domain, 1 rule\n');
  });

  it('has the same words and hints for manifests as for rule files', () => {
    const problems = (input: string) =>
      runWeir(['check', '-'], { input })
        .stdout.split('\n')
        .flatMap((line) => /error: .*|hint: .*/.exec(line) ?? []);
    const limit = "window: '5 min', replaces: [{ name: '' }]";
    const file = `domain: d\ndescriptors:\n  - { key: k, lease: 5, rate_limit: { requests_per_unit: 1, ${limit} } }\n`;
    const found = problems(file);
    expect(found).toEqual([
      expect.stringContaining('lease must be a share of the limit'),
      expect.stringContaining('lease: 2%'),
      expect.stringContaining("the window '5 min' is not a duration"),
      'hint: write window: 5m',
      'error: the name is empty [empty-replaces]',
      expect.stringContaining('write the name of a limit'),
    ]);
    const spec = manifestWords(file).replaceAll(/^(?=.)/gm, '  ');
    const head =
      'apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: { name: a }\nspec:\n';
    expect(problems(`${head}${spec}`)).toEqual(found);
  });

  it('finds mistakes in the spec of a manifest whose metadata is wrong', () => {
    const input = manifest('A', 'a').replace('minute', 'minuet');
    const { stdout } = runWeir(['check', '-'], { input });
    expect(stdout).toContain("'metadata.name' must be a DNS name");
    expect(stdout).toContain("unknown unit 'minuet'");
    expect(stdout).toMatch(/\nfailed: 2 errors: 1 file; <stdin> is not reviewed .*\n$/);
  });

  it.each([
    [
      '1.5',
      "'requests_per_unit' must be a whole number, found 1.5",
      'write a whole number from 0 to 9007199254740991',
    ],
    [
      '1e3',
      "'requests_per_unit' must be a whole number, found 1e3",
      'write a whole number from 0 to 9007199254740991',
    ],
    ['-5', 'must be a whole number, found -5', 'write a whole number from 0 to 9007199254740991'],
    [
      '9007199254740992',
      'requests_per_unit can be at most 9007199254740991 (2^53 - 1), found 9007199254740992',
      'write a whole number from 0 to 9007199254740991, without fraction and exponent; for no limit write unlimited: true',
    ],
    [
      '5, replaces: [a]',
      "an element of 'replaces' must be a mapping, found a",
      'replaces is a list of mappings',
    ],
    ['5, replaces: a', "'replaces' must be a list of mappings, found a", 'replaces is a list of mappings'],
    ['5 }, shadow_mode: { a', "'shadow_mode' must be true or false, found a mapping", 'write true or false'],
  ])('says what requests_per_unit: %s is to be', (value, message, hint) => {
    const input = `domain: d\ndescriptors:\n  - { key: k, rate_limit: { unit: day, requests_per_unit: ${value} } }\n`;
    const { stdout } = runWeir(['check', '-'], { input });
    expect(stdout).toContain(message);
    expect(stdout).toContain(`  hint: ${hint}`);
  });

  it.each([
    ['descriptors: { key: k }', 'put a dash before each rule: "- key:"'],
    ['descriptors: 5', 'descriptors is a list: each rule begins with "- key:"'],
    [
      'descriptors:\n  - { key: k, rate_limit: [{ unit: day }] }',
      'write one limit without a dash; write several in rate_limits',
    ],
    ['descriptors:\n  - { key: k, limit: { unit: day } }', 'did you mean rate_limit?'],
    ['descriptors: [k]', 'each element of descriptors is a mapping: "- key: <key>"'],
  ])('says what is to stand in the place of %j', (text, hint) => {
    const { stdout } = runWeir(['check', '-'], { input: `domain: d\n${text}\n` });
    expect(stdout).toContain(`  hint: ${hint}`);
  });

  it("passes over Envoy's configuration in a folder, unless rule files lie beside it", () => {
    const folder = temporaryFolder();
    const envoy = join(folder, 'envoy.yaml');
    writeFileSync(envoy, 'static_resources: {}\n');
    mkdirSync(join(folder, 'rules'));
    writeFileSync(
      join(folder, 'rules/shop.yaml'),
      'domain: shop\ndescriptors: [{ key: a, rate_limit: { unit: day, requests_per_unit: 1 } }]\n',
    );
    expect(runWeir(['check', folder])).toMatchObject({
      status: 0,
      stdout: expect.stringContaining("1 other object skipped (Envoy's configuration)"),
    });
    expect(runWeir(['check', envoy])).toMatchObject({ status: 1 });
    writeFileSync(join(folder, 'rules/envoy.yaml'), 'static_resources: {}\n');
    expect(runWeir(['check', folder])).toMatchObject({ status: 1 });
  });

  it('passes the examples of this project, strictly', () => {
    const root = new URL('../../examples/', import.meta.url).pathname;
    const paths = exampleCases.flatMap((name) => [
      join(root, name, 'rules'),
      join(root, name, 'manifest.yaml'),
    ]);
    const unambiguous = ['--setting', 'COUNTER_KEYS=unambiguous'];
    const undotted = ['--setting', 'SANITIZE_DESCRIPTOR_METRIC_DOTS=true'];
    // llm-tokens reserves tokens and money together, each by an amount of its own.
    const known = ['--allow', 'mixed-hits-units'];
    const outcome = runWeir(['check', '--strict', ...unambiguous, ...known, ...undotted, ...paths]);
    expect(outcome).toMatchObject({ status: 0, stderr: '' });
    const allowed = ['--allow', 'dotted-metric', ...known];
    const dotted = runWeir(['check', '--strict', ...unambiguous, ...allowed, ...paths]);
    expect(dotted.status).toBe(0);
  });

  it('warns of rules whose counters could meet, unless keys are unambiguous', () => {
    const path = write(
      'meet.yaml',
      'domain: d\ndescriptors:\n  - key: ip\n    rate_limit: { unit: day, requests_per_unit: 1 }\n    descriptors:\n      - key: path\n        rate_limit: { unit: day, requests_per_unit: 1 }\n',
    );
    const { status, stdout } = runWeir(['check', path]);
    expect(stdout).toContain(
      `${path}:6:14: warning: rule ip.path of domain d counts as d_ip_*_path_*_, which can be a key of rule ip of domain d as well (line 3) [colliding-counters]`,
    );
    expect(status).toBe(0);
    expect(runWeir(['check', '--strict', path]).status).toBe(1);
    expect(runWeir(['check', '--strict', '--setting', 'COUNTER_KEYS=unambiguous', path]).status).toBe(0);
    const env = { ...process.env, COUNTER_KEYS: 'unambiguous' };
    expect(runWeir(['check', '--strict', path], { env }).status).toBe(0);
    expect(runWeir(['check', '--strict', '--setting', 'COUNTER_KEYS=compatible', path], { env }).status).toBe(
      1,
    );
    expect(runWeir(['check', '--strict', '--allow', 'colliding-counters', path]).status).toBe(0);
  });

  it.each([
    [['--setting', 'COUNTER_KEYS=short'], {}, '--setting: COUNTER_KEYS: "short" is not accepted'],
    [
      [],
      { COUNTER_KEYS: 'long' },
      'the variable COUNTER_KEYS: "long" is not accepted, expected compatible or unambiguous',
    ],
  ])('rejects other counter keys: %j %j', (flags, variables, text) => {
    const { status, stderr } = runWeir(['check', ...flags, '-'], {
      input: 'domain: d\n',
      env: { ...process.env, ...variables },
    });
    expect(stderr).toContain(text);
    expect(status).toBe(2);
  });

  it('reports objects whose counters could meet with the place of the later one', () => {
    const manifest = (name: string, domain: string, key: string) =>
      `apiVersion: ratelimit.weir.dev/v1alpha1\nkind: RateLimitConfig\nmetadata: { name: ${name} }\nspec:\n  domain: ${domain}\n  descriptors:\n    - key: ${key}\n      rateLimit: { unit: day, requestsPerUnit: 1 }\n`;
    const path = write(
      'meet.manifest.yaml',
      `${manifest('one', 'bank', 'ip')}---\n${manifest('two', 'bank_ip', 'x')}`,
    );
    const { stdout } = runWeir(['check', path]);
    expect(stdout).toContain('[colliding-counters]');
    expect(stdout).toContain(
      'rule x of domain bank_ip counts as bank_ip_x_*_, which can be a key of rule ip of domain bank as well',
    );
  });
});
