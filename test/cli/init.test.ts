import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { describeWithServer } from '../support/describe-with-server.ts';
import { startEnvoy } from '../support/envoy.ts';
import { envoyProgram } from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { httpAsk } from '../support/http-ask.ts';
import { startLimiter } from '../support/limiter-process.ts';
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
  expect(env).toMatchObject({ RUNTIME_ROOT: folder });
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
    expect(stdout).toContain(`\nCheck what was written.\n  weir ${check}\n`);
    const checked = runWeir([...check.split(' '), '--strict']);
    expect(checked.stdout).toMatch(
      proxy === 'none' ? /^ok: / : /^ok: .*; 1 file of the proxy: descriptors and rules fit/,
    );
    expect(checked.status).toBe(0);
    for (const name of names.filter((one) => one.includes('.') && one !== 'README.md'))
      expect(readFileSync(join(folder, name), 'utf8')).not.toMatch(/\bshop\b(?!\.yaml)|examples\//);
  });

  it('writes over nothing unless it is told to', () => {
    const folder = temporaryFolder();
    writeFileSync(join(folder, 'envoy.yaml'), 'mine\n');
    const refused = runWeir(['init', folder, ...flags('envoy')]);
    expect(refused.stderr).toBe(
      `weir: ${folder}/envoy.yaml: there already; nothing was written, --force writes over it\n`,
    );
    expect(refused.status).toBe(1);
    expect(readdirSync(folder)).toEqual(['envoy.yaml']);
    expect(readFileSync(join(folder, 'envoy.yaml'), 'utf8')).toBe('mine\n');
    expect(runWeir(['init', folder, ...flags('envoy'), '--force']).status).toBe(0);
    expect(readFileSync(join(folder, 'envoy.yaml'), 'utf8')).toContain('domain: web');
  });

  it.each([
    [[], 'no terminal to ask at: say --by, --limit, --domain, --proxy'],
    [flags('apache'), '--proxy: "apache" is none of envoy, istio'],
    [[...flags('envoy'), '--limit', 'much'], '--limit: "much" is no limit'],
    [[...flags('envoy'), 'b'], 'init takes one folder, "b" is another'],
    [['$(id)', ...flags('envoy')], '"$(id)": take a folder of letters'],
  ])('refuses %j', (args, message) => {
    const folder = join(temporaryFolder(), 'a');
    const { status, stderr } = runWeir(['init', ...(args[0]?.startsWith('$') ? [] : [folder]), ...args]);
    expect(stderr).toContain(message);
    expect(status).toBe(2);
    expect(existsSync(folder)).toBe(false);
  });

  it('writes rules that refuse over HTTP what is beyond them', async () => {
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

  it.each([
    ['nginx', 403],
    ['caddy', 429],
  ])(
    'writes a profile that refuses what %s asks',
    async (proxy, refusal) => {
      const folder = temporaryFolder();
      runWeir(['init', folder, ...flags(proxy, 'address,path')]);
      const limiter = await startWritten(folder);
      const headers = {
        'x-forwarded-for': '192.0.2.1',
        'x-forwarded-uri': '/a',
        'x-forwarded-method': 'GET',
      };
      try {
        const ask = async (): Promise<number> =>
          (await httpAsk(limiter.ports.http, '/v1/forward-auth/web', { headers })).status;
        expect([await ask(), await ask(), await ask()]).toEqual([200, 200, refusal]);
      } finally {
        await limiter.stop();
      }
    },
    60_000,
  );

  describeWithServer('with Envoy', envoyProgram, (envoyPath) => {
    it('writes an Envoy whose last answer is 429', async () => {
      const folder = temporaryFolder();
      runWeir(['init', folder, ...flags('envoy', 'address,header:x-api-key')]);
      const limiter = await startWritten(folder);
      const [port, servicePort] = [await freePort(), await freePort()];
      const config = readFileSync(join(folder, 'envoy.yaml'), 'utf8')
        .replaceAll('port_value: 10000', `port_value: ${port}`)
        .replaceAll('port_value: 10001', `port_value: ${servicePort}`)
        .replace('port_value: 8081', `port_value: ${limiter.ports.grpc}`)
        .replace('timeout: "0.25s"', 'timeout: "20s"');
      expect(parse(config)).toHaveProperty('static_resources');
      const envoy = await startEnvoy(envoyPath, config);
      try {
        const ask = async (): Promise<number> =>
          (await httpAsk(port, '/', { headers: { 'x-api-key': 'first' } })).status;
        expect([await ask(), await ask(), await ask()]).toEqual([200, 200, 429]);
      } finally {
        await envoy.stop();
        await limiter.stop();
      }
    }, 60_000);
  });
});
