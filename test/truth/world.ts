/** Everything that runs, and what can happen to it; what is seen of it at one moment. */
import { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { loadKubernetesConfig } from '../../control-plane/kubernetes/client-config.ts';
import { installPrerequisites } from '../support/cluster.ts';
import { type OwnApiServer, startApiServer } from '../support/own-api-server.ts';
import type { TcpProxy } from '../support/tcp-proxy.ts';
import { PartlyRejectingLimiter } from './delta-limiter.ts';
import {
  LimiterPod,
  RealLimiter,
  type RunningLimiter,
  ScriptedLimiter,
  systemNamespace,
} from './limiters.ts';
import { namespaces, otherClass, selector, TestObjects } from './objects.ts';
import type { SeenLimiter, Sight } from './oracle.ts';
import { leaseDurationMs, Replica } from './replica.ts';

export const ownName = `${systemNamespace}/weir-control-plane`;
/** A leader that is killed, paused or cut off: another leads after that, and waits for its limiters. */
export const leaderGraceMs = leaseDurationMs + 15_000;
/** A fleet without an object expects whom it saw within 30 s. */
const graceOfFleetsMs = 28_000;
/** From when on a ready endpoint must be known: it is expected a second after it is ready. */
const readyKnownMs = 1_500;
const service = 'weir-limiter';

/** Of overrides alone: no RateLimitConfig has rules for them. */
export const overrideDomains = Array.from({ length: 4 }, (_, index) => `x${index}`);
/** Of one override that ends again and again. */
export const endingDomain = 'x-ends';

export const domains = [
  ...Array.from({ length: 24 }, (_, index) => `d${index}`),
  ...Array.from({ length: 4 }, (_, index) => `e${index}`),
];

/** Real ones, and some that are played and do what real ones cannot be brought to. */
const limiterKinds = {
  delta: (pod: LimiterPod) => new RealLimiter(pod, 'GRPC_XDS_DELTA'),
  'state of the world': (pod: LimiterPod) => new RealLimiter(pod, 'GRPC_XDS_SOTW'),
  'played state of the world': (pod: LimiterPod) => new ScriptedLimiter(pod),
  'played delta': (pod: LimiterPod) => new PartlyRejectingLimiter(pod),
};
export type LimiterKind = keyof typeof limiterKinds;

export interface Limiter {
  pod: LimiterPod;
  running: RunningLimiter;
  /** To which replica it connected last. */
  home: Replica | undefined;
  stoppedMs: number | undefined;
  /** Since when it is cut off from all replicas. */
  cutMs: number | undefined;
  /** As `cutMs`, where a new connection does not help either. */
  aloneMs: number | undefined;
  /** When it was last not as it should be: cut, killed, or at a replica that was. */
  troubledMs: number;
  isTerminating: boolean;
  /** As the API server was reported. */
  readySinceMs: number | undefined;
}

export interface WorldOptions {
  nowMs(): number;
  /** Which replica a limiter connects to: an index. */
  choose(count: number): number;
  report(text: string): void;
}

export class World {
  readonly server: OwnApiServer;
  readonly objects: TestObjects;
  readonly replicas: Replica[];
  /** Of another class, and of ours. */
  readonly other: Replica;
  readonly rival: Replica;
  readonly limiters: Limiter[] = [];
  readonly #client: KubernetesClient;
  readonly #options: WorldOptions;
  #reportedEndpoints = '';
  #leader: string | undefined;
  #graceUntilMs: number;
  isApiServerAway = false;
  /** How often a leader stopped to lead without a reason: on a machine that is too slow for its Leases. */
  leadsLost = 0;
  /** How often another replica led than before. */
  elections = 0;
  #lastHolder: string | undefined;

  private constructor(
    options: WorldOptions,
    parts: {
      server: OwnApiServer;
      client: KubernetesClient;
      replicas: Replica[];
      other: Replica;
      rival: Replica;
    },
  ) {
    this.#options = options;
    this.server = parts.server;
    this.#client = parts.client;
    this.replicas = parts.replicas;
    this.other = parts.other;
    this.rival = parts.rival;
    this.objects = new TestObjects(parts.client, options.nowMs);
    this.#graceUntilMs = options.nowMs() + leaderGraceMs;
  }

  static async start(options: WorldOptions): Promise<World> {
    const server = await startApiServer();
    try {
      installPrerequisites(server);
      for (const name of [...namespaces, 'weir-other', 'weir-zrival']) server.createNamespace(name);
      for (const fleet of ['default', 'edge'])
        server.createServiceAccount(`limiter-${fleet}`, systemNamespace);
      const accounts = ['default', 'edge'].map(
        (fleet) => `system:serviceaccount:${systemNamespace}:limiter-${fleet}=${fleet}`,
      );
      const own = {
        POD_NAMESPACE: systemNamespace,
        LABEL_SELECTOR: selector,
        DOMAIN_RELEASE_DELAY: '3s',
        FLEET_SERVICES: `default=${systemNamespace}/${service}`,
        XDS_CLIENT_FLEETS: accounts.join(','),
      };
      const replica = (name: string, env: Record<string, string>, isOurs = false) =>
        Replica.create(server, { name, user: isOurs ? 'control-plane' : 'admin', env });
      const replicas = await Promise.all(['cp-a', 'cp-b'].map((name) => replica(name, own, true)));
      const other = await replica('other', { POD_NAMESPACE: 'weir-other', CLASS_NAME: otherClass });
      const rival = await replica('rival', { POD_NAMESPACE: 'weir-zrival', LABEL_SELECTOR: selector });
      const config = loadKubernetesConfig({ kubeconfig: server.kubeconfig('admin') });
      const client = new KubernetesClient({ config, userAgent: 'weir-truth', timeoutMs: 5_000 });
      const world = new World(options, { server, client, replicas, other, rival });
      for (const one of [...replicas, other]) one.start(options.nowMs());
      return world;
    } catch (error) {
      await server.stop();
      throw error;
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.limiters.map(({ running }) => running.stop()));
    await Promise.all([...this.replicas, this.other, this.rival].map((replica) => replica.close()));
    await Promise.all(this.limiters.map(({ pod }) => pod.delete().catch(() => {})));
    this.#client.close();
    await this.server.stop();
  }

  /** Processes that ended, and nobody ended them. */
  get died(): string[] {
    const limiters = this.limiters.filter(({ running }) => running.hasDied).map(({ pod }) => pod.name);
    const replicas = [...this.replicas, this.other, this.rival].filter(({ hasDied }) => hasDied);
    return [...replicas.map(({ podName }) => podName), ...limiters];
  }

  get graceUntilMs(): number {
    return this.#graceUntilMs;
  }

  get leader(): Replica | undefined {
    return this.replicas.find(({ podName }) => podName === this.#leader);
  }

  /** Something happens to this replica, or is over: call it at both times. */
  troubled(replica: Replica): void {
    const nowMs = this.#options.nowMs();
    if (replica === this.leader || !this.replicas.some((other) => other !== replica && other.isWell))
      this.leaderTroubled();
    for (const limiter of this.limiters) if (limiter.home === replica) limiter.troubledMs = nowMs;
  }

  leaderTroubled(): void {
    this.#graceUntilMs = this.#options.nowMs() + leaderGraceMs;
  }

  async join(name: string, fleet: string, kind: LimiterKind): Promise<void> {
    let limiter: Limiter | undefined;
    const replicaPort = (): number => {
      const fit = this.replicas.filter(({ isRunning, isPaused }) => isRunning && !isPaused);
      const home = fit.length === 0 ? this.replicas[0] : fit[this.#options.choose(fit.length)];
      if (limiter !== undefined) limiter.home = home;
      return (home as Replica).xdsPort;
    };
    const pod = await LimiterPod.create(this.#client, { name, fleet, replicaPort });
    const running = limiterKinds[kind](pod);
    const troubledMs = this.#options.nowMs();
    const none = { home: undefined, stoppedMs: undefined, readySinceMs: undefined };
    const notCut = { cutMs: undefined, aloneMs: undefined };
    limiter = { pod, running, troubledMs, isTerminating: false, ...none, ...notCut };
    this.limiters.push(limiter);
  }

  /** As a pod goes: out of the Service first, then its process ends. */
  async leave(limiter: Limiter): Promise<void> {
    limiter.isTerminating = true;
    await this.keepPods();
    await limiter.running.stop();
    this.limiters.splice(this.limiters.indexOf(limiter), 1);
    await limiter.pod.delete();
  }

  /** What kubelet and the controller of EndpointSlices do. */
  async keepPods(): Promise<void> {
    const nowMs = this.#options.nowMs();
    for (const limiter of this.limiters) {
      if (limiter.running.isReady && limiter.readySinceMs === undefined) limiter.readySinceMs = nowMs;
      if (!limiter.running.isReady) limiter.readySinceMs = undefined;
      await limiter.pod.refreshToken(nowMs);
    }
    const endpoints = this.limiters
      .filter(({ pod }) => pod.fleet === 'default')
      .map(({ pod: { name, uid }, readySinceMs, isTerminating }, index) => ({
        addresses: [`10.1.0.${index + 1}`],
        conditions: { ready: readySinceMs !== undefined && !isTerminating, terminating: isTerminating },
        targetRef: { kind: 'Pod', name, namespace: systemNamespace, uid },
      }));
    const text = JSON.stringify(endpoints);
    if (text === this.#reportedEndpoints) return;
    const slice = {
      apiVersion: 'discovery.k8s.io/v1',
      kind: 'EndpointSlice',
      metadata: {
        name: `${service}-x`,
        namespace: systemNamespace,
        labels: { 'kubernetes.io/service-name': service },
      },
      addressType: 'IPv4',
      endpoints,
      ports: [{ port: 8081 }],
    };
    await this.#client.request({
      method: 'PATCH',
      contentType: 'application/apply-patch+yaml',
      path: `/apis/discovery.k8s.io/v1/namespaces/${systemNamespace}/endpointslices/${service}-x`,
      query: { fieldManager: 'truth', force: true },
      body: slice,
    });
    this.#reportedEndpoints = text;
  }

  /** Rejects while the API server does not answer. Objects are looked at before limiters: who is asked later knows more. */
  async look(stalledMs: () => number): Promise<Sight> {
    const lease = `/apis/coordination.k8s.io/v1/namespaces/${systemNamespace}/leases/weir-control-plane`;
    const [objects, { spec = {} }] = await Promise.all([
      this.objects.list(),
      this.#client
        .request<{ spec?: { holderIdentity?: string } }>({ path: lease })
        .catch((): { spec?: { holderIdentity?: string } } => ({})),
    ]);
    this.#sawLeader(spec.holderIdentity);
    const limiters = await Promise.all(this.limiters.map((limiter) => this.#seen(limiter)));
    const atMs = this.#options.nowMs();
    return { atMs, objects, limiters, graceUntilMs: this.#graceUntilMs, stalledMs: stalledMs() };
  }

  #sawLeader(holder: string | undefined): void {
    const nowMs = this.#options.nowMs();
    const lost = this.replicas.reduce((sum, replica) => sum + replica.takeLostLeads(), 0);
    if (lost > 0) {
      if (nowMs > this.#graceUntilMs) {
        this.leadsLost += 1;
        this.#options.report('the leader lost its Lease, and nothing was done to it');
      }
      this.leaderTroubled();
    }
    if (holder === this.#leader) return;
    this.#options.report(`${holder ?? 'nobody'} leads`);
    if (holder !== undefined && this.#lastHolder !== undefined && holder !== this.#lastHolder) {
      this.elections += 1;
    }
    this.#lastHolder = holder ?? this.#lastHolder;
    // Whatever the reason, one that has just begun has its time.
    this.#graceUntilMs = Math.max(this.#graceUntilMs, nowMs + leaderGraceMs - leaseDurationMs);
    this.#leader = holder;
  }

  async #seen(limiter: Limiter): Promise<SeenLimiter> {
    const { pod, running, home, stoppedMs, cutMs, aloneMs } = limiter;
    const isRightFleet = [...domains, ...overrideDomains, endingDomain].filter(
      (domain) => domain.startsWith('e') === (pod.fleet === 'edge'),
    );
    const answers = stoppedMs === undefined ? await running.answers(isRightFleet) : undefined;
    const nowMs = this.#options.nowMs();
    const isHeard =
      stoppedMs === undefined &&
      cutMs === undefined &&
      !running.refuses &&
      home?.isWell === true &&
      nowMs - limiter.troubledMs > 5_000;
    return {
      name: pod.name,
      fleet: pod.fleet,
      isExpected: this.#isExpected(limiter, nowMs),
      isHeard,
      answers,
      stoppedMs,
      aloneMs,
    };
  }

  #isExpected({ pod, readySinceMs, cutMs, isTerminating }: Limiter, nowMs: number): boolean {
    if (isTerminating || readySinceMs === undefined || nowMs - readySinceMs < readyKnownMs) return false;
    if (pod.fleet === 'default' || cutMs === undefined) return true;
    return nowMs - cutMs < graceOfFleetsMs && (this.leader?.startedMs ?? nowMs) < cutMs;
  }
}

/** All connections are reset; so, and new ones are rejected; nothing passes any more, without a word; only new ones pass. */
export const cuts = ['reset', 'refuse', 'swallow', 'forget'] as const;
export type Cut = (typeof cuts)[number];

export async function cut(proxy: TcpProxy, how: Cut): Promise<void> {
  if (how === 'reset') proxy.cut();
  else if (how === 'refuse') await proxy.refuse();
  else if (how === 'forget') proxy.forget();
  else proxy.swallow();
}
