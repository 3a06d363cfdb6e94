/** Attacks on a limiter, in the memory that the chart gives it, with a client beside it that does no harm. */
import { type ChildProcess, fork } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { parse, stringify } from 'yaml';
import { internalFaults } from '../faults/log-faults.ts';
import { profilesOfAll } from '../hostile/published-proxies.ts';
import { AdsServer } from '../support/ads-server.ts';
import { createAuthority } from '../support/certificates.ts';
import type { ChildProgram } from '../support/child-program.ts';
import { startControlPlane } from '../support/control-plane-process.ts';
import {
  findServer,
  memcachedProgram,
  opensslProgram,
  redisProgram,
  type ServerProgram,
} from '../support/find-server.ts';
import { freePort } from '../support/free-port.ts';
import { startLimiter } from '../support/limiter-process.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { rateLimitConfigText } from '../support/rate-limit-config.ts';
import { startRedis } from '../support/redis-server.ts';
import { limit, rule, source } from '../support/rule-builder.ts';
import type { Attack, AttackPorts } from './attack.ts';
import type { AttackerOrder, AttackerReport } from './attacker.ts';
import { regexProfiles } from './attacks-regex.ts';
import type { GoodClientOrder, GoodFigures } from './good-client.ts';
import { createMemoryCgroup } from './memory-cgroup.ts';

export interface AttackPace {
  /** How long the attack lasts. */
  seconds: number;
  /** How many of everything, of 1. */
  scale: number;
  /** How long the good client is alone before, and after, for what the attack leaves behind. */
  quietMs: number;
  /** Of what an attack draws by chance. */
  seed: number;
  /** How much longer an attack goes on that has not met its defense. */
  patienceMs?: number;
}

export interface AttackFigures {
  beforeMiB: number;
  /** The most that was resident from the attack's beginning to its end. */
  maxMiB: number;
  /** The good client's, before the attack and from its beginning on. */
  quiet: GoodFigures;
  good: GoodFigures;
  attacker: AttackerReport;
  /** What the limiter should not have done, whatever comes: ended, or reported faults of its own. */
  faults: string[];
}

/** What holds under every attack, on a machine that does nothing else. */
export const bounds = { residentMiB: 500, worstMs: 100 } as const;

/** The chart's `limiter.resources.limits.memory`. */
export const limitMiB = 768;

/** An attacker that is not done so long after its time is ended. */
const attackerPatienceMs = 50_000;

const rules = {
  'good.yaml': `domain: good
descriptors:
  - key: client
    rate_limit: { unit: hour, requests_per_unit: 100000000 }
`,
  'attack.yaml': `domain: attack
descriptors:
  - key: known
    rate_limit: { unit: minute, requests_per_unit: 1000 }
  - key: detailed
    detailed_metric: true
    rate_limit: { unit: minute, requests_per_unit: 1000 }
  - key: two
    rate_limit: { unit: hour, requests_per_unit: 2 }
  - key: path
    value: /a*/a/*/a/*b
    rate_limit: { unit: minute, requests_per_unit: 1000 }
  - key: path
    value: '*/a/a/a/a/c*'
    rate_limit: { unit: minute, requests_per_unit: 1000 }
`,
  // What the proxies of examples/ ask about.
  'shop.yaml': `domain: shop
descriptors:
  - key: remote_address
    rate_limit: { unit: year, requests_per_unit: 1 }
`,
  'bank.yaml': `domain: bank
descriptors:
  - key: ip
    rate_limit: { unit: hour, requests_per_unit: 3 }
`,
  'bank-ip.yaml': `domain: bank_ip
descriptors:
  - key: x
    rate_limit: { unit: hour, requests_per_unit: 3 }
`,
};

/** What is wrong, in words; empty when the limiter withstood. `slowness` stretches the bound on times. */
export function problemsOf(figures: AttackFigures, slowness = 1): string[] {
  const { maxMiB, good, attacker, faults } = figures;
  const maxMs = bounds.worstMs * slowness;
  return [
    ...faults,
    ...(maxMiB < bounds.residentMiB
      ? []
      : [`${Math.round(maxMiB)} MiB were resident; fewer than ${bounds.residentMiB} may be`]),
    ...(good.worstMs <= maxMs
      ? []
      : [
          `${good.worstOf} was answered after ${Math.round(good.worstMs)} ms; ${Math.round(maxMs)} ms are the most`,
        ]),
    ...(good.failed === 0
      ? []
      : [`the good client was refused ${good.failed} times: ${good.failures.join('; ')}`]),
    ...(good.answered > 0 ? [] : ['the good client got no answer']),
    ...[attacker.reached, attacker.missed].filter((what) => what !== undefined),
  ];
}

