/** A control plane of three replicas with ten limiters, on virtual time: what happens to it, and what must always hold. */
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import { trustedMs } from '../../control-plane/kubernetes/watch.ts';
import { unknownSpecPatienceMs } from '../../control-plane/round.ts';
import type { WebhookEvent } from '../../control-plane/webhooks/webhook-event.ts';
import { Incremental, RejectedLists, StateOfTheWorld } from '../../control-plane/xds/discovery-form.ts';
import {
  type AdsStreamEvents,
  adsPaths,
  type DiscoveryStream,
} from '../../limiter/config-source/xds/ads-stream.ts';
import { fleetKind } from '../../rules/language/kinds.ts';
import { Random } from '../fuzz/random.ts';
import { Oracle, type Violation as OracleViolation, unsettled } from '../truth/oracle.ts';
import {
  FleetOracle,
  type FleetSight,
  type FleetViolation,
  type NamedLimiter,
  unsettledFleets,
} from './fleet-oracle.ts';
import { differenceOfFresh, versionsIn } from './fresh-decision.ts';
import type { Fault } from './memory-api.ts';
import { MemoryCluster } from './memory-cluster.ts';
import { MemoryLink } from './memory-link.ts';
import { type SeenFleet, SimulatedFleets } from './simulated-fleets.ts';
import { type LimiterKind, type Limits, SimulatedLimiter } from './simulated-limiter.ts';
import {
  domains,
  kindNamed,
  namespaces,
  publishedSchemas,
  type SimulatedObject,
  SimulatedObjects,
} from './simulated-objects.ts';
import {
  leaseName,
  limiterService,
  SimulatedReplica,
  settings,
  systemNamespace,
} from './simulated-replica.ts';
import { type SentEvent, StoredConditions } from './stored-conditions.ts';
import { epochMs, VirtualTime } from './virtual-time.ts';

/** After what happened to the leader is over: another one leads by then, and has waited for its limiters. */
export const leaderGraceMs = settings.leaseDurationMs + 15_000;
const newLeaderMs = 15_000;
/** A new replica that lacks a spec in force has decided after this time. */
const firstDecisionMs = unknownSpecPatienceMs + 2_000;
/** A connection over which nothing comes is noticed after so long, by each side. */
const keepaliveMs = 15_000;
/** As gRPC has it. */
const connectTimeoutMs = 20_000;
/** Chosen: after a fault of up to 20 s, a replica has opened its watches again by then. */
const followingMs = 20_000;
/** A watch that was broken off several times in a row counts as working again, and its objects as the newest, after this time. */
const provenMs = trustedMs + 2_000;
/** A limiter waits up to 10 s between two attempts. */
const reconnectedMs = 12_000;
const lookEveryMs = 500;
/** A limiter is expected a second after its endpoint is ready. */
const readyKnownMs = 1_500;
/** Its endpoints are read by then. */
const endpointsKnownMs = 3_000;
/** A limiter has answered what it was sent by then. */
const answeredMs = 1_000;
/** Of a fleet without a Service. */
const graceOfFleetsMs = 28_000;
/** How long everything may take to be as it must be when nothing happens. */
const settleMs = leaderGraceMs + 30_000;
/** A follower stores a spec that it alone has after a second. Chosen: so long after that, looks at which a replica was well. */
const storedAfterLooks = 6;
/** A replica that went on a moment ago knows what it knew before. */
const backMs = 1_000;
/** Chosen: a replica has read by then what others did not see, and its limiters have the rules again. */
const readAgainMs = 3_000;
/** Chosen: so long before a limiter loses a limit somebody may have brought it about. */
const reasonMs = 90_000;

const limiters: readonly (readonly [fleet: string, kind: LimiterKind])[] = [
  ...([0, 1, 2].map(() => ['default', 'delta']) as ['default', 'delta'][]),
  ['default', 'state of the world'],
  ['default', 'go'],
  ['default', 'go'],
  ...([0, 1, 2].map(() => ['edge', 'delta']) as ['edge', 'delta'][]),
  ['edge', 'state of the world'],
];

