/** Finds the files and functions that one warm request, and one change of rules, pass through. V8 reports them, in real processes. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pathToFileURL } from 'node:url';
import type { ApiServer } from '../test/support/api-server.ts';
import { installPrerequisites, startReplica, startXdsLimiter } from '../test/support/cluster.ts';
import { findServer, redisProgram } from '../test/support/find-server.ts';
import { LimiterClient } from '../test/support/limiter-client.ts';
import { startLimiter } from '../test/support/limiter-process.ts';
import { startApiServer } from '../test/support/own-api-server.ts';
import { rateLimitConfigText } from '../test/support/rate-limit-config.ts';
import { startRedis } from '../test/support/redis-server.ts';
import { projectRoot } from './commands.ts';

export interface Walk {
  files: number;
  functions: number;
  /** The names of the functions that ran, by the path of their file in the project. */
  byFile: Record<string, string[]>;
}

type Undo = (() => unknown)[];

/** How often a walk is repeated. */
const samples = 10;
/** So long that gRPC sends it in seconds, which makes the header section of a call repeat the last one. */
const timeoutMs = 200_000_000;
/** The time that other threads may take to report. */
const threadsMs = 500;

/** Measures one request with one descriptor that is counted in Redis, in a limiter that has answered many. */
export async function walkOfRequest(): Promise<Walk> {
  return withUndo(async (undo, folder) => {
    const found = findServer(redisProgram);
    if ('missing' in found) throw new Error(found.missing);
    const redis = await startRedis({ path: found.path });
    undo.push(() => redis.stop());
    const rules = join(folder, 'rules');
    mkdirSync(rules);
    writeFileSync(
      join(rules, 'shop.yaml'),
      'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 1000000 }\n',
    );
    const reported = join(folder, 'reported');
    const limiter = await startLimiter({
      env: {
        ...watched(reported),
        // Each request would be a line on standard output.
        USE_PROMETHEUS: 'true',
        PROMETHEUS_ADDR: '127.0.0.1:0',
        RUNTIME_ROOT: rules,
        RUNTIME_APPDIRECTORY: '.',
        REDIS_SOCKET_TYPE: 'tcp',
        REDIS_URL: `127.0.0.1:${redis.port}`,
      },
    });
    undo.push(() => limiter.stop());
    const client = new LimiterClient(limiter.ports.grpc);
    undo.push(() => client.close());
    const request = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'ada' }] }] };
    const ask = () => client.ask(request, { timeoutMs });
    for (let i = 0; i < 200; i++) await ask();
    return walkOf([{ pid: limiter.pid, reported }], ask, 0);
  });
}

/**
 * Measures one change of a RateLimitConfig in control plane and limiter, from the API server's event until the limiter decides by
 * it and the status shows it.
 */
export async function walkOfRuleChange(): Promise<Walk> {
  return withUndo(async (undo, folder) => {
    const api = await startApiServer();
    undo.push(() => api.stop());
    installPrerequisites(api);
    const [planeReported, limiterReported] = [join(folder, 'plane'), join(folder, 'limiter')];
    const replica = await startReplica(api, 'control-plane-0', watched(planeReported));
    undo.push(() => replica.stop());
    const limiter = await startXdsLimiter(replica.ports.xds, 'limiter-0', watched(limiterReported));
    undo.push(() => limiter.stop());
    let requests = 1000;
    const change = async () => {
      requests += 1;
      const input = rateLimitConfigText({ name: 'shop', domain: 'shop', requests });
      api.apply(input);
      while (!isInForce(api)) await sleep(100);
      await sleep(1500);
    };
    for (let i = 0; i < 3; i++) await change();
    const processes = [
      { pid: replica.pid, reported: planeReported },
      { pid: limiter.pid, reported: limiterReported },
    ];
    return walkOf(processes, change, threadsMs);
  });
}

/** Returns whether the status shows that every limiter uses the current generation. */
function isInForce(api: ApiServer): boolean {
  const { metadata, status } = JSON.parse(api.mustKubectl(['get', 'rlc', 'shop', '-o', 'json'])) as {
    metadata: { generation: number };
    status?: { conditions?: { type: string; status: string; observedGeneration?: number }[] };
  };
  const programmed = status?.conditions?.find(({ type }) => type === 'Programmed');
  return programmed?.status === 'True' && programmed.observedGeneration === metadata.generation;
}

function watched(reported: string): Record<string, string> {
  writeFileSync(reported, '');
  const preload = pathToFileURL(join(projectRoot, 'scripts/house-coverage.ts')).href;
  return { NODE_OPTIONS: `--import ${preload}`, HOUSE_COVERAGE: reported };
}

/**
 * Returns the functions that ran each time that `act` was called, and more often than while nothing happened for the same time. So it
 * leaves out the timers of a running program, such as renewals of Lease objects.
 */
async function walkOf(
  processes: readonly { pid: number; reported: string }[],
  act: () => Promise<unknown>,
  waitMs: number,
): Promise<Walk> {
  const walks: FunctionCounts[] = [];
  const pauses: FunctionCounts[] = [];
  await report(processes, waitMs);
  for (let i = 0; i < samples; i++) {
    const startMs = performance.now();
    await act();
    const tookMs = performance.now() - startMs;
    walks.push(await report(processes, waitMs));
    await sleep(tookMs);
    pauses.push(await report(processes, waitMs));
  }
  const byFile: Record<string, string[]> = {};
  const root = pathToFileURL(projectRoot).href;
  for (const place of walks[0]!.keys()) {
    // The number of calls by a timer differs by one at most from one period to the next.
    const more = sumOf(walks, place) - sumOf(pauses, place);
    if (walks.some((walk) => !walk.has(place)) || more < samples / 2) continue;
    const [url = '', name = ''] = place.split('\t');
    const path = url.slice(root.length).replace(/^\//, '');
    if (!url.startsWith(root) || /^(?:node_modules|scripts|bin)\//.test(path)) continue;
    byFile[path] = [...(byFile[path] ?? []), name === '' ? '(nameless)' : name];
  }
  const functions = Object.values(byFile).reduce((sum, names) => sum + names.length, 0);
  return { files: Object.keys(byFile).length, functions, byFile };
}

/** The number of calls of each function, by file, name and offset. */
type FunctionCounts = ReadonlyMap<string, number>;

function sumOf(reports: readonly FunctionCounts[], place: string): number {
  return reports.reduce((sum, counts) => sum + (counts.get(place) ?? 0), 0);
}

/** Returns the calls since the last report. */
async function report(
  processes: readonly { pid: number; reported: string }[],
  waitMs: number,
): Promise<FunctionCounts> {
  for (const { reported } of processes) truncateSync(reported);
  for (const { pid } of processes) process.kill(pid, 'SIGUSR2');
  for (const { reported } of processes)
    while (!readFileSync(reported, 'utf8').endsWith('.\n')) await sleep(1);
  await sleep(waitMs);
  const counts = new Map<string, number>();
  for (const line of processes.flatMap(({ reported }) => readFileSync(reported, 'utf8').split('\n'))) {
    const end = line.lastIndexOf('\t');
    const place = line.slice(0, end);
    if (end > 0) counts.set(place, (counts.get(place) ?? 0) + Number(line.slice(end + 1)));
  }
  return counts;
}

async function withUndo(work: (undo: Undo, folder: string) => Promise<Walk>): Promise<Walk> {
  const folder = mkdtempSync(join(tmpdir(), 'weir-house-'));
  const undo: Undo = [() => rmSync(folder, { recursive: true, force: true })];
  try {
    return await work(undo, folder);
  } finally {
    for (const step of undo.reverse()) await step();
  }
}
