import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { ChildProgram } from '../support/child-program.ts';
import { describeWithServer } from '../support/describe-with-server.ts';
import { projectRoot } from '../support/documents.ts';
import { startEnvoy } from '../support/envoy.ts';
import { caddyProgram, envoyProgram, haproxyProgram, nginxProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { startLimiter } from '../support/limiter-process.ts';
import { listening } from '../support/listening.ts';
import { temporaryFolder } from '../support/temporary-folder.ts';
import { runWeir } from '../support/weir-command.ts';

const flags = (proxy: string, by = 'address'): string[] => [
  ...['--by', by, '--limit', '2/day', '--domain', 'web', '--proxy', proxy],
];

/** Starts a limiter as the written step says it, but for the ports. */
function startWritten(folder: string): ReturnType<typeof startLimiter> {
  const step = readFileSync(join(folder, 'README.md'), 'utf8').match(/^.* weir limiter$/m)?.[0] ?? '';
  const env = Object.fromEntries(
    [...step.matchAll(/([A-Z_]+)=(\S+)/g)].map(([, name, value]) => [name, value]),
  );
  expect(env).toMatchObject({ RUNTIME_ROOT: folder, DEBUG_HOST: '127.0.0.1' });
  return startLimiter({ env: env as Record<string, string> });
}

describe('weir init', () => {
  it.each([
    ['envoy', ['README.md', 'config', 'envoy.yaml']],
    ['istio', ['README.md', 'config', 'istio.yaml']],
    ['none', ['README.md', 'config']],
    ['nginx', ['README.md', 'config', 'nginx.conf', 'profiles.yaml', 'weir.conf']],
    ['haproxy', ['README.md', 'config', 'haproxy.cfg', 'profiles.yaml', 'weir.lua']],
    ['caddy', ['Caddyfile', 'README.md', 'config', 'profiles.yaml']],
    ['traefik', ['README.md', 'config', 'dynamic.yaml', 'profiles.yaml', 'traefik.yaml']],
  ])('writes what %s needs, in which check finds nothing', (proxy, names) => {
    const folder = join(temporaryFolder(), 'new');
    const { status, stdout, stderr } = runWeir(['init', folder, ...flags(proxy, 'address,header:x-api-key')]);
    expect(stderr).toBe('');
    expect(status).toBe(0);
    expect(readdirSync(folder).sort()).toEqual(names);
    const readme = readFileSync(join(folder, 'README.md'), 'utf8');
    const check = readme.match(/^weir (check .*)$/m)?.[1] ?? '';
    expect(stdout).toContain(`\nCheck the files.\n  weir ${check}\n`);
    const checked = runWeir([...check.split(' '), '--strict']);
    expect(checked.stdout).toMatch(
      proxy === 'none' ? /^ok: / : /^ok: .*; 1 file of the proxy: descriptors and rules fit/,
    );
    expect(checked.status).toBe(0);
    const tested = runWeir(readme.match(/^weir (test .*)$/m)?.[1]?.split(' ') ?? []);
    expect([tested.status, tested.stdout]).toEqual([0, expect.stringContaining('reach 1 of 1 rule (100%)')]);
    for (const name of names.filter((one) => one.includes('.') && one !== 'README.md'))
      expect(readFileSync(join(folder, name), 'utf8')).not.toMatch(/\bshop\b(?!\.yaml)|examples\//);
  });

  it('says which callers a limit by a header does not limit, and offers a rule that does', () => {
    const folder = temporaryFolder();
    const { stdout } = runWeir(['init', folder, ...flags('none', 'header:x-api-key')]);
    expect(stdout).toContain('Requests without the header x-api-key are not limited');
    expect(stdout).not.toContain('A login needs two limits');
    const path = join(folder, 'config/web.yaml');
    const rules = readFileSync(path, 'utf8');
    expect(parse(rules).descriptors).toHaveLength(1);
    writeFileSync(path, rules.replaceAll(/^ {2}# (?=[ -])/gm, '  '));
    expect(runWeir(['check', '--strict', path])).toMatchObject({ status: 0 });
    expect(parse(readFileSync(path, 'utf8')).descriptors).toMatchObject([
      { key: 'api_key' },
      { key: 'remote_address', rate_limit: { unit: 'day', requests_per_unit: 2 } },
    ]);
    const pair = runWeir(['init', temporaryFolder(), ...flags('none', 'address,header:x-user')]);
    expect(pair.stdout).toContain('A login needs two limits, by account and by address, not a pair');
  });

  it.each(['envoy', 'istio', 'nginx'])('has the action of that rule for %s, as a comment', (proxy) => {
    const folder = temporaryFolder();
    const { stdout } = runWeir(['init', folder, ...flags(proxy, 'header:x-api-key')]);
    const check = /^ {2}weir (check .*)$/m.exec(stdout)?.[1]?.split(' ') ?? [];
    expect(runWeir([...check, '--strict'])).toMatchObject({ status: 0 });
    const named = / remove the # before its lines in (.*)\.$/m.exec(stdout)?.[1]?.split(' and ') ?? [];
    expect(named).toHaveLength(2);
    for (const path of named) {
      const text = readFileSync(path, 'utf8');
      const uncommented = text.replaceAll(/^( *)# (?=- (?:actions|key):| {2,})/gm, '$1');
      expect(uncommented).not.toBe(text);
      writeFileSync(path, uncommented);
    }
    const checked = runWeir([...check, '--strict']);
    expect([checked.status, checked.stdout]).toEqual([
      0,
      expect.stringContaining('descriptors and rules fit'),
    ]);
    expect(parse(readFileSync(named[0]!, 'utf8')).descriptors).toHaveLength(2);
    // Both are needed.
    writeFileSync(
      named[0]!,
      readFileSync(named[0]!, 'utf8').replace(/^ {2}- key: remote_address$/m, '  - key: other'),
    );
    expect(runWeir([...check, '--strict']).status).toBe(1);
  });

  it('says where its commands are for, and sends logins to their example', () => {
    const cwd = temporaryFolder();
    const run = (by: string) =>
      spawnSync(join(projectRoot, 'bin/weir'), ['init', 'limits/web', ...flags('none', by)], {
        cwd,
        encoding: 'utf8',
      });
    expect(run('login').stderr).toContain(
      '"login" is not one of address, path and header:<name>; several are separated by commas. A login needs two limits',
    );
    expect(run('login').stderr).toContain('examples/login-throttling');
    expect(run('address').status).toBe(0);
    const readme = readFileSync(join(cwd, 'limits/web/README.md'), 'utf8');
    expect(readme).toContain(
      'Run the commands in the folder in which you ran `weir init`. From there, this folder is `limits/web`.',
    );
    const checked = spawnSync('sh', ['-c', readme.match(/^.*weir check .*$/m)?.[0] ?? ''], {
      cwd,
      encoding: 'utf8',
    });
    expect([checked.status, checked.stdout]).toEqual([0, expect.stringMatching(/^ok: /)]);
  });

  it('takes a window of any length, and names the program as typed there', () => {
    const folder = temporaryFolder();
    const args = [
      'init',
      folder,
      '--by',
      'address',
      '--limit',
      '2/10s',
      '--domain',
      'web',
      '--proxy',
      'none',
    ];
    const { stdout } = spawnSync('bin/weir', args, { cwd: projectRoot, encoding: 'utf8' });
    expect(readFileSync(join(folder, 'config/web.yaml'), 'utf8')).toMatch(
      /^# 2 requests in 10s for each [\s\S]*unit_multiplier: 10\n/,
    );
    const readme = readFileSync(join(folder, 'README.md'), 'utf8');
    for (const text of [stdout, readme]) {
      expect(text).toMatch(/^ *bin\/weir check /m);
      expect(text).toMatch(/ bin\/weir limiter$/m);
    }
    const check = readme.match(/^bin\/weir (check .*)$/m)?.[1] ?? '';
    expect(runWeir([...check.split(' '), '--strict']).status).toBe(0);
  });

  it('takes --by several times as it takes commas', () => {
    const folder = temporaryFolder();
    const args = ['init', folder, '--by', 'path', ...flags('istio', 'header:x-api-key')];
    expect(runWeir(args).status).toBe(0);
    const text = readFileSync(join(folder, 'config/web.yaml'), 'utf8');
    expect(text).toContain('for each path and api_key.');
    expect(text).toContain('# A path includes its query');
  });

  it('looks for limiters where the chart puts them', () => {
    const folder = temporaryFolder();
    expect(runWeir(['init', folder, ...flags('istio')]).stdout).toContain(
      ' --namespace weir-system | kubectl',
    );
    const text = readFileSync(join(folder, 'istio.yaml'), 'utf8');
    const host = 'weir-limiter.weir-system.svc.cluster.local';
    expect(text).toMatch(new RegExp(`"?outbound[|]8081[|][|]${host}"?\\n *authority: ${host}\\n`));
  });

  it('writes over nothing unless it is asked to', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'envoy.yaml'), 'mine\n');
    const refused = runWeir(['init', folder, ...flags('envoy')]);
    expect(refused.stderr).toBe(
      `weir: no file was written, because these already exist: ${folder}/envoy.yaml; --force overwrites them\n`,
    );
    expect(refused.status).toBe(1);
    expect(readdirSync(folder)).toEqual(['envoy.yaml']);
    expect(readFileSync(join(folder, 'envoy.yaml'), 'utf8')).toBe('mine\n');
    expect(runWeir(['init', folder, ...flags('envoy'), '--force']).status).toBe(0);
    expect(readFileSync(join(folder, 'envoy.yaml'), 'utf8')).toContain('domain: web');
  });

  it.each([
    [[], 'there is no terminal to ask the questions: give --by, --limit, --domain, --proxy'],
    [
      flags('apache'),
      'weir: --proxy: "apache" is not one of envoy, istio, nginx, haproxy, caddy, traefik, none',
    ],
    [[...flags('envoy'), '--limit', 'much'], '--limit: "much" is not a limit'],
    [[...flags('envoy'), 'b'], 'init takes one folder, "b" is another'],
    [['$(id)', ...flags('envoy')], '"$(id)": take a folder of letters'],
  ])('rejects %j', (args, message) => {
    const folder = join(temporaryFolder(), 'a');
    const { status, stderr } = runWeir(['init', ...(args[0]?.startsWith('$') ? [] : [folder]), ...args]);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
    expect(existsSync(folder)).toBe(false);
  });

  it('writes rules that answer over HTTP what exceeds them', async () => {
    const folder = temporaryFolder();
    runWeir(['init', folder, ...flags('none')]);
    const body = readFileSync(join(folder, 'README.md'), 'utf8').match(/--json '(.*)'/)?.[1] ?? '';
    const limiter = await startWritten(folder);
    try {
      const headers = { 'content-type': 'application/json' };
      const ask = async (): Promise<number> =>
        (await httpAsk(limiter.ports.http, '/v1/check', { method: 'POST', headers, body })).status;
      expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
    } finally {
      await limiter.stop();
    }
  }, 60_000);

  it('writes what Traefik should send, and a profile that limits it', async () => {
    const folder = temporaryFolder();
    runWeir(['init', folder, ...flags('traefik', 'address,path,header:x-api-key')]);
    const dynamic = parse(readFileSync(join(folder, 'dynamic.yaml'), 'utf8')) as object;
    const forwardAuth = {
      address: 'http://127.0.0.1:8080/v1/forward-auth/web',
      authRequestHeaders: ['x-api-key'],
    };
    expect(dynamic).toMatchObject({ http: { routers: { web: {} }, middlewares: { weir: { forwardAuth } } } });
    const limiter = await startWritten(folder);
    const original = { 'x-forwarded-for': '192.0.2.1', 'x-forwarded-uri': '/a', 'x-forwarded-method': 'GET' };
    try {
      const ask = async (key: string): Promise<number> => {
        const headers = { ...original, 'x-api-key': key };
        return (await httpAsk(limiter.ports.http, '/v1/forward-auth/web', { headers })).status;
      };
      expect([await ask('a'), await ask('a'), await ask('a'), await ask('b')]).toEqual([200, 200, 429, 200]);
    } finally {
      await limiter.stop();
    }
  }, 60_000);

  it('lets Caddy show the limiter of the header that is counted', () => {
    const folder = temporaryFolder();
    runWeir(['init', folder, ...flags('caddy', 'header:authorization')]);
    const text = readFileSync(join(folder, 'Caddyfile'), 'utf8');
    expect(text.match(/header_up -.*/g)).toEqual(['header_up -Cookie']);
  });

  const servers = [
    ['nginx', nginxProgram, 'nginx.conf', ['-e', 'stderr', '-c']],
    ['haproxy', haproxyProgram, 'haproxy.cfg', ['-db', '-f']],
    ['caddy', caddyProgram, 'Caddyfile', ['run', '--adapter', 'caddyfile', '--config']],
  ] as const;
  for (const [proxy, program, main, args] of servers) {
    describeWithServer(`with ${proxy}`, program, (command) => {
      it('writes a proxy whose last answer is 429', async () => {
        const folder = temporaryFolder();
        // Workers of a master that root started are another user's.
        chmodSync(folder, 0o755);
        runWeir(['init', folder, ...flags(proxy, 'address,header:x-api-key')]);
        const limiter = await startWritten(folder);
        const [port, servicePort] = [await freePort(), await freePort()];
        const patient = [/\b(?:100|250)ms\b/g, '20s'] as const;
        for (const name of readdirSync(folder).filter((one) => /\.(?:conf|cfg|lua)$|^Caddyfile$/.test(one))) {
          const text = readFileSync(join(folder, name), 'utf8')
            .replaceAll(':10000', `:${port}`)
            .replaceAll(':10001', `:${servicePort}`)
            .replaceAll('127.0.0.1:8080', `127.0.0.1:${limiter.ports.http}`)
            .replaceAll('/tmp/weir-nginx', `${folder}/nginx`)
            .replaceAll('abns@weir', `abns@${basename(folder)}`)
            .replaceAll(...patient);
          writeFileSync(join(folder, name), text);
        }
        const env = { ...process.env, HOME: folder, XDG_CONFIG_HOME: folder, XDG_DATA_HOME: folder };
        const started = new ChildProgram({ command, args: [...args, join(folder, main)], env });
        try {
          await listening(started, port);
          const ask = async (): Promise<number> =>
            (await httpAsk(port, '/', { headers: { 'x-api-key': 'first' } })).status;
          expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
        } finally {
          await started.stop();
          await limiter.stop();
        }
      }, 60_000);
    });
  }

  describeWithServer('with Envoy', envoyProgram, (envoyPath) => {
    it('writes an Envoy whose last answer is 429', async () => {
      const folder = temporaryFolder();
      runWeir(['init', folder, ...flags('envoy', 'address,header:x-api-key')]);
      const limiter = await startWritten(folder);
      const [port, servicePort, adminPort] = [await freePort(), await freePort(), await freePort()];
      const config = readFileSync(join(folder, 'envoy.yaml'), 'utf8')
        .replaceAll('port_value: 10000', `port_value: ${port}`)
        .replaceAll('port_value: 10001', `port_value: ${servicePort}`)
        .replace('port_value: 9901', `port_value: ${adminPort}`)
        .replace('port_value: 8081', `port_value: ${limiter.ports.grpc}`)
        .replace('timeout: "0.25s"', 'timeout: "20s"');
      expect(parse(config)).toHaveProperty('static_resources');
      const envoy = await startEnvoy(envoyPath, config);
      try {
        const ask = async (): Promise<number> =>
          (await httpAsk(port, '/', { headers: { 'x-api-key': 'first' } })).status;
        expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
        const error = async (): Promise<unknown> =>
          /^cluster[.]service[.]ratelimit[.]error: (\d+)$/m.exec(
            (await httpAsk(adminPort, '/stats')).body,
          )?.[1];
        expect(await error()).toBeUndefined();
        await limiter.stop();
        expect(await ask()).toBe(200);
        expect(await error()).toBe('1');
        const readme = readFileSync(join(folder, 'README.md'), 'utf8');
        expect(readme).toContain('cluster.service.ratelimit.error');
        expect(readme).toContain('\ncurl -s localhost:9901/stats | grep ratelimit\n');
      } finally {
        await envoy.stop();
        await limiter.stop();
      }
    }, 60_000);
  });
});
