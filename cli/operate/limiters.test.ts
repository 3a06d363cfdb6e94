import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { type AddressInfo, createServer as createTcpServer, type Socket } from 'node:net';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished, vi } from 'vitest';
import { freePort } from '../../test/support/free-port.ts';
import { runCommand } from '../../test/support/run-command.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { assignmentsCommand } from './assignments-command.ts';
import { countersCommand } from './counters-command.ts';
import { overrideCommand } from './override-command.ts';
import { statusCommand } from './status-command.ts';
import { topCommand } from './top-command.ts';
import { timeRange, whyCommand } from './why-command.ts';

const well = {
  limiter: { name: 'lim-0', instance: 'a', version: '1.0.0' },
  ready: true,
  failing: [],
  rules: { version: 'v1', lastLoadFailed: false, overrides: 0 },
  store: { type: 'redis', connected: true, breaker: 'closed' },
  rates: { decisions: 1200.5, limited: 3.25, overLimit: 9, p99Ms: 4 },
};

/** What answers as a limiter would that says this of itself; resolves to its address. */
async function played(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<string> {
  const server = createServer(answer).listen(0, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function saying(state: unknown): Promise<string> {
  return played((_, response) => {
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify(state));
  });
}

function status(...args: string[]): ReturnType<typeof runCommand> {
  return runCommand(statusCommand, args);
}

describe('limiters', () => {
  it('are asked all at once, and summed', async () => {
    const rates = { ...well.rates, p99Ms: null, httpP99Ms: 7 };
    const other = { ...well, limiter: { ...well.limiter, name: 'lim-1', instance: 'b' }, rates };
    const [a, b] = [await saying(well), await saying(other)];
    const found = await status('--limiter', a, '--limiter', b);
    expect(found).toMatchObject({ status: 0, stderr: '' });
    expect(found.stdout).toMatch(/^LIMITER +ADDRESS +STATE .*\nlim-0 +127.0.0.1:\d+ +ok .*\nlim-1 +127/);
    expect(found.stdout).toContain(
      '2 of 2 limiters answered; 2,401 decisions/s, 6.5 limited/s, p99 7 ms at most\n',
    );
    const { stdout } = await status('--limiter', a, '--limiter', b, '-o', 'json');
    expect(JSON.parse(stdout)).toMatchObject({ ok: true, totals: { limiters: 2, answered: 2, p99Ms: 7 } });
  });

  it('that answer at two addresses are one', async () => {
    const addresses = [await saying(well), await saying(well)];
    const { stdout } = await status('--limiter', addresses[0]!, '--limiter', addresses[1]!, '-o', 'json');
    expect(JSON.parse(stdout).totals).toMatchObject({ limiters: 1, answered: 1 });
  });

  it('that are silent are named with the reason, and the status says so', async () => {
    const port = await freePort();
    const { status: code, stdout } = await status(
      '--limiter',
      await saying(well),
      '--limiter',
      `127.0.0.1:${port}`,
    );
    expect(code).toBe(1);
    expect(stdout).toMatch(new RegExp(`\n127\\.0\\.0\\.1:${port} +connection refused\n`));
  });

  it('that do not answer in time are given up', async () => {
    const server = createTcpServer(() => undefined).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const { stdout } = await status('--limiter', address, '--timeout', '100ms');
    expect(stdout).toContain('no answer within 100 ms (--timeout)');
  });

  it('have both addresses of a name that means this machine, of which one may be closed', async () => {
    const port = (await saying(well)).split(':')[1];
    expect(await status('--limiter', `localhost:${port}`)).toMatchObject({ status: 0 });
  });

  it('may be IPv6 addresses without brackets', async () => {
    expect((await status('--limiter', '::1', '--timeout', '200ms')).stdout).toContain('[::1]:6070');
  });

  it('whose name is unknown are silent', async () => {
    const { status: code, stdout } = await status('--limiter', 'nowhere.invalid', '--timeout', '1s');
    expect(code).toBe(1);
    expect(stdout).toMatch(/^nowhere\.invalid +\S/m);
    expect(stdout).not.toContain('nowhere.invalid:');
  });

  it.each([
    ['says nothing', (socket: Socket) => socket.destroy(), 'it closed the connection before the end of its'],
    ['speaks HTTP/2', (socket: Socket) => socket.write('\0\0\0\x04\0\0\0\0\0'), 'the answer is not HTTP/1.1'],
  ])('whose port is of a server that %s are reported in words', async (_, act, words) => {
    const server = createTcpServer((socket) => void act(socket)).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await once(server, 'listening');
    const address = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    expect((await status('--limiter', address)).stdout).toMatch(
      new RegExp(`${words}.*: it is not a debug listener, or`),
    );
  });

  it.each([
    [
      404,
      'application/problem+json',
      '{"detail":"there is no \\"/v1/status\\""}',
      ': it is not a debug listener',
    ],
    [200, 'text/plain', 'index', 'it is not a debug listener, or has an older version'],
    [200, 'application/json', '{', 'the answer to GET /v1/status is not JSON'],
    ...['', 'null', '[]', '{}'].map((text): [number, string, string, string] => [
      ...([200, 'application/json', text] as const),
      'the answer has no limiter: it is not a debug listener, or has an older version',
    ]),
    [401, 'text/plain', '', 'it requires a valid token: --token-file, or WEIR_TOKEN_FILE'],
    [403, 'application/problem+json', '{"detail":"the right read is missing"}', 'the right read is missing'],
  ])('that answer %d %s %j are reported in words', async (code, type, text, words) => {
    const address = await played((_, response) => {
      response.writeHead(code, { 'Content-Type': type }).end(text);
    });
    expect((await status('--limiter', address)).stdout).toContain(words);
  });

  it.each([
    [401, 'refused'],
    [403, 'refused'],
    [429, 'refused'],
    [500, 'silent'],
  ])('that answer %d stand as %s', async (code, state) => {
    const address = await played((_, response) => void response.writeHead(code).end());
    const { status: exitStatus, stdout } = await status('--limiter', address);
    expect(exitStatus).toBe(1);
    expect(stdout).toMatch(new RegExp(`${address} +${state} `));
    const { limiters } = JSON.parse((await status('--limiter', address, '-o', 'json')).stdout);
    expect(limiters).toMatchObject([{ answered: false, ...(state === 'refused' && { refused: true }) }]);
  });

  it('get the token of a file, and the caller', async () => {
    const token = join(temporaryFolder(), 'token');
    writeFileSync(token, 'a-token-of-operators\n');
    const seen: IncomingMessage['headers'][] = [];
    const address = await played(({ headers }, response) => {
      seen.push(headers);
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(well));
    });
    await status('--limiter', address, '--token-file', token);
    vi.stubEnv('WEIR_TOKEN_FILE', token);
    vi.stubEnv('WEIR_LIMITERS', ` ${address} `);
    await status();
    vi.unstubAllEnvs();
    expect(seen.map(({ authorization }) => authorization)).toEqual(
      Array(2).fill('Bearer a-token-of-operators'),
    );
    expect(seen[0]!['x-weir-user']).toMatch(/^\S+@\S+$/);
    expect(seen[0]!.host).toBe(address);
  });

  it.each([
    ['an empty part', (address: string) => `${address},, `, 0],
    ['nothing but commas', () => ' ,', 2],
  ])('of WEIR_LIMITERS may have %s', async (_, text, code) => {
    vi.stubEnv('KUBECONFIG', '');
    vi.stubEnv('HOME', '/nowhere');
    vi.stubEnv('WEIR_LIMITERS', text(await saying(well)));
    const found = await status();
    vi.unstubAllEnvs();
    expect(found.status).toBe(code);
    expect(found.stderr).not.toContain('--limiter is host:port');
  });

  it('are named, or found in a cluster that there is', async () => {
    vi.stubEnv('KUBECONFIG', '');
    vi.stubEnv('HOME', '/nowhere');
    const found = await status();
    vi.unstubAllEnvs();
    expect([found.status, found.stderr]).toEqual([
      2,
      expect.stringMatching(
        /^weir: cannot find the Kubernetes API: .*; or name limiters by --limiter or WEIR_LIMITERS\n$/,
      ),
    ]);
  });

  it.each([
    [['--limiter', 'a', 'shop'], 'limiters that are named by --limiter or WEIR_LIMITERS have no objects'],
    [['--limiter', 'a', '-A'], '--limiter and --all-namespaces exclude each other'],
    [['--only', 'pods'], '--only is limiters or objects, not "pods"'],
    [['--limiter', 'a:b'], '--limiter is host:port of a debug listener, not "a:b"'],
    [['--limiter', 'a:70000'], '--limiter is host:port of a debug listener, not "a:70000"'],
    [['--limiter', 'a', '-n', 'b'], '--limiter and --namespace exclude each other'],
    [['--limiter', 'a', '--class', 'b'], '--limiter and --class exclude each other'],
    ...['only=objects', 'class=b', 'fleet=b', 'selector=b=c'].map((flag): [string[], string] => [
      ['shop', `--${flag}`],
      `--${flag.split('=')[0]} has no effect with a name: the report shows only that object`,
    ]),
    [
      ['--limiter', 'a', '--timeout', '1 s'],
      '--timeout is a duration from 1ms to 10m, such as 5s, not "1 s"',
    ],
    [['--limiter', 'a', '--interval', '1s'], '--interval has no effect without --watch'],
    [['--limiter', 'a', '--token-file', '/nowhere'], '--token-file /nowhere: no such file or directory'],
  ])('are not asked for %j', async (args, message) => {
    expect(await status(...args)).toEqual({ status: 2, stdout: '', stderr: `weir: ${message}\n` });
  });

  const set = ['set', 'shop', 'a=b', '--block', '--for', '1h', '--reason', 'x'];
  const grant = ['grant', 'shop', 'a=b', '--hits', '1', '--reason', 'x'];
  const idleWait = '--wait has no effect with --limiter or WEIR_LIMITERS: only objects become Ready';
  const idleClass = '--limiter and --class exclude each other';
  it.each([
    [overrideCommand, [...set, '--class', 'b'], idleClass],
    [overrideCommand, [...set, '--class', 'b', '--dry-run'], idleClass],
    [overrideCommand, [...set, '--wait', '1s'], idleWait],
    [overrideCommand, [...set, '--wait', '1s', '--dry-run'], idleWait],
    [countersCommand, [...grant, '--wait', '1s'], idleWait],
  ])('%# get no override from flags of a cluster', async (command, args, message) => {
    const found = await runCommand(command, [...args, '--limiter', '127.0.0.1:1']);
    expect(found).toEqual({ status: 2, stdout: '', stderr: `weir: ${message}\n` });
  });

  it('of WEIR_LIMITERS get no override that is to be waited for', async () => {
    vi.stubEnv('WEIR_LIMITERS', '127.0.0.1:1');
    const found = await runCommand(overrideCommand, [...set, '--wait', '1s']);
    vi.unstubAllEnvs();
    expect(found).toEqual({ status: 2, stdout: '', stderr: `weir: ${idleWait}\n` });
  });
});

describe('weir status', () => {
  it.each([
    [{ ready: false, failing: ['redis'] }, 'not ready: redis'],
    [{ rules: { version: 'v1', lastLoadFailed: true } }, 'the last load of rules failed: its log says why'],
    [
      {
        rules: {
          lastLoadFailed: true,
          lastError: { source: 'a.yaml', line: 3, column: 5, text: 'unknown key' },
        },
      },
      'the last load of rules failed: a.yaml:3:5: unknown key',
    ],
    [
      {
        rules: {
          lastLoadFailed: true,
          lastError: { source: 'shop', line: null, column: null, text: 'no domain' },
        },
      },
      'the last load of rules failed: shop: no domain',
    ],
    [
      { store: { type: 'redis', breaker: 'open' } },
      'the circuit breaker is open; the limiter does not call the store',
    ],
    [{ store: { type: 'redis', connected: false } }, 'redis is not connected'],
  ])('ends with status 1 for %j', async (state, problem) => {
    const { status: code, stdout } = await status('--limiter', await saying({ ...well, ...state }));
    expect(code).toBe(1);
    expect(stdout).toMatch(new RegExp(`\nlim-0 +${problem}\n`));
  });

  it('ends with status 1 if limiters have different rules', async () => {
    const other = { ...well, limiter: { name: 'lim-1', instance: 'b' }, rules: { version: 'v2' } };
    const { status: code, stdout } = await status(
      '--limiter',
      await saying(well),
      '--limiter',
      await saying(other),
    );
    expect(code).toBe(1);
    expect(stdout).toContain('limiters have 2 versions of the rules');
  });

  it.each([
    [['file'], 'lim-0 reads its rules from files, and reports to no control plane\n'],
    [['file', 'xds'], 'lim-0 reads its rules from files, and reports to no control plane\n'],
    [['file', 'file'], 'all limiters read their rules from files, and report to no control plane\n'],
    [['file', 'file', 'xds'], 'lim-0, lim-1 read their rules from files, and report to no control plane\n'],
    [['xds'], 'p99 4 ms at most\n'],
  ])('says which limiters of %j have no control plane', async (sources, end) => {
    const limiters = sources.map(async (source, index) => {
      const limiter = { ...well.limiter, name: `lim-${index}`, instance: `i${index}` };
      return ['--limiter', await saying({ ...well, limiter, rules: { ...well.rules, source } })];
    });
    const found = await status(...(await Promise.all(limiters)).flat());
    expect(found).toMatchObject({ status: 0, stdout: expect.stringMatching(new RegExp(`\\n.*${end}$`)) });
  });

  it('keeps what limiters say from the terminal', async () => {
    const evil = { ...well, limiter: { ...well.limiter, name: 'a\u001b[2J' } };
    const { stdout } = await status('--limiter', await saying(evil));
    expect(stdout).toContain('a\\u001b[2J');
  });
});

/** A limiter that answers each path by a function of the query. */
function answering(
  name: string,
  paths: Record<string, (query: URLSearchParams) => unknown>,
): Promise<string> {
  return played((request, response) => {
    const { pathname, searchParams } = new URL(`http://limiter${request.url}`);
    const body = paths[pathname]?.(searchParams) ?? { ...well, limiter: { name, instance: name } };
    response.setHeader('Content-Type', 'application/json').end(JSON.stringify(body));
  });
}

describe('limiters that answer and then reject the question', () => {
  /** Reports its status, and has no other right. */
  const rejecting = () =>
    played(({ url }, response) => {
      const isStatus = url?.startsWith('/v1/status') === true;
      response.writeHead(isStatus ? 200 : 403, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(isStatus ? well : { detail: 'the right "read" is missing' }));
    });

  it.each([
    [topCommand, []],
    [whyCommand, ['shop']],
    [assignmentsCommand, ['shop']],
    [countersCommand, ['list', 'shop']],
    [overrideCommand, ['list', 'shop']],
  ])('%# are named, and nothing is said about requests', async (command, args) => {
    const address = await rejecting();
    expect(await runCommand(command, [...args, '--limiter', address])).toEqual({
      status: 1,
      stdout: '',
      stderr: `weir: ${address}: the right "read" is missing\n`,
    });
  });

  it('are named beside the answers of others', async () => {
    const address = await rejecting();
    const other = await answering('b', { '/v1/top': () => ({ since: null, domainCount: 0, domains: [] }) });
    expect(await runCommand(topCommand, ['--limiter', address, '--limiter', other])).toEqual({
      status: 1,
      stdout: 'no request was over limit\n',
      stderr: `weir: ${address}: the right "read" is missing\n`,
    });
  });
});

describe('weir counters list', () => {
  const pages: Record<string, unknown> = {
    '': { counters: [counter(5), counter(7)], cursor: 'x', notes: ['a note'] },
    x: { counters: [], cursor: 'y', notes: ['a note'] },
    y: { counters: [counter(9)], cursor: null, notes: [] },
  };
  const list = (address: string, ...args: string[]) =>
    runCommand(countersCommand, ['list', 'shop', '--limiter', address, '-o', 'json', ...args]);

  function counter(used: number): unknown {
    return { key: `k${used}`, used, entries: [] };
  }

  it.each([
    [[], [5, 7, 9], false],
    [['--limit', '1'], [5], true],
    [['--limit', '2', '--sort', 'used'], [9, 7], true],
  ])('follows pages as far as %j needs it', async (args, used, more) => {
    const address = await answering('a', { '/v1/counters': (query) => pages[query.get('cursor') ?? ''] });
    const { status: code, stdout } = await list(address, ...args);
    const report = JSON.parse(stdout);
    expect([code, report.counters.map((one: { used: number }) => one.used), report.more]).toEqual([
      0,
      used,
      more,
    ]);
    expect(report.notes).toEqual(['a note']);
  });

  it('asks another limiter of the store if one is gone meanwhile', async () => {
    const dying = createServer((_, response) => {
      response.setHeader('Content-Type', 'application/json').end(JSON.stringify(well));
      dying.close();
    }).listen(0, '127.0.0.1');
    await once(dying, 'listening');
    const other = await answering('b', { '/v1/counters': () => pages['y'] });
    const { port } = dying.address() as AddressInfo;
    const args = ['--limiter', `127.0.0.1:${port}`, 'key=value'];
    expect(JSON.parse((await list(other, ...args)).stdout).counters).toHaveLength(1);
  });
});

describe('weir assignments', () => {
  const row = (mayUse: number) => ({
    ...{ caller: null, address: '10.0.0.1:5', rule: 'shop.plan', bucket: { plan: 'gold', name: 'x' } },
    ...{ mayUse, used: 3, denied: 1, returned: 0, since: '2026-11-22T10:00:00Z' },
  });
  const holding = (name: string, mayUse: number) =>
    answering(name, { '/v1/assignments': () => ({ assignments: [row(mayUse)], count: 1 }) });

  it('lists those of all limiters, the largest first', async () => {
    const args = ['shop', '--limiter', await holding('a', 5), '--limiter', await holding('b', 7)];
    const found = await runCommand(assignmentsCommand, args);
    expect([found.status, found.stderr]).toEqual([0, '']);
    expect(found.stdout).toMatch(
      /^LIMITER +CLIENT .*\nb +10\.0\.0\.1:5 +shop\.plan +plan=gold,name=x +7 +3 +1 .*\na .* 5 .*\n$/,
    );
    const { assignments } = JSON.parse(
      (await runCommand(assignmentsCommand, [...args, '-o', 'json'])).stdout,
    );
    expect(assignments.map(({ limiter }: { limiter: string }) => limiter)).toEqual(['b', 'a']);
  });

  it('names limiters that serve no quota clients', async () => {
    const address = await played(({ url }, response) => {
      const isStatus = url?.startsWith('/v1/status') === true;
      response.writeHead(isStatus ? 200 : 404, { 'Content-Type': 'application/json' });
      response.end(JSON.stringify(isStatus ? well : { detail: 'there is no "/v1/assignments"' }));
    });
    expect(await runCommand(assignmentsCommand, ['shop', '--limiter', address])).toEqual({
      status: 1,
      stdout: '',
      stderr: `weir: ${address}: it serves no quota clients, because RLQS is off\n`,
    });
  });
});

it('weir override list prints what limiters note', async () => {
  const overrides = () => ({ overrides: [], notes: ['BACKEND_TYPE=memcache stores no overrides'] });
  const address = await answering('a', { '/v1/overrides': overrides });
  expect(await runCommand(overrideCommand, ['list', '--limiter', address])).toEqual({
    status: 0,
    stdout: 'no overrides\n',
    stderr: 'weir: BACKEND_TYPE=memcache stores no overrides\n',
  });
});

describe('weir top', () => {
  const key = (name: string, atMost: number, atLeast = atMost) => ({
    key: name,
    rule: 'r',
    shadowMode: false,
    atLeast,
    atMost,
  });

  it('adds up what limiters know, and asks for a domain that one has not reported', async () => {
    const since = '2026-11-22T10:00:00.000Z';
    const a = await answering('a', {
      '/v1/top': () => ({
        since,
        domainCount: 1,
        domains: [{ domain: 'shop', overLimit: 30, missed: 0, keys: [key('x', 20), key('y', 10)] }],
      }),
    });
    const b = await answering('b', {
      '/v1/top': (query) => ({
        since,
        domainCount: 11,
        domains: query.has('domain')
          ? [{ domain: 'shop', overLimit: 9, missed: 2, keys: [key('x', 7, 6)] }]
          : [{ domain: 'mail', overLimit: 100, missed: 0, keys: [key('z', 100)] }],
      }),
    });
    const found = await runCommand(topCommand, ['--limiter', a, '--limiter', b, '-o', 'json']);
    const { domains, domainCount } = JSON.parse(found.stdout);
    expect([domainCount, domains.map(({ domain }: { domain: string }) => domain)]).toEqual([
      11,
      ['mail', 'shop'],
    ]);
    expect(domains[1]).toMatchObject({
      overLimit: 39,
      missed: 2,
      keys: [
        { key: 'x', atLeast: 26, atMost: 27 },
        { key: 'y', atLeast: 10, atMost: 12 },
      ],
    });
  });
});

describe('the time that weir why asks for', () => {
  const nowMs = Date.UTC(2026, 10, 22, 10);
  const none = { at: undefined, since: undefined, until: undefined };
  const range = (given: Partial<Record<keyof typeof none, string>>) =>
    timeRange({ ...none, ...given }, nowMs);
  it.each([
    [{ at: '2026-11-22T09:00:00Z' }, '2026-11-22T08:59:45.000Z', '2026-11-22T09:00:15.000Z'],
    [{ since: '10m' }, '2026-11-22T09:50:00.000Z', undefined],
    [{ until: '1795341600' }, undefined, '2026-11-22T10:00:00.000Z'],
    [{}, undefined, undefined],
  ])('is of %j', (given, since, until) => {
    expect(range(given)).toEqual({
      since,
      until,
    });
  });

  it.each([
    [{ at: '1', since: '2' }, '--at excludes --since and --until'],
    [
      { since: 'yesterday' },
      '--since is a time such as 2026-01-31T12:00:00Z or seconds since 1970, or a duration such as 10m, not "yesterday"',
    ],
  ])('is not of %j', (given, message) => {
    expect(() => range(given)).toThrow(message);
  });
});
