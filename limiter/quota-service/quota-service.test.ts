import { setImmediate as nextTurn } from 'node:timers/promises';
import { create, fromBinary, toBinary } from '@bufbuild/protobuf';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '../../gen/envoy/service/rate_limit_quota/v3/rlqs_pb.ts';
import type { DuplexStream, GrpcStatus, MessageListener } from '../../process/grpc/handlers.ts';
import { loggerOf } from '../../process/log/logger.ts';
import { LoopTurns } from '../../process/queues/loop-turns.ts';
import type { Rule } from '../../rules/model.ts';
import type { Override, OverrideEffect } from '../../rules/override.ts';
import { compileRules } from '../../rules/table/compile-rules.ts';
import { RuleTable } from '../../rules/table/rule-table.ts';
import { eventually } from '../../test/support/eventually.ts';
import { ManualClock } from '../../test/support/manual-clock.ts';
import { plainCounting } from '../../test/support/plain-service.ts';
import { limit, rule, source } from '../../test/support/rule-builder.ts';
import { tickMs } from '../allocate/allocator.ts';
import {
  type ClientReport,
  type GrantedBucket,
  type Holder,
  type PoolTerms,
  type Share,
  sameTerms,
} from '../allocate/terms.ts';
import { StatsRegistry } from '../stats/registry/stats-registry.ts';
import { BucketPlans, type BucketPlansOptions } from './bucket-plans.ts';
import { QuotaService } from './quota-service.ts';
import { createQuotaStats } from './quota-stats.ts';
import type { QuotaBounds, QuotaServiceOptions } from './quota-stream.ts';

type Allocating = QuotaServiceOptions['allocator'];

/** Records the questions, and grants what the test specifies. */
class PlayedAllocator implements Allocating {
  readonly calls: string[] = [];
  readonly shares: { pool: string; holder: Holder; used: ClientReport[]; isOpen: boolean }[] = [];
  /** The arrival times of all reports. */
  readonly cameMs: (number | undefined)[] = [];
  /** The terms of each pool. */
  readonly #terms = new Map<string, PoolTerms>();
  beyond = 0;
  isAsking = false;

  open(pool: string, terms: PoolTerms, holder: Holder): Share {
    this.change(pool, terms);
    this.#terms.set(pool, terms);
    this.calls.push(`open ${nameOf(pool)} ${termsText(terms)} weight ${holder.weight}`);
    const share = { pool, holder, used: [] as ClientReport[], isOpen: true };
    this.shares.push(share);
    return {
      report: ({ allowed, denied }, cameMs) => {
        share.used.push({ allowed, denied });
        this.cameMs.push(cameMs);
        return this.beyond;
      },
      arrived: (sentMs) => {
        this.calls.push(`arrived ${nameOf(pool)} ${sentMs}`);
      },
      close: () => {
        share.isOpen = false;
        this.calls.push(`close ${nameOf(pool)}`);
      },
      view: () => ({
        ...{ assigned: 5, used: 1, denied: 2, returned: 3, overReported: 0, form: 'exact', weight: 1 },
        ...{ mayUse: holder.weight, demand: 0.5, sinceMs: 0, endsMs: 0 },
      }),
    };
  }

  change(pool: string, terms: PoolTerms): void {
    const before = this.#terms.get(pool);
    if (before === undefined || sameTerms(before, terms, clock.nowMs())) return;
    this.#terms.set(pool, terms);
    this.calls.push(`change ${nameOf(pool)} ${termsText(terms)}`);
  }

  reset(keys: readonly string[]): void {
    this.calls.push(`reset ${keys.join(' ')}`);
  }

  tick(): boolean {
    return true;
  }

  async drain(): Promise<void> {
    this.calls.push('drain');
    for (const { holder, isOpen } of this.shares) if (isOpen) holder.push(grantOf(3));
  }
}

const nameOf = (pool: string): string => pool.replace('\n', ' ');
const termsText = ({ form, limits }: PoolTerms): string =>
  `${form} ${limits.map(({ requests, lengthSeconds }) => `${requests}/${lengthSeconds}`).join('+')}`;
const grantOf = (tokens: number): GrantedBucket => ({
  ...{ tokens, perFill: 1, fillSeconds: 3600, isFresh: true },
});

type Reports = Record<string, [allowed: number | bigint, denied: number | bigint]>;

