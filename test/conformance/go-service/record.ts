/**
 * Records what envoyproxy/ratelimit prints, answers and counts, in recorded.json beside this file:
 * `node test/conformance/go-service/record.ts CHECKOUT BINARIES`, with a checkout of its repository and a folder where
 * `go build -o BINARIES ./src/service_cmd ./src/client_cmd ./src/config_check_cmd` has put its programs. It needs redis-server and memcached.
 */
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { globSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { badRules, requests, rules } from './asked.ts';

const [checkout = '', binaries = ''] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'weir-go-service-'));
const ports = { redis: '26379', memcached: '26380', http: '28080', grpc: '28081', debug: '26070' };
const url = (path: string, port: keyof typeof ports = 'debug') => `http://127.0.0.1:${ports[port]}${path}`;

/** Every match of the group in the Go sources, sorted. */
function inSources(pattern: RegExp, files = 'src/**/*.go'): string[] {
  const texts = globSync(files, { cwd: checkout, exclude: ['**/*_test.go'] }).map((name) =>
    readFileSync(join(checkout, name), 'utf8'),
  );
  return [...new Set(texts.flatMap((text) => [...text.matchAll(pattern)].map(([, found]) => found!)))].sort();
}

/** Replaces what differs between two runs of one program. */
function withoutPlaces(text: string): string {
  return text.replaceAll(folder, '').replace(/\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)/g, 'TIME');
}

function flagsOf(program: string): string[] {
  const { stderr } = spawnSync(join(binaries, program), ['-help'], { encoding: 'utf8' });
  return [...stderr.matchAll(/^ {2}-(\S+)/gm)].map(([, name]) => name!).sort();
}

function checked(text: string): { status: number | null; text: string } {
  const config = join(folder, 'check');
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, 'a.yaml'), text);
  const { status, stdout, stderr } = spawnSync(join(binaries, 'config_check_cmd'), ['-config_dir', config], {
    encoding: 'utf8',
    env: { USE_STATSD: 'false' },
  });
  const panic = /^panic: (.*?)(?: \[recovered.*)?\n/m.exec(stderr)?.[1];
  return { status, text: withoutPlaces(panic === undefined ? stdout : `panic: ${panic}\n`) };
}

const statistics = new Set<string>();

