/** What happens by chance, one thing after the other, and what ends again after a while. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Random } from '../fuzz/random.ts';
import { LoadedDeadline } from '../support/machine-load.ts';
import { PartlyRejectingLimiter } from './delta-limiter.ts';
import { RealLimiter, type RunningLimiter, ScriptedLimiter } from './limiters.ts';
import { isRefused, namespaces } from './objects.ts';
import type { SeenObject } from './oracle.ts';
import { leaseDurationMs, type Replica } from './replica.ts';
import {
  type Cut,
  cut,
  cuts,
  domains,
  endingDomain,
  type Limiter,
  type LimiterKind,
  overrideDomains,
  type World,
} from './world.ts';

export const maxObjects = 40;
const maxOverrides = 6;
const maxLimiters = 6;
const kinds = ['delta', 'state of the world', 'played state of the world', 'played delta'] as const;

type Played = ScriptedLimiter | PartlyRejectingLimiter;

function isPlayed(running: RunningLimiter): running is Played {
  return running instanceof ScriptedLimiter || running instanceof PartlyRejectingLimiter;
}
/** Between two things that happen to the leader there is time in which its statuses have to be true. */
const quietOfLeaderMs = 15_000;
/** Before an override ends, a limiter that has it is cut off: it hears of the end from nobody. */
const maxBeforeEndMs = 2_500;
const minBeforeEndMs = 1_200;
/** A limiter that does not end it by itself is found after `maxLieMs`, and a look. */
const aloneAfterEndMs = 4_500;

/** Until a control plane that was started leads, or a look at a killed API server fails, on a machine with nothing else to do. */
const maxUnseenMs = 6_000;

/** A container is started again after this time. */
const restartMs = 500;

interface Ending {
  atMs: number;
  end(): Promise<void> | void;
}

/** How often each of these was seen to happen; a run in which one did not proves little. */
export interface Happened {
  /** Times that a look failed because the API server was killed. */
  apiServerKills: number;
  /** Rivals that led their own replicas before they ended. */
  rivals: number;
  leaderKills: number;
}

export interface ChanceOptions {
  world: World;
  /** At most 1: what times of rare events are multiplied with, so that a short run has each of them, too. */
  pace: number;
  random: Random;
  nowMs(): number;
  report(text: string): void;
}

export class Chance {
  readonly #options: ChanceOptions;
  readonly #world: World;
  readonly #random: Random;
  #endings: Ending[] = [];
  #names = 0;
  #limiterNames = 0;
  #busyLimiter = false;
  #busyReplica = false;
  #nextEndMs = 0;
  #nextRivalMs: number;
  #nextApiMs: number;
  /** Of the first kill of a leader, which does not wait for chance. */
  #nextLeaderMs: number;
  /** The API server was killed, and no look has failed since. */
  #isKillUnseen = false;
  readonly happened: Happened = { apiServerKills: 0, rivals: 0, leaderKills: 0 };
  /** As they were seen last. */
  objects: readonly SeenObject[] = [];

  constructor(options: ChanceOptions) {
    this.#options = options;
    this.#world = options.world;
    this.#random = options.random;
    this.#nextRivalMs = Number.POSITIVE_INFINITY;
    this.#nextApiMs = Number.POSITIVE_INFINITY;
    this.#nextLeaderMs = Number.POSITIVE_INFINITY;
  }

  /** From now on, when all limiters and objects are there, the control plane is disturbed, too. */
  plan(): void {
    this.#nextLeaderMs = this.#soon(10_000, 20_000);
    this.#nextRivalMs = this.#soon(30_000, 60_000);
    this.#nextApiMs = this.#soon(60_000, 90_000);
  }

  /** A moment between these from now, at this run's pace. */
  #soon(minMs: number, maxMs: number): number {
    const { nowMs, pace } = this.#options;
    return nowMs() + pace * (minMs + this.#random.below(maxMs - minMs));
  }

  /** A fleet of three limiters of this project and one that is played, another of one; half of the objects. */
  async begin(): Promise<void> {
    for (const kind of kinds) await this.#world.join(this.#limiterName(), 'default', kind);
    for (const kind of ['delta', 'played state of the world'] as const)
      await this.#world.join(this.#limiterName(), 'edge', kind);
    for (const domain of domains) await this.#create(domain);
  }