function messageOf(reports: Reports, domain = 'd'): Uint8Array {
  const bucketQuotaUsages = Object.entries(reports).map(([bucket, [allowed, denied]]) => ({
    bucketId: {
      bucket: Object.fromEntries(bucket.split(',').map((entry) => entry.split('=') as [string, string])),
    },
    ...{ numRequestsAllowed: BigInt(allowed), numRequestsDenied: BigInt(denied) },
  }));
  return toBinary(
    RateLimitQuotaUsageReportsSchema,
    create(RateLimitQuotaUsageReportsSchema, { domain, bucketQuotaUsages }),
  );
}

/** A client without a network. */
class Client implements DuplexStream {
  readonly answers: string[] = [];
  ended: GrpcStatus | 'OK' | undefined;
  readonly caller: DuplexStream['caller'];
  readonly origin: DuplexStream['origin'];
  /** The PINGs without an answer. */
  readonly probes: (() => void)[] = [];
  readonly #close: (() => void)[] = [];
  #listener: MessageListener | undefined;

  constructor(service: QuotaService, caller?: DuplexStream['caller'], peer = '10.0.0.1') {
    this.caller = caller;
    this.origin = { listener: 'gRPC', peer };
    this.#listener = service.handler(this);
  }

  /** Returns the limiter's answers before the next turn of the event loop. */
  async report(reports: Reports, domain = 'd'): Promise<string[]> {
    return this.sendBytes(messageOf(reports, domain));
  }

  async sendBytes(bytes: Uint8Array): Promise<string[]> {
    // The bytes belong to another message after this returns.
    const buffer = Buffer.from(bytes);
    this.#listener?.onMessage(buffer);
    buffer.fill(0xff);
    return this.taken();
  }

  async taken(): Promise<string[]> {
    await Promise.resolve();
    return this.answers.splice(0);
  }

  endInput(): void {
    this.#listener?.onEnd();
  }

