/**
 * The proxies of examples/, with their published configurations, in front of a limiter and a service of ours. Nothing is changed but
 * ports, places of files, and timeouts: a machine that is busy must not look like a way around the limit.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parse } from 'yaml';
import { ChildProgram } from '../support/child-program.ts';
import { startEnvoy } from '../support/envoy.ts';
import { readExample } from '../support/example-cases.ts';
import {
  caddyProgram,
  envoyProgram,
  haproxyProgram,
  nginxProgram,
  type ServerProgram,
} from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { listening } from '../support/listening.ts';

export interface ProxyPorts {
  proxy: number;
  limiterGrpc: number;
  limiterHttp: number;
  service: number;
}

export interface StartedProxy {
  program: ChildProgram;
  stop(): Promise<void>;
}

export interface PublishedProxy {
  name: 'envoy' | 'nginx' | 'caddy' | 'haproxy';
  program: ServerProgram;
  /** Whether it takes HTTP/2 in plain text. */
  speaksHttp2: boolean;
  start(path: string, ports: ProxyPorts): Promise<StartedProxy>;
}

/** Profiles for all of them: nginx needs another status of rejections, so each has its own. */
export function profilesOfAll(): Record<string, unknown> {
  const profiles = ['nginx', 'caddy', 'haproxy'].map((name) => {
    const file = parse(readExample(name, 'profiles.yaml')) as { profiles: Record<string, unknown> };
    return [name, file.profiles['shop']];
  });
  return Object.fromEntries(profiles);
}

const forwardAuth = '/v1/forward-auth/shop';

export const publishedProxies: readonly PublishedProxy[] = [
  {
    name: 'envoy',
    program: envoyProgram,
    speaksHttp2: true,
    async start(path, { proxy, limiterGrpc, service }) {
      const config = replacedIn(readExample('envoy', 'envoy.yaml'), {
        'port_value: 10000': `port_value: ${proxy}`,
        'port_value: 8081': `port_value: ${limiterGrpc}`,
        // Its own service listens elsewhere.
        'port_value: 10001': `port_value: ${service}`,
        'timeout: 0.25s': 'timeout: 20s',
      });
      const parsed = parse(config);
      parsed.static_resources.listeners.splice(1);
      return startEnvoy(path, parsed);
    },
  },
  {
    name: 'nginx',
    program: nginxProgram,
    speaksHttp2: false,
    async start(path, { proxy, limiterHttp, service }) {
      const folder = mkdtempSync(join(tmpdir(), 'weir-hostile-'));
      // Workers of a master that root started are another user's.
      chmodSync(folder, 0o755);
      const weir = replacedIn(readExample('nginx', 'weir.conf'), {
        'server 127.0.0.1:8080': `server 127.0.0.1:${limiterHttp}`,
        'server 127.0.0.1:10001': `server 127.0.0.1:${service}`,
        'listen 127.0.0.1:10000': `listen 127.0.0.1:${proxy}`,
        [forwardAuth]: forwardAuth.replace('shop', 'nginx'),
        'timeout 100ms;': 'timeout 20s;',
        'timeout 250ms;': 'timeout 20s;',
      });
      writeFileSync(join(folder, 'weir.conf'), weir);
      const elsewhere = { '/tmp/': `${folder}/`, ':10001;': `:${await freePort()};` };
      writeFileSync(join(folder, 'nginx.conf'), replacedIn(readExample('nginx', 'nginx.conf'), elsewhere));
      const args = ['-e', 'stderr', '-c', join(folder, 'nginx.conf')];
      return started(new ChildProgram({ command: path, args }), proxy, folder);
    },
  },
  {
    name: 'caddy',
    program: caddyProgram,
    speaksHttp2: false,
    async start(path, { proxy, limiterHttp, service }) {
      const folder = mkdtempSync(join(tmpdir(), 'weir-hostile-'));
      const text = replacedIn(readExample('caddy', 'Caddyfile'), {
        ':10000': `:${proxy}`,
        ':8080': `:${limiterHttp}`,
        '_proxy 127.0.0.1:10001': `_proxy 127.0.0.1:${service}`,
        'http://:10001': `http://:${await freePort()}`,
        [forwardAuth]: forwardAuth.replace('shop', 'caddy'),
        'timeout 100ms': 'timeout 20s',
        'timeout 250ms': 'timeout 20s',
      });
      writeFileSync(join(folder, 'Caddyfile'), text);
      // Caddy keeps state in its user's folders.
      const env = { PATH: process.env['PATH'], XDG_DATA_HOME: folder, XDG_CONFIG_HOME: folder };
      const args = ['run', '--config', join(folder, 'Caddyfile'), '--adapter', 'caddyfile'];
      return started(new ChildProgram({ command: path, args, env }), proxy, folder);
    },
  },
  {
    name: 'haproxy',
    program: haproxyProgram,
    speaksHttp2: true,
    async start(path, { proxy, limiterHttp, service }) {
      const folder = mkdtempSync(join(tmpdir(), 'weir-hostile-'));
      const socket = { 'abns@weir': `abns@weir-${proxy}` };
      writeFileSync(join(folder, 'weir.lua'), replacedIn(readExample('haproxy', 'weir.lua'), socket));
      const text = replacedIn(readExample('haproxy', 'haproxy.cfg'), {
        ...socket,
        'lua.weir shop': 'lua.weir haproxy',
        'bind 127.0.0.1:10000': `bind 127.0.0.1:${proxy}`,
        'weir 127.0.0.1:8080': `weir 127.0.0.1:${limiterHttp}`,
        'service 127.0.0.1:10001': `service 127.0.0.1:${service}`,
        'bind 127.0.0.1:10001': `bind 127.0.0.1:${await freePort()}`,
        'timeout connect 100ms': 'timeout connect 20s',
        'timeout server 250ms': 'timeout server 20s',
      });
      writeFileSync(join(folder, 'haproxy.cfg'), text);
      const args = ['-db', '-f', join(folder, 'haproxy.cfg')];
      return started(new ChildProgram({ command: path, args }), proxy, folder);
    },
  },
];

async function started(program: ChildProgram, port: number, folder: string): Promise<StartedProxy> {
  await listening(program, port);
  const stop = async (): Promise<void> => {
    await program.stop();
    rmSync(folder, { recursive: true, force: true });
  };
  return { program, stop };
}

/** As `replaced` of test/support, for programs that run without vitest. */
function replacedIn(text: string, replacements: Record<string, string>): string {
  return Object.entries(replacements).reduce((result, [from, to]) => {
    if (!result.includes(from)) throw new Error(`the published configuration has no ${from}`);
    return result.replaceAll(from, to);
  }, text);
}