const leases = kindNamed('Lease');
const slices = kindNamed('EndpointSlice');
const fleetObjects = kindNamed(fleetKind);
const namespaceObjects = kindNamed('Namespace');

/** A limiter, and its way to the control plane. */
export interface Pod {
  limiter: SimulatedLimiter;
  link: MemoryLink | undefined;
  home: SimulatedReplica | undefined;
  /** The replicas that knew a stream of its process, the last one last. */
  knownBy: Set<SimulatedReplica>;
  /** The replicas that knew a stream of an earlier process, and may not have told others that it is over. */
  formerlyKnownBy: Set<SimulatedReplica>;
  /** Opens the link once something passes. */
  open: (() => void) | undefined;
  /** Nothing passes between it and any replica. */
  isSilent: boolean;
  cutMs: number | undefined;
  stoppedMs: number | undefined;
  /** When a replica that others hear of was last seen to know a stream of it. */
  openMs: number;
  /** When that was first so since its process began. */
  openSinceMs: number | undefined;
  /** Since when it is not connected, although it could be. */
  apartSinceMs: number | undefined;
  readySinceMs: number | undefined;
  troubledMs: number;
  /** What it had in force, to notice what it loses. */
  had: Limits | undefined;
  /** Nothing passes any more once it has its first rules, and before anybody hears that it has. */
  isCutWhenLoaded: boolean;
}

export type ViolationKind =
  | OracleViolation['kind']
  | FleetViolation['kind']
  | 'status without a version'
  | 'status of a replica that does not lead'
  | 'event with two ids'
  | 'event of what is not stored'
  | 'limit lost'
  | 'limiter not connected'
  | 'not settled'
  | 'snapshots differ'
  | 'decision that depends on a cache';

export interface SimulationViolation {
  /** A shorter history must end in the same kind. */
  kind: ViolationKind;
  what: string;
}

export interface SimulationOptions {
  seed: number;
  /** Lines of the logs of replicas. */
  report?: ((line: string) => void) | undefined;
}

export class Simulation {
  readonly time = new VirtualTime();
  readonly cluster: MemoryCluster;
  readonly fleets: SimulatedFleets;
  readonly objects: SimulatedObjects;
  readonly stored: StoredConditions;
  readonly replicas: SimulatedReplica[];
  readonly pods: Pod[];
  readonly oracle = new Oracle(`${systemNamespace}/${leaseName}`);
  readonly fleetOracle = new FleetOracle();
  readonly violations: SimulationViolation[] = [];
  readonly history: string[] = [];
  elections = 0;
  /** Looks within no time of grace. */
  readonly looks = { all: 0, strict: 0, settled: 0 };
  readonly #random: Random;
  #seen: SimulatedObject[] = [];
  #seenFleets: SeenFleet[] = [];
  #hasChanged = true;
  #leader: string | undefined;
  #graceUntilMs = 0;
  /** Of faults that the leader, or all replicas, suffer now. */
  #underTrouble = 0;
  #former = new Map<string, SimulatedObject>();
  #schemas = publishedSchemas(false);
  #reportedEndpoints = '';
  /** By domain: when another object than before claimed it, or one stopped to. */
  readonly #movedMs = new Map<string, number>();
  /** By uid of objects that are not valid: at how many looks a replica that is well knew the spec in force. */
  readonly #knownLooks = new Map<string, number>();
  /** How often it was seen what is known, and is not counted as a violation. */
  readonly known = { 'all replicas that knew a spec ended': 0 };