  hangUp(): void {
    for (const listener of this.#close.splice(0)) listener();
  }

  whenArrived(listener: () => void): boolean {
    this.probes.push(listener);
    return true;
  }

  onClose(listener: () => void): void {
    this.#close.push(listener);
  }

  end(status?: GrpcStatus): void {
    this.ended ??= status ?? 'OK';
    this.#listener = undefined;
    this.hangUp();
  }

  /** Records a response, with an item for each action. */
  send(bytes: Uint8Array): void {
    for (const { bucketId, bucketAction } of fromBinary(RateLimitQuotaResponseSchema, bytes).bucketAction) {
      const bucket = Object.values(bucketId?.bucket ?? {}).join(' ');
      if (bucketAction.case !== 'quotaAssignmentAction') {
        this.answers.push(`${bucket} abandoned`);
        continue;
      }
      const { strategy } = bucketAction.value.rateLimitStrategy!;
      const what =
        strategy.case === 'tokenBucket'
          ? String(strategy.value.maxTokens)
          : ['allow', 'deny'][Number(strategy.value)];
      this.answers.push(`${bucket} ${what}`);
    }
  }
}

let clock: ManualClock;
let allocator: PlayedAllocator;
let registry: StatsRegistry;
let logged: string[];
let counted: string[];

beforeEach(() => {
  clock = new ManualClock(Date.UTC(2026, 0, 1));
  allocator = new PlayedAllocator();
  registry = new StatsRegistry();
  logged = [];
  counted = [];
});

const log = loggerOf(
  (_, message) => void logged.push(message),
  () => true,
);

interface Parts extends Partial<Pick<BucketPlansOptions, 'noRule' | 'unassignable' | 'allPass'>> {
  bounds?: Partial<QuotaBounds>;
}

function serve(rules: Rule[], { bounds, ...parts }: Parts = {}): QuotaService {
  const stats = createQuotaStats(registry, log, clock);
  const plans = new BucketPlans({
    ...{ stats: registry, clock, counting: plainCounting },
    ...{ noRule: 'allow', unassignable: 'deny', allPass: false, whyNoShares: undefined, ...parts },
  });
  const turns = new LoopTurns({ clock, later: setImmediate });
  const service = new QuotaService({
    ...{ plans, allocator, clock, turns, stats, ttlSeconds: 15, idleReports: 3, silenceMs: 30_000 },
    bounds: { ofStream: 100, ofCaller: 100, inAll: 100, idBytes: 1e9, streams: 2, ...bounds },
    weightOf: () => 1,
    count: (domain, entries, hits) =>
      counted.push(`${domain} ${entries.map(({ key, value }) => `${key}=${value}`).join(',')} ${hits}`),
  });
  service.useRules(tableOf(rules));
  return service;
}

function tableOf(rules: Rule[]): RuleTable {
  return new RuleTable(compileRules([source('d', rules)]));
}

const perMinute = (key: string, requestsPerUnit = 10, traits: Partial<Rule> = {}): Rule =>
  rule({ key, rateLimit: limit({ requestsPerUnit }), ...traits });

function statOf(name: string, ...tags: [string, string][]): number | undefined {
  registry.refresh();
  return registry.valueNamed(name, tags);
}

describe('buckets', () => {
  it('have a share from their first report on, and grants that are pushed', async () => {
    const client = new Client(serve([perMinute('name')]));
    expect(await client.report({ 'name=x': [0, 1] })).toEqual([]);
    expect(allocator.calls).toEqual(['open d d_name_x_ exact 10/60 weight 1']);
    expect(allocator.shares[0]!.used).toEqual([{ allowed: 0, denied: 1 }]);
    allocator.shares[0]!.holder.push(grantOf(5));
    expect(await client.taken()).toEqual(['x deny', 'x 5']);
    allocator.shares[0]!.holder.push({ ...grantOf(5), isFresh: false });
    expect(await client.taken()).toEqual(['x 5']);
    allocator.shares[0]!.holder.push({ ...grantOf(0), isFresh: false });
    expect(await client.taken()).toEqual(['x deny']);
    expect(await client.report({ 'name=x': [4, 2] })).toEqual([]);
    expect(allocator.shares[0]!.used[1]).toEqual({ allowed: 4, denied: 2 });
    expect(registry.valueOf(registry.slotOfRule('d.name')! + 0)).toBe(7);
  });

  it('have what was pushed when the PING behind it is answered; one is under way at a time', async () => {
    const client = new Client(serve([perMinute('name')]));
    await client.report({ 'name=x': [0, 1], 'name=y': [0, 1], 'name=z': [0, 1] });
    expect(client.probes).toHaveLength(0);
    const [x, y, z] = allocator.shares;
    for (const share of [x!, y!]) share.holder.push(grantOf(5));
    await client.taken();
    const sentMs = clock.monotonicMs();
    clock.ms += 1_000;
    z!.holder.push(grantOf(5));
    await client.taken();
    expect(client.probes).toHaveLength(1);
    allocator.calls.length = 0;
    client.probes.pop()!();
    expect(allocator.calls).toEqual([`arrived d d_name_x_ ${sentMs}`, `arrived d d_name_y_ ${sentMs}`]);
    // The next one is for what was pushed meanwhile.
    expect(client.probes).toHaveLength(1);
    client.probes.pop()!();
    expect(allocator.calls.slice(2)).toEqual([`arrived d d_name_z_ ${clock.monotonicMs()}`]);
    expect(client.probes).toHaveLength(0);
  });

  it('do not count as arrived by a PING that was sent before them', async () => {
    const service = serve([perMinute('name')]);
    const client = new Client(service);
    await client.report({ 'name=x': [0, 1], 'name=y': [0, 1] });
    const [x, y] = allocator.shares;
    x!.holder.push(grantOf(5));
    expect(await client.taken()).toEqual(['x deny', 'x 5']);
    allocator.isAsking = true;
    clock.ms += 1_000;
    y!.holder.push(grantOf(5));
    expect(await client.taken()).toEqual([]);
    client.probes.pop()!();
    expect(client.probes).toHaveLength(0);
    clock.ms += 300;
    service.tick();
    expect(await client.taken()).toEqual(['y deny', 'y 5']);
    allocator.calls.length = 0;
    client.probes.pop()!();
    expect(allocator.calls).toEqual([`arrived d d_name_y_ ${clock.monotonicMs()}`]);
  });

  it('are answered together', async () => {
    const client = new Client(serve([]));
    let responses = 0;
    const { send } = client;
    client.send = (bytes) => {
      responses += 1;
      send.call(client, bytes);
    };
    expect(await client.report({ 'a=1': [1, 0], 'b=2': [1, 0], 'c=3': [1, 0] })).toEqual([
      '1 allow',
      '2 allow',
      '3 allow',
    ]);
    expect(responses).toBe(1);
  });

  it('find rules in any order of their entries, and the first in the file of several', async () => {
    const below = (key: string, requests: number): Partial<Rule> => ({
      descriptors: [perMinute(key, requests)],
    });
    const service = serve([
      rule({ key: 'b', ...below('a', 7) }),
      rule({ key: 'a', ...below('b', 8) }),
      rule({ key: 'a', value: 'deep', descriptors: [rule({ key: 'z', ...below('c', 9) })] }),
    ]);
    const client = new Client(service);
    await client.report({ 'a=1,b=2': [0, 0], 'c=1,a=deep,z=2': [0, 0] });
    expect(allocator.calls).toEqual([
      'open d d_b_2_a_1_ exact 7/60 weight 1',
      'open d d_a_deep_z_2_c_1_ exact 9/60 weight 1',
    ]);
  });

  it('are the same however their ids are written', async () => {
    const service = serve([perMinute('a')]);
    const client = new Client(service);
    const valueFirst = [0x12, 1, 0x31, 0x0a, 1, 0x61];
    const notUtf8 = [0x0a, 1, 0x61, 0x12, 1, 0xe9];
    for (const entry of [valueFirst, notUtf8, valueFirst, notUtf8])
      await client.sendBytes(Uint8Array.of(0x0a, 1, 0x64, 0x12, 12, 0x0a, 8, 0x0a, 6, ...entry, 0x18, 1));
    await client.report({ 'a=1': [1, 0] });
    expect(allocator.calls).toEqual([
      'open d d_a_1_ exact 10/60 weight 1',
      'open d d_a_\ufffd_ exact 10/60 weight 1',
    ]);
    expect(service.ids.buckets).toBe(2);
    client.hangUp();
    expect(service.ids.buckets).toBe(0);
  });

  it('need all of their entries matched', async () => {
    const client = new Client(serve([perMinute('a')]));
    expect(await client.report({ 'a=1,b=2': [0, 1] })).toEqual(['1 2 allow']);
    expect(allocator.calls).toEqual([]);
  });

  it.each(['allow', 'deny'] as const)(
    'that no rule matches get what RLQS_NO_RULE says: %s',
    async (noRule) => {
      const client = new Client(serve([perMinute('a')], { noRule }));
      expect(await client.report({ 'x=1': [0, 1] })).toEqual([`1 ${noRule}`]);
      // Each report renews it.
      expect(await client.report({ 'x=1': [1, 0] })).toEqual([`1 ${noRule}`]);
    },
  );

  it.each([
    ['hits_unit', rule({ key: 'a', rateLimit: limit({ hitsUnit: 'tokens' }) })],
    [
      'reserve',
      perMinute('a', 10, { reserve: { ttlSeconds: 60, estimate: undefined, onExpiry: 'release' } }),
    ],
  ])('of a rule that cannot be assigned are denied: %s', async (_, one) => {
    const client = new Client(serve([one]));
    expect(await client.report({ 'a=1': [0, 1] })).toEqual(['1 deny']);
    expect(statOf('ratelimit.quota.unassignable')).toBe(1);
    expect(logged).toEqual([expect.stringContaining('A rule cannot be assigned to quota clients')]);
  });

  it('cannot be assigned if the name of their counter leaves none for its ledger', async () => {
    const client = new Client(serve([perMinute('a')]));
    expect(await client.report({ 'a=x}': [0, 1] })).toEqual(['x} deny']);
    expect(statOf('ratelimit.quota.unassignable')).toBe(1);
    expect(await client.report({ 'a={x}': [0, 1] })).toEqual([]);
  });

  it('of a rule in shadow mode are allowed, and counted', async () => {
    const client = new Client(serve([perMinute('a', 10, { shadowMode: true })]));
    expect(await client.report({ 'a=1': [25, 1] })).toEqual(['1 allow']);
    expect(counted).toEqual(['d a=1 25']);
  });

  it('are all allowed with SHADOW_MODE', async () => {
    const rules = [perMinute('a'), rule({ key: 'b', rateLimit: limit({ hitsUnit: 'tokens' }) })];
    const service = serve(rules, { allPass: true, noRule: 'deny' });
    service.useOverrides([overrideOf({ kind: 'block' }, clock.ms + 20_000)]);
    const client = new Client(service);
    const answers = await client.report({ 'a=1': [25, 0], 'a=2': [25, 0], 'b=3': [1, 0], 'c=4': [1, 0] });
    expect(answers).toEqual(['1 allow', '2 allow', '3 allow', '4 allow']);
  });

  it('are abandoned when they are idle, and restart', async () => {
    const service = serve([perMinute('a')]);
    const client = new Client(service);
    for (const reports of [
      [0, 1],
      [0, 0],
      [0, 0],
    ] as const)
      expect(await client.report({ 'a=1': [...reports] })).toEqual([]);
    expect(await client.report({ 'a=1': [0, 0] })).toEqual(['1 abandoned']);
    expect(allocator.calls.at(-1)).toBe('close d d_a_1_');
    expect(service.ids.buckets).toBe(0);
    expect(statOf('ratelimit.quota.abandoned')).toBe(1);
    await client.report({ 'a=1': [0, 1] });
    expect(allocator.calls.at(-1)).toBe('open d d_a_1_ exact 10/60 weight 1');
  });

  it('say when more is reported than could be used, which no statistic of the rule counts', async () => {
    const client = new Client(serve([perMinute('a')]));
    await client.report({ 'a=1': [0, 0] });
    allocator.beyond = 900;
    await client.report({ 'a=1': [1_000, 0] });
    expect(registry.valueOf(registry.slotOfRule('d.a')! + 0)).toBe(100);
    expect(logged).toEqual(['A quota client reports more requests than it could have allowed']);
  });
});

describe('what changes', () => {
  it('changes the terms of a pool once, and what its buckets get', async () => {
    const service = serve([perMinute('a')]);
    const [one, other] = [new Client(service), new Client(service)];
    for (const client of [one, other]) await client.report({ 'a=1': [0, 1], 'b=2': [0, 1] });
    allocator.calls.length = 0;
    service.useRules(tableOf([perMinute('a', 20), perMinute('b', 30)]));
    service.tick();
    expect(allocator.calls.toSorted()).toEqual([
      'change d d_a_1_ exact 20/60',
      'open d d_b_2_ exact 30/60 weight 1',
      'open d d_b_2_ exact 30/60 weight 1',
    ]);
    allocator.calls.length = 0;
    service.useRules(tableOf([]));
    service.tick();
    expect(await one.taken()).toEqual(['1 allow', '2 allow']);
    expect(allocator.calls.filter((text) => text.startsWith('close'))).toHaveLength(4);
  });

  it('leaves pools alone whose limits are the same', async () => {
    const service = serve([perMinute('a')]);
    await new Client(service).report({ 'a=1': [0, 1] });
    allocator.calls.length = 0;
    service.useRules(tableOf([perMinute('a'), perMinute('b')]));
    service.tick();
    expect(allocator.calls).toEqual([]);
  });

  it('goes by overrides from their beginning to their end', async () => {
    const service = serve([perMinute('a')]);
    const client = new Client(service);
    await client.report({ 'a=1': [0, 1] });
    service.useOverrides([overrideOf({ kind: 'block' }, clock.ms + 20_000)]);
    service.tick();
    expect(await client.taken()).toEqual(['1 deny']);
    clock.ms += 20_001;
    allocator.calls.length = 0;
    service.tick();
    await eventually(() => expect(allocator.calls).toEqual(['open d d_a_1_ exact 10/60 weight 1']));
    // The share begins without a wait for the client's next report.
    expect(allocator.shares.at(-1)!.used).toEqual([{ allowed: 0, denied: 0 }]);
  });

  it('hands on resets', () => {
    serve([]).forget(['k']);
    expect(allocator.calls).toEqual(['reset k']);
  });
});

describe('bounds', () => {
  it.each([
    ['stream', { ofStream: 2 }],
    ['caller', { ofCaller: 2 }],
    ['all', { inAll: 2 }],
    // An id counts 208 bytes, and a caller has half of all bytes.
    ['bytes', { idBytes: 832 }],
  ])('deny the buckets beyond them: %s', async (bound, bounds) => {
    const caller = { name: 'edge', rejected: undefined, rejection: () => undefined, hasDomain: () => true };
    const service = serve([perMinute('a')], { bounds });
    const client = new Client(service, caller);
    expect(await client.report({ 'a=1': [0, 1], 'a=2': [0, 1] })).toEqual([]);
    expect(await client.report({ 'a=3': [0, 1] })).toEqual(['3 deny']);
    expect(statOf('ratelimit.quota.denied_buckets', ['bound', bound])).toBe(1);
    expect(await client.report({ 'a=3': [0, 0] })).toEqual(['3 abandoned']);
    expect(service.ids.buckets).toBe(2);
    // A stream without buckets does not change the count.
    new Client(service, caller).hangUp();
    client.hangUp();
    expect(service.ids.buckets).toBe(0);
    expect(service.ids.bytes).toBe(0);
    expect(await new Client(service, caller).report({ 'a=3': [0, 1] })).toEqual([]);
  });

  it('are for each address if callers have no names', async () => {
    const service = serve([perMinute('a')], { bounds: { ofCaller: 2 } });
    const clients = ['10.0.0.1', '10.0.0.2'].map((peer) => new Client(service, undefined, peer));
    for (const client of clients)
      expect(await client.report({ 'a=1': [0, 1], 'a=2': [0, 1], 'a=3': [0, 1] })).toEqual(['3 deny']);
  });

  it('count the bytes of an id once, for the caller that reported it first, until no one reports it', async () => {
    const service = serve([perMinute('a')], { bounds: { idBytes: 832, streams: 3 } });
    const [first, second, third] = [1, 2, 3].map((n) => new Client(service, undefined, `10.0.0.${n}`));
    await first!.report({ 'a=1': [0, 1], 'a=2': [0, 1] });
    expect(await second!.report({ 'a=1': [0, 1], 'a=2': [0, 1], 'a=3': [0, 1] })).toEqual([]);
    expect(service.ids.bytes).toBe(624);
    first!.hangUp();
    const again = new Client(service, undefined, '10.0.0.1');
    expect(await again.report({ 'a=4': [0, 1] })).toEqual(['4 deny']);
    second!.hangUp();
    expect(service.ids.bytes).toBe(0);
    expect(await again.report({ 'a=4': [0, 1] })).toEqual([]);
    third!.hangUp();
  });

  it('pass over reports of a message beyond those of a stream', async () => {
    const client = new Client(serve([perMinute('a')], { bounds: { ofStream: 2 } }));
    const many = Object.fromEntries(Array.from({ length: 10 }, (_, n) => [`a=${n}`, [0, 1]]));
    await client.report(many as Record<string, [number, number]>);
    expect(statOf('ratelimit.quota.denied_buckets', ['bound', 'message'])).toBe(8);
    expect(allocator.shares).toHaveLength(2);
    expect(client.ended).toBeUndefined();
  });

  it('deny a bucket id that is too long, and no other bucket', async () => {
    const client = new Client(serve([perMinute('a')]));
    const long = 'x'.repeat(9_000);
    expect(await client.report({ [`a=${long}`]: [0, 1], 'a=1': [0, 1] })).toEqual([`${long} deny`]);
    expect(allocator.shares).toHaveLength(1);
  });

  it('end the newest stream of the address that has most, for one of another address', () => {
    const service = serve([perMinute('a')], { bounds: { streams: 3 } });
    const [first, second, third] = [1, 2, 3].map(() => new Client(service));
    const refused = { code: 8, message: 'too many streams (RLQS_MAX_STREAMS)' };
    expect(new Client(service).ended).toEqual(refused);
    const other = new Client(service, undefined, '10.0.0.2');
    expect([first, second, third, other].map((client) => client?.ended)).toEqual([
      undefined,
      undefined,
      refused,
      undefined,
    ]);
    // With one more, both addresses would have as many.
    expect(new Client(service, undefined, '10.0.0.2').ended).toEqual(refused);
    expect(service.streams).toBe(3);
  });

  it('reject streams beyond them, and those that say nothing', async () => {
    const service = serve([perMinute('a')]);
    const silent = new Client(service);
    const other = new Client(service);
    expect(new Client(service).ended).toMatchObject({ code: 8 });
    await other.report({ 'a=1': [0, 1] });
    for (let ms = 0; ms < 30_000; ms += tickMs) service.tick();
    expect(silent.ended).toBeUndefined();
    service.tick();
    expect(silent.ended).toMatchObject({ code: 4 });
    expect(other.ended).toMatchObject({ code: 4 });
    expect(allocator.calls.at(-1)).toBe('close d d_a_1_');
    expect(service.streams).toBe(0);
  });

  it('end no stream while the limiter is paused or behind, because messages may wait', async () => {
    const service = serve([perMinute('a')], { bounds: { ofStream: 1_000, ofCaller: 1_000, inAll: 1_000 } });
    const [client, other] = [new Client(service), new Client(service, undefined, '10.0.0.2')];
    for (let times = 0; times < 100; times += 1) {
      clock.ms += 60_000;
      service.tick();
    }
    const many = Array.from({ length: 300 }, (_, n): [string, [number, number]] => [`a=${n}`, [0, 1]]);
    await other.report(Object.fromEntries(many));
    for (let times = 0; times < 100; times += 1) service.tick();
    expect(client.ended).toBeUndefined();
    while (service.ids.buckets < 300) await nextTurn();
    for (let times = 0; times < 21; times += 1) service.tick();
    expect(client.ended).toMatchObject({ code: 4 });
  });

  it('take numbers that are none for the largest', async () => {
    const client = new Client(serve([perMinute('a')]));
    await client.report({ 'a=1': [2n ** 64n - 1n, 2n ** 64n - 1n] });
    expect(allocator.shares[0]!.used).toEqual([{ allowed: 2 ** 32 - 1, denied: 2 ** 32 - 1 }]);
  });
});

describe('reports of many buckets', () => {
  const bucketsOf = (name: string, count: number): Reports =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`a=${name}${n}`, [0, 1]]));
  const bounds = { ofStream: 100_000, ofCaller: 100_000, inAll: 100_000, streams: 100 };

  it('take turns, and a stream of another address waits for one of them alone', async () => {
    const service = serve([perMinute('a')], { bounds });
    const [many, few] = [new Client(service), new Client(service, undefined, '10.0.0.2')];
    await many.report(bucketsOf('many', 1_000));
    const taken = [service.ids.buckets];
    expect(taken[0]).toBeLessThan(256);
    await few.report(bucketsOf('few', 3));
    for (; service.ids.buckets < 1_003; taken.push(service.ids.buckets)) await nextTurn();
    expect(taken.length).toBeGreaterThan(3);
    const turns = taken.slice(1).map((all, n) => all - taken[n]!);
    expect(Math.max(...turns)).toBeLessThan(256);
    const first = allocator.calls.findIndex((text) => text.includes('_few0_'));
    expect(first).toBeLessThan(400);
    expect(statOf('ratelimit.quota.reports')).toBe(1_003);
  });

  it('are forgotten in turns when their stream is over', async () => {
    const service = serve([perMinute('a')], { bounds });
    const [many, few] = [new Client(service), new Client(service, undefined, '10.0.0.2')];
    await few.report(bucketsOf('few', 3));
    await many.report(bucketsOf('many', 1_000));
    while (service.ids.buckets < 1_003) await nextTurn();
    many.hangUp();
    few.hangUp();
    expect(service.streams).toBe(0);
    let turns = 0;
    for (let before = 1_003; service.ids.buckets > 0; turns += 1) {
      expect(before - service.ids.buckets).toBeLessThan(256);
      before = service.ids.buckets;
      await nextTurn();
    }
    expect(turns).toBeGreaterThan(5);
    expect(allocator.shares.every(({ isOpen }) => !isOpen)).toBe(true);
  });

  it('stay in the order of their messages, count from when they came, and are answered before the stream ends', async () => {
    const service = serve([perMinute('a')], { bounds });
    const client = new Client(service);
    const [first] = Object.keys(bucketsOf('x', 1));
    await client.report(bucketsOf('x', 400));
    await client.report({ [first!]: [7, 0], ...bucketsOf('y', 1) });
    const cameMs = clock.monotonicMs();
    clock.ms += 900;
    client.endInput();
    expect(client.ended).toBeUndefined();
    while (client.ended === undefined) await nextTurn();
    expect(client.ended).toBe('OK');
    expect(allocator.shares).toHaveLength(401);
    expect(allocator.shares[0]!.used).toEqual([
      { allowed: 0, denied: 1 },
      { allowed: 7, denied: 0 },
    ]);
    expect(allocator.cameMs.at(-1)).toBe(cameMs);
  });

  it('are taken in before a grant that arrived while they waited', async () => {
    const client = new Client(serve([perMinute('a')], { bounds }));
    await client.report({ 'a=1': [0, 1] });
    allocator.shares[0]!.holder.push(grantOf(5));
    await client.taken();
    await client.report(bucketsOf('x', 400));
    client.probes.pop()!();
    const arrived = (): string[] => allocator.calls.filter((text) => text.startsWith('arrived'));
    expect(arrived()).toEqual([]);
    for (let turns = 0; turns < 20 && arrived().length === 0; turns++) await nextTurn();
    expect(arrived()).toHaveLength(1);
    expect(allocator.calls.at(-1)).toBe(arrived()[0]);
    expect(allocator.shares).toHaveLength(401);
  });

  it('are dropped with their stream', async () => {
    const service = serve([perMinute('a')], { bounds });
    const client = new Client(service);
    await client.report(bucketsOf('x', 1_000));
    client.hangUp();
    await nextTurn();
    await nextTurn();
    expect(service.ids.buckets).toBe(0);
    expect(allocator.shares.length).toBeLessThan(256);
  });

  it('end a stream that has most of what waits, if that is too much', async () => {
    const service = serve([perMinute('a')], { bounds });
    const [greedy, other] = [new Client(service), new Client(service, undefined, '10.0.0.2')];
    const long = messageOf({ ...bucketsOf('x', 150), [`a=${'x'.repeat(4_000_000)}`]: [0, 1] });
    await greedy.sendBytes(long);
    await other.report(bucketsOf('y', 200));
    for (let n = 0; n < 7; n++) await greedy.sendBytes(long);
    expect(greedy.ended).toMatchObject({ code: 8 });
    expect(other.ended).toBeUndefined();
    expect(statOf('ratelimit.quota.refused_streams', ['reason', 'reports'])).toBe(1);
    while (service.ids.buckets < 200) await nextTurn();
  });
});

