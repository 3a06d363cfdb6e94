import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { diffCommand } from '../../cli/diff/diff-command.ts';
import { budgetCommand } from '../../cli/operate/budget-command.ts';
import { countersCommand } from '../../cli/operate/counters-command.ts';
import type { Json } from '../../cli/operate/limiters.ts';
import { overrideCommand } from '../../cli/operate/override-command.ts';
import { statusCommand } from '../../cli/operate/status-command.ts';
import { topCommand } from '../../cli/operate/top-command.ts';
import { whyCommand } from '../../cli/operate/why-command.ts';
import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { eventually } from '../support/eventually.ts';
import { redisProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { RedisServer } from '../support/redis-server.ts';
import { runCommand, runWeirHere } from '../support/run-command.ts';
import { suiteFolder } from '../support/suite-folder.ts';
import { weirProgram } from '../support/weir-program.ts';

const rules = `domain: shop
descriptors:
  - key: user
    rate_limit: { unit: day, requests_per_unit: 5 }
  - key: team
    rate_limit:
      calendar: { unit: month, timezone: Europe/Zurich, starts_on: 15 }
      requests_per_unit: 600
      hits_unit: tokens
`;

describeWithServer('the commands for limiters', redisProgram, (path) => {
  const root = suiteFolder();
  let redis: RedisServer;
  let shared: LimiterProcess[];
  let alone: LimiterProcess[];

  beforeAll(async () => {
    redis = new RedisServer({ path }, await freePort());
    await redis.start();
    mkdirSync(join(root, 'config'));
    writeFileSync(join(root, 'config/shop.yaml'), rules);
    const start = (name: string, env: Record<string, string>) =>
      startLimiter({ env: { RUNTIME_ROOT: root, POD_NAME: name, ...env } });
    const ofRedis = {
      BACKEND_TYPE: 'redis',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      COUNTER_KEYS: 'unambiguous',
    };
    shared = [await start('lim-0', ofRedis), await start('lim-1', ofRedis)];
    alone = [
      await start('mem-0', { BACKEND_TYPE: 'memory' }),
      await start('mem-1', { BACKEND_TYPE: 'memory' }),
    ];
  });
  afterAll(async () => {
    for (const limiter of [...(shared ?? []), ...(alone ?? [])]) await limiter.stop();
    await redis.stop();
  });

  const of = (limiters: readonly LimiterProcess[]) => [
    ...limiters.flatMap(({ ports }) => ['--limiter', `127.0.0.1:${ports.debug}`]),
    ...['--timeout', '60s'],
  ];

  async function isRefused(
    { ports }: LimiterProcess,
    value: string,
    hits = 1,
    key = 'user',
  ): Promise<boolean> {
    const entries = [{ key, value }];
    const body = JSON.stringify({ domain: 'shop', descriptors: [{ entries }], hitsAddend: hits });
    const { status } = await fetch(`http://127.0.0.1:${ports.http}/json`, { method: 'POST', body });
    return status === 429;
  }

  it('say that all is well', async () => {
    const found = await runCommand(statusCommand, [...of(shared), '-o', 'json']);
    const report = JSON.parse(found.stdout);
    expect([found.status, report.ok, report.problems]).toEqual([0, true, []]);
    expect(report.limiters.map(({ limiter, store }: Json) => [limiter.name, store.type])).toEqual([
      ['lim-0', 'redis'],
      ['lim-1', 'redis'],
    ]);
    const table = await runCommand(statusCommand, of(shared));
    expect(table.stdout).toMatch(/^LIMITER .*\nlim-0 .* ok .*\nlim-1 .* ok /);
    expect(table.stdout).toContain('2 of 2 limiters answered');
  });

  it('show and reset a counter of a shared store once, and say which limiters confirmed', async () => {
    expect(await isRefused(shared[0]!, 'ann', 7)).toBe(true);
    const list = await runCommand(countersCommand, ['list', 'shop', 'user=ann', ...of(shared), '-o', 'json']);
    expect(JSON.parse(list.stdout).counters).toMatchObject([
      { rule: 'shop.user', used: 7, limit: 5, left: 0, over: true },
    ]);
    const table = await runCommand(countersCommand, [
      'list',
      'shop',
      '--over',
      '--sort',
      'used',
      ...of(shared),
    ]);
    expect(table.stdout).toMatch(
      /^ENTRIES +RULE +WINDOW +USED +LIMIT .*\nuser=ann +shop\.user +1d fixed_window +7 +5 +0 /,
    );
    const reset = await runCommand(countersCommand, [
      'reset',
      'shop',
      'user=ann',
      ...of(shared),
      '-o',
      'json',
    ]);
    const report = JSON.parse(reset.stdout);
    expect([reset.status, report.reset]).toEqual([0, 1]);
    expect(report.limiters.map(({ name, confirmed }: Json) => [name, confirmed]).sort()).toEqual([
      ['lim-0', true],
      ['lim-1', true],
    ]);
    expect([await isRefused(shared[0]!, 'ann'), await isRefused(shared[1]!, 'ann')]).toEqual([false, false]);
  });

  it('show and reset the counters of each memory', async () => {
    expect([await isRefused(alone[0]!, 'bob', 6), await isRefused(alone[1]!, 'bob', 8)]).toEqual([
      true,
      true,
    ]);
    const list = await runCommand(countersCommand, ['list', 'shop', 'user=bob', ...of(alone)]);
    expect(list.stdout).toMatch(/^LIMITER +ENTRIES .*\nmem-0 +user=bob .* 6 .*\nmem-1 +user=bob .* 8 /);
    const reset = await runCommand(countersCommand, ['reset', 'shop', '--all', ...of(alone)]);
    expect([reset.status, reset.stdout.split('\n')[0]]).toEqual([0, '2 counters were reset']);
    expect([await isRefused(alone[0]!, 'bob'), await isRefused(alone[1]!, 'bob')]).toEqual([false, false]);
  });

  it('add up the requests over limit', async () => {
    for (const limiter of shared) await isRefused(limiter, 'eve', 20);
    const found = await runCommand(topCommand, ['shop', ...of(shared), '-o', 'json']);
    const { keys } = JSON.parse(found.stdout).domains[0];
    expect(keys.find(({ key }: Json) => key === 'user=eve')).toMatchObject({
      rule: 'shop.user',
      atLeast: 35,
      atMost: 35,
    });
    expect((await runCommand(topCommand, of(shared))).stdout).toMatch(
      /\nOVER +SHARE +KEY +RULE\n35 .* user=eve +shop\.user\n/,
    );
  });

  it('say of a mistyped domain that it has no rules, and which was intended', async () => {
    const { status, stdout } = await runCommand(topCommand, ['shp', ...of(shared)]);
    const note = 'no rules are in force for the domain "shp"; did you mean "shop"?';
    expect([status, stdout]).toEqual([0, `no request was over limit\nnote: ${note}\n`]);
    const far = await runCommand(topCommand, ['elsewhere', ...of(shared), '-o', 'json']);
    expect(JSON.parse(far.stdout)).toMatchObject({
      domains: [],
      notes: ['no rules are in force for the domain "elsewhere"'],
    });
    const quiet = await runCommand(topCommand, ['shop', ...of(alone)]);
    expect(quiet.stdout).not.toContain('note:');
  });

  it('show the state of a budget, in a shared store and in memory', async () => {
    const reserve = ({ ports }: LimiterProcess) =>
      fetch(`http://127.0.0.1:${ports.http}/v1/reserve`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ domain: 'shop', descriptors: [[{ user: 'bud' }]], amount: 2, ttl: '1h' }),
      });
    for (const limiter of [shared[0]!, alone[0]!]) expect((await reserve(limiter)).status).toBe(200);
    const asked = (limiters: readonly LimiterProcess[], ...more: string[]) =>
      runCommand(budgetCommand, ['shop', 'user=bud', ...of(limiters), ...more]);
    const found = await asked(shared);
    expect(found.stdout).toMatch(
      /^RULE +LIMIT +USED +RESERVED +LEFT +RESET +MARK\nshop\.user +5 per day +2 +2 \(1 open, oldest \d+s\) +3 +\d+\w+ +-\n$/,
    );
    const inMemory = JSON.parse((await asked(alone, '-o', 'json')).stdout);
    expect(inMemory.budgets).toMatchObject([
      { limiter: 'mem-0', rule: 'shop.user', used: 2, reserved: 2, open: 1, left: 3 },
      { limiter: 'mem-1', rule: 'shop.user', used: 0, reserved: 0, open: 0, left: 5 },
    ]);
    const nothing = await runCommand(budgetCommand, ['shop', 'user=bud', 'nobody=x', ...of(shared)]);
    expect([nothing.status, nothing.stdout, nothing.stderr]).toEqual([
      ...[
        1,
        '',
        'weir: lim-0: no rule of shop limits user=bud, nobody=x (single entries with a rule: user=bud)\n',
      ],
    ]);
    const misspelled = await runCommand(budgetCommand, ['shop', 'usr=bud', '-o', 'json', ...of(alone)]);
    expect([misspelled.status, JSON.parse(misspelled.stdout).budgets, misspelled.stderr]).toEqual([
      ...[
        1,
        [],
        'weir: mem-0: no rule of shop limits usr=bud\nweir: mem-1: no rule of shop limits usr=bud\n',
      ],
    ]);
    const silent = await asked([...shared.slice(0, 1)], '--limiter', '127.0.0.1:1');
    expect(silent.status).toBe(1);
  });

  it('say why a request was over limit, and by which limiter', async () => {
    await isRefused(shared[1]!, 'why', 9);
    const args = ['shop', 'user=why', '--since', '10m', ...of(shared)];
    const asked = () => runCommand(whyCommand, args);
    await eventually(async () => expect((await asked()).status).toBe(0));
    const found = await asked();
    expect(found.stdout).toMatch(/lim-1 over limit: user=why of shop/);
    expect(found.stdout).toMatch(
      /\n {2}rule +shop\.user\n {2}limit +5 in 1d, fixed_window; used 9\n {2}rules +version /,
    );
    const byId = await runCommand(whyCommand, [
      '--request-id',
      'unknown',
      '--at',
      `${Math.floor(Date.now() / 1000)}`,
      ...of(shared),
    ]);
    expect(byId).toMatchObject({
      status: 1,
      stderr: '',
      stdout: expect.stringMatching(
        /^No limiter remembers.*\n {2}lim-0: (?:1 request|\d+ requests) over limit, the oldest from 2/,
      ),
    });
    const nothing = await runCommand(whyCommand, ['shop', 'user=nobody', ...of(shared)]);
    expect([nothing.status, nothing.stdout.split('\n')[0]]).toEqual([
      1,
      'No limiter remembers a matching request over limit. What each limiter remembers:',
    ]);
  });

  it('name the calendar that a limit is counted in, and what its hits are', async () => {
    expect(await isRefused(alone[0]!, 'a', 700, 'team')).toBe(true);
    const list = await runCommand(countersCommand, ['list', 'shop', 'team=a', ...of(alone.slice(0, 1))]);
    expect(list.stdout).toMatch(/ month@Europe\/Zurich@15 fixed_window +700 +600 tokens +0 /);
    const why = await runCommand(whyCommand, ['shop', 'team=a', ...of(alone.slice(0, 1))]);
    expect(why.stdout).toContain('600 tokens in month@Europe/Zurich@15, fixed_window; used 700\n');
  });

  it('say of an override and of counters that no rules have the domain', async () => {
    const ends = ['--for', '2h', '--reason', 'typed', ...of(alone.slice(0, 1))];
    const idle = await runCommand(overrideCommand, ['set', 'sohp', 'user=eve', '--limit', '9', ...ends]);
    const why = 'no rules have the domain "sohp"; did you mean "shop"?';
    expect([idle.status, idle.stderr]).toEqual([
      1,
      expect.stringContaining(
        `weir: mem-0: is set and changes nothing: --limit needs --unit, as ${why}\nweir: remove it with: weir override rm `,
      ),
    ]);
    const [, removal = ''] = /weir override rm (.*)\n$/.exec(idle.stderr) ?? [];
    const removed = await runCommand(overrideCommand, ['rm', ...removal.split(' ')]);
    expect([removed.status, removed.stdout]).toEqual([0, expect.stringContaining('1 override was removed')]);
    const block = await runCommand(overrideCommand, ['set', 'sohp', 'user=eve', '--block', ...ends]);
    expect([block.status, block.stderr]).toEqual([0, `weir: mem-0: note: ${why}\n`]);
    await runCommand(overrideCommand, ['rm', 'sohp', 'user=eve', ...of(alone.slice(0, 1))]);
    for (const limiters of [alone.slice(0, 1), shared]) {
      const list = await runCommand(countersCommand, ['list', 'sohp', ...of(limiters)]);
      expect(list.stdout).toBe(
        'no counters of sohp were found\nnote: no rules are in force for the domain "sohp"\n',
      );
      const reset = await runCommand(countersCommand, ['reset', 'shop', 'uesr=eve', ...of(limiters)]);
      expect(reset.stdout).toBe('0 counters were reset\nnote: no rule matches these entries\n');
    }
  });

  it('name the intended domain or key, if nothing limits a request', async () => {
    const [limiter] = alone;
    const debug = of([limiter!]);
    const domain = 'weir: no rules have the domain "sohp"; did you mean "shop"?\n';
    const key = 'weir: no rule of "shop" has the key "uesr"; did you mean "user"?\n';
    for (const [asked, stderr] of [
      [['sohp', 'user=eve'], domain],
      [['sohp'], domain],
      [['shop', 'uesr=eve'], key],
    ] as const)
      expect(await runCommand(whyCommand, [...asked, ...debug])).toMatchObject({ status: 1, stderr });
    const env = { WEIR_LIMITERS: `127.0.0.1:${limiter!.ports.debug}` };
    const ask = (...asked: string[]) =>
      runWeirHere(['ask', ...asked, '--dial-string', `127.0.0.1:${limiter!.ports.grpc}`], env);
    expect(await ask('sohp', 'user=eve', '+', 'team=a')).toMatchObject({ status: 0, stderr: domain });
    expect(await ask('shop', 'uesr=eve')).toMatchObject({ status: 0, stderr: key });
    expect(await ask('shop', 'user=fay')).toMatchObject({ status: 0, stderr: '' });
  });

  it('lay an override over the rules of all, list it and take it away', async () => {
    const place = ['shop', 'user=mallory'];
    const set = await runCommand(overrideCommand, [
      'set',
      ...place,
      '--block',
      '--for',
      '1h',
      '--reason',
      'abuse',
      ...of(shared),
    ]);
    expect(set).toMatchObject({ status: 0, stderr: '' });
    for (const limiter of shared)
      await eventually(async () => expect(await isRefused(limiter, 'mallory')).toBe(true));
    const counter = await runCommand(countersCommand, ['list', ...place, ...of(shared)]);
    expect(counter.stdout).toMatch(/\nuser=mallory +shop\.user +1d fixed_window +\d+ +5 \(blocked\) +0 /);
    await eventually(async () =>
      expect((await runCommand(whyCommand, [...place, ...of(shared)])).stdout).toMatch(
        /\n {2}rule +shop\.user\n {2}blocked +by override \S+, regardless of use; .*\n {2}rules /,
      ),
    );
    await runCommand(overrideCommand, [
      'set',
      ...place,
      '--limit',
      '1000',
      '--for',
      '1h',
      '--reason',
      'sorry',
      ...of(shared),
    ]);
    const list = await runCommand(overrideCommand, ['list', 'shop', ...of(shared), '-o', 'json']);
    expect(JSON.parse(list.stdout).overrides).toMatchObject([
      { requestsPerUnit: 1000, reason: 'sorry', state: 'InForce', limiters: expect.any(Array) },
    ]);
    const removed = await runCommand(overrideCommand, ['rm', ...place, ...of(shared), '-o', 'json']);
    expect([removed.status, JSON.parse(removed.stdout)]).toMatchObject([
      0,
      { overrides: [{ requestsPerUnit: 1000, limiters: [expect.any(String)] }], silent: [] },
    ]);
    expect((await runCommand(overrideCommand, ['list', ...of(shared)])).stdout).toBe('no overrides\n');
    expect(await runCommand(overrideCommand, ['rm', ...place, ...of(shared)])).toMatchObject({
      status: 1,
      stderr: expect.stringContaining('"weir override list" shows all overrides'),
    });
  });

  it('let so many more pass, once for an id', async () => {
    expect(await isRefused(shared[0]!, 'gus', 6)).toBe(true);
    const grant = [
      'grant',
      'shop',
      'user=gus',
      '--hits',
      '10',
      '--id',
      'g-1',
      '--reason',
      'batch',
      ...of(shared),
    ];
    for (let times = 0; times < 2; times++) expect((await runCommand(countersCommand, grant)).status).toBe(0);
    await eventually(async () => expect(await isRefused(shared[1]!, 'gus', 0)).toBe(false));
    const { stdout } = await runCommand(countersCommand, [
      'list',
      'shop',
      'user=gus',
      ...of(shared),
      '-o',
      'json',
    ]);
    expect(JSON.parse(stdout).counters[0].limit).toBe(15);
    const byEntries = await runCommand(overrideCommand, ['rm', 'shop', 'user=gus', ...of(shared)]);
    expect(byEntries.stderr).toContain('removed by their IDs: g-1\n');
    const byId = await runCommand(overrideCommand, ['rm', 'g-1', ...of(shared)]);
    expect(byId.stdout).toMatch(/^1 override was removed\n\nBefore:\nID .*\ng-1 /);
  });

  it('look again and again until they are asked to end', async () => {
    const args = [weirProgram, 'status', '--watch', '--interval', '100ms', ...of(shared)];
    const watching = new ChildProgram({ command: process.execPath, args });
    await watching.printed(/2 of 2 limiters(?:.|\n)*2 of 2 limiters/);
    await watching.stop('SIGINT');
    expect(watching.process.exitCode).toBe(0);
  });

  it('show the token that limiters ask for', async () => {
    const token = join(root, 'token');
    writeFileSync(token, 'a-token-of-operators\n');
    const asking = await startLimiter({
      env: { RUNTIME_ROOT: root, BACKEND_TYPE: 'memory', DEBUG_TOKEN_FILE: token },
    });
    const without = await runCommand(statusCommand, of([asking]));
    expect([without.status, without.stdout]).toEqual([
      1,
      expect.stringContaining('it requires a valid token'),
    ]);
    expect((await runCommand(statusCommand, [...of([asking]), '--token-file', token])).status).toBe(0);
    const url = `http://127.0.0.1:${asking.ports.debug}`;
    const diff = (...more: string[]) => runCommand(diffCommand, [url, join(root, 'config'), ...more]);
    expect(await diff()).toMatchObject({
      status: 2,
      stderr: `weir: ${url} answered 401: it requires a valid token: --token-file, or WEIR_TOKEN_FILE\n`,
    });
    expect(await diff('--token-file', token)).toMatchObject({ status: 0, stdout: 'no changes\n' });
    await asking.stop();
  });

  it('report a Redis that is gone, although there were no requests since', async () => {
    await redis.kill('SIGKILL');
    await eventually(async () => {
      const { status, stdout } = await runCommand(statusCommand, [...of(shared), '-o', 'json']);
      expect(status).toBe(1);
      for (const { store } of JSON.parse(stdout).limiters) expect(store.connected).toBe(false);
    });
    await redis.start();
    await eventually(async () => {
      expect((await runCommand(statusCommand, of(shared))).status).toBe(0);
    });
  });

  it('continue with the others when one is gone, and say so', async () => {
    await shared[0]!.stop();
    const found = await runCommand(countersCommand, ['list', 'shop', 'user=eve', ...of(shared)]);
    expect(found.status).toBe(1);
    expect(found.stderr).toMatch(/^weir: 127\.0\.0\.1:\d+: connection refused\n$/);
    expect(found.stdout).toContain('user=eve');
    expect((await runCommand(statusCommand, of(shared))).stdout).toContain('1 of 2 limiters answered');
  });
});