  constructor(options: SimulationOptions) {
    const random = new Random(options.seed);
    this.#random = random;
    const fraction = () => random.below(1 << 30) / (1 << 30);
    this.cluster = new MemoryCluster(() => epochMs + this.time.nowMs);
    const nowMs = () => this.time.nowMs;
    this.fleets = new SimulatedFleets(this.cluster, nowMs);
    this.objects = new SimulatedObjects(this.cluster, { nowMs, accessOf: this.fleets.accessOf });
    this.stored = new StoredConditions(nowMs);
    this.cluster.onChange(({ kind, object, before, type }) => {
      const isStatus = type === 'MODIFIED' && object.metadata.generation === before?.metadata.generation;
      const decidesAccess = kind === namespaceObjects || (kind === fleetObjects && !isStatus);
      if (decidesAccess) this.objects.accessChanged();
      this.#hasChanged ||= kind.hasStatus || decidesAccess;
      if (kind.hasStatus && type !== 'DELETED') this.stored.stored(object);
    });
    for (const name of [...namespaces, systemNamespace])
      this.cluster.create(
        { kind: kindNamed('Namespace'), namespace: undefined },
        { metadata: { name } },
        'kube',
      );
    this.replicas = ['cp-a', 'cp-b', 'cp-c'].map(
      (name) =>
        new SimulatedReplica({
          ...{ name, time: this.time, cluster: this.cluster, random: fraction, report: options.report },
          others: ({ path }) => (path.startsWith('/openapi/v3') ? this.#schemas : undefined),
          asked: (replica, request) => this.#asked(replica, request),
          notified: (replica, event) => this.#notified(replica, event),
        }),
    );
    this.pods = limiters.map(([fleet, kind], index) => {
      const limiter = new SimulatedLimiter({
        ...{ name: `limiter-${index}`, uid: `pod-${index}`, fleet, kind, time: this.time, random: fraction },
        connect: (limiter, stream, events) => this.#connect(limiter, stream?.path, events),
        changed: (limiter) => this.#limitsChanged(limiter),
      });
      const none = {
        link: undefined,
        home: undefined,
        knownBy: new Set<SimulatedReplica>(),
        formerlyKnownBy: new Set<SimulatedReplica>(),
        open: undefined,
        cutMs: undefined,
        stoppedMs: undefined,
        openMs: 0,
        openSinceMs: undefined,
        apartSinceMs: undefined,
      };
      const first = { readySinceMs: undefined, troubledMs: 0, had: undefined };
      return { limiter, ...none, ...first, isSilent: false, isCutWhenLoaded: false };
    });
  }

  /** All replicas, limiters and half of the objects are there. */
  async begin(): Promise<void> {
    for (const replica of this.replicas) replica.start(0);
    for (const { limiter } of this.pods) limiter.start();
    for (const [index, domain] of [...domains].entries())
      if (index % 2 === 0) this.objects.create(namespaces[index % namespaces.length]!, domain);
    this.leaderTroubled();
    await this.settle();
  }

  get nowMs(): number {
    return this.time.nowMs;
  }

  get seen(): readonly SimulatedObject[] {
    if (this.#hasChanged) this.#look();
    return this.#seen;
  }

  get leader(): SimulatedReplica | undefined {
    return this.replicas.find(({ podName }) => podName === this.#leader);
  }

  get isStrict(): boolean {
    return this.nowMs > this.#graceUntilMs;
  }

  report(text: string): void {
    this.history.push(`${(this.nowMs / 1_000).toFixed(3)} ${text}`);
  }

  violated(kind: ViolationKind, what: string): void {
    if (this.violations.some((one) => one.what === what)) return;
    this.report(`VIOLATION ${kind}: ${what}`);
    this.violations.push({ kind, what });
  }

  /** Time passes, and what must hold is looked at meanwhile. */
  async advance(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    while (this.nowMs < endMs && this.violations.length === 0) {
      const nextMs = (Math.floor(this.nowMs / lookEveryMs) + 1) * lookEveryMs;
      await this.time.advance(Math.min(nextMs, endMs) - this.nowMs);
      if (this.nowMs === nextMs) this.#check();
    }
  }

  /** Waits until all is as it must be when nothing happens. */
  async settle(): Promise<void> {
    const endMs = this.nowMs + settleMs;
    let problems: SimulationViolation[] = [];
    do {
      await this.advance(lookEveryMs);
      if (this.violations.length > 0) return;
      problems = [
        ...this.#unsettled().map((what) => ({ kind: 'not settled' as const, what })),
        ...this.#differences().map((what) => ({ kind: 'snapshots differ' as const, what })),
        ...this.replicas.flatMap((replica) => {
          const what = differenceOfFresh(replica);
          return what === undefined ? [] : { kind: 'decision that depends on a cache' as const, what };
        }),
      ];
      if (problems.length === 0) {
        this.looks.settled += 1;
        this.#former = new Map(this.seen.map((object) => [object.uid, object]));
        return;
      }
    } while (this.nowMs < endMs);
    for (const { kind, what } of problems)
      this.violated(kind, `${what}, ${settleMs / 1_000} s after all was healed`);
  }

  leaderTroubled(): void {
    this.#graceUntilMs = this.nowMs + leaderGraceMs;
  }

  /** What keeps a leader from its work, no matter who leads. Returns what ends it. */
  trouble(replica?: SimulatedReplica): () => void {
    const isOfLeader =
      replica === undefined ||
      replica === this.leader ||
      !this.replicas.some((one) => one !== replica && one.isWell);
    const noted = (): void => {
      if (replica !== undefined) replica.troubledMs = this.nowMs;
      for (const pod of this.pods)
        if (replica === undefined || pod.home === replica) pod.troubledMs = this.nowMs;
    };
    if (replica !== undefined) noted();
    if (!isOfLeader) return noted;
    this.#underTrouble += 1;
    this.leaderTroubled();
    return () => {
      this.#underTrouble -= 1;
      noted();
      this.leaderTroubled();
    };
  }

  /** The API server publishes schemas a moment after it delivers objects by them. */
  skewSchemas(has: boolean): void {
    this.objects.novelty(has);
    this.time.after(200, () => {
      this.#schemas = publishedSchemas(has);
    });
  }

  /** One replica alone sees who may use fleets until that ends; then the others read it again. */
  showAccessOnlyTo(replica: SimulatedReplica): () => void {
    const trouble = ({ method = 'GET', path }: ApiRequest): Fault | undefined =>
      method === 'GET' && /\/(ratelimitfleets|namespaces)$/.test(path) ? { unreached: true } : undefined;
    const others = this.replicas.filter((one) => one !== replica);
    replica.seesAloneUntilMs = Number.POSITIVE_INFINITY;
    for (const one of others) {
      one.glitches.add(trouble);
      one.breakWatches();
    }
    return () => {
      for (const one of others) one.glitches.delete(trouble);
      replica.seesAloneUntilMs = this.nowMs + readAgainMs;
    };
  }

  /** It reaches the API server no more. Returns what ends that. */
  cutOff(replica: SimulatedReplica): () => void {
    const quiet = this.trouble(replica);
    const trouble = (): Fault => ({ unreached: true });
    replica.troubles.add(trouble);
    replica.api?.close();
    return () => {
      replica.troubles.delete(trouble);
      quiet();
    };
  }

  /** It stands still, and after a while nobody waits for it any more. */
  freezePod(pod: Pod): void {
    pod.limiter.process.freeze();
    pod.stoppedMs = this.nowMs;
    const { link } = pod;
    this.time.after(keepaliveMs, () => {
      if (pod.stoppedMs !== undefined && pod.link === link) link?.breakForReplica();
    });
  }

  thawPod(pod: Pod): void {
    pod.limiter.process.thaw();
    pod.stoppedMs = undefined;
    pod.troubledMs = this.nowMs;
  }

  silencePod(pod: Pod): void {
    pod.isSilent = true;
    pod.cutMs = this.nowMs;
    pod.link?.silence();
    const { link } = pod;
    this.time.after(keepaliveMs, () => {
      if (pod.isSilent && pod.link === link) link?.break();
    });
  }

  speakPod(pod: Pod): void {
    pod.isCutWhenLoaded = false;
    pod.isSilent = false;
    pod.cutMs = undefined;
    pod.troubledMs = this.nowMs;
    pod.open?.();
    pod.open = undefined;
    pod.link?.speak();
  }

  killPod(pod: Pod): void {
    pod.limiter.kill();
    for (const one of pod.knownBy) pod.formerlyKnownBy.add(one);
    pod.knownBy.clear();
    pod.stoppedMs = undefined;
    pod.link?.breakForReplica();
    pod.link = undefined;
    pod.open = undefined;
    pod.had = undefined;
  }

  startPod(pod: Pod): void {
    pod.limiter.start();
    pod.openSinceMs = undefined;
    pod.troubledMs = this.nowMs;
  }

  killReplica(replica: SimulatedReplica): void {
    replica.kill();
    this.#breakLinks(replica);
  }

  async stopReplica(replica: SimulatedReplica): Promise<void> {
    await replica.stop();
    this.#breakLinks(replica);
  }

  freezeReplica(replica: SimulatedReplica): void {
    replica.process.freeze();
    const { podName } = replica;
    this.time.after(keepaliveMs, () => {
      if (replica.podName !== podName || replica.process.isRunning) return;
      // The kernel of a process that stands still notices the end of a connection, and the process hears of it when it goes on.
      for (const { link, home } of this.pods) if (home === replica) link?.break();
    });
  }

  thawReplica(replica: SimulatedReplica): void {
    replica.process.thaw();
  }

  #breakLinks(replica: SimulatedReplica): void {
    for (const { link, home } of this.pods) if (home === replica) link?.breakForLimiter();
  }

  #connect(limiter: SimulatedLimiter, path: string | undefined, events: AdsStreamEvents): DiscoveryStream {
    const pod = this.pods.find((one) => one.limiter === limiter)!;
    const replica = this.replicas[this.#random.below(this.replicas.length)]!;
    const link = new MemoryLink({
      ...{ time: this.time, limiter: limiter.process, replica: replica.process, events },
      peer: `10.1.0.${this.pods.indexOf(pod) + 1}:${10_000 + this.#random.below(50_000)}`,
      known: () => {
        pod.knownBy.delete(replica);
        pod.knownBy.add(replica);
      },
    });
    pod.link = link;
    pod.home = replica;
    if (pod.isSilent) link.silence();
    const fail = (afterMs: number, reason: string): void => {
      limiter.process.timers.after(afterMs, () => link.fail(reason));
    };
    fail(connectTimeoutMs, `no connection within ${connectTimeoutMs / 1_000} s`);
    const { loop } = replica;
    const open = (): void => {
      const { process } = replica;
      if (process.isDead || replica.isStopping || loop === undefined || process !== link.options.replica) {
        fail(1, 'connect ECONNREFUSED');
        return;
      }
      const isIncremental = path === adsPaths.incremental;
      const form = isIncremental ? new Incremental(new RejectedLists()) : new StateOfTheWorld();
      this.time.after(1, () =>
        process.deliver(() => {
          if (link.isOverForLimiter) return;
          loop.streams.open(link.call, { caller: undefined }, form);
          link.opened();
        }),
      );
    };
    pod.open = pod.isSilent ? open : undefined;
    if (!pod.isSilent) open();
    return link;
  }

  /** A status is written over the version that it follows from, by who holds the Lease. */
  #asked(replica: SimulatedReplica, { method, path, body }: ApiRequest): void {
    if (method === 'POST' && path.endsWith('/events')) this.#recorded(replica, body as SentEvent);
    if (method !== 'PATCH' || !path.endsWith('/status')) return;
    const { metadata } = body as { metadata: { resourceVersion?: string } };
    if (metadata.resourceVersion === undefined) this.violated('status without a version', path);
    const holder = this.#holder();
    if (holder === replica.podName) return;
    const who = `${replica.podName} writes a status, and ${holder ?? 'nobody'} leads`;
    this.violated('status of a replica that does not lead', `${path}: ${who}`);
  }

  #notified(replica: SimulatedReplica, event: WebhookEvent): void {
    const problem = this.stored.notified(event, replica.podName, this.#knownMs(replica, this.nowMs));
    if (problem !== undefined) this.violated(...problem);
  }

  /** An Event waits for its turn, so the time that it states counts. */
  #recorded(replica: SimulatedReplica, event: SentEvent): void {
    const recordedMs = replica.process.timeOf(Date.parse(event.eventTime));
    const problem = this.stored.recorded(event, replica.podName, this.#knownMs(replica, recordedMs));
    if (problem !== undefined) this.violated(...problem);
  }

  /** The time of what a replica can know: one that went on a moment ago, and still leads, knows what it knew before. */
  #knownMs({ process, podName }: SimulatedReplica, atMs: number): number {
    const { pause } = process;
    const isBack = pause !== undefined && atMs >= pause.endMs && atMs - pause.endMs <= backMs;
    return isBack && this.#holder() === podName ? pause.beginMs : atMs;
  }