describe('streams', () => {
  it('are for one domain that their caller may ask about', async () => {
    const service = serve([perMinute('a')]);
    const foreign = { code: 7, message: 'not yours' } as const;
    const caller = {
      name: 'edge',
      rejected: undefined,
      rejection: (domain: string | undefined) => (domain === 'd' ? undefined : foreign),
      hasDomain: () => true,
    };
    const other = new Client(service, caller);
    await other.report({ 'a=1': [0, 1] }, 'other');
    expect(other.ended).toEqual(foreign);
    const none = new Client(service);
    await none.report({ 'a=1': [0, 1] }, '');
    expect(none.ended).toMatchObject({ code: 3 });
    const changing = new Client(service, caller);
    await changing.report({ 'a=1': [0, 1] });
    await changing.report({ 'a=2': [0, 1] }, '');
    expect(changing.ended).toBeUndefined();
    await changing.report({ 'a=1': [0, 1] }, 'other');
    expect(changing.ended).toMatchObject({ code: 3 });
    expect(service.ids.buckets).toBe(0);
  });

  it('end by bytes that are no reports', async () => {
    const client = new Client(serve([]));
    await client.sendBytes(Uint8Array.of(0x0a, 9));
    expect(client.ended).toMatchObject({ code: 3 });
  });

  it('keep what their buckets hold charged when they break', async () => {
    const service = serve([perMinute('a')]);
    const client = new Client(service);
    await client.report({ 'a=1': [0, 1], 'x=1': [0, 1] });
    client.hangUp();
    expect(allocator.calls.at(-1)).toBe('close d d_a_1_');
    // The stream gets no further message.
    allocator.shares[0]!.holder.push(grantOf(5));
    expect(service.streams).toBe(0);
  });

  it('are drained: all is renewed, then they end with OK, and no other one begins', async () => {
    const service = serve([perMinute('a')]);
    const client = new Client(service);
    await client.report({ 'a=1': [0, 1], 'x=2': [0, 1] });
    const drained = service.drain();
    expect(new Client(service).ended).toMatchObject({ code: 14 });
    await drained;
    expect(await client.taken()).toEqual(['2 allow', '1 deny', '1 3']);
    expect(client.ended).toBe('OK');
  });
});

function overrideOf(effect: OverrideEffect, endsMs: number): Override {
  return {
    ...{
      id: 'o',
      source: 'api',
      name: 'o',
      domain: 'd',
      match: [{ key: 'a', value: '1' }],
      limit: '',
      effect,
    },
    ...{ createdMs: clock.ms, endsMs, reason: '', by: '' },
  };
}
