/** One limiter: Weir's own session and rules, or a client as envoyproxy/ratelimit has it, in one thread with all others. */

import { fromBinary } from '@bufbuild/protobuf';
import { RateLimitConfigSchema } from '../../gen/ratelimit/config/ratelimit/v3/rls_conf_pb.ts';
import { reviewLoad } from '../../limiter/config-source/load-review.ts';
import type { LoadThread } from '../../limiter/config-source/load-thread.ts';
import {
  type DiscoveryStream,
  encodeRequest,
  nodeMessage,
  type OpenStream,
} from '../../limiter/config-source/xds/ads-stream.ts';
import {
  decodeAnswer,
  type LoadedResources,
  loadResources,
} from '../../limiter/config-source/xds/load-resources.ts';
import type { StartLoadThread } from '../../limiter/config-source/xds/response-loader.ts';
import { XdsConfigSource } from '../../limiter/config-source/xds/xds-source.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import type { Override } from '../../rules/override.ts';
import type { RuleTable } from '../../rules/table/rule-table.ts';
import type { SourceCheckOptions } from '../../rules/validate-sources.ts';
import { SimulatedProcess, type VirtualTime } from './virtual-time.ts';

export type LimiterKind = 'delta' | 'state of the world' | 'go';

export interface LimiterOptions {
  name: string;
  uid: string;
  fleet: string;
  kind: LimiterKind;
  time: VirtualTime;
  random(): number;
  /** A stream to one of the replicas. */
  connect(limiter: SimulatedLimiter, ...stream: Parameters<OpenStream>): DiscoveryStream;
  /** What it has in force is different now. */
  changed(limiter: SimulatedLimiter): void;
}

/** What a process has in force, by domain. */
export type Limits = ReadonlyMap<string, number>;

interface Running {
  process: SimulatedProcess;
  /** Undefined: it has no rules yet. */
  limits: () => Limits | undefined;
}

const unsupported = 'this store counts fixed windows alone';

export class SimulatedLimiter {
  readonly options: LimiterOptions;
  process: SimulatedProcess;
  /** It rejects: Weir what its store cannot count, others everything. */
  refuses = false;
  #limits: () => Limits | undefined = () => undefined;
  #starts = 0;

  constructor(options: LimiterOptions) {
    this.options = options;
    this.process = new SimulatedProcess(options.time);
    this.process.kill();
  }

  get name(): string {
    return this.options.name;
  }

  /** Undefined: no process, or one without rules. */
  get limits(): Limits | undefined {
    return this.process.isDead ? undefined : this.#limits();
  }

  start(): void {
    this.#starts += 1;
    const { kind, time } = this.options;
    this.process = new SimulatedProcess(time);
    const { process, limits } = kind === 'go' ? this.#startGo(this.process) : this.#startWeir(this.process);
    this.process = process;
    this.#limits = limits;
  }

  kill(): void {
    this.process.kill();
    this.options.changed(this);
  }

  #startWeir(process: SimulatedProcess): Running {
    const { name, fleet, kind, random, connect, changed } = this.options;
    const isEnforced = () => this.refuses;
    const checks: SourceCheckOptions = {
      mergeDomains: false,
      get support() {
        const admission = isEnforced() ? unsupported : undefined;
        return { admission, groups: undefined, calendarMonths: false };
      },
    };
    let rules: Limits | undefined;
    let overrides: readonly Override[] = [];
    const source = new XdsConfigSource({
      target: 'memory',
      headers: [],
      tls: undefined,
      tokenFile: undefined,
      maxMessageBytes: 1 << 24,
      maxBytes: { bytes: 1 << 24, setting: 'XDS_CLIENT_MAX_TOTAL_BYTES' },
      keepaliveMs: 0,
      node: {
        id: 'default',
        metadata: {
          ...{ pod: name, fleet, instance: `${name}-${this.#starts}`, counter_keys: 'unambiguous' },
          capabilities: [...capabilities],
        },
        version: '1',
      },
      incremental: kind === 'delta',
      checks,
      review: { counterKeys: 'unambiguous', sanitizeDescriptorMetricDots: false },
      connectRetryMs: 1_000,
      backoff: { initialMs: 1_000, maxMs: 10_000, factor: 1.6, jitter: true, exactFirst: false, random },
      clock: process.clock,
      timers: process.timers,
      limits: { maxInPlaceBytes: 0 },
      listener: {
        connected: () => {},
        attemptFailed: () => {},
        tlsFilesRejected: () => {},
        notIncremental: () => {},
        noRulesYet: () => {},
      },
      openStream: (options, events) => connect(this, options, events),
      startThread: inThisThread,
    });
    const report = (): void => {
      if (this.process === process && !process.isDead) changed(this);
    };
    void source.start({
      loaded: ({ table }) => {
        rules = limitsOf(table);
        report();
      },
      overrides: async (next) => {
        overrides = next;
        report();
      },
      unchanged: () => {},
      reviewed: () => {},
      failed: () => {},
      unreachable: () => {},
      reachable: () => {},
    });
    return { process, limits: () => rules && withOverrides(rules, overrides, process.clock.nowMs()) };
  }

  /** It loads exactly what a response holds, and says no more than its node. */
  #startGo(process: SimulatedProcess): Running {
    const { name, fleet, connect, changed } = this.options;
    const node = nodeMessage({ id: name, metadata: { pod: name, fleet }, version: '1' });
    node.userAgentName = 'go-control-plane-client';
    let limits: Limits | undefined;
    let version = '';
    const open = (): void => {
      const stream = connect(this, undefined as never, {
        opened: () => stream.send(encodeRequest(node, { version, nonce: '', error: undefined })),
        received: (bytes) => {
          const answer = decodeAnswer(bytes);
          if (this.refuses) {
            stream.send(encodeRequest(node, { version, nonce: answer.nonce, error: 'I cannot load that' }));
            return;
          }
          const configs = answer.resources.map(({ value }) => fromBinary(RateLimitConfigSchema, value));
          limits = new Map(
            configs
              .filter(({ override }) => override === undefined)
              .map(({ domain, descriptors }) => [domain, descriptors[0]?.rateLimit?.requestsPerUnit ?? 0]),
          );
          version = answer.version;
          if (this.process === process) changed(this);
          stream.send(encodeRequest(node, { version, nonce: answer.nonce, error: undefined }));
        },
        ended: () => process.timers.after(1_000, open),
      });
    };
    open();
    return { process, limits: () => limits };
  }
}

const inThisThread: StartLoadThread = (request): LoadThread<LoadedResources> => {
  const { outcome, reviewed } = loadResources(request);
  const review = reviewed && reviewLoad(reviewed(), request);
  return { outcome: Promise.resolve(outcome), review: Promise.resolve(review), stop: () => {} };
};

function limitsOf(table: RuleTable): Limits {
  const limits = new Map<string, number>();
  for (const { path, rule } of table.listedRules()) {
    const [limit] = rule?.limits ?? [];
    if (limit !== undefined) limits.set(path.slice(0, path.indexOf('.')), limit.requestsPerUnit);
  }
  return limits;
}

function withOverrides(rules: Limits, overrides: readonly Override[], nowMs: number): Limits {
  if (overrides.length === 0) return rules;
  const limits = new Map(rules);
  for (const { domain, effect, endsMs = Number.POSITIVE_INFINITY } of overrides)
    if (effect.kind === 'limit' && nowMs < endsMs) limits.set(domain, effect.requestsPerUnit);
  return limits;
}