  /** One thing, and how long to wait for the next. */
  async happen(): Promise<number> {
    await this.#end(this.#options.nowMs());
    const dice = this.#random.below(100);
    try {
      await this.#cutBeforeAnEnd(this.#options.nowMs());
      if (await this.#disturbAsPlanned(this.#options.nowMs())) return 50;
      if (dice < 78) await this.#happenToObject();
      else if (dice < 90) await this.#happenToLimiter();
      else await this.#happenToControlPlane();
    } catch (error) {
      // The API server may be away, or hold another object of that name.
      if (!isRefused(error) && !this.#world.isApiServerAway) throw error;
    }
    return 50 + this.#random.below(this.#random.below(4) === 0 ? 2_000 : 500);
  }

  /** Ends all that is under way. */
  async heal(): Promise<void> {
    while (this.#endings.length > 0) await this.#end(Number.POSITIVE_INFINITY);
    for (const { running } of this.#world.limiters) if (isPlayed(running)) await this.#accept(running);
  }

  /** Those of the program that is given now take over. */
  async replaceReplicas(): Promise<void> {
    const { replicas } = this.#world;
    await Promise.all(replicas.map((replica) => replica.stop('SIGTERM')));
    for (const replica of replicas) {
      replica.start(this.#options.nowMs());
      this.#world.troubled(replica);
    }
  }

  async #end(nowMs: number): Promise<void> {
    const due = this.#endings.filter(({ atMs }) => atMs <= nowMs);
    this.#endings = this.#endings.filter(({ atMs }) => atMs > nowMs);
    for (const { end } of due) await end();
  }

  #later(minMs: number, maxMs: number, end: () => Promise<void> | void): void {
    const atMs = this.#options.nowMs() + minMs + this.#random.below(Math.ceil(maxMs - minMs));
    this.#endings.push({ atMs, end });
  }

  #pick<T>(items: readonly T[]): T | undefined {
    return items[this.#random.below(items.length)];
  }

  // Objects.

  async #create(domain: string): Promise<void> {
    const name = `o${++this.#names}`;
    const namespace = this.#pick(namespaces) as string;
    const number = await this.#world.objects.create({ namespace, name }, domain);
    this.#options.report(`${namespace}/${name} is created for ${domain}: ${number}`);
  }

  async #happenToOverride(): Promise<void> {
    const { objects } = this.#world;
    const lying = this.objects.filter((one) => one.isOverride && one.domain !== endingDomain);
    const one = this.#pick(lying);
    const dice = this.#random.below(100);
    if (one !== undefined && dice < 30) {
      await objects.delete(one);
      this.#options.report(`${one.key} is deleted`);
      return;
    }
    const lastsMs = dice < 80 ? 1_000 + this.#random.below(15_000) : undefined;
    const isNew = one === undefined || (lying.length < maxOverrides && dice < 65);
    const [, namespace = '', name = ''] = one?.key.split('/') ?? [];
    const place = isNew
      ? { namespace: this.#pick(namespaces) as string, name: `r${++this.#names}` }
      : { namespace, name };
    const domain = isNew ? (this.#pick(overrideDomains) as string) : one.domain;
    const number = await objects.override(place, domain, lastsMs);
    const end = lastsMs === undefined ? 'for good' : `for ${(lastsMs / 1_000).toFixed(1)} s`;
    this.#options.report(`override/${place.namespace}/${place.name} lies over ${domain} ${end}: ${number}`);
  }

  async #happenToObject(): Promise<void> {
    if (this.#random.below(100) < 15) return this.#happenToOverride();
    const configs = this.objects.filter(({ isOverride }) => !isOverride);
    const object = this.#pick(configs);
    const dice = this.#random.below(100);
    if (object === undefined || (dice < 12 && configs.length < maxObjects)) {
      await this.#create(this.#pick(domains) as string);
    } else if (dice < 45) await this.#change(object, {}, 'is changed');
    else if (dice < 55) await this.#change(object, { isReverted: true }, 'goes back to what it was');
    else if (dice < 60) {
      for (let count = 3 + this.#random.below(12); count > 0; count -= 1)
        await this.#change(this.#pick(configs) as SeenObject, {}, 'is changed');
    } else if (dice < 68) await this.#change(object, { isValid: !object.isValid }, 'turns valid or invalid');
    else if (dice < 74) {
      const domain = this.#pick(domains.filter((one) => one[0] === object.domain[0])) as string;
      await this.#change(object, { domain }, `moves to ${domain}`);
    } else if (dice < 80) await this.#change(object, { isOut: object.isOurs }, 'gets or loses its label');
    else if (dice < 86) {
      await this.#change(object, { isOfOtherClass: object.isOurs, isOut: false }, 'changes its class');
    } else if (dice < 94) {
      await this.#world.objects.delete(object);
      this.#options.report(`${object.key} is deleted`);
    } else {
      const [namespace = '', name = ''] = object.key.split('/');
      await this.#world.objects.delete(object);
      const number = await this.#world.objects.create({ namespace, name }, object.domain);
      this.#options.report(`${object.key} is replaced: ${number}`);
    }
  }

  async #change(
    object: SeenObject,
    change: Parameters<World['objects']['change']>[1],
    what: string,
  ): Promise<void> {
    const number = await this.#world.objects.change(object, change);
    this.#options.report(`${object.key} ${what}: ${number}`);
  }

  // Limiters.

  #limiterName(): string {
    return `lim-${this.#limiterNames++}`;
  }

  async #happenToLimiter(): Promise<void> {
    const { limiters } = this.#world;
    const leaving = limiters.find(({ isTerminating }) => isTerminating);
    if (leaving !== undefined) return this.#world.leave(leaving);
    if (this.#busyLimiter) return;
    const limiter = this.#pick(limiters) as Limiter;
    const { running, pod } = limiter;
    const dice = this.#random.below(100);
    if (dice < 15 && limiters.length < maxLimiters + 2) {
      const kind = this.#pick(kinds) as LimiterKind;
      const name = this.#limiterName();
      this.#options.report(`${name} joins: ${kind}`);
      await this.#world.join(name, 'default', kind);
    } else if (dice < 30) {
      if (limiters.filter(({ pod: { fleet } }) => fleet === pod.fleet).length < 3) return;
      this.#options.report(`${pod.name} leaves`);
      await this.#world.leave(limiter);
    } else if (isPlayed(running)) await this.#play(limiter, running, dice);
    else if (running instanceof RealLimiter && dice < 55) {
      this.#options.report(`${pod.name} stands still`);
      limiter.stoppedMs = this.#options.nowMs();
      await running.program.pause();
      this.#busyLimiter = true;
      this.#later(2_000, 20_000, () => this.#goOn(limiter, running));
    } else if (dice < 75) await this.#kill(limiter);
    else await this.#cutLimiter(limiter);
  }

  #goOn(limiter: Limiter, running: RealLimiter): void {
    this.#busyLimiter = false;
    this.#options.report(`${limiter.pod.name} goes on`);
    running.program.resume();
    limiter.stoppedMs = undefined;
    limiter.troubledMs = this.#options.nowMs();
  }

  async #kill(limiter: Limiter): Promise<void> {
    const { running, pod } = limiter;
    this.#options.report(`${pod.name} is killed`);
    limiter.readySinceMs = undefined;
    await running.kill();
    this.#busyLimiter = true;
    this.#later(0, 5_000, () => {
      this.#busyLimiter = false;
      this.#options.report(`${pod.name} is started again`);
      limiter.troubledMs = this.#options.nowMs();
      running.restart();
    });
  }

  /** An override that nothing else happens to; shortly before it ends one of its limiters is cut off until it would be found wrong. */
  async #cutBeforeAnEnd(nowMs: number): Promise<void> {
    if (this.#busyLimiter) return;
    if (nowMs >= this.#nextEndMs) {
      this.#nextEndMs = nowMs + 14_000;
      const place = { namespace: namespaces[0]!, name: 'ends' };
      const number = await this.#world.objects.override(place, endingDomain, 6_000);
      this.#options.report(`override/${place.namespace}/${place.name} lies over ${endingDomain}: ${number}`);
      return;
    }
    const ending = this.objects.find(({ domain, isReady }) => domain === endingDomain && isReady);
    const leftMs = (ending?.endsMs ?? nowMs) - nowMs;
    const limiter = this.#pick(this.#world.limiters.filter(({ pod }) => pod.fleet === ending?.fleet));
    if (limiter === undefined || leftMs < minBeforeEndMs || leftMs > maxBeforeEndMs) return;
    const how = this.#random.below(2) === 0 ? 'refuse' : 'swallow';
    const minMs = leftMs + aloneAfterEndMs;
    await this.#cutLimiter(limiter, { how, minMs, maxMs: minMs + 1_000 });
  }

  async #cutLimiter(limiter: Limiter, given?: { how: Cut; minMs: number; maxMs: number }): Promise<void> {
    const how = given?.how ?? (this.#pick(cuts) as Cut);
    // What is dead for good is noticed after 20 s.
    const { minMs, maxMs } = given ?? { minMs: how === 'forget' ? 22_000 : 2_000, maxMs: 25_000 };
    this.#options.report(`${limiter.pod.name} is cut off from the replicas: ${how}`);
    limiter.troubledMs = this.#options.nowMs();
    await cut(limiter.pod.proxy, how);
    if (how === 'reset') return;
    limiter.cutMs = this.#options.nowMs();
    if (how !== 'forget') limiter.aloneMs = limiter.cutMs;
    this.#busyLimiter = true;
    this.#later(minMs, maxMs, async () => {
      this.#busyLimiter = false;
      this.#options.report(`${limiter.pod.name} reaches the replicas again`);
      await limiter.pod.proxy.heal();
      limiter.cutMs = undefined;
      limiter.aloneMs = undefined;
      limiter.troubledMs = this.#options.nowMs();
    });
  }

  async #play(limiter: Limiter, running: Played, dice: number): Promise<void> {
    const { name } = limiter.pod;
    if (dice < 45) {
      this.#options.report(`${name} is replaced by an older one`);
      await this.#replace(limiter, running, true);
      this.#later(5_000, 20_000, async () => {
        if (!this.#world.limiters.includes(limiter)) return;
        this.#options.report(`${name} is new again`);
        await this.#replace(limiter, running, false);
      });
    } else if (dice < 58) {
      this.#options.report(`${name} refuses what comes`);
      running.refuse(true);
      this.#later(2_000, 20_000, () => this.#accept(running));
    } else if (dice < 70) await this.#cutLimiter(limiter);
    else {
      const claims = dice < 80 ? 'unknown' : { age: 1 + this.#random.below(20) };
      await running.kill();
      this.#busyLimiter = true;
      this.#options.report(`${name} goes away`);
      this.#later(0, 10_000, () => {
        this.#busyLimiter = false;
        const what =
          claims === 'unknown' ? 'a version that nobody knows' : `its last version but ${claims.age - 1}`;
        this.#options.report(`${name} comes back with ${what}${running.refuses ? ', and refuses' : ''}`);
        limiter.troubledMs = this.#options.nowMs();
        if (running instanceof ScriptedLimiter) running.restart(claims);
        else running.restart(claims === 'unknown' ? 'nothing' : 'what it has');
      });
    }
  }

  async #replace(limiter: Limiter, running: Played, isOld: boolean): Promise<void> {
    limiter.troubledMs = this.#options.nowMs();
    await running.kill();
    // A container takes a moment to start again, during which its pod is not ready.
    await this.#world.keepPods().catch(() => {});
    await sleep(restartMs);
    running.isOld = isOld;
    running.restart();
  }

  /** It answers the next response; to have one, it opens a new connection. */
  async #accept(running: Played): Promise<void> {
    if (!running.refuses) return;
    running.refuse(false);
    await running.kill();
    if (running instanceof ScriptedLimiter) running.restart({ age: 1 });
    else running.restart('what it has');
  }

  // The control plane.

  /** Whether something was due. A short run does not wait until the leader was undisturbed. */
  async #disturbAsPlanned(nowMs: number): Promise<boolean> {
    const { pace } = this.#options;
    const { leader } = this.#world;
    const mayTouchLeader = pace < 1 || nowMs > this.#world.graceUntilMs + quietOfLeaderMs;
    if (nowMs > this.#nextRivalMs) this.#startRival();
    else if (this.#busyReplica || !mayTouchLeader) return false;
    else if (nowMs > this.#nextLeaderMs && leader !== undefined) await this.#killLeader(leader);
    else if (nowMs > this.#nextApiMs) await this.#restartApiServer();
    else return false;
    return true;
  }

  async #killLeader(leader: Replica): Promise<void> {
    this.#nextLeaderMs = Number.POSITIVE_INFINITY;
    this.#world.troubled(leader);
    // Away for longer than its Lease lasts, so that another one is elected.
    await this.#endReplica(leader, 'SIGKILL', leaseDurationMs + 1_000);
    if (!leader.isRunning) this.happened.leaderKills += 1;
  }

  async #happenToControlPlane(): Promise<void> {
    const nowMs = this.#options.nowMs();
    const mayTouchLeader = nowMs > this.#world.graceUntilMs + quietOfLeaderMs;
    if (this.#busyReplica) return;
    const replica = this.#pick(this.#world.replicas) as Replica;
    if (replica === this.#world.leader && !mayTouchLeader) return;
    const dice = this.#random.below(100);
    this.#world.troubled(replica);
    if (dice < 40) await this.#endReplica(replica, dice < 30 ? 'SIGKILL' : 'SIGTERM');
    else if (dice < 70) await this.#pauseReplica(replica);
    else await this.#cutReplica(replica);
  }

  async #endReplica(replica: Replica, signal: 'SIGKILL' | 'SIGTERM', minMs = 0): Promise<void> {
    this.#options.report(`${replica.podName} ends by ${signal}`);
    this.#busyReplica = true;
    await replica.stop(signal);
    this.#later(minMs, minMs + this.#options.pace * 8_000, () =>
      this.#back(replica, 'is started', () => replica.start(this.#options.nowMs())),
    );
  }

  async #pauseReplica(replica: Replica): Promise<void> {
    this.#options.report(`${replica.podName} stands still`);
    this.#busyReplica = true;
    await replica.pause();
    this.#later(1_000, 1_000 + this.#options.pace * 14_000, () =>
      this.#back(replica, 'goes on', () => replica.resume()),
    );
  }

  async #cutReplica(replica: Replica): Promise<void> {
    const how = this.#pick(cuts) as Cut;
    this.#options.report(`${replica.podName} is cut off from the API server: ${how}`);
    await cut(replica.api, how);
    if (how === 'reset') return;
    this.#busyReplica = true;
    replica.isCut = true;
    // What is dead for good is noticed within REPLICA_LEASE_DURATION, which is 5 s.
    const minMs = how === 'forget' ? 8_000 : 2_000;
    this.#later(minMs, minMs + this.#options.pace * (20_000 - minMs), () =>
      this.#back(replica, 'reaches the API server again', async () => {
        await replica.api.heal();
        replica.isCut = false;
      }),
    );
  }

  async #back(replica: Replica, what: string, end: () => Promise<void> | void): Promise<void> {
    await end();
    this.#busyReplica = false;
    this.#options.report(`${replica.podName} ${what}`);
    this.#world.troubled(replica);
  }

  #startRival(): void {
    const { rival } = this.#world;
    const { pace } = this.#options;
    this.#nextRivalMs = this.#soon(180_000, 420_000);
    this.#options.report('a second control plane of this class starts');
    rival.start(this.#options.nowMs());
    this.#later(pace * 10_000, pace * 30_000, async () => {
      await this.#seen(() => rival.leads || this.#world.isApiServerAway);
      if (rival.leads) this.happened.rivals += 1;
      await rival.stop('SIGKILL');
      this.#options.report('the second control plane of this class ends');
    });
  }

  /** A look at the API server failed. */
  lookFailed(): void {
    if (!this.#isKillUnseen) return;
    this.#isKillUnseen = false;
    this.happened.apiServerKills += 1;
  }

  /** Waits for the effect of an event, so that the event does not end before it. */
  async #seen(isThere: () => boolean): Promise<void> {
    const deadline = new LoadedDeadline(maxUnseenMs);
    while (!isThere() && !deadline.isOver) await sleep(20);
  }

  async #restartApiServer(): Promise<void> {
    const { server } = this.#world;
    this.#nextApiMs = this.#soon(120_000, 360_000);
    this.#options.report('the API server is killed');
    this.#world.isApiServerAway = true;
    this.#world.leaderTroubled();
    this.#busyReplica = true;
    await server.stopServer();
    this.#isKillUnseen = true;
    this.#later(0, this.#options.pace * 10_000, async () => {
      await this.#seen(() => !this.#isKillUnseen);
      this.#isKillUnseen = false;
      await server.startServer();
      this.#options.report('the API server is back');
      this.#world.isApiServerAway = false;
      this.#busyReplica = false;
      this.#world.leaderTroubled();
      for (const replica of this.#world.replicas) this.#world.troubled(replica);
    });
  }
}