  #limitsChanged(limiter: SimulatedLimiter): void {
    const pod = this.pods.find((one) => one.limiter === limiter)!;
    const { had } = pod;
    const now = limiter.limits;
    pod.had = now && new Map(now);
    if (pod.isCutWhenLoaded && now !== undefined) {
      pod.isCutWhenLoaded = false;
      this.silencePod(pod);
    }
    this.#keepEndpoints();
    if (had === undefined || now === undefined) return;
    for (const [domain, number] of had) if (!now.has(domain)) this.#lost(pod, domain, number);
  }

  #lost({ limiter }: Pod, domain: string, number: number): void {
    const owner = this.seen.find(({ uid }) => uid === this.objects.ownerOf(number));
    if (owner === undefined || !owner.isOurs || owner.domain !== domain) return;
    if (owner.endsMs !== undefined && owner.endsMs <= this.nowMs + 1_000) return;
    const moved = this.#movedMs.get(domain) ?? Number.NEGATIVE_INFINITY;
    if (this.nowMs - Math.max(owner.claimsSinceMs, moved) < reasonMs) return;
    if (!this.#canKnow(owner)) {
      this.known['all replicas that knew a spec ended'] += 1;
      return;
    }
    this.violated(
      'limit lost',
      `${limiter.name} loses ${domain}: ${number}, and ${owner.key} still claims it`,
    );
  }

  /** Some process knows a spec of the object that was accepted, or there was time to store it. */
  #canKnow({ uid }: SimulatedObject): boolean {
    const isKnown = this.replicas.some((replica) => !replica.process.isDead && knows(replica, uid));
    return isKnown || (this.#knownLooks.get(uid) ?? 0) >= storedAfterLooks;
  }

  #countKnown(): void {
    for (const { uid, isOurs, isValid } of this.seen) {
      const isKnown = this.replicas.some((replica) => replica.isWell && knows(replica, uid));
      if (!isOurs || isValid) this.#knownLooks.delete(uid);
      else if (isKnown) this.#knownLooks.set(uid, (this.#knownLooks.get(uid) ?? 0) + 1);
    }
  }

  #holder(): string | undefined {
    const [lease] = this.cluster
      .list({ kind: leases, namespace: systemNamespace, labelSelector: '' })
      .filter(({ metadata }) => metadata.name === leaseName);
    const { holderIdentity } = (lease?.['spec'] ?? {}) as { holderIdentity?: string };
    return holderIdentity || undefined;
  }

  #look(): void {
    this.#hasChanged = false;
    this.#seenFleets = this.fleets.seen();
    const before = new Map(this.#seen.map((object) => [object.uid, object]));
    this.#seen = this.objects.seen();
    for (const object of this.#seen) {
      const was = before.get(object.uid);
      before.delete(object.uid);
      if (was?.claimsSinceMs === object.claimsSinceMs) continue;
      for (const domain of [object.domain, was?.domain ?? object.domain])
        this.#movedMs.set(domain, this.nowMs);
    }
    for (const { domain } of before.values()) this.#movedMs.set(domain, this.nowMs);
  }

  #check(): void {
    if (this.#underTrouble > 0 || this.#leaderAwaitsSpecs()) this.leaderTroubled();
    this.#sawLeader(this.#holder());
    this.#keepEndpoints();
    this.#countKnown();
    this.looks.all += 1;
    if (this.isStrict) this.looks.strict += 1;
    const sight = this.#sight();
    for (const { kind, key, what } of this.oracle.look(sight)) this.violated(kind, `${key}: ${what}`);
    for (const { kind, what } of this.fleetOracle.look(sight)) this.violated(kind, what);
    this.#checkConnections();
  }

  /** Its first decision waits for specs that other replicas may know, and for its objects. */
  #leaderAwaitsSpecs(): boolean {
    const { leader } = this;
    const isNew = leader !== undefined && this.nowMs - leader.startedMs < firstDecisionMs;
    return isNew && leader.loop?.decision === undefined;
  }

  /** A limiter that reaches all replicas is connected to one of them. */
  #checkConnections(): void {
    const areWell = this.replicas.every(({ isWell }) => isWell);
    for (const pod of this.pods) {
      const { limiter, link, isSilent } = pod;
      const isApart = areWell && !isSilent && limiter.process.isRunning && link?.isKnown !== true;
      if (!isApart) pod.apartSinceMs = undefined;
      else {
        pod.apartSinceMs ??= this.nowMs;
        if (this.nowMs - pod.apartSinceMs > reconnectedMs)
          this.violated('limiter not connected', `${limiter.name}, for ${reconnectedMs / 1_000} s`);
      }
    }
  }

  #sawLeader(holder: string | undefined): void {
    if (holder === this.#leader) return;
    this.report(`${holder ?? 'nobody'} leads`);
    if (holder !== undefined) this.elections += 1;
    this.#leader = holder;
    this.#graceUntilMs = Math.max(this.#graceUntilMs, this.nowMs + newLeaderMs);
  }

  #seenLimiter(pod: Pod): NamedLimiter {
    const { limiter, link, home, stoppedMs, cutMs, readySinceMs, troubledMs } = pod;
    const { nowMs } = this;
    if (link?.isKnown && home?.isWell) {
      pod.openMs = nowMs;
      pod.openSinceMs ??= nowMs;
    }
    const hasAnswered = pod.openMs - (pod.openSinceMs ?? nowMs) >= answeredMs;
    const isHeard =
      stoppedMs === undefined &&
      cutMs === undefined &&
      !limiter.refuses &&
      home?.isWell === true &&
      link?.isKnown === true &&
      nowMs - troubledMs > 5_000 &&
      nowMs - home.troubledMs > followingMs &&
      nowMs - home.brokenOffMs > provenMs;
    const isUntold = this.#isUntold(pod);
    const isKnown = readySinceMs !== undefined && nowMs - readySinceMs >= readyKnownMs;
    const namedSinceMs = this.fleets.namedSinceMs(limiter.options.fleet) ?? Number.POSITIVE_INFINITY;
    // Of a fleet without a Service only those are known that are connected and have answered, and for a while those that were.
    const isMissed =
      nowMs - namedSinceMs >= endpointsKnownMs ||
      (hasAnswered &&
        cutMs === undefined &&
        home?.isWell === true &&
        nowMs - troubledMs > 5_000 &&
        nowMs - pod.openMs < graceOfFleetsMs) ||
      (hasAnswered &&
        cutMs !== undefined &&
        nowMs - cutMs < graceOfFleetsMs &&
        (this.leader?.startedMs ?? nowMs) < cutMs);
    return {
      name: limiter.name,
      fleet: limiter.options.fleet,
      isExpected: isKnown && isMissed && !isUntold && !limiter.process.isDead,
      isHeard,
      answers: stoppedMs === undefined ? limiter.limits : undefined,
      stoppedMs,
      aloneMs: undefined,
      latestMs: home?.process.latestMs ?? 0,
      isApart: this.#isApart(pod),
    };
  }

  /** No replica tells others that its process is another one: not the one that knew the former process, and not its own. */
  #isUntold({ knownBy, formerlyKnownBy }: Pod): boolean {
    for (const one of formerlyKnownBy) if (this.#tells(one)) formerlyKnownBy.delete(one);
    const last = [...knownBy].at(-1);
    return formerlyKnownBy.size > 0 && (last === undefined || !this.#tells(last));
  }

  #tells({ isWell, troubledMs }: SimulatedReplica): boolean {
    return isWell && this.nowMs - troubledMs > followingMs;
  }

  /** It does nothing, and the replicas that knew of it can report that. */
  #isApart({ limiter, link, knownBy, formerlyKnownBy, isSilent, troubledMs }: Pod): boolean {
    const canConnect = limiter.process.isRunning && !isSilent;
    const last = [...knownBy].at(-1);
    const isReported = formerlyKnownBy.size === 0 && (last === undefined || this.#tells(last));
    return !canConnect && isReported && this.nowMs - troubledMs > 5_000 && link?.isKnown !== true;
  }

  /** What kubelet and the controller of EndpointSlices do. */
  #keepEndpoints(): void {
    for (const pod of this.pods) {
      const isReady = pod.limiter.limits !== undefined;
      if (isReady) pod.readySinceMs ??= this.nowMs;
      else pod.readySinceMs = undefined;
    }
    const endpoints = this.pods
      .filter(({ limiter }) => limiter.options.fleet === 'default')
      .map(({ limiter: { name, options }, readySinceMs }, index) => ({
        addresses: [`10.1.0.${index + 1}`],
        conditions: { ready: readySinceMs !== undefined },
        targetRef: { kind: 'Pod', name, namespace: systemNamespace, uid: options.uid },
      }));
    const text = JSON.stringify(endpoints);
    if (text === this.#reportedEndpoints) return;
    this.#reportedEndpoints = text;
    const name = `${limiterService}-x`;
    const labels = { 'kubernetes.io/service-name': limiterService };
    const body = {
      metadata: { name, namespace: systemNamespace, labels },
      addressType: 'IPv4',
      endpoints,
      ports: [{ port: 8081 }],
    };
    const target = { kind: slices, namespace: systemNamespace, name, isStatus: false };
    this.cluster.apply(target, body, { manager: 'kube', force: true });
  }

  #unsettled(): string[] {
    const missing = this.replicas.filter((replica) => replica.loop?.decision === undefined);
    if (missing.length > 0) return missing.map(({ name }) => `${name} has decided nothing`);
    const sight = this.#sight();
    const { fleets } = this.replicas[0]!.loop!.decision!;
    const versionOf = (fleet: string) => fleets.get(fleet)?.version;
    return [...unsettled(sight, this.#former, this.objects.ownerOf), ...unsettledFleets(sight, versionOf)];
  }

  #sight(): FleetSight {
    return {
      atMs: this.nowMs,
      objects: this.seen,
      fleets: this.#seenFleets,
      limiters: this.pods.map((pod) => this.#seenLimiter(pod)),
      graceUntilMs: this.#graceUntilMs,
      stalledMs: 0,
    };
  }

  /** The same world and stored values: the same snapshots, whatever each process has in memory. */
  #differences(): string[] {
    const [first, ...others] = this.replicas.map(({ podName, loop }) => ({
      podName,
      versions: versionsIn(loop?.decision ?? { fleets: new Map() }),
    }));
    return others
      .filter(({ versions }) => versions !== first!.versions)
      .map(
        ({ podName, versions }) => `${podName} serves ${versions}, and ${first!.podName} ${first!.versions}`,
      );
  }
}

function knows({ loop }: SimulatedReplica, uid: string): boolean {
  return loop?.decision?.outcomes.get(uid)?.served !== undefined;
}
