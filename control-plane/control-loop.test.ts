/** What a replica writes of its objects while it leads, and how long a new leader waits. */
import { beforeEach, describe, expect, it, onTestFinished } from 'vitest';
import { configObject, configSpec, invalidSpec } from '../test/support/config-object-builder.ts';
import { recordedTelemetry } from '../test/support/control-plane-telemetry.ts';
import { ManualTimers } from '../test/support/manual-timers.ts';
import type { Backing, OpenBackingOptions } from './backing.ts';
import { ControlLoop } from './control-loop.ts';
import { ApiError } from './kubernetes/api.ts';
import { type ConfigObject, findCondition } from './model/config-object.ts';
import type { RemovedObject } from './model/decision.ts';
import type { LimiterReport } from './model/fleet-snapshot.ts';
import { VersionedMap } from './model/versioned-map.ts';
import { noPolicy } from './reconcile/decide.ts';
import type { WriteOutcome } from './replicas/status-writer.ts';
import { parseControlPlaneSettings } from './settings/settings.ts';
import type { SourceListener } from './source/kubernetes-source.ts';
import type { UpdateWorld, World } from './world.ts';

const parsed = parseControlPlaneSettings({
  SOURCE: 'KUBERNETES',
  XDS_HOST: '127.0.0.1',
  WEBHOOK_URLS: 'https://receiver.example/',
  WEBHOOK_SECRET: `whsec_${Buffer.alloc(32, 1).toString('base64')}`,
});
if (parsed.errors !== undefined) throw new Error(parsed.errors.map(({ message }) => message).join('; '));
const { settings } = parsed;
const controllerName = 'weir-system/weir';
const patienceMs = 15_000;

/** What the API server has; its objects outlive a replica. */
class Cluster {
  readonly timers = new ManualTimers();
  objects = VersionedMap.of<ConfigObject>();
  /** `shop False NoLimiters` for each status that was written. */
  readonly written: string[] = [];
  /** Of Programmed, as far as events report it. */
  readonly events: string[] = [];
  readonly notified: string[] = [];
  /** See `Backing.placeOf`. */
  place: ((object: ConfigObject) => string | undefined) | undefined;
  #version = 0;

  put(object: ConfigObject): void {
    const stored = { ...object, resourceVersion: `${++this.#version}` };
    this.objects = this.objects.with(new Map([[object.uid, stored]]));
  }

  delete({ uid }: ConfigObject): void {
    this.objects = this.objects.with(new Map([[uid, undefined]]));
  }
}

