import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { beforeEach, describe, expect, it } from 'vitest';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const root = join(import.meta.dirname, '../..');
const example = join(root, 'examples/replay/requests.ndjson');
let folder: string;

beforeEach(() => {
  folder = temporaryFolder();
});

function replay(args: readonly string[], input: string | Buffer = '') {
  return runWeir(['replay', ...args], { input });
}

function recorded(...lines: string[]): string {
  const path = join(folder, 'requests.ndjson');
  writeFileSync(path, lines.join('\n'));
  return path;
}

interface Manifest {
  name: string;
  fleet?: string;
  limit: number;
  key?: string;
}

function manifests(...list: readonly Manifest[]): string {
  const path = join(folder, 'manifests.yaml');
  const texts = list.map(({ name, fleet = 'default', limit, key = 'remote_address' }) =>
    JSON.stringify({
      apiVersion: 'ratelimit.weir.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name, namespace: 'shop' },
      spec: {
        fleet,
        domain: 'shop',
        descriptors: [{ key, rateLimit: { unit: 'minute', requestsPerUnit: limit } }],
      },
    }),
  );
  writeFileSync(path, texts.join('\n---\n'));
  return path;
}

const request = (seconds: number, value = 'a'): string =>
  JSON.stringify({ time: 1_000_000 + seconds, domain: 'shop', descriptors: [[['remote_address', value]]] });

