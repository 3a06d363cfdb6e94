/** The limiters: pods of which the API server knows, and processes of this machine that show the pods' tokens. */

import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { KubernetesClient } from '../../control-plane/kubernetes/client.ts';
import { capabilities } from '../../rules/language/capabilities.ts';
import type { ChildProgram } from '../support/child-program.ts';
import { LimiterClient } from '../support/limiter-client.ts';
import { spawnLimiter } from '../support/limiter-process.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import { type ReceivedResponse, ScriptedXdsClient } from '../support/xds-client.ts';

export const systemNamespace = 'weir-system';
/** Tokens expire as soon as the API server lets them, and are replaced after half of that. */
const tokenSeconds = 600;

interface TokenRequest {
  status: { token: string };
}

/** A pod of a limiter's Deployment: what the API server has of it, and its way to the control plane. */
export class LimiterPod {
  readonly name: string;
  readonly fleet: string;
  readonly folder = mkdtempSync(join(tmpdir(), 'weir-truth-'));
  readonly proxy: TcpProxy;
  readonly uid: string;
  token = '';
  #tokenMs = Number.NEGATIVE_INFINITY;
  readonly #client: KubernetesClient;

  private constructor(
    client: KubernetesClient,
    pod: { name: string; fleet: string; proxy: TcpProxy; uid: string },
  ) {
    this.#client = client;
    this.name = pod.name;
    this.fleet = pod.fleet;
    this.proxy = pod.proxy;
    this.uid = pod.uid;
  }

  /** `replicaPort` is asked for each connection. */
  static async create(
    client: KubernetesClient,
    { name, fleet, replicaPort }: { name: string; fleet: string; replicaPort: () => number },
  ): Promise<LimiterPod> {
    const spec = { containers: [{ name: 'limiter', image: 'weir' }], automountServiceAccountToken: false };
    const body = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name, namespace: systemNamespace },
      spec: { ...spec, serviceAccountName: `limiter-${fleet}` },
    };
    const pods = `/api/v1/namespaces/${systemNamespace}/pods`;
    const { metadata } = await client.request<{ metadata: { uid: string } }>({
      method: 'POST',
      path: pods,
      body,
    });
    const proxy = await TcpProxy.to(replicaPort);
    const pod = new LimiterPod(client, { name, fleet, proxy, uid: metadata.uid });
    await pod.refreshToken(0);
    return pod;
  }

  get tokenFile(): string {
    return join(this.folder, 'token');
  }

  /** As the kubelet does it: half of its time before it expires. */
  async refreshToken(nowMs: number): Promise<void> {
    if (nowMs - this.#tokenMs < (tokenSeconds / 2) * 1_000) return;
    const account = `/api/v1/namespaces/${systemNamespace}/serviceaccounts/limiter-${this.fleet}/token`;
    const boundObjectRef = { apiVersion: 'v1', kind: 'Pod', name: this.name, uid: this.uid };
    const spec = { audiences: ['weir-control-plane'], expirationSeconds: tokenSeconds, boundObjectRef };
    const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec };
    const { status } = await this.#client.request<TokenRequest>({ method: 'POST', path: account, body });
    this.token = status.token;
    writeFileSync(this.tokenFile, status.token);
    this.#tokenMs = nowMs;
  }

  async delete(): Promise<void> {
    await this.proxy.close();
    rmSync(this.folder, { recursive: true, force: true });
    const path = `/api/v1/namespaces/${systemNamespace}/pods/${this.name}`;
    await this.#client.request({ method: 'DELETE', path, query: { gracePeriodSeconds: 0 } });
  }
}

/** What runs in a pod. */
export interface RunningLimiter {
  /** As the kubelet finds it: it has rules and listens. */
  readonly isReady: boolean;
  /** It ended, and nobody ended it. */
  readonly hasDied: boolean;
  /** Whether it rejects what it is sent. */
  readonly refuses: boolean;
  /** Its limits by domain; undefined: no answer. */
  answers(domains: readonly string[]): Promise<ReadonlyMap<string, number> | undefined>;
  /** Ends it as a crash does; `restart` begins it anew. */
  kill(): Promise<void>;
  restart(): void;
  stop(): Promise<void>;
}

/** This project's limiter. */
export class RealLimiter implements RunningLimiter {
  readonly refuses = false;
  readonly #pod: LimiterPod;
  readonly #type: string;
  program: ChildProgram;
  #shouldRun = true;
  #client: LimiterClient | undefined;

  constructor(pod: LimiterPod, type: 'GRPC_XDS_DELTA' | 'GRPC_XDS_SOTW') {
    this.#pod = pod;
    this.#type = type;
    this.program = this.#spawn();
  }

  get isReady(): boolean {
    return this.#client !== undefined && this.program.running;
  }

  get hasDied(): boolean {
    return this.#shouldRun && !this.program.running;
  }