/** One replica of the control plane, without limiters' streams; it leads when the test says so. */
class Replica {
  leads = false;
  limiters: LimiterReport[] = [];
  answer: (() => WriteOutcome | Promise<WriteOutcome> | undefined) | undefined;
  /** Deleted objects, as they are stored. */
  removed: readonly RemovedObject[] = [];
  readonly telemetry = recordedTelemetry();
  readonly #cluster: Cluster;
  readonly #loop: ControlLoop;
  #listener: SourceListener | undefined;
  #learn!: UpdateWorld;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const { timers, notified } = cluster;
    this.#loop = new ControlLoop({
      ...this.telemetry,
      settings,
      env: {},
      replica: 'r',
      maxStreams: 10,
      clock: { nowMs: () => timers.nowMs, monotonicMs: () => timers.nowMs },
      timers,
      random: () => 0,
      openBacking: (options) => this.#openBacking(options),
      notify: ({ type }, settled) => {
        notified.push(type);
        settled?.();
      },
      searchCollisions: () => ({ found: Promise.resolve([]), stop: () => {} }),
      serving: () => {},
    });
    onTestFinished(async () => {
      await this.#loop.closeStatuses();
      await this.#loop.closeSource();
    });
    void this.#loop.start();
  }

  #openBacking({ learn }: OpenBackingOptions): Backing {
    const cluster = this.#cluster;
    const replica = this;
    this.#learn = learn;
    return {
      replicas: {
        get leads() {
          return replica.leads;
        },
        leader: undefined,
        publish: () => {},
        confirm: (then) => then(),
      },
      events: { record: ({ reason }) => cluster.events.push(reason) },
      controllerName,
      ...(cluster.place && { placeOf: cluster.place }),
      source: {
        start: (listener) => {
          replica.#listener = listener;
          listener.changed();
        },
        get objects() {
          return cluster.objects;
        },
        versions: {},
        left: () => [],
        isGone: ({ uid }) => !cluster.objects.has(uid),
        close: async () => {},
      },
      statusWriter: {
        write: async (write) => {
          return replica.#write({ ...write.object, status: write.status } as ConfigObject);
        },
      },
      start: () => learn({ policy: noPolicy, acceptedSpecs: new Map() }),
      share: ({ removed }) => {
        if (removed !== undefined) replica.removed = removed;
      },
      close: async () => {},
    };
  }

  /** Shows the objects as they are, and lets time pass; answers of the server come at once. */
  async pass(ms: number): Promise<void> {
    this.#show();
    await this.wait(ms);
  }

  async wait(ms: number): Promise<void> {
    const { timers } = this.#cluster;
    const endMs = timers.nowMs + ms;
    while (timers.nowMs < endMs) {
      timers.advance(Math.min(100, endMs - timers.nowMs));
      await new Promise((settled) => setImmediate(settled));
    }
  }

  /** A limiter that is connected, and has what is served now in force. */
  connect(acceptedVersion = this.#loop.decision?.fleets.get('default')?.version): void {
    this.limiters = [
      {
        id: '1',
        instance: 'process',
        name: 'lim-0',
        fleet: 'default',
        isWeir: true,
        countsCompatibly: false,
        capabilities: [],
        connectedMs: 0,
        acceptedVersion,
        refusal: undefined,
      },
    ];
    this.#show();
  }

  get isServing(): boolean {
    return this.#loop.isServing;
  }

  /** What the log says of decisions and objects. */
  get logged(): unknown[][] {
    return this.telemetry.events.map(([message, fields = {}]) => [message, ...Object.values(fields)]);
  }

  learn(news: Partial<World>): void {
    this.#learn(news);
  }

  /** Others may lead from now on. */
  stopLeading(): void {
    this.#show();
  }

  /** What the cluster has now. */
  #show(): void {
    const { leads, limiters } = this;
    this.#learn({ leads, reports: [{ replica: 'r', limiters }] });
    this.#listener!.changed();
  }

  #write(object: ConfigObject): WriteOutcome | Promise<WriteOutcome> {
    const outcome = this.answer?.();
    if (outcome !== undefined) return outcome;
    this.#cluster.put(object);
    const { status, reason } = findCondition(object.status, 'Programmed')!;
    this.#cluster.written.push(`${object.name} ${status} ${reason}`);
    return { is: 'written', version: this.#cluster.objects.get(object.uid)!.resourceVersion! };
  }
}

const shop = configObject({ name: 'shop' });

/** Stores the second generation of `shop`, with another limit. */
function changeShop(cluster: Cluster): void {
  cluster.put({
    ...cluster.objects.get(shop.uid)!,
    generation: 2,
    spec: configSpec({ requestsPerUnit: 11 }),
  });
}

/** A cluster whose leader said of `shop` that a limiter has it in force, and is gone. */
async function afterALeader(): Promise<Cluster> {
  const cluster = new Cluster();
  cluster.put(shop);
  const first = new Replica(cluster);
  first.leads = true;
  await first.pass(1_000);
  first.connect();
  await first.pass(1_000);
  first.leads = false;
  first.stopLeading();
  expect(cluster.written).toEqual(['shop False NoLimiters', 'shop True AllLimiters']);
  cluster.written.length = 0;
  cluster.events.length = 0;
  cluster.notified.length = 0;
  return cluster;
}

it('a new leader leaves statuses as they are for 15 s, as limiters may be on their way to it', async () => {
  const cluster = await afterALeader();
  const next = new Replica(cluster);
  next.leads = true;
  await next.pass(patienceMs - 1_000);
  expect(cluster.written).toEqual([]);
  // Nothing but time wakes it.
  await next.wait(1_500);
  expect(cluster.written).toEqual(['shop False NoLimiters']);
});

it('the wait begins with the lead, not with the process', async () => {
  const cluster = await afterALeader();
  const next = new Replica(cluster);
  await next.pass(60_000);
  next.leads = true;
  await next.pass(patienceMs - 1_000);
  expect(cluster.written).toEqual([]);
});

it('each lead waits again', async () => {
  const cluster = await afterALeader();
  const next = new Replica(cluster);
  next.leads = true;
  await next.pass(1_000);
  next.leads = false;
  next.stopLeading();
  await next.pass(60_000);
  next.leads = true;
  await next.pass(patienceMs - 1_000);
  expect(cluster.written).toEqual([]);
});

it('a new leader says at once what has changed', async () => {
  const cluster = await afterALeader();
  changeShop(cluster);
  const next = new Replica(cluster);
  next.leads = true;
  await next.pass(1_000);
  expect(cluster.written).toEqual(['shop False NoLimiters']);
});