describe('weir replay', () => {
  it('prints the same report from a file, packed or not, and from standard input', () => {
    const packed = join(folder, 'requests.ndjson.gz');
    writeFileSync(packed, gzipSync(readFileSync(example)));
    const plain = replay(['examples/rules', '--from', example]);
    expect(plain.status).toBe(0);
    expect(plain.stdout).toContain('OVER_LIMIT: 4 requests (30.77%)');
    expect(replay(['examples/rules', '--from', packed]).stdout).toBe(plain.stdout);
    expect(replay(['examples/rules', '--from', '-'], readFileSync(example)).stdout).toBe(plain.stdout);
  });

  it('takes manifests as well', () => {
    const { status, stdout } = replay(['examples/manifests', '--from', example]);
    expect([status, stdout.split('\n')[1]]).toEqual([
      0,
      'OVER_LIMIT: 4 requests (30.77%), 2026-11-20T09:00:05.000Z to 2026-11-20T09:00:10.300Z',
    ]);
  });

  it('reports its speed on standard error, and draws no bar without a terminal', () => {
    const { stderr } = replay(['examples/rules', '--from', example]);
    expect(stderr).toMatch(/^13 requests replayed in (\d+ ms|\d+\.\d s, [\d,]+ a second)\n$/);
  });

  it('prints the difference of two sets of rules, as data too', () => {
    const args = ['examples/replay/stricter', '--against', 'examples/rules', '--from', example];
    const text = replay(args).stdout;
    expect(text).toContain(
      '\nNewly limited: 1 request (7.69%), 2026-11-20T09:00:04.000Z to 2026-11-20T09:00:04.000Z\n',
    );
    expect(text).toContain('\nNo longer limited: 0 requests (0.00%)\n');
    expect(JSON.parse(replay([...args, '--output', 'json']).stdout).difference).toMatchObject({
      newlyLimited: { limited: { requests: 1 }, rules: [{ rule: 'shop.remote_address', requests: 1 }] },
      noLongerLimited: { limited: { requests: 0 }, rules: [] },
    });
  });

  it('says what would have exceeded another algorithm, beside the rules as written', () => {
    const edge = join(root, 'examples/replay/edge.ndjson');
    const args = ['examples/rules', '--as', 'sliding_window', '--from', edge];
    const { status, stdout } = replay([...args, '--max-newly-limited', '2']);
    expect(status).toBe(1);
    expect(stdout).toContain(
      '\nNewly limited: 3 requests (30.00%), 2026-11-20T09:01:01.000Z to 2026-11-20T09:01:03.000Z\n',
    );
    expect(stdout).toMatch(/\n {2}shop\.remote_address {2}5 per minute, sliding window {2}/);
    expect(stdout).toMatch(/\n {2}shop\.remote_address {2}5 per minute {2}/);
    const bucket = replay([
      ...args.with(2, 'token_bucket'),
      '--against',
      'examples/rules',
      '--output',
      'json',
    ]);
    expect(JSON.parse(bucket.stdout).rules.rules).toMatchObject([
      { limit: { algorithm: 'token_bucket', burst: 5, window: '1m' } },
    ]);
  });

  it('says what it cannot count by another algorithm', () => {
    const wrong = replay(['examples/rules', '--as', 'leaky', '--from', example]);
    expect([wrong.status, wrong.stderr]).toEqual([
      2,
      expect.stringContaining('--as is sliding_window or token_bucket, not "leaky"'),
    ]);
    const twice = replay(['-', '--as', 'sliding_window', '--from', example]);
    expect(twice.stderr).toContain('--as reads the rules twice: without --against they cannot be "-"');
    const path = manifests({ name: 'a', limit: 4_294_967_295 });
    const large = replay([path, '--as', 'token_bucket', '--from', example]);
    expect([large.status, large.stderr]).toEqual([2, expect.stringContaining('4294967295')]);
  });

  it('shows several limits of a rule below it', () => {
    const rules = join(folder, 'rules.yaml');
    writeFileSync(
      rules,
      `domain: shop
descriptors:
  - key: remote_address
    rate_limits:
      - { requests_per_unit: 1, unit: second }
      - { requests_per_unit: 3000, window: 5m, algorithm: token_bucket, burst: 2000, name: steady }
`,
    );
    const { stdout } = replay([rules, '--from', recorded(request(0), request(0), request(1))]);
    const rows = stdout.split('\n').slice(7, 10);
    expect(
      rows.map((row) =>
        row
          .slice(2)
          .split(/ {2,}(?=\S)/)
          .slice(0, 5),
      ),
    ).toEqual([
      ['shop.remote_address', '2 limits', '3', '1', '33.33%'],
      ['', '1s', '1 per second', '2', '1'],
      ['', 'steady', '3,000 in 5m, token bucket, burst 2,000', '0', '0'],
    ]);
  });

  it.each([
    [['--max-limited', '4'], 0],
    [['--max-limited', '3'], 1],
    [['--max-limited', '31%'], 0],
    [['--max-limited', '30%'], 1],
    [['--against', 'examples/replay/stricter', '--max-newly-limited', '0'], 0],
  ])('ends with %j in status %d', (flags, status) => {
    expect(replay(['examples/rules', '--from', example, ...flags]).status).toBe(status);
  });

  it('says which bound was broken', () => {
    const { stderr } = replay(['examples/rules', '--from', example, '--max-limited', '1%']);
    expect(stderr).toContain('weir: 4 of 13 requests limited, more than --max-limited 1%\n');
  });

  it('names the lines that it could not replay, and continues', () => {
    const path = recorded(request(0), 'nonsense', '', '{"time":1}', request(1));
    const { status, stdout, stderr } = replay(['examples/rules', '--from', path]);
    expect(status).toBe(0);
    expect(stdout).toContain('\n2 lines could not be replayed\n');
    expect(stderr).toContain(
      `weir: ${path}:2: is not JSON: docs/replay.md#the-recording describes the lines\nweir: ${path}:4: domain is missing\n`,
    );
  });

  it('gives up when too many lines are wrong', () => {
    const path = recorded(request(0), ...Array.from({ length: 15 }, () => 'nonsense'));
    const { status, stdout, stderr } = replay(['examples/rules', '--from', path, '--max-errors', '12']);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toContain('... and 3 more lines that could not be replayed\n');
    expect(stderr).toContain(`weir: ${path}: more than 12 lines could not be replayed\n`);
  });

  it('sorts lines within its window, and rejects those that are later', () => {
    const lines = [request(2), request(1), request(0)];
    expect(replay(['examples/rules', '--from', recorded(...lines)]).stdout).toMatch(
      /^3 requests, 1970-01-12T13:46:40/,
    );
    const { stdout, stderr } = replay(['examples/rules', '--from', recorded(...lines), '--sort-window', '0']);
    expect(stdout).toMatch(/^1 request, /);
    expect(stderr).toContain(':3: is 2 s earlier than a request that was replayed before it\n');
  });

  it('keeps what a recording holds from the terminal', () => {
    const { stdout } = replay([
      'examples/rules',
      '--from',
      recorded(...Array.from({ length: 7 }, () => request(0, '\x1b[2J'))),
    ]);
    expect(stdout).toContain('shop_remote_address_\\u001b[2J_');
    expect(stdout).not.toContain('\x1b');
  });

  it('takes the settings that change an answer', () => {
    const path = recorded(...Array.from({ length: 7 }, () => request(0)));
    const { stdout } = replay(['examples/rules', '--from', path, '--setting', 'SHADOW_MODE=true']);
    expect(stdout).toContain('OVER_LIMIT: 0 requests');
  });

  it.each([
    [['examples/rules', '--from', '/nowhere.ndjson'], 'weir: /nowhere.ndjson: no such file or directory\n'],
    [['/nowhere', '--from', example], 'weir: /nowhere: no such file or directory\n'],
    [['examples/rules', '--from', '/dev/null'], 'weir: /dev/null: contains no request\n'],
  ])('ends with status 2 if something cannot be used: %j', (args, message) => {
    const { status, stdout, stderr } = replay(args);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toContain(message);
  });

  it('says that a packed file is cut off, or is none', () => {
    const cut = join(folder, 'cut.gz');
    writeFileSync(cut, gzipSync(readFileSync(example)).subarray(0, 200));
    expect(replay(['examples/rules', '--from', cut])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`weir: ${cut}: cannot be unpacked: unexpected end of file\n`),
    });
    const none = join(folder, 'none.gz');
    writeFileSync(none, request(0));
    expect(replay(['examples/rules', '--from', none])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`weir: ${none}: cannot be unpacked: incorrect header check\n`),
    });
  });

  it('takes a recording that begins with a byte order mark', () => {
    const { status, stdout } = replay(
      ['examples/rules', '--from', '-'],
      `\ufeff${request(0)}\n${request(1)}`,
    );
    expect([status, stdout]).toEqual([0, expect.stringMatching(/^2 requests, /)]);
  });

  it('plays through the rules of one fleet, also those to compare with', () => {
    const both = manifests({ name: 'a', fleet: 'one', limit: 9 }, { name: 'b', fleet: 'two', limit: 1 });
    const from = ['--from', recorded(request(0), request(1))];
    expect(replay([both, ...from])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('several fleets, choose one by --fleet: one, two'),
    });
    expect(replay(['examples/rules', '--against', both, ...from]).status).toBe(2);
    expect(replay([both, ...from, '--fleet', 'one']).stdout).toContain('OVER_LIMIT: 0 requests');
    const { status, stdout } = replay([both, '--against', both, ...from, '--fleet', 'two']);
    expect(status).toBe(0);
    expect(stdout).toContain('OVER_LIMIT by the rules: 1 request ');
    expect(stdout).toContain('\nNewly limited: 0 requests');
    expect(replay([both, ...from, '--fleet', 'three'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(`${both} has no rules of the fleet "three"`),
    });
  });

  it('rejects two owners of a domain as a limiter would, unless domains are merged', () => {
    const two = manifests({ name: 'a', limit: 9 }, { name: 'b', limit: 1, key: 'path' });
    const from = ['--from', recorded(request(0), request(1))];
    const refused = { status: 2, stdout: '', stderr: expect.stringContaining("duplicate domain 'shop'") };
    expect(replay([two, ...from])).toMatchObject(refused);
    expect(replay(['examples/rules', '--against', two, ...from])).toMatchObject(refused);
    expect(replay([two, ...from, '--merge-domain-configs']).status).toBe(0);
  });

  it('rejects invalid UTF-8', () => {
    const { status, stderr } = replay(
      ['examples/rules', '--from', '-'],
      Buffer.from(`${request(0)}\n\xff\n`, 'latin1'),
    );
    expect(status).toBe(2);
    expect(stderr).toContain('weir: <stdin>: is not UTF-8 text, from line 1 on at the latest\n');
  });

  it.each([
    [[], 'replay needs rules and --from <file>'],
    [['examples/rules'], 'replay needs rules and --from <file>'],
    [
      ['a', 'b', '--from', 'c'],
      'replay takes one set of rules, and a second one with --against, found another one: "b"',
    ],
    [['-', '--from', '-'], 'only one of them can be "-", standard input'],
    [['a', '--from', 'b', '--top', 'x'], '--top is a whole number from 0 to 100000, not "x"'],
    [
      ['a', '--from', 'b', '--max-limited', 'x'],
      '--max-limited is a number of requests or a percentage such as 0.5%, not "x"',
    ],
    [['a', '--from', 'b', '--max-newly-limited', '1'], '--max-newly-limited has no effect without --against'],
    [['a', '--from', 'b', '--output', 'xml'], '--output is table, json or yaml, not "xml"'],
    [['a', '--from', 'b', '--setting', 'x'], '--setting is NAME=VALUE, not "x"'],
    [['a', '--from', 'b', '--setting', 'NEAR_LIMIT_RATIO=7'], '--setting: NEAR_LIMIT_RATIO'],
    [['a', '--from', 'b', '--setting', 'REDIS_URL=x'], 'not "REDIS_URL"'],
  ])('rejects %j', (args, message) => {
    const { status, stderr } = replay(args);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
  });

  it('explains itself', () => {
    expect(replay(['--help'])).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^Usage: weir replay /),
    });
  });
});