async function played(env: Record<string, string>, play: () => Promise<void>): Promise<string> {
  const sink = createServer((socket) => {
    socket.setEncoding('utf8');
    let rest = '';
    socket.on('data', (data) => {
      const lines = (rest + data).split('\n');
      rest = lines.pop()!;
      for (const line of lines) statistics.add(line.replace(/:[^:]*$/, ''));
    });
  });
  sink.listen(0, '127.0.0.1');
  await once(sink, 'listening');
  const service = spawn(join(binaries, 'service_cmd'), [], {
    env: {
      RUNTIME_ROOT: folder,
      RUNTIME_SUBDIRECTORY: 'ratelimit',
      RUNTIME_WATCH_ROOT: 'false',
      PORT: ports.http,
      GRPC_PORT: ports.grpc,
      DEBUG_PORT: ports.debug,
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String((sink.address() as AddressInfo).port),
      STATS_FLUSH_INTERVAL: '1s',
      LOCAL_CACHE_SIZE_IN_BYTES: '1000000',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let log = '';
  for (const stream of [service.stdout, service.stderr]) stream.on('data', (data) => (log += data));
  for (let tries = 0; tries < 100 && !log.includes('Listening for gRPC'); tries++) await sleep(100);
  try {
    await sleep(300);
    await play();
    await sleep(2_500);
  } finally {
    service.kill('SIGTERM');
    await once(service, 'exit');
    sink.close();
  }
  return log;
}

async function answer(body: string) {
  const response = await fetch(url('/json', 'http'), { method: 'POST', body });
  return {
    status: response.status,
    type: response.headers.get('content-type'),
    body: await response.text(),
  };
}

function asked(...args: string[]): { status: number | null; text: string } {
  const to = ['-dial_string', `127.0.0.1:${ports.grpc}`, '-oltp-protocol', ''];
  const { status, stdout } = spawnSync(join(binaries, 'client_cmd'), [...to, ...args], { encoding: 'utf8' });
  return { status, text: stdout };
}

const servers: ChildProcess[] = [
  spawn('redis-server', ['--port', ports.redis, '--save', '', '--dir', folder], { stdio: 'ignore' }),
  spawn('memcached', ['-p', ports.memcached, '-u', 'nobody'], { stdio: 'ignore' }),
];
try {
  const config = join(folder, 'ratelimit/config');
  mkdirSync(config, { recursive: true });
  writeFileSync(join(config, 'a.yaml'), rules);
  await sleep(500);
  const answers: object[] = [];
  const grpcErrors: string[] = [];
  const pages: Record<string, string> = {};
  const keys: string[] = [];
  const redis = { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${ports.redis}` };
  const log = await played(
    { ...redis, RESPONSE_DYNAMIC_METADATA: 'true', LIMIT_RESPONSE_HEADERS_ENABLED: 'true' },
    async () => {
      for (const request of requests) answers.push({ request, ...(await answer(request)) });
      for (const args of [
        ['-domain', '', '-descriptors', 'a=b'],
        ['-domain', 'shop'],
      ])
        grpcErrors.push(
          asked(...args)
            .text.split('\n')
            .find((line) => line.startsWith('request error'))!,
        );
      asked('-domain', 'shop', '-descriptors', 'none=x');
      pages['/'] = await (await fetch(url('/'))).text();
      pages['/rlconfig'] = (await (await fetch(url('/rlconfig'))).text())
        .split('\n')
        .sort()
        .join('\n')
        .trim();
      const { stdout } = spawnSync('redis-cli', ['-p', ports.redis, 'keys', '*'], { encoding: 'utf8' });
      keys.push(
        ...stdout
          .trim()
          .split('\n')
          .map((key) => key.replace(/\d{10}$/, 'WINDOW'))
          .sort(),
      );
      pages['/healthcheck'] = await (await fetch(url('/healthcheck', 'http'))).text();
    },
  );
  await played(
    { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: `127.0.0.1:${ports.memcached}`, LOG_LEVEL: 'FATAL' },
    async () => void (await answer(requests[0]!)),
  );
  const jsonLog = await played({ ...redis, LOG_FORMAT: 'json' }, async () => undefined);
  const jsonLine = JSON.parse(jsonLog.split('\n').find((line) => line.startsWith('{"@'))!) as object;
  const recorded = {
    about: 'What envoyproxy/ratelimit of this commit answers, prints and counts; record.ts wrote it.',
    commit: execFileSync('git', ['-C', checkout, 'rev-parse', 'HEAD'], { encoding: 'utf8' }).trim(),
    settings: inSources(/envconfig:"([A-Z_]+)"/g, 'src/settings/settings.go'),
    flags: { client: flagsOf('client_cmd'), check: flagsOf('config_check_cmd') },
    spans: inSources(/tracer\.Start\(\s*ctx,\s*"([^"]+)"/g),
    spanAttributes: inSources(/attribute\.\w+\("([^"]+)"/g),
    logKeys: Object.keys(jsonLine).sort(),
    startLines: [...log.matchAll(/msg="(Listening [^"]*)"/g)].map(([, line]) => line!).sort(),
    statistics: [...statistics].sort(),
    keys,
    pages,
    errors: badRules.map((text) => ({ rules: text, ...checked(text) })),
    grpcErrors,
    answers,
  };
  writeFileSync(join(import.meta.dirname, 'recorded.json'), `${JSON.stringify(recorded, null, 2)}\n`);
} finally {
  for (const server of servers) server.kill();
  rmSync(folder, { recursive: true, force: true });
}