/** What an attack needs of the attacked program: attacks with the same needs can follow each other on one. */
export type AttackGround = Pick<Attack, 'store' | 'tls' | 'quota' | 'plays' | 'attacks' | 'programs'>;

/** The program that is attacked. */
interface AttackedProgram {
  program: ChildProgram;
  pid: number;
  ports: AttackPorts;
}

/** The attacker's process. It closes what an attack opened, so that one attacks site after site. */
export class Attacker {
  #process: ChildProcess | undefined;

  /** The process is ended when it is not done long after the attack's time. */
  async attack(order: AttackerOrder): Promise<AttackerReport> {
    if (this.#process?.connected !== true) this.#process = forkBeside('attacker.ts');
    const attacker = this.#process;
    const timer = setTimeout(() => attacker.kill('SIGKILL'), order.seconds * 1000 + attackerPatienceMs);
    try {
      attacker.send(order);
      return (await messageOf(attacker)) as AttackerReport;
    } finally {
      clearTimeout(timer);
    }
  }

  async close(): Promise<void> {
    if (this.#process?.connected !== true) return;
    const ended = once(this.#process, 'exit');
    this.#process.kill('SIGKILL');
    await ended;
  }
}

/** A limiter or control plane to be attacked, the good client beside it, and the store behind it. */
export class AttackSite {
  /** Why the attacked program's memory has no limit; undefined when it has one. */
  readonly unlimited: string | undefined;
  readonly #attacked: AttackedProgram;
  readonly #oomKills: () => number;
  readonly #good: ChildProcess;
  readonly #attacker: Attacker;
  readonly #undo: Undo;

  private constructor(
    undo: Undo,
    attacked: AttackedProgram,
    cgroup: ReturnType<typeof createMemoryCgroup>,
    { tls, attacker }: { tls: boolean; attacker: Attacker },
  ) {
    const { ports, pid, program } = attacked;
    this.#undo = undo;
    this.#attacked = attacked;
    this.unlimited = 'missing' in cgroup ? cgroup.missing : undefined;
    this.#oomKills = 'missing' in cgroup ? () => 0 : cgroup.oomKills;
    undo.push(async () => void (program.running && (await program.stop('SIGKILL'))));
    this.#good = forkBeside('good-client.ts', { ports, pid, tls });
    for (const thread of [...threadsOf(pid), this.#good.pid as number]) preferThread(thread);
    undo.push(() => void this.#good.kill('SIGKILL'));
    this.#attacker = attacker;
  }

  /** @throws when a program that it needs is not there */
  static async open(
    { store, tls = false, quota, plays, attacks }: AttackGround,
    attacker: Attacker,
  ): Promise<AttackSite> {
    const way = { tls, attacker };
    const folder = mkdtempSync(join(tmpdir(), 'weir-attack-'));
    const undo: Undo = [() => rmSync(folder, { recursive: true, force: true })];
    try {
      mkdirSync(join(folder, 'config'));
      for (const [file, text] of Object.entries(rules)) writeFileSync(join(folder, 'config', file), text);
      const profiles = join(folder, 'profiles.yaml');
      writeFileSync(
        profiles,
        stringify({ profiles: { ...profilesOfAll(), ...parse(regexProfiles()).profiles } }),
      );
      const storeSettings = await startStore(store, undo);
      const cgroup = createMemoryCgroup(`weir-attack-${process.pid}`, limitMiB * 2 ** 20);
      const isLimited = 'procsFile' in cgroup;
      if (isLimited) undo.push(() => removeWhenEmpty(cgroup.remove));
      const limits = isLimited ? { cgroupProcs: cgroup.procsFile } : {};
      if (attacks === 'control-plane')
        return new AttackSite(undo, await startAttackedControlPlane(folder, limits), cgroup, way);
      const peer = await startPeer(plays, undo);
      const limiter = await startLimiter({
        env: {
          // On standard output each call would be a line.
          USE_PROMETHEUS: 'true',
          PROMETHEUS_ADDR: '127.0.0.1:0',
          // As the chart sets it.
          COUNTER_KEYS: 'unambiguous',
          RUNTIME_ROOT: folder,
          RUNTIME_APPDIRECTORY: 'config',
          PROFILES_FILE: profiles,
          ...storeSettings,
          ...(tls ? tlsSettings(folder) : {}),
          ...(quota ? quotaSettings(folder) : {}),
          ...peer.settings,
        },
        ...limits,
      });
      undo.push(async () => void (limiter.program.running && (await limiter.program.stop('SIGKILL'))));
      await peer.isUsed();
      const { grpc, http } = limiter.ports;
      return new AttackSite(
        undo,
        { ...limiter, ports: { grpc, http, xds: 0, played: peer.port } },
        cgroup,
        way,
      );
    } catch (error) {
      await undoAll(undo);
      throw error;
    }
  }

  get lives(): boolean {
    return this.#attacked.program.running;
  }

  async attack(
    { name }: Attack,
    { seconds, scale, quietMs, seed, patienceMs = 15_000 }: AttackPace,
  ): Promise<AttackFigures> {
    const { ports, pid, program } = this.#attacked;
    const printedBefore = program.output.length;
    await sleep(quietMs);
    const quiet = await this.#figures();
    const beforeMiB = residentMiB(pid, 'VmRSS');
    resetPeak(pid);
    const attacker = await this.#attacker.attack({ name, ports, seconds, scale, seed, patienceMs });
    await sleep(quietMs);
    const good = await this.#figures();
    const end = this.#oomKills() > 0 ? 'ended for want of memory' : 'ended';
    const faults = internalFaults(program.output.slice(printedBefore));
    if (!this.lives) faults.unshift(`the attacked process ${end}`);
    const maxMiB = this.lives ? residentMiB(pid, 'VmHWM') : limitMiB;
    return { beforeMiB, maxMiB, quiet, good, attacker, faults };
  }

  async close(): Promise<void> {
    await undoAll(this.#undo);
  }

  async #figures(): Promise<GoodFigures> {
    this.#good.send('figures');
    return (await messageOf(this.#good)) as GoodFigures;
  }
}

type Undo = (() => void | Promise<void>)[];

/** The last first. */
async function undoAll(undo: Undo): Promise<void> {
  for (const step of undo.splice(0).reverse()) await step();
}

async function startStore(store: Attack['store'], undo: Undo): Promise<Record<string, string>> {
  if (store === undefined) return { BACKEND_TYPE: 'memory' };
  if (store === 'redis') {
    const redis = await startRedis({ path: pathOf(redisProgram) });
    undo.push(() => redis.stop());
    return { REDIS_SOCKET_TYPE: 'tcp', REDIS_URL: `127.0.0.1:${redis.port}` };
  }
  const memcached = await startMemcached({ path: pathOf(memcachedProgram) });
  undo.push(() => memcached.stop());
  return { BACKEND_TYPE: 'memcache', MEMCACHE_HOST_PORT: memcached.address };
}

/** Programs that the attack needs and that are not there. */
export function missingFor({ store, tls, programs = [] }: AttackGround): string[] {
  const stores = { redis: redisProgram, memcached: memcachedProgram };
  const needed = [
    ...(store === undefined ? [] : [stores[store]]),
    ...(tls === true ? [opensslProgram] : []),
    ...programs,
  ];
  return needed.flatMap((program) => {
    const found = findServer(program);
    return 'missing' in found ? [found.missing] : [];
  });
}

function pathOf(program: ServerProgram): string {
  const found = findServer(program);
  if ('missing' in found) throw new Error(found.missing);
  return found.path;
}

function tlsSettings(folder: string): Record<string, string> {
  const authority = createAuthority(pathOf(opensslProgram), folder, 'authority');
  const { certFile, keyFile } = authority.issue({ name: 'limiter', alternativeNames: 'IP:127.0.0.1' });
  return { GRPC_SERVER_USE_TLS: 'true', GRPC_SERVER_TLS_CERT: certFile, GRPC_SERVER_TLS_KEY: keyFile };
}

/** Nobody has a name, and nobody may use the domain `vault`. */
function quotaSettings(folder: string): Record<string, string> {
  const callers = join(folder, 'callers.yaml');
  writeFileSync(callers, 'callers: [{ anonymous: true, domains: [good, attack] }]\n');
  // A hundredth of the default, so that an attack of a moment reaches it.
  return { RLQS: 'true', CALLERS_FILE: callers, RLQS_MAX_STREAMS: '100' };
}

async function startAttackedControlPlane(
  folder: string,
  limits: { cgroupProcs?: string },
): Promise<AttackedProgram> {
  const manifests = join(folder, 'manifests');
  mkdirSync(manifests);
  writeFileSync(
    join(manifests, 'good.yaml'),
    rateLimitConfigText({ name: 'good', domain: 'good', requests: 1 }),
  );
  const env = { SOURCE: 'DIRECTORY', MANIFESTS_DIRECTORY: manifests };
  const { program, pid, ports } = await startControlPlane({ env, ...limits });
  return { program, pid, ports: { grpc: 0, http: ports.http, xds: ports.xds, played: 0 } };
}

/** The peer that the limiter has until an attacker plays it. */
interface HonestPeer {
  port: number;
  settings: Record<string, string>;
  /** Resolves when the limiter has what it needs of the peer, and the port is the attacker's. */
  isUsed(): Promise<void>;
}

async function startPeer(plays: Attack['plays'], undo: Undo): Promise<HonestPeer> {
  if (plays === 'xds') return startHonestXdsServer(undo);
  if (plays === 'statsd') return startHonestReceiver(undo);
  return { port: 0, settings: {}, isUsed: async () => {} };
}

/** Gives the good client's rules and ends. They stay in force. */
async function startHonestXdsServer(undo: Undo): Promise<HonestPeer> {
  const server = await AdsServer.start({ port: await freePort(), incremental: true });
  undo.push(() => server.stop());
  return {
    port: server.port,
    settings: {
      CONFIG_TYPE: 'GRPC_XDS_DELTA',
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
      CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '20ms',
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '20ms',
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '50ms',
      // A sixteenth of the default, so that an attack of a moment reaches it.
      XDS_CLIENT_MAX_TOTAL_BYTES: String(4 * 2 ** 20),
      FORCE_START_WITHOUT_INITIAL_CONFIG: 'true',
    },
    async isUsed() {
      const stream = await server.deltaStream();
      await stream.request();
      const good = rule({ key: 'client', rateLimit: limit({ requestsPerUnit: 1e8 }) });
      stream.respond({ version: 'good', resources: { good: ['1', source('good', [good])] } });
      await stream.request();
      await server.stop();
    },
  };
}

/** Holds the port, so that no datagram is rejected. Of two sockets of one port, Linux gives datagrams to the younger: the attacker's. */
async function startHonestReceiver(undo: Undo): Promise<HonestPeer> {
  const socket = createSocket({ type: 'udp4', reuseAddr: true });
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve));
  undo.push(() => void socket.close());
  const { port } = socket.address();
  return {
    port,
    settings: {
      USE_PROMETHEUS: 'false',
      USE_STATSD: 'true',
      STATSD_PROTOCOL: 'udp',
      STATSD_HOST: '127.0.0.1',
      STATSD_PORT: String(port),
      STATS_FLUSH_INTERVAL: '100ms',
    },
    isUsed: async () => {},
  };
}

function forkBeside(file: string, order?: GoodClientOrder): ChildProcess {
  const args = order === undefined ? [] : [JSON.stringify(order)];
  return fork(fileURLToPath(new URL(file, import.meta.url)), args, { execArgv: [] });
}

async function messageOf(child: ChildProcess): Promise<unknown> {
  const listening = new AbortController();
  const { signal } = listening;
  const ended = once(child, 'exit', { signal }).then(([code, by]) => {
    throw new Error(`${child.spawnargs[1]} ended with ${code ?? by} before it said anything`);
  });
  ended.catch(() => {});
  try {
    const [message] = await Promise.race([once(child, 'message', { signal }), ended]);
    return message;
  } finally {
    listening.abort();
  }
}

const threadsOf = (pid: number): number[] => readdirSync(`/proc/${pid}/task`).map(Number);

/** Before what else the machine has to do, the attacker included, where that may be asked for (as root): both would be elsewhere. */
function preferThread(thread: number): void {
  try {
    setPriority(thread, -10);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_SYSTEM_ERROR') throw error;
  }
}

/** Of /proc/<pid>/status: proc(5). */
function residentMiB(pid: number, name: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1');
  return Number(new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(status)?.[1]) / 1024;
}

/** So that VmHWM reports the most from now on, and not of the start: proc(5), clear_refs. */
function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Its last process is gone a moment after its end was reported. */
async function removeWhenEmpty(remove: () => void): Promise<void> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return remove();
    } catch (error) {
      if (attempt > 50) throw error;
      await sleep(20);
    }
  }
}
