import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { countersCommand } from '../../cli/operate/counters-command.ts';
import { overrideCommand } from '../../cli/operate/override-command.ts';
import { installPrerequisites, startReplica } from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithApiServer } from '../support/describe-with-api-server.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { runCommand } from '../support/run-command.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

const place = ['shop', 'remote_address=203.0.113.7'];
const set = (...args: string[]) => runCommand(overrideCommand, ['set', ...place, ...args]);

describe('weir override set --dry-run', () => {
  it('prints the object without a cluster, named after what it is for', async () => {
    vi.stubEnv('KUBECONFIG', '');
    vi.stubEnv('HOME', temporaryFolder());
    const args = ['--limit', '100', '--for', '2h', '--reason', 'a sale', '--dry-run', '-n', 'shop'];
    const first = await set(...args, '-o', 'yaml');
    expect(first).toEqual({
      status: 0,
      stderr: '',
      stdout: `apiVersion: ratelimit.weir.dev/v1alpha1
kind: RateLimitOverride
metadata:
  name: shop-1249c423
  namespace: shop
spec:
  domain: shop
  match:
    - key: remote_address
      value: "203.0.113.7"
  requestsPerUnit: 100
  for: "2h"
  reason: "a sale"
`,
    });
    const again = await set('--block', '--permanent', '--reason', 'abuse', '--dry-run', '-o', 'json');
    expect(JSON.parse(again.stdout).metadata.name).toBe('shop-1249c423');
    vi.unstubAllEnvs();
  });

  it('prints the body of the API with --limiter', async () => {
    const { stdout } = await runCommand(countersCommand, [
      ...[
        'grant',
        ...place,
        '--hits',
        '1000',
        '--id',
        'g-1',
        '--reason',
        'x',
        '--limiter',
        'a',
        '--dry-run',
        '-o',
        'json',
      ],
    ]);
    expect(JSON.parse(stdout)).toEqual({
      domain: 'shop',
      match: [{ key: 'remote_address', value: '203.0.113.7' }],
      grant: 1000,
      reason: 'x',
      id: 'g-1',
    });
  });
});

describe('weir override', () => {
  const reason = ['--reason', 'x'];
  it.each([
    [['--for', '2h', ...reason], 'set what to do with one of --limit, --unlimited, --shadow, --block'],
    [
      ['--block', '--limit', '3', '--for', '2h', ...reason],
      'set what to do with one of --limit, --unlimited, --shadow, --block, and not --limit and --block',
    ],
    [['--block', ...reason], 'set how long with one of --for, --until, --permanent'],
    [['--block', '--for', '2h'], 'give a reason with --reason'],
    [
      ['--limit', 'x', '--for', '2h', ...reason],
      "--limit: must be a whole number from 0 to 9007199254740991, found the text 'x'",
    ],
    [
      ['--limit', '1', '--unit', 'fortnight', '--permanent', ...reason],
      '--unit: must be second, minute, hour, day, week, month or year, not "fortnight"',
    ],
    [
      ['--block', '--for', 'ever', ...reason],
      '--for: "ever" is not a duration such as 30s, 5m, 1h30m, 1d, 2w, 1mo or 1y',
    ],
    [
      ['--block', '--until', 'tomorrow', ...reason],
      '--until: must be a date and time such as 2026-01-31T18:00:00Z, not "tomorrow"',
    ],
    [['nonsense', '--block', '--for', '2h', ...reason], '"nonsense" is not of the form key=value'],
    [['--blok', '--for', '2h', ...reason], `Unknown option '--blok'; did you mean "--block"?`],
  ])('rejects %j', async (args, message) => {
    expect(await set(...args)).toEqual({ status: 2, stdout: '', stderr: `weir: ${message}\n` });
  });

  it.each([
    [['set'], 'override set needs a domain'],
    [
      ['set', 'shop', '--block', '--for', '1h', ...reason],
      'give the entries: key=value, in the order of the descriptor',
    ],
    [['rm'], 'override rm needs an id, or a domain and entries'],
    [['lst'], '"lst" is not one of set, list, rm; did you mean "list"?'],
    [[], 'say what to do: set, list, rm'],
  ])('rejects %j', async (args, message) => {
    expect(await runCommand(overrideCommand, args)).toEqual({
      status: 2,
      stdout: '',
      stderr: `weir: ${message}\n`,
    });
  });
});

