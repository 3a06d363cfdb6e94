/** Attacks on a limiter, in the memory that the chart gives it, with a client beside it that does no harm. */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { setPriority, tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';

import { parse, stringify } from 'yaml';
import { internalFaults } from '../faults/log-faults.ts';
import { profilesOfAll } from '../hostile/published-proxies.ts';
import { createAuthority } from '../support/certificates.ts';
import {
  findServer,
  memcachedProgram,
  opensslProgram,
  redisProgram,
  type ServerProgram,
} from '../support/find-server.ts';
import { type LimiterProcess, startLimiter } from '../support/limiter-process.ts';
import { startMemcached } from '../support/memcached-server.ts';
import { startRedis } from '../support/redis-server.ts';
import type { Attack } from './attack.ts';
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
  calmMs: number;
  /** Of what an attack draws by chance. */
  seed: number;
  /** How much longer an attack goes on that has not met its defense. */
  patienceMs?: number;
}

export interface AttackFigures {
  beforeMiB: number;
  /** The most that was resident from the attack's beginning to its end. */
  mostMiB: number;
  /** The good client's, before the attack and from its beginning on. */
  calm: GoodFigures;
  good: GoodFigures;
  attacker: AttackerReport;
  /** What the limiter should not have done, whatever comes: ended, or told of faults of its own. */
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
  const { mostMiB, good, attacker, faults } = figures;
  const mostMs = bounds.worstMs * slowness;
  return [
    ...faults,
    ...(mostMiB < bounds.residentMiB
      ? []
      : [`${Math.round(mostMiB)} MiB were resident; fewer than ${bounds.residentMiB} may be`]),
    ...(good.worstMs <= mostMs
      ? []
      : [
          `${good.worstOf} was answered after ${Math.round(good.worstMs)} ms; ${Math.round(mostMs)} ms are the most`,
        ]),
    ...(good.failed === 0
      ? []
      : [`the good client was refused ${good.failed} times: ${good.failures.join('; ')}`]),
    ...(good.answered > 0 ? [] : ['the good client got no answer']),
    ...[attacker.reached, attacker.missed].filter((what) => what !== undefined),
  ];
}

/** What an attack needs of a limiter: those with the same need can follow each other on one. */
export type AttackGround = Pick<Attack, 'store' | 'tls' | 'programs'>;

/** A limiter to be attacked, the good client beside it, and the store behind it. */
export class AttackSite {
  /** Why the limiter's memory has no limit; undefined when it has one. */
  readonly unlimited: string | undefined;
  readonly #limiter: LimiterProcess;
  readonly #oomKills: () => number;
  readonly #good: ChildProcess;
  #attacker: ChildProcess;
  readonly #undo: Undo;

  private constructor(
    undo: Undo,
    limiter: LimiterProcess,
    cgroup: ReturnType<typeof createMemoryCgroup>,
    tls: boolean,
  ) {
    const { ports, pid, program } = limiter;
    this.#undo = undo;
    this.#limiter = limiter;
    this.unlimited = 'missing' in cgroup ? cgroup.missing : undefined;
    this.#oomKills = 'missing' in cgroup ? () => 0 : cgroup.oomKills;
    undo.push(async () => void (program.running && (await program.stop('SIGKILL'))));
    this.#good = forkBeside('good-client.ts', { ports, pid, tls });
    for (const thread of [...threadsOf(pid), this.#good.pid as number]) preferThread(thread);
    undo.push(() => void this.#good.kill('SIGKILL'));
    this.#attacker = forkBeside('attacker.ts');
    undo.push(() => void this.#attacker.kill('SIGKILL'));
  }

  /** @throws when a program that it needs is not there */
  static async open({ store, tls = false }: AttackGround): Promise<AttackSite> {
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
        },
        ...(isLimited ? { cgroupProcs: cgroup.procsFile } : {}),
      });
      return new AttackSite(undo, limiter, cgroup, tls);
    } catch (error) {
      await undoAll(undo);
      throw error;
    }
  }

  get lives(): boolean {
    return this.#limiter.program.running;
  }

  async attack(
    { name }: Attack,
    { seconds, scale, calmMs, seed, patienceMs = 15_000 }: AttackPace,
  ): Promise<AttackFigures> {
    const { ports, pid, program } = this.#limiter;
    const printedBefore = program.output.length;
    await sleep(calmMs);
    const calm = await this.#figures();
    const beforeMiB = residentMiB(pid, 'VmRSS');
    resetPeak(pid);
    const attacker = await this.#attackBy({ name, ports, seconds, scale, seed, patienceMs });
    await sleep(calmMs);
    const good = await this.#figures();
    const end = this.#oomKills() > 0 ? 'ended for want of memory' : 'ended';
    const faults = internalFaults(program.output.slice(printedBefore));
    if (!this.lives) faults.unshift(`the limiter's process ${end}`);
    const mostMiB = this.lives ? residentMiB(pid, 'VmHWM') : limitMiB;
    return { beforeMiB, mostMiB, calm, good, attacker, faults };
  }

  async close(): Promise<void> {
    await undoAll(this.#undo);
  }

  /** Its process is ended when it is not done long after the attack's time. */
  async #attackBy(order: AttackerOrder): Promise<AttackerReport> {
    if (!this.#attacker.connected) this.#attacker = forkBeside('attacker.ts');
    const attacker = this.#attacker;
    const timer = setTimeout(() => attacker.kill('SIGKILL'), order.seconds * 1000 + attackerPatienceMs);
    try {
      attacker.send(order);
      return (await messageOf(attacker)) as AttackerReport;
    } finally {
      clearTimeout(timer);
    }
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

/** So that VmHWM tells the most from now on, and not of the start: proc(5), clear_refs. */
function resetPeak(pid: number): void {
  writeFileSync(`/proc/${pid}/clear_refs`, '5');
}

/** Its last process is gone a moment after its end was told. */
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