it('what has changed stays unknown for 15 s if others may be on their way', async () => {
  const cluster = await afterALeader();
  changeShop(cluster);
  const next = new Replica(cluster);
  next.leads = true;
  await next.pass(100);
  next.connect();
  await next.pass(patienceMs - 2_000);
  expect(cluster.written.at(-1)).toBe('shop Unknown Disconnected');
  await next.pass(5_000);
  expect(cluster.written.at(-1)).toBe('shop True AllLimiters');
});

it('a new leader reports a deleted object after 15 s, since limiters may still run it', async () => {
  const cluster = await afterALeader();
  cluster.delete(shop);
  const next = new Replica(cluster);
  next.leads = true;
  const { namespace, name, uid, generation } = shop;
  const served = { fleet: 'default', domain: 'shop', resource: 'default/shop' };
  await next.pass(100);
  next.learn({ removed: [{ namespace, name, uid, generation, served, removedMs: 0 }] });
  await next.pass(patienceMs - 1_000);
  expect(cluster.notified).toEqual([]);
  await next.wait(1_500);
  expect(cluster.notified).toEqual(['ratelimitconfig.removed']);
  expect(next.removed).toEqual([]);
});

it('a replica that does not lead writes nothing and reports nothing', async () => {
  const cluster = await afterALeader();
  const other = new Replica(cluster);
  await other.pass(60_000);
  cluster.delete(shop);
  await other.pass(1_000);
  other.learn({ removed: [] });
  expect(other.removed).toHaveLength(1);
  await other.pass(60_000);
  expect([cluster.written, cluster.events, cluster.notified]).toEqual([[], [], []]);
  // By then the leader has reported it.
  await other.pass(1_000);
  other.learn({ removed: [] });
  expect(other.removed).toEqual([]);
});

it('a leader says what it wrote, and nothing of what it could not write', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const leader = new Replica(cluster);
  leader.leads = true;
  leader.answer = () => ({ is: 'gone' });
  await leader.pass(1_000);
  expect([cluster.events, cluster.notified]).toEqual([[], []]);
  leader.answer = undefined;
  cluster.put(shop);
  leader.connect();
  await leader.pass(1_000);
  expect(cluster.written).toEqual(['shop True AllLimiters']);
  expect(cluster.events).toEqual(['Valid', 'AllLimiters']);
});

it('a new leader repeats webhooks once its objects are up to date', async () => {
  const cluster = await afterALeader();
  const next = new Replica(cluster);
  next.learn({ isWatchCut: true });
  next.leads = true;
  await next.pass(5_000);
  expect(cluster.notified).toEqual([]);
  next.learn({ isWatchCut: false });
  await next.pass(2_000);
  expect(cluster.notified).toEqual(['ratelimitconfig.accepted', 'ratelimitconfig.programmed']);
  await next.pass(5_000);
  expect(cluster.notified).toHaveLength(2);
});

it('a status whose write is answered after the lead is reported by the next leader', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const leader = new Replica(cluster);
  leader.leads = true;
  leader.answer = () => {
    leader.leads = false;
    leader.answer = undefined;
    return undefined;
  };
  await leader.pass(1_000);
  expect([cluster.written, cluster.events, cluster.notified]).toEqual([['shop False NoLimiters'], [], []]);
  const next = new Replica(cluster);
  next.leads = true;
  await next.pass(1_000);
  expect(cluster.notified).toEqual(['ratelimitconfig.accepted']);
});

it('events say what is new in a status', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const leader = new Replica(cluster);
  leader.leads = true;
  await leader.pass(1_000);
  expect(cluster.events).toEqual(['Valid', 'NoLimiters']);
  leader.connect();
  await leader.pass(1_000);
  expect(cluster.events).toEqual(['Valid', 'NoLimiters', 'AllLimiters']);
});

it('a status whose object has changed meanwhile is decided again', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const leader = new Replica(cluster);
  leader.leads = true;
  const { promise, resolve: answer } = Promise.withResolvers<WriteOutcome>();
  leader.answer = () => {
    leader.answer = undefined;
    return promise;
  };
  await leader.pass(1_000);
  cluster.put({ ...shop, createdMs: 1 });
  await leader.pass(1_000);
  // Nothing but the answer wakes it: the source has shown the change before.
  answer({ is: 'outdated' });
  await leader.wait(1_000);
  expect(cluster.written).toEqual(['shop False NoLimiters']);
});