describeWithApiServer('weir override in a cluster', (api) => {
  let replica: ControlPlaneProcess;
  let limiter: ScriptedXdsClient;
  const run = (...args: string[]) =>
    runCommand(overrideCommand, [...args, '--kubeconfig', api().kubeconfig()]);

  beforeAll(async () => {
    installPrerequisites(api());
    api().createNamespace('shops');
    const input = rateLimitConfigText({ name: 'shop', namespace: 'shops', domain: 'shop', requests: 5 });
    api().apply(input);
    // kubectl holds up this process, and so its limiter.
    replica = await startReplica(api(), 'plane', { XDS_KEEPALIVE_TIMEOUT: '2m' });
    await replica.program.printed(/Leading/);
    limiter = await startWeirLikeClient({
      port: replica.ports.xds,
      pod: 'lim-0',
      capabilities: ['overrides'],
    });
  });
  afterAll(async () => {
    limiter?.close();
    await replica?.stop();
  });

  it('makes an object beside the rules, waits until it is in force, replaces it and removes it', async () => {
    const place = ['shop', 'key=a'];
    const reason = ['--reason', 'a sale', '--wait', '60s'];
    const set = await run('set', ...place, '--limit', '100', '--for', '2h', ...reason);
    expect(set).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/^weir: ratelimitoverride\/shop-\w{8} was made in namespace shops\n$/),
    });
    expect(set.stdout).toMatch(
      /^ID +SOURCE +DOMAIN +MATCH +EFFECT +LEFT +STATE .*\nshops\/shop-\w{8} +object +shop +key=a +100 per day instead of 5 per day +\d+h\d*m? +InForce/,
    );
    const block = await run('set', ...place, '--block', '--for', '1h', ...reason, '-o', 'json');
    expect([block.status, block.stderr]).toEqual([0, set.stderr.replace('made', 'replaced')]);
    // The same shape whatever is done and anyone who is asked, that of /v1/overrides.
    const shape = {
      ...{ domain: 'shop', match: [{ key: 'key', value: 'a' }], block: true, reason: 'a sale' },
      ...{ source: 'object', state: 'InForce', message: '', limiters: [], limit: '' },
      words: 'blocked instead of 5 per day',
      secondsLeft: expect.toSatisfy((seconds: number) => seconds > 3_000 && seconds <= 3_600),
      createdAt: expect.stringMatching(/Z$/),
    };
    const [made] = JSON.parse(block.stdout).overrides;
    expect(made).toMatchObject(shape);
    expect(made.id).toBe(made.name);
    expect(Object.keys(made)).not.toContain('requestsPerUnit');
    expect(Date.parse(made.endsAt) - Date.now()).toBeGreaterThan(3_000_000);
    const list = await run('list', 'shop', '-o', 'json');
    expect(JSON.parse(list.stdout)).toMatchObject({ overrides: [shape], silent: [] });
    expect((await run('list', 'shop')).stdout).toMatch(
      / key=a +blocked instead of 5 per day +\d+[hm]\S* +InForce /,
    );
    const removed = await run('rm', ...place, '-o', 'json');
    expect(JSON.parse(removed.stdout)).toMatchObject({ overrides: [shape], silent: [] });
    expect(await run('list')).toEqual({ status: 0, stdout: 'no overrides\n', stderr: '' });
    expect(await run('rm', ...place)).toMatchObject({
      status: 1,
      stderr: 'weir: there is no such override in all namespaces: "weir override list" shows all overrides\n',
    });
  });

  it('fails for an override that changes nothing, says why, and lists the reason', async () => {
    const reason = ['--reason', 'load test', '--wait', '60s'];
    const set = await run('set', 'shop', 'kee=a', '--limit', '100', '--for', '1mo', ...reason);
    const why =
      'it has no effect: --limit needs --unit, as no rule of "shop" has the key "kee"; did you mean "key"?';
    expect(set.status).toBe(1);
    const [name] = /shops\/shop-\w{8}/.exec(set.stderr)!;
    expect(set.stderr).toContain(`weir: ${name} is set and changes nothing: `);
    expect(set.stderr).toContain(why);
    expect(set.stderr).toContain(
      `remove it with: weir override rm ${name} --kubeconfig ${api().kubeconfig()}\n`,
    );
    expect((await run('list', 'shop')).stdout).toMatch(/ kee=a +100 per window +(30d|29d\S+) +NoRule /);
    // The name that a limiter shows.
    expect((await run('rm', `override/${name}`)).status).toBe(0);
  });

  it('names an unknown namespace', async () => {
    const block = ['--block', '--for', '1h', '--reason', 'x', '-n', 'nowhere'];
    const { status, stderr } = await run('set', 'shop', 'key=a', ...block);
    expect([status, stderr.split('\n').at(-2)]).toEqual([2, 'weir: there is no namespace "nowhere"']);
  });

  it('makes one object of two that are set at the same time', async () => {
    const place = ['shop', 'key=twice'];
    const block = ['--block', '--for', '1h', '--wait', '0s', '--reason'];
    const both = await Promise.all([
      run('set', ...place, ...block, 'one'),
      run('set', ...place, ...block, 'two'),
    ]);
    expect(both.map(({ status }) => status)).toEqual([0, 0]);
    expect(both.map(({ stderr }) => /was (\w+)/.exec(stderr)?.[1]).sort()).toEqual(['made', 'replaced']);
    expect((await run('rm', ...place)).stdout).toMatch(/^1 override was removed\n/);
  });

  it('makes a grant once', async () => {
    const grant = () =>
      runCommand(countersCommand, [
        ...['grant', 'shop', 'key=b', '--hits', '10', '--id', 'g-1', '--reason', 'batch', '--wait', '0s'],
        ...['--kubeconfig', api().kubeconfig()],
      ]);
    expect((await grant()).stderr).toMatch(/was made in namespace shops/);
    expect(await grant()).toMatchObject({
      status: 0,
      stderr: expect.stringMatching(/is there already in namespace shops/),
    });
    expect((await run('rm', 'shop', 'key=b')).stderr).toMatch(
      /^weir: these entries have only grants; remove a grant by its ID: shops\/shop-\w{8}\n$/,
    );
  });

  it('says what right is missing, and which place to choose', async () => {
    const kubeconfig = ['--kubeconfig', api().kubeconfig('nobody')];
    const args = ['set', 'shop', 'key=a', '--block', '--for', '1h', '--reason', 'x'];
    const refused = await runCommand(overrideCommand, [...args, ...kubeconfig]);
    expect([refused.status, refused.stderr]).toEqual([
      2,
      expect.stringMatching(
        /^weir: the right to "list" on ratelimitconfigs.ratelimit.weir.dev in namespace default is missing/,
      ),
    ]);
    const accept = (name: string, namespace: string) => {
      const condition = {
        type: 'Accepted',
        status: 'True',
        reason: 'Valid',
        message: '',
        observedGeneration: 1,
      };
      const conditions = [{ ...condition, lastTransitionTime: '2026-11-30T06:00:00Z' }];
      const status = JSON.stringify({ status: { observedGeneration: 1, conditions } });
      const object = ['rlc', name, '-n', namespace, '--subresource=status', '--type=merge', '-p', status];
      api().mustKubectl(['patch', ...object]);
    };
    // An object that wants the domain of another one is no place.
    api().apply(rateLimitConfigText({ name: 'late', domain: 'shop', requests: 5 }));
    accept('shop', 'shops');
    expect((await run(...args, '--dry-run', '-o', 'json')).stdout).toContain('"namespace": "shops"');
    api().apply(rateLimitConfigText({ name: 'other', domain: 'shop', className: 'other', requests: 5 }));
    accept('other', 'default');
    expect((await run(...args)).stderr).toBe(
      'weir: domain shop exists in several places, choose one: -n default --class other --fleet default; -n shops --class weir --fleet default\n',
    );
  });
});
