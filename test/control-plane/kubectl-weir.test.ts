import { mkdtempSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, dirname, join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { ApiUser, KubectlResult } from '../support/api-server.ts';
import { runVariables } from '../support/child-program.ts';
import { applyFleet, installPrerequisites, startReplica } from '../support/cluster.ts';
import type { ControlPlaneProcess } from '../support/control-plane-process.ts';
import { describeWithBareApiServer } from '../support/describe-with-api-server.ts';
import { projectRoot } from '../support/documents.ts';
import { eventually } from '../support/eventually.ts';
import { freePort } from '../support/free-port.ts';
import { rateLimitConfigTexts } from '../support/rate-limit-config.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { type CommandOutcome, runWeir } from '../support/weir-command.ts';
import { weirProgram } from '../support/weir-program.ts';
import { type ScriptedXdsClient, startWeirLikeClient } from '../support/xds-client.ts';

describeWithBareApiServer('kubectl weir', (api) => {
  let withoutDefinitions: CommandOutcome;
  let replica: ControlPlaneProcess;
  const limiters: ScriptedXdsClient[] = [];

  /** There are no pods, and so no section of limiters. */
  const noPods = (namespace: string) =>
    `kubectl weir: no limiters are shown: no pods with the labels app.kubernetes.io/component=limiter in namespace ${namespace}: use -n, --fleet, -l or --limiter\n`;
  const weir = (
    args: readonly string[],
    { user, env = {} }: { user?: ApiUser; env?: NodeJS.ProcessEnv } = {},
  ): CommandOutcome =>
    runWeir(args, {
      program: 'kubectl weir',
      env: { HOME: api().folder, KUBECONFIG: api().kubeconfig(user), ...env },
    });

  it('is found by kubectl with the folder bin/ of a clone on the PATH', () => {
    const PATH = [join(projectRoot, 'bin'), process.env['PATH']].join(delimiter);
    const { status, stdout } = api().kubectl(['weir', '--version'], { env: { PATH } });
    expect([status, stdout]).toEqual([0, runWeir(['--version']).stdout]);
  });

  /** kubectl finds the program by its name, as it is installed. */
  function weirByKubectl(args: readonly string[]): KubectlResult {
    const folder = mkdtempSync(join(api().folder, 'bin-'));
    symlinkSync(join(dirname(weirProgram), 'kubectl-weir.js'), join(folder, 'kubectl-weir'));
    const PATH = [folder, dirname(process.execPath), process.env['PATH']].join(delimiter);
    return api().kubectl(['weir', ...args], { env: { PATH, ...runVariables() } });
  }

  beforeAll(async () => {
    withoutDefinitions = weir(['status']);

    installPrerequisites(api());
    for (const name of ['mail', 'empty']) api().createNamespace(name);
    applyFleet(api(), { count: 2 });
    // kubectl holds up this process, and so its limiters: on a busy machine for longer than the usual 5 s.
    replica = await startReplica(api(), 'kubectl-weir-0', { XDS_KEEPALIVE_TIMEOUT: '2m' });
    await replica.program.printed(/Leading/);
    for (const [pod, refuses] of [['lim-0'], ['lim-1', 'I cannot \u001b[2J load that']] as const) {
      limiters.push(await startWeirLikeClient({ port: replica.ports.xds, pod, ...(refuses && { refuses }) }));
    }
    api().apply(
      rateLimitConfigTexts(
        { name: 'shop', domain: 'shop', requests: 5 },
        { name: 'squatter', namespace: 'mail', domain: 'shop', requests: 9 },
        { name: 'elsewhere', namespace: 'mail', domain: 'shop', className: 'other', requests: 7 },
      ),
    );
    // In one question, and none after it while the control plane lives: kubectl holds up this process, and its limiters with it.
    const reported =
      '{range .items[*]}{.metadata.name} {.status.limiters} {.status.current} {.status.refusing[0].name} ';
    const reasons =
      '{.status.conditions[?(@.type=="Accepted")].reason} {.status.conditions[?(@.type=="Programmed")].reason}';
    const get = ['get', 'rlc,rlf', '-A', `-o=jsonpath=${reported}${reasons}{"\\n"}{end}`];
    await eventually(
      () => {
        const shown = api().mustKubectl(get);
        expect(shown).toMatch(/^default 2\/2 1 lim-1 /m);
        expect(shown).toMatch(/^shop .* Valid Refused$/m);
        expect(shown).toMatch(/^squatter .* DomainConflict NotAccepted$/m);
      },
      { timeoutMs: 60_000 },
    );
    process.kill(replica.pid, 'SIGKILL');
  }, 120_000);

  afterAll(async () => {
    for (const limiter of limiters) limiter.close();
    await replica?.stop();
  });

  it('says what is missing in a cluster without the definitions', () => {
    expect(withoutDefinitions.stderr).toMatch(
      /^kubectl weir: https:\S+ knows no ratelimitconfigs of ratelimit\.weir\.dev\/v1alpha1: install the definitions by "kubectl apply -f crds\/"\n/,
    );
    expect(withoutDefinitions.status).toBe(2);
  });

  it('shows fleets and what is not ready in all namespaces, with status 1', () => {
    const { status, stdout, stderr } = weirByKubectl(['status', '-A']);
    expect(stderr).toBe(noPods('weir-system'));
    const rows = stdout.split('\n').map((row) => row.split(/ {3,}/));
    expect(rows[0]).toEqual(expect.arrayContaining(['FLEET', 'LIMITERS', 'REFUSING', 'VERSION', 'MESSAGE']));
    expect(rows[1]?.slice(0, 5)).toEqual(['weir-system', 'default', '2/2', '1', 'lim-1']);
    const found = rows.filter((row) => /=/.test(row[4] ?? '')).map((row) => [row[0], row[1], row[4], row[5]]);
    expect(found).toEqual([
      ['default', 'shop', 'Programmed=False', 'Refused'],
      ['mail', 'elsewhere', 'Ready=Unknown', 'NoStatus'],
      ['mail', 'squatter', 'Accepted=False', 'DomainConflict'],
    ]);
    expect(stdout).toMatch(/; rejected by lim-1 since \d\d:\d\d:\d\dZ: I cannot \\u001b\[2J load that\n/);
    expect(stdout).toMatch(/\n1 fleet, 0 ready, 1 not; 3 objects, 0 ready, 3 not\n$/);
    expect(status).toBe(1);
  });

  it('keeps to a namespace, a class, or one object', () => {
    expect(weir(['status', '-n', 'empty'])).toEqual({
      status: 0,
      stdout: 'no RateLimitConfigs in namespace empty\n',
      stderr: noPods('empty'),
    });
    // The section that is wanted alone has to be there; the other one then is not looked at.
    expect(weir(['status', '-n', 'empty', '--only', 'limiters'])).toMatchObject({ status: 2, stdout: '' });
    const alone = weir(['status', '-n', 'empty', '--only', 'objects', '-o', 'json']);
    expect([alone.status, alone.stderr, JSON.parse(alone.stdout)]).toMatchObject([
      0,
      '',
      { ok: true, limiters: null, totals: null, problems: [], objects: { objectCount: 0, notReady: [] } },
    ]);
    expect(weir(['status', '-nmail', '--class=other']).stdout).toMatch(
      /elsewhere.*\n\nin namespace mail: 1 object, 0 ready, 1 not\n$/,
    );
    const { status, stdout } = weir(['status', 'squatter', '-n', 'mail', '-ojson']);
    expect(JSON.parse(stdout)).toMatchObject({
      name: 'squatter',
      ready: false,
      conditions: [{ type: 'Accepted', reason: 'DomainConflict' }, {}, {}],
    });
    expect(status).toBe(1);
    expect(weir(['status', 'nobody'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining(
        'there is no ratelimitconfigs.ratelimit.weir.dev "nobody" in namespace default\n',
      ),
    });
  });

  it('takes files and contexts as kubectl does', () => {
    const other = join(temporaryFolder(), 'other.kubeconfig');
    const context = '{ name: of-mail, context: { cluster: test, user: admin, namespace: mail } }';
    writeFileSync(
      other,
      `{ apiVersion: v1, kind: Config, current-context: of-mail, contexts: [${context}] }`,
    );
    const KUBECONFIG = [other, api().kubeconfig()].join(delimiter);
    expect(weir(['status'], { env: { KUBECONFIG } }).stdout).toContain('squatter');
    expect(weir(['status', '--context', 'test'], { env: { KUBECONFIG } }).stdout).not.toContain('squatter');
    expect(
      weir(['status', '--kubeconfig', api().kubeconfig()], { env: { KUBECONFIG: '/nowhere' } }).status,
    ).toBe(1);
  });

  it('names the right that is missing, and shows objects without fleets', () => {
    const denied = weir(['status'], { user: 'nobody' });
    expect(denied.stderr).toMatch(
      /^kubectl weir: the right to "list" on ratelimitconfigs\.ratelimit\.weir\.dev in namespace default is missing \(/,
    );
    expect(denied.stderr).not.toContain('nobody-token');
    expect([denied.status, denied.stdout]).toEqual([2, '']);
    expect(weir(['explain', 'shop', 'a=b'], { user: 'nobody' }).stderr).toContain(
      'in all namespaces is missing; -n looks in one namespace (',
    );
    const reader = ['--clusterrole=reader', '--user=nobody', '-n', 'mail'];
    api().mustKubectl([
      'create',
      'clusterrole',
      'reader',
      '--verb=list',
      '--resource=ratelimitconfigs.ratelimit.weir.dev',
    ]);
    api().mustKubectl(['create', 'rolebinding', 'reader', ...reader]);
    const allowed = weir(['status', '-n', 'mail'], { user: 'nobody' });
    expect(allowed.stdout).toMatch(/\nin namespace mail: 2 objects, 0 ready, 2 not\n$/);
    expect(allowed.stderr).toMatch(
      /no fleets are shown in namespace weir-system: the right to "list" on ratelimitfleets/,
    );
    expect(allowed.status).toBe(1);
  });

  it('says that the server does not answer', async () => {
    const { stderr, status } = weir(['status', '--kubeconfig', await deadKubeconfig()]);
    expect([stderr, status]).toEqual([
      expect.stringMatching(/^kubectl weir: https:\S+: connection refused\n/),
      2,
    ]);
  });

  it('explains a request by the accepted objects of a class', () => {
    const explain = (...flags: string[]) => weir(['explain', 'shop', 'key=x', ...flags]);
    const { status, stdout, stderr } = explain();
    expect(stdout).toContain('key (5 per day, default/shop) has the key and no value');
    expect(stderr).toContain('kubectl weir: mail/squatter is not used: DomainConflict, ');
    expect(stderr).toContain('kubectl weir: default/shop is not in force everywhere: Refused, ');
    expect(status).toBe(0);
    const json = JSON.parse(explain('-o', 'json').stdout);
    expect(json.descriptors[0].rule).toMatchObject({ object: 'default/shop' });
    const mail = explain('-n', 'mail');
    expect([mail.status, mail.stdout]).toEqual([
      1,
      expect.stringContaining("no rules for the domain 'shop'"),
    ]);
    expect(mail.stderr).toContain('only namespace mail was looked at');
  });

  it('has the commands of a cluster, and says where others are', () => {
    expect(weir(['--help']).stdout).toMatch(
      /^Usage: kubectl weir <command> \[flags\]\n\n {2}status [\s\S]*\n {2}explain [\s\S]*\n {2}top .*\n {2}counters .*\n {2}budget .*\n {2}assignments .*\n {2}override .*\n {2}why .*\n\n/,
    );
    const version = weirByKubectl(['version']).stdout;
    expect([version, weir(['version']).stdout]).toEqual([expect.stringMatching(/^weir \d/), version]);
    expect(weir(['status', '--help']).stdout).toContain('Usage: kubectl weir status');
    expect(weir(['check'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('kubectl weir: there is no command "check"; "weir check" is one\n'),
    });
  });

  it('reports a control plane that no longer runs, whose statuses nobody corrects', () => {
    const lease = { name: 'weir-control-plane', namespace: 'weir-system' };
    api().patch('leases', lease, { spec: { renewTime: '2026-01-31T12:00:01.500000Z' } });
    const name = 'weir-system/weir-control-plane';
    const since = '2026-01-31T12:00:01Z';
    expect(weir(['status', '-n', 'default'])).toMatchObject({
      status: 1,
      stdout: expect.stringContaining(
        `\ncontrol plane ${name} has no leader since ${since}: statuses may be out of date\nin namespace default: `,
      ),
    });
    const { ok, objects } = JSON.parse(weir(['status', '-n', 'default', '-o', 'json']).stdout);
    expect([ok, objects.stoppedControlPlanes]).toEqual([false, [{ name, since }]]);
    const words = `control plane ${name} has no leader since ${since}: statuses may be out of date\n`;
    expect(weir(['status', 'shop', '-n', 'default']).stdout).toMatch(new RegExp(`\\n\\n${words}$`));
    const one = JSON.parse(weir(['status', 'shop', '-n', 'default', '-o', 'json']).stdout);
    expect(one.stoppedControlPlanes).toEqual([{ name, since }]);
    api().delete('leases', lease);
    expect(weir(['status', '-n', 'default'])).toMatchObject({
      status: 1,
      stdout: expect.stringContaining(
        `control plane ${name} has no Lease object: statuses may be out of date\n`,
      ),
    });
  });

  /** Of a server that is not there. */
  async function deadKubeconfig(): Promise<string> {
    const file = join(temporaryFolder(), 'dead');
    const cluster = `{ name: c, cluster: { server: 'https://127.0.0.1:${await freePort()}' } }`;
    const more =
      'users: [{ name: c, user: { token: t } }], contexts: [{ name: c, context: { cluster: c, user: c } }]';
    writeFileSync(file, `{ current-context: c, clusters: [${cluster}], ${more} }`);
    return file;
  }
});