describe('a status that the API server rejected', () => {
  let cluster: Cluster;
  let leader: Replica;

  beforeEach(async () => {
    cluster = new Cluster();
    cluster.put(shop);
    leader = new Replica(cluster);
    leader.leads = true;
    const error = new ApiError({ status: 422, reason: 'Invalid', message: 'no' });
    leader.answer = () => ({ is: 'refused', error });
    await leader.pass(1_000);
    leader.answer = undefined;
  });

  it('is written after a pause', async () => {
    await leader.wait(1_000);
    expect(cluster.written).toEqual([]);
    await leader.wait(4_000);
    expect(cluster.written).toEqual(['shop False NoLimiters']);
  });

  it('is written at once by the next lead', async () => {
    leader.leads = false;
    leader.stopLeading();
    await leader.wait(1_000);
    leader.leads = true;
    await leader.pass(1_000);
    expect(cluster.written).toEqual(['shop False NoLimiters']);
  });
});

it('a replica that leads no longer, by the clock alone, writes nothing more', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const leader = new Replica(cluster);
  leader.leads = true;
  const error = new ApiError({ status: 503, reason: '', message: 'no' });
  leader.answer = () => {
    leader.leads = false;
    leader.answer = undefined;
    return { is: 'failed', error };
  };
  await leader.pass(10_000);
  expect(cluster.written).toEqual([]);
});

it('a replica that stood by from the beginning waits for limiters all the same', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const [first, next] = [new Replica(cluster), new Replica(cluster)];
  await next.pass(1_000);
  first.leads = true;
  await first.pass(1_000);
  first.connect();
  await first.pass(1_000);
  await next.pass(1_000);
  first.leads = false;
  first.stopLeading();
  next.leads = true;
  await next.pass(patienceMs - 1_000);
  expect(cluster.written).toEqual(['shop False NoLimiters', 'shop True AllLimiters']);
});

it('the log names decisions that change what a fleet serves, and no others', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const replica = new Replica(cluster);
  await replica.pass(1_000);
  const serving = 'Serving new snapshots';
  expect(replica.logged).toEqual([[serving, 1, 1, 1, expect.any(Number)]]);
  cluster.put({ ...cluster.objects.get(shop.uid)!, createdMs: 5 });
  await replica.pass(1_000);
  expect(replica.logged).toHaveLength(1);
  changeShop(cluster);
  cluster.put(configObject({ name: 'mail', spec: configSpec({ domain: 'mail', fleet: 'edge' }) }));
  await replica.pass(1_000);
  expect(replica.logged.slice(1)).toEqual([[serving, 2, 2, 2, expect.any(Number)]]);
});

it('the log says once why an object is rejected, and when it is accepted again', async () => {
  const cluster = new Cluster();
  cluster.put(shop);
  const replica = new Replica(cluster);
  await replica.pass(1_000);
  const logged = () =>
    replica.telemetry.events
      .filter(([message]) => message.startsWith('A RateLimitConfig'))
      .map(([, fields]) => fields);
  const put = async (generation: number, spec: unknown): Promise<void> => {
    cluster.put({ ...cluster.objects.get(shop.uid)!, generation, spec });
    await replica.pass(1_000);
  };
  await put(2, invalidSpec());
  const rejected = { object: 'default/shop', generation: 2, inForce: 1, reason: 'Invalid' };
  expect(logged()).toMatchObject([rejected]);
  await put(3, invalidSpec());
  expect(logged()).toHaveLength(1);
  await put(4, { ...configSpec(), domain: '' });
  expect(logged().slice(1)).toMatchObject([{ generation: 4, inForce: 1, reason: 'Invalid' }]);
  await put(5, configSpec());
  expect(logged().at(-1)).toEqual({ object: 'default/shop', generation: 5 });
  const count = logged().length;
  await put(6, configSpec({ requestsPerUnit: 12 }));
  expect(logged()).toHaveLength(count);
});

it('files that block the start are named in the log, again only when they are others', async () => {
  const cluster = new Cluster();
  cluster.put({ ...shop, spec: invalidSpec() });
  cluster.place = () => 'rules/shop.yaml';
  const replica = new Replica(cluster);
  await replica.pass(1_000);
  expect(replica.isServing).toBe(false);
  const blocked = () =>
    replica.logged.filter(([message]) => /^Limiters get no new rules/.test(String(message)));
  expect(blocked()).toEqual([[expect.any(String), [expect.stringContaining('rules/shop.yaml')]]]);
  cluster.put({ ...shop, createdMs: 3, spec: invalidSpec() });
  await replica.pass(1_000);
  expect(blocked()).toHaveLength(1);
  cluster.put(shop);
  await replica.pass(1_000);
  expect([replica.isServing, blocked().length]).toEqual([true, 1]);
});
