import { Redis } from 'ioredis';
import { keySlot } from '../../limiter/stores/redis/cluster/cluster-topology.ts';
import { eventually } from './eventually.ts';
import { freePort } from './free-port.ts';
import type { KeyLifetimes } from './key-lifetimes.ts';
import { RedisServer } from './redis-server.ts';
import { type RedisTlsFiles, tlsArguments } from './redis-tls-server.ts';

const masterCount = 3;
const slotCount = 16_384;
/** Of the port for the other members, above that for clients. Redis 6.2 cannot have another. */
const busDistance = 10_000;

export interface ClusterMember {
  server: RedisServer;
  /** Undefined without TLS. */
  tlsPort: number | undefined;
  client: Redis;
  busPort: number;
  id: string;
}

/** First slot, last slot, master. */
type SlotRange = [number, number, [host: string, port: number, id: string]];

export interface RedisClusterOptions {
  /** The program: see `findServer`. */
  path: string;
  /** Further arguments of each redis-server. */
  args?: string[];
  /** Of `--requirepass`. */
  password?: string;
  /** Speak TLS on a port besides, and among each other. */
  tls?: RedisTlsFiles;
  /** As of a single server. */
  lifetimes?: KeyLifetimes;
}

/** A real Redis Cluster on loopback: members 0 to 2 are masters, 3 to 5 their replicas in the same order. */
export class RedisCluster {
  readonly members: readonly ClusterMember[];

  constructor(members: readonly ClusterMember[]) {
    this.members = members;
  }

  /** REDIS_URL with all members. */
  get url(): string {
    return this.members.map(({ server }) => `127.0.0.1:${server.port}`).join(',');
  }

  /** The same by TLS. */
  get tlsUrl(): string {
    return this.members.map(({ tlsPort }) => `127.0.0.1:${tlsPort}`).join(',');
  }

  /** The member that takes writes for the slot, as the first one of `among` sees it. */
  async ownerOf(slot: number, among: readonly ClusterMember[] = this.members): Promise<ClusterMember> {
    return ownerIn(await this.#ranges(among), this.members, slot);
  }

  /** Moves a slot with its keys, in steps that leave both sides answering ASK and MOVED in between. */
  async moveSlot(slot: number, to: ClusterMember): Promise<void> {
    const from = await this.ownerOf(slot);
    await to.client.cluster('SETSLOT', slot, 'IMPORTING', from.id);
    await from.client.cluster('SETSLOT', slot, 'MIGRATING', to.id);
    for (;;) {
      const keys = (await from.client.cluster('GETKEYSINSLOT', slot, 10)) as string[];
      if (keys.length === 0) break;
      await from.client.call(
        'MIGRATE',
        '127.0.0.1',
        to.tlsPort ?? to.server.port,
        '',
        0,
        5000,
        'KEYS',
        ...keys,
      );
    }
    for (const { client } of [to, from]) await client.cluster('SETSLOT', slot, 'NODE', to.id);
  }

  /** The values of keys, wherever they are. */
  async valuesOf(keys: readonly string[], among = this.members): Promise<(string | null)[]> {
    const ranges = await this.#ranges(among);
    return Promise.all(keys.map((key) => ownerIn(ranges, this.members, keySlot(key)).client.get(key)));
  }

  async #ranges(among: readonly ClusterMember[]): Promise<SlotRange[]> {
    return (await among[0]?.client.cluster('SLOTS')) as unknown as SlotRange[];
  }

  async stop(): Promise<void> {
    for (const { client } of this.members) client.disconnect();
    await Promise.all(this.members.map(({ server }) => server.stop()));
  }
}

function ownerIn(
  ranges: readonly SlotRange[],
  members: readonly ClusterMember[],
  slot: number,
): ClusterMember {
  const range = ranges.find(([first, last]) => first <= slot && slot <= last);
  const owner = members.find(({ server }) => server.port === range?.[2][1]);
  if (owner === undefined) throw new Error(`nobody owns slot ${slot}`);
  return owner;
}

