/** A control plane of three replicas with ten limiters, on virtual time: what happens to it, and what must always hold. */
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import type { ApiObject } from '../../control-plane/kubernetes/watch-protocol.ts';
import type { Condition } from '../../control-plane/model/config-object.ts';
import { snapshotFor } from '../../control-plane/model/supported-rules.ts';
import type { WebhookEvent } from '../../control-plane/webhooks/webhook-event.ts';
import { Incremental, RejectedLists, StateOfTheWorld } from '../../control-plane/xds/discovery-form.ts';
import {
  type AdsStreamEvents,
  adsPaths,
  type DiscoveryStream,
} from '../../limiter/config-source/xds/ads-stream.ts';
import { noCapabilities } from '../../rules/language/capabilities.ts';
import { Random } from '../fuzz/random.ts';
import { Oracle, type SeenLimiter, type SeenObject, unsettled } from '../truth/oracle.ts';
import { MemoryCluster } from './memory-cluster.ts';
import { MemoryLink } from './memory-link.ts';
import { type LimiterKind, type Limits, SimulatedLimiter } from './simulated-limiter.ts';
import {
  domains,
  kindNamed,
  namespaces,
  overrideDomains,
  publishedSchemas,
  SimulatedObjects,
} from './simulated-objects.ts';
import {
  leaseName,
  limiterService,
  SimulatedReplica,
  settings,
  systemNamespace,
} from './simulated-replica.ts';
import { epochMs, VirtualTime } from './virtual-time.ts';

/** After what happened to the leader is over: another one leads by then, and has waited for its limiters. */
export const leaderGraceMs = settings.leaseDurationMs + 15_000;
const newLeaderMs = 15_000;
/** A connection over which nothing comes is noticed after so long, by each side. */
const keepaliveMs = 15_000;
/** As gRPC has it. */
const connectTimeoutMs = 20_000;
const lookEveryMs = 500;
/** A limiter is expected a second after its endpoint is ready. */
const readyKnownMs = 1_500;
/** Of a fleet without an object. */
const graceOfFleetsMs = 28_000;
/** How long everything may take to be as it must be when nothing happens. */
const settleMs = leaderGraceMs + 30_000;
/** Chosen: looks at which a replica that is well knew a spec. It is stored by then. */
const storedAfterLooks = 10;
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

/** A limiter, and its way to the control plane. */
export interface Pod {
  limiter: SimulatedLimiter;
  link: MemoryLink | undefined;
  home: SimulatedReplica | undefined;
  /** Nothing passes between it and any replica. */
  isSilent: boolean;
  cutMs: number | undefined;
  stoppedMs: number | undefined;
  /** When a replica that others hear of was last seen to know a stream of it. */
  openMs: number;
  readySinceMs: number | undefined;
  troubledMs: number;
  /** What it had in force, to notice what it loses. */
  had: Limits | undefined;
}

export interface SimulationOptions {
  seed: number;
  /** Lines of the logs of replicas. */
  report?: ((line: string) => void) | undefined;
}

export class Simulation {
  readonly time = new VirtualTime();
  readonly cluster: MemoryCluster;
  readonly objects: SimulatedObjects;
  readonly replicas: SimulatedReplica[];
  readonly pods: Pod[];
  readonly oracle = new Oracle(`${systemNamespace}/${leaseName}`);
  readonly violations: string[] = [];
  readonly history: string[] = [];
  elections = 0;
  /** Looks within no time of grace. */
  readonly looks = { all: 0, strict: 0, settled: 0 };
  readonly #random: Random;
  #seen: SeenObject[] = [];
  #hasChanged = true;
  #leader: string | undefined;
  #graceUntilMs = 0;
  /** Of faults that the leader, or all replicas, suffer now. */
  #underTrouble = 0;
  #former = new Map<string, SeenObject>();
  #schemas = publishedSchemas(false);
  #reportedEndpoints = '';
  /** By domain: when another object than before claimed it, or one stopped to. */
  readonly #movedMs = new Map<string, number>();
  /** Conditions that were ever stored, by uid, type, status, reason and time. */
  readonly #stored = new Set<string>();
  readonly #eventIds = new Map<string, string>();
  /** By uid of objects that are not valid: at how many looks a replica that is well knew the spec in force. */
  readonly #knownLooks = new Map<string, number>();
  /** How often it was seen what is known, and is not counted as a violation. */
  readonly known = { 'Disconnected too long': 0, 'all replicas that knew a spec ended': 0 };

