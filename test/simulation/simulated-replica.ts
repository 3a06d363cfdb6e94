/** One place of a control plane: one process after another, each with its way to the API server of the simulation. */
import { ClusterBacking } from '../../control-plane/cluster-backing.ts';
import { ControlLoop } from '../../control-plane/control-loop.ts';
import type { ApiRequest } from '../../control-plane/kubernetes/api.ts';
import { collisionsOf } from '../../control-plane/reconcile/counter-collisions.ts';
import type { Codec } from '../../control-plane/replicas/own-objects.ts';
import { parseControlPlaneSettings } from '../../control-plane/settings/settings.ts';
import type { WebhookEvent } from '../../control-plane/webhooks/webhook-event.ts';
import { GrpcCode } from '../../process/grpc/handlers.ts';
import { type LogFields, loggerOf } from '../../process/log/logger.ts';
import { inTime } from '../../process/time/clock.ts';
import { recordedTelemetry } from '../support/control-plane-telemetry.ts';
import { type Fault, MemoryApi } from './memory-api.ts';
import type { MemoryCluster } from './memory-cluster.ts';
import { SimulatedProcess, type VirtualTime } from './virtual-time.ts';

export const systemNamespace = 'weir-system';
export const limiterService = 'weir-limiter';
export const leaseName = 'weir-control-plane';
/** Of objects that the control plane leaves alone. */
export const outLabel = 'simulation.weir.dev/out';

const parsed = parseControlPlaneSettings({
  SOURCE: 'KUBERNETES',
  XDS_HOST: '127.0.0.1',
  POD_NAMESPACE: systemNamespace,
  LABEL_SELECTOR: `!${outLabel}`,
  DOMAIN_RELEASE_DELAY: '3s',
  FLEET_SERVICES: `default=${systemNamespace}/${limiterService}`,
  WEBHOOK_URLS: 'https://receiver.example/',
  WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
});
if (parsed.errors !== undefined) throw new Error(parsed.errors.map(({ message }) => message).join('; '));
export const { settings } = parsed;

/** What becomes of requests while it lasts; undefined: nothing. */
export type ApiTrouble = (request: ApiRequest) => Fault | undefined;

export interface ReplicaOptions {
  name: string;
  time: VirtualTime;
  cluster: MemoryCluster;
  /** 0 <= x < 1 */
  random(): number;
  /** Answers to what is no object. */
  others(request: ApiRequest): unknown;
  /** Before each request of a replica. */
  asked(replica: SimulatedReplica, request: ApiRequest): void;
  notified(replica: SimulatedReplica, event: WebhookEvent): void;
  /** Lines of the log. */
  report?: ((line: string) => void) | undefined;
}

/** Answers in the same turn. */
export const plainCodec: Codec = {
  compress: async (text) => Buffer.from(text),
  decompress: async (bytes) => bytes.toString(),
};

const apiDelayMs = 2;

export class SimulatedReplica {
  readonly name: string;
  readonly #options: ReplicaOptions;
  readonly #telemetry: ReturnType<typeof recordedTelemetry>;
  process: SimulatedProcess;
  loop: ControlLoop | undefined;
  api: MemoryApi | undefined;
  /** What is wrong with its way to the API server. */
  readonly troubles = new Set<ApiTrouble>();
  /** What is wrong with single requests, and no reason for a status that is not true. */
  readonly glitches = new Set<ApiTrouble>();
  isSilent = false;
  isStopping = false;
  /** When its watches were last broken off. */
  brokenOffMs = Number.NEGATIVE_INFINITY;
  startedMs = 0;
  /** When something was last wrong with it: then it follows all objects again after a while. */
  troubledMs = Number.NEGATIVE_INFINITY;
  /** Until then it may be the only one that saw a right end, and nothing else happens to it. */
  seesAloneUntilMs = Number.NEGATIVE_INFINITY;
  #starts = 0;

  constructor(options: ReplicaOptions) {
    this.#options = options;
    this.name = options.name;
    this.process = new SimulatedProcess(options.time);
    this.process.kill();
    const { metrics } = recordedTelemetry();
    const log = loggerOf(
      (level, message, fields) => this.#log(level, message, fields),
      () => options.report !== undefined,
    );
    this.#telemetry = { ...recordedTelemetry(), metrics, log };
  }

  /** Of the present pod: the Lease names it as its holder. */
  get podName(): string {
    return `${this.name}-${this.#starts}`;
  }

  get isRunning(): boolean {
    return this.process.isRunning && !this.isStopping;
  }

  breakWatches(): void {
    this.api?.close();
    this.brokenOffMs = this.#options.time.nowMs;
  }

  /** It does what it should, and reaches the API server. */
  get isWell(): boolean {
    return this.isRunning && !this.isSilent && this.troubles.size === 0;
  }

  start(skewMs: number): void {
    const { time, cluster, random, others, notified } = this.#options;
    this.#starts += 1;
    this.startedMs = time.nowMs;
    this.isStopping = false;
    const process = new SimulatedProcess(time);
    process.skewMs = skewMs;
    this.process = process;
    const api = new MemoryApi({
      cluster,
      timers: time,
      clientTimers: process.timers,
      userAgent: 'weir-control-plane/1',
      isSilent: () => this.isSilent,
      fault: (request) => this.#faultOf(request),
      others,
      delayMs: apiDelayMs,
      isTrusted: true,
    });
    this.api = api;
    this.loop = new ControlLoop({
      ...this.#telemetry,
      settings,
      openBacking: (options) =>
        new ClusterBacking({ ...options, client: api, namespace: systemNamespace, codec: plainCodec }),
      env: {},
      maxStreams: settings.xdsMaxStreams,
      replica: this.podName,
      clock: process.clock,
      timers: process.timers,
      random,
      notify: (event, settle) => {
        notified(this, event);
        process.timers.after(10, () => settle?.());
      },
      searchCollisions: (objects) => ({ found: Promise.resolve(collisionsOf(objects)), stop: () => {} }),
      serving: () => {},
    });
    void this.loop.start();
  }

  kill(): void {
    this.process.kill();
    this.isSilent = false;
    this.api?.close();
  }

  /** As after SIGTERM. */
  async stop(): Promise<void> {
    const { loop, process } = this;
    if (loop === undefined || this.isStopping) return;
    this.isStopping = true;
    const steps = [
      () => loop.closeStatuses(),
      async () => loop.streams.end({ code: GrpcCode.UNAVAILABLE, message: 'shutting down' }),
      () => loop.closeSource(),
      () => loop.backing.close().catch(() => {}),
    ];
    for (const step of steps) await inTime(process.timers, 6_000, step(), undefined);
    if (this.process === process && !process.isDead) this.kill();
  }

  #faultOf(request: ApiRequest): Fault | undefined {
    this.#options.asked(this, request);
    for (const trouble of [...this.troubles, ...this.glitches]) {
      const fault = trouble(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  }

  #log(level: string, message: string, fields: LogFields | undefined): void {
    const texts = Object.entries(fields ?? {}).map(
      ([name, value]) => `${name}=${value instanceof Error ? value.message : String(value)}`,
    );
    this.#options.report?.(
      `${(this.#options.time.nowMs / 1_000).toFixed(3)} ${this.podName} ${level}: ${[message, ...texts].join(' ')}`,
    );
  }
}