export async function startRedisCluster(options: RedisClusterOptions): Promise<RedisCluster> {
  const members: ClusterMember[] = [];
  const cluster = new RedisCluster(members);
  try {
    members.push(...(await Promise.all(Array.from({ length: 2 * masterCount }, () => startMember(options)))));
    await join(members);
    return cluster;
  } catch (error) {
    await cluster.stop();
    throw error;
  }
}

async function startMember({
  path,
  args = [],
  password,
  tls,
  lifetimes = {},
}: RedisClusterOptions): Promise<ClusterMember> {
  const port = await freePort(tls === undefined ? busDistance : 0);
  const tlsPort = tls && (await freePort(busDistance));
  const busPort = (tlsPort ?? port) + busDistance;
  const login = password === undefined ? [] : ['--requirepass', password, '--masterauth', password];
  const clustered = ['--cluster-enabled', 'yes'];
  // A replica is listed once it has heard its master's ping.
  const pings = ['--repl-ping-replica-period', '1'];
  const fast = ['--cluster-node-timeout', '1000', '--repl-diskless-sync-delay', '0', ...pings];
  const encrypted =
    tls === undefined
      ? []
      : [
          '--tls-port',
          String(tlsPort),
          '--tls-cluster',
          'yes',
          '--tls-replication',
          'yes',
          ...tlsArguments(tls),
        ];
  const server = new RedisServer(
    { path, args: [...clustered, ...fast, ...login, ...encrypted, ...args], lifetimes },
    port,
  );
  await server.start();
  const client = new Redis(server.port, '127.0.0.1', {
    protocol: 2,
    ...(password === undefined ? {} : { password }),
    retryStrategy: () => 100,
  });
  // A member that a test kills makes its client complain.
  client.on('error', () => {});
  return { server, tlsPort, client, busPort, id: String(await client.cluster('MYID')) };
}

async function join(members: readonly ClusterMember[]): Promise<void> {
  const share = Math.ceil(slotCount / masterCount);
  for (const [i, { client }] of members.entries()) {
    await client.cluster('SET-CONFIG-EPOCH', i + 1);
    // Redis 6.2 knows no ADDSLOTSRANGE.
    const own = i < masterCount ? Math.min(share, slotCount - i * share) : 0;
    if (own > 0) await client.cluster('ADDSLOTS', ...Array.from({ length: own }, (_, n) => i * share + n));
    // Each meets each: word of mouth would take seconds.
    for (const { server, tlsPort, busPort } of members.slice(0, i))
      await client.cluster('MEET', '127.0.0.1', tlsPort ?? server.port, busPort);
  }
  const settled = { timeoutMs: 30_000 };
  await everyMember(members, async ({ client }) => {
    const nodes = String(await client.cluster('NODES'))
      .trim()
      .split('\n');
    if (nodes.length !== members.length || nodes.some((line) => line.includes('handshake')))
      throw new Error('apart');
  });
  for (const [i, { client }] of members.slice(masterCount).entries())
    await client.cluster('REPLICATE', members[i]?.id as string);
  await everyMember(members, async ({ client }) => {
    if (!String(await client.cluster('INFO')).includes('cluster_state:ok')) throw new Error('not ok');
    const slots = (await client.cluster('SLOTS')) as unknown[][];
    if (slots.length !== masterCount || slots.some((range) => range.length !== 4))
      throw new Error('no replicas');
  });
  await everyMember(members.slice(masterCount), async ({ client }) => {
    if (!(await client.info('replication')).includes('master_link_status:up')) throw new Error('no link');
  });

  async function everyMember(
    some: readonly ClusterMember[],
    check: (member: ClusterMember) => Promise<void>,
  ): Promise<void> {
    await Promise.all(some.map((member) => eventually(() => check(member), settled)));
  }
}