  async answers(domains: readonly string[]): Promise<ReadonlyMap<string, number> | undefined> {
    const client = this.#client;
    if (client === undefined) return undefined;
    const entries = [{ key: 'key', value: 'truth' }];
    try {
      const limits = await Promise.all(
        domains.map(async (domain) => {
          const request = { domain, descriptors: [{ entries, hitsAddend: 0n }] };
          const { statuses } = await client.ask(request, { timeoutMs: 1_500 });
          return [domain, statuses[0]?.currentLimit?.requestsPerUnit] as const;
        }),
      );
      return new Map(limits.flatMap(([domain, limit]) => (limit === undefined ? [] : [[domain, limit]])));
    } catch {
      return undefined;
    }
  }

  async kill(): Promise<void> {
    this.#shouldRun = false;
    this.#client?.close();
    this.#client = undefined;
    await this.program.stop('SIGKILL');
  }

  restart(): void {
    this.program = this.#spawn();
    this.#shouldRun = true;
  }

  async stop(): Promise<void> {
    this.#shouldRun = false;
    this.#client?.close();
    this.#client = undefined;
    this.program.resume();
    await this.program.stop();
  }

  #spawn(): ChildProgram {
    const program = spawnLimiter({
      env: {
        BACKEND_TYPE: 'memory',
        CONFIG_TYPE: this.#type,
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${this.#pod.proxy.port}`,
        CONFIG_GRPC_XDS_TOKEN_FILE: this.#pod.tokenFile,
        CONFIG_GRPC_XDS_FLEET: this.#pod.fleet,
        // A connection that was cut without a word is noticed in time for the test.
        CONFIG_GRPC_XDS_KEEPALIVE_INTERVAL: '5s',
        CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
        XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
        XDS_CLIENT_BACKOFF_MAX_INTERVAL: '2s',
        POD_NAME: this.#pod.name,
      },
    });
    // It listens when it has its first rules.
    program.printed(/Listening for gRPC on '[^']*:(\d+)'/, 3_600_000).then(
      ([, port]) => {
        if (program === this.program && program.running) this.#client = new LimiterClient(Number(port));
      },
      () => {},
    );
    return program;
  }
}

/** How many of the snapshots that it once accepted it can claim. */
const remembered = 50;

/** Speaks xDS as a limiter does, and rejects, or claims, what the test wants. */
export class ScriptedLimiter implements RunningLimiter {
  readonly #pod: LimiterPod;
  /** By version, oldest first. */
  readonly #known = new Map<string, Pick<ReceivedResponse, 'limits' | 'ends'>>();
  #client: ScriptedXdsClient | undefined;
  #starts = 0;
  readonly hasDied = false;
  refuses = false;
  /** From its next start on it is one without capabilities. */
  isOld = false;

  constructor(pod: LimiterPod) {
    this.#pod = pod;
    this.restart();
  }

  get isReady(): boolean {
    return this.#runs() !== undefined;
  }

  answers(): Promise<ReadonlyMap<string, number> | undefined> {
    return Promise.resolve(this.#client === undefined ? undefined : this.#runs());
  }

  refuse(does: boolean): void {
    this.refuses = does;
    if (does) this.#client?.rejectWith('I cannot load that');
    else this.#client?.acceptAgain();
  }

  kill(): Promise<void> {
    this.#runs();
    this.#client?.close();
    this.#client = undefined;
    return Promise.resolve();
  }

  /** Another process: with nothing, with a version that nobody knows, or with what it once had (`age` 1: the newest). */
  restart(claims: 'nothing' | 'unknown' | { age: number } = 'nothing'): void {
    const old = typeof claims === 'object' ? [...this.#known.keys()].at(-claims.age) : undefined;
    const version = claims === 'unknown' ? 'feedfacefeedface' : old;
    this.#starts += 1;
    this.#client = new ScriptedXdsClient({
      port: this.#pod.proxy.port,
      nodeId: 'default',
      userAgentName: 'weir',
      metadata: {
        pod: this.#pod.name,
        instance: `${this.#pod.name}-${this.#starts}`,
        fleet: this.#pod.fleet,
        ...(this.isOld ? {} : { capabilities: [...capabilities] }),
      },
      authorization: () => `Bearer ${this.#pod.token}`,
      ...(version === undefined ? {} : { claims: version }),
      ...(this.refuses ? { refuses: 'I cannot load that' } : {}),
    });
  }

  async stop(): Promise<void> {
    await this.kill();
  }

  #runs(): ReadonlyMap<string, number> | undefined {
    const client = this.#client;
    if (client === undefined) return undefined;
    const { acceptedVersion, received } = client;
    const newest = received.findLast(({ version }) => version === acceptedVersion);
    if (newest !== undefined) {
      this.#known.delete(acceptedVersion);
      this.#known.set(acceptedVersion, newest);
      received.splice(0, received.indexOf(newest));
    }
    for (const version of this.#known.keys()) {
      if (this.#known.size <= remembered) break;
      this.#known.delete(version);
    }
    const { limits, ends } = this.#known.get(acceptedVersion) ?? {};
    // Overrides end by the limiter's own clock.
    const isOver = (domain: string) => (ends?.get(domain) ?? Number.POSITIVE_INFINITY) <= Date.now();
    return limits && new Map([...limits].filter(([domain]) => !isOver(domain)));
  }
}