  constructor(options: SimulationOptions) {
    const random = new Random(options.seed);
    this.#random = random;
    const fraction = () => random.below(1 << 30) / (1 << 30);
    this.cluster = new MemoryCluster(() => epochMs + this.time.nowMs);
    this.objects = new SimulatedObjects(this.cluster, () => this.time.nowMs);
    this.cluster.onChange(({ kind, object, type }) => {
      if (!kind.hasStatus) return;
      this.#hasChanged = true;
      if (type !== 'DELETED') this.#rememberConditions(object);
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
      const none = { link: undefined, home: undefined, cutMs: undefined, stoppedMs: undefined, openMs: 0 };
      return { limiter, ...none, isSilent: false, readySinceMs: undefined, troubledMs: 0, had: undefined };
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

  get seen(): readonly SeenObject[] {
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

  violated(text: string): void {
    if (this.violations.includes(text)) return;
    this.report(`VIOLATION ${text}`);
    this.violations.push(text);
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
    let problems: string[] = [];
    do {
      await this.advance(lookEveryMs);
      if (this.violations.length > 0) return;
      problems = [...this.#unsettled(), ...this.#differences()];
      if (problems.length === 0) {
        this.looks.settled += 1;
        this.#former = new Map(this.seen.map((object) => [object.uid, object]));
        return;
      }
    } while (this.nowMs < endMs);
    for (const problem of problems) this.violated(`${problem}, ${settleMs / 1_000} s after all was healed`);
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
    if (replica !== undefined)
      for (const pod of this.pods) if (pod.home === replica) pod.troubledMs = this.nowMs;
    if (!isOfLeader)
      return () => {
        for (const pod of this.pods) if (pod.home === replica) pod.troubledMs = this.nowMs;
      };
    this.#underTrouble += 1;
    this.leaderTroubled();
    return () => {
      this.#underTrouble -= 1;
      for (const pod of this.pods)
        if (replica === undefined || pod.home === replica) pod.troubledMs = this.nowMs;
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
    pod.isSilent = false;
    pod.cutMs = undefined;
    pod.troubledMs = this.nowMs;
    pod.link?.speak();
  }

  killPod(pod: Pod): void {
    pod.limiter.kill();
    pod.stoppedMs = undefined;
    pod.link?.breakForReplica();
    pod.link = undefined;
    pod.had = undefined;
  }

  startPod(pod: Pod): void {
    pod.limiter.start();
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
    });
    pod.link = link;
    pod.home = replica;
    if (pod.isSilent) link.silence();
    const { loop, process } = replica;
    const fail = (afterMs: number, reason: string): void => {
      limiter.process.timers.after(afterMs, () => link.fail(reason));
    };
    fail(connectTimeoutMs, `no connection within ${connectTimeoutMs / 1_000} s`);
    if (pod.isSilent) return link;
    if (process.isDead || replica.isStopping || loop === undefined) {
      fail(1, 'connect ECONNREFUSED');
      return link;
    }
    const form = path === adsPaths.incremental ? new Incremental(new RejectedLists()) : new StateOfTheWorld();
    this.time.after(1, () =>
      process.deliver(() => {
        if (link.isOverForLimiter) return;
        loop.streams.open(link.call, { caller: undefined }, form);
        link.opened();
      }),
    );
    return link;
  }

  /** A status is written over the version that it follows from, by who holds the Lease. */
  #asked(replica: SimulatedReplica, { method, path, body }: ApiRequest): void {
    if (method !== 'PATCH' || !path.endsWith('/status')) return;
    const { metadata } = body as { metadata: { resourceVersion?: string } };
    if (metadata.resourceVersion === undefined) this.violated(`${path}: a status follows from no version`);
    const holder = this.#holder();
    if (holder !== replica.podName)
      this.violated(`${path}: ${replica.podName} writes a status, and ${holder ?? 'nobody'} leads`);
  }

  /** One change has one id, and was stored a moment ago. */
  #notified(replica: SimulatedReplica, { id, type, data }: WebhookEvent): void {
    if (type.endsWith('.removed')) return;
    const { uid, generation, condition } = data;
    const { status, reason, lastTransitionTime } = condition;
    const change = [uid, type, generation, status, reason, lastTransitionTime].join(' ');
    const before = this.#eventIds.get(change) ?? id;
    this.#eventIds.set(change, id);
    if (before !== id) this.violated(`${change} has the ids ${before} and ${id}`);
    const stored = [uid, condition.type, status, reason, lastTransitionTime].join(' ');
    if (!this.#stored.has(stored))
      this.violated(
        `${replica.podName} reports ${stored} of ${data.namespace}/${data.name}, which was never stored`,
      );
  }

  #rememberConditions({ metadata: { uid }, status }: ApiObject): void {
    const { conditions = [] } = (status ?? {}) as { conditions?: Condition[] };
    for (const { type, status: is, reason, lastTransitionTime } of conditions)
      this.#stored.add([uid, type, is, reason, lastTransitionTime].join(' '));
  }

  #limitsChanged(limiter: SimulatedLimiter): void {
    const pod = this.pods.find((one) => one.limiter === limiter)!;
    const { had } = pod;
    const now = limiter.limits;
    pod.had = now && new Map(now);
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
    this.violated(`${limiter.name} loses ${domain}: ${number}, and ${owner.key} still claims it`);
  }

  /** Some process knows a spec of the object that was accepted, or there was time to store it. */
  #canKnow({ uid }: SeenObject): boolean {
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
    const { nowMs } = this;
    if (this.#underTrouble > 0) this.leaderTroubled();
    this.#sawLeader(this.#holder());
    this.#keepEndpoints();
    this.#countKnown();
    this.looks.all += 1;
    if (this.isStrict) this.looks.strict += 1;
    const found = this.oracle.look({
      atMs: nowMs,
      objects: this.seen,
      limiters: this.pods.map((pod) => this.#seenLimiter(pod)),
      graceUntilMs: this.#graceUntilMs,
      stalledMs: 0,
    });
    for (const { key, what } of found) {
      // Known: of limiters that are all back. It passes by itself, or `settle` finds it.
      if (!what.startsWith('Ready=Unknown Disconnected')) this.violated(`${key}: ${what}`);
      else this.known['Disconnected too long'] += 1;
    }
  }

  #sawLeader(holder: string | undefined): void {
    if (holder === this.#leader) return;
    this.report(`${holder ?? 'nobody'} leads`);
    if (holder !== undefined) this.elections += 1;
    this.#leader = holder;
    this.#graceUntilMs = Math.max(this.#graceUntilMs, this.nowMs + newLeaderMs);
  }

  #seenLimiter(pod: Pod): SeenLimiter {
    const { limiter, link, home, stoppedMs, cutMs, readySinceMs, troubledMs } = pod;
    const { nowMs } = this;
    if (link?.isKnown && home?.isWell) pod.openMs = nowMs;
    const isHeard =
      stoppedMs === undefined &&
      cutMs === undefined &&
      !limiter.refuses &&
      home?.isWell === true &&
      nowMs - troubledMs > 5_000;
    const isKnown = readySinceMs !== undefined && nowMs - readySinceMs >= readyKnownMs;
    // Of a fleet without an object only those are known that are connected, and for a while those that were.
    const isMissed =
      limiter.options.fleet === 'default' ||
      (cutMs === undefined &&
        home?.isWell === true &&
        nowMs - troubledMs > 5_000 &&
        nowMs - pod.openMs < graceOfFleetsMs) ||
      (cutMs !== undefined && nowMs - cutMs < graceOfFleetsMs && (this.leader?.startedMs ?? nowMs) < cutMs);
    return {
      name: limiter.name,
      fleet: limiter.options.fleet,
      isExpected: isKnown && isMissed && !limiter.process.isDead,
      isHeard,
      answers: stoppedMs === undefined ? limiter.limits : undefined,
      stoppedMs,
      aloneMs: undefined,
      latestMs: home?.process.latestMs ?? 0,
    };
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
    const sight = {
      atMs: this.nowMs,
      objects: this.seen,
      limiters: this.pods.map((pod) => this.#seenLimiter(pod)),
      graceUntilMs: this.#graceUntilMs,
      stalledMs: 0,
    };
    return unsettled(sight, this.#former, this.objects.ownerOf);
  }

  /**
   * The same world and stored values: the same snapshots, whatever each process has in memory. So are the rules for limiters that support
   * no capability.
   */
  #differences(): string[] {
    const [first, ...others] = this.replicas.map(({ podName, loop }) => ({
      podName,
      versions: [...(loop?.decision?.fleets.values() ?? [])]
        .map((snapshot) => {
          const fallback = snapshotFor(snapshot, noCapabilities);
          return `${snapshot.fleet} ${snapshot.version}/${fallback.version}`;
        })
        .sort()
        .join(', '),
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

export { domains, namespaces, overrideDomains };
